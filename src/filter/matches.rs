//! One test of a filter against one document.

use std::cmp::Ordering;

use serde_json::Value;

use super::values::{ValueSet, compare, equal};

/// A condition without parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Sorted, each once.
    Ids(Vec<String>),
    Exists {
        field: String,
    },
    Compare {
        field: String,
        relation: Relation,
        value: Value,
    },
    OneOf {
        field: String,
        values: ValueSet,
    },
}

/// How a field must stand to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Test {
    pub(super) fn holds(&self, id: &str, metadata: Option<&Value>) -> bool {
        match self {
            Self::Ids(ids) => contains(ids, id),
            Self::Exists { field } => any_at(metadata, field, |_| true),
            Self::Compare { field, relation, value } => {
                any_at(metadata, field, |found| relation.holds(found, value))
            }
            Self::OneOf { field, values } => any_at(metadata, field, |found| values.contains(found)),
        }
    }

    /// Whether it holds as far as the id tells.
    pub(super) fn holds_for_id(&self, id: &str) -> Option<bool> {
        match self {
            Self::Ids(ids) => Some(contains(ids, id)),
            _ => None,
        }
    }
}

impl Relation {
    /// Whether any value stands so to this one.
    pub(super) fn can_hold(self, value: &Value) -> bool {
        self == Self::Equal || !value.is_null() && compare(value, value).is_some()
    }

    /// Its name in JSON.
    pub(super) fn operator(self) -> &'static str {
        match self {
            Self::Equal => "$eq",
            Self::Greater => "$gt",
            Self::GreaterOrEqual => "$gte",
            Self::Less => "$lt",
            Self::LessOrEqual => "$lte",
        }
    }

    fn holds(self, found: &Value, value: &Value) -> bool {
        let ordering = match self {
            Self::Equal => return equal(found, value),
            _ => compare(found, value),
        };
        ordering.is_some_and(match self {
            Self::Equal => Ordering::is_eq,
            Self::Greater => Ordering::is_gt,
            Self::GreaterOrEqual => Ordering::is_ge,
            Self::Less => Ordering::is_lt,
            Self::LessOrEqual => Ordering::is_le,
        })
    }
}

fn contains(sorted: &[String], id: &str) -> bool {
    sorted.binary_search_by(|other| other.as_str().cmp(id)).is_ok()
}

/// Whether `holds` for a value that `field` leads to, or for an element of one.
///
/// More than one value only where the path leads through arrays. Without recursion, because an
/// application's metadata may be nested to any depth.
fn any_at(metadata: Option<&Value>, field: &str, holds: impl Fn(&Value) -> bool) -> bool {
    // Each with what is left of the path; `None` at its end.
    let mut todo = vec![];
    todo.extend(metadata.map(|metadata| (metadata, Some(field))));
    while let Some((value, path)) = todo.pop() {
        let Some(path) = path else {
            if holds(value) || value.as_array().is_some_and(|items| items.iter().any(&holds)) {
                return true;
            }
            continue;
        };
        let (key, rest) = match path.split_once('.') {
            Some((key, rest)) => (key, Some(rest)),
            None => (path, None),
        };
        match value {
            Value::Object(fields) => match fields.get(path) {
                Some(found) => todo.push((found, None)),
                None => todo.extend(fields.get(key).map(|found| (found, rest))),
            },
            Value::Array(items) if is_index(key) => {
                // A number too large for `usize` is beyond the end of any array.
                todo.extend(
                    key.parse().ok().and_then(|index: usize| items.get(index)).map(|item| (item, rest)),
                );
            }
            Value::Array(items) => {
                todo.extend(items.iter().filter(|item| item.is_object()).map(|item| (item, Some(path))));
            }
            _ => {}
        }
    }
    false
}

fn is_index(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit())
}
