//! One test of a filter against one document.

use std::cmp::Ordering;

use serde_json::Value;

use super::values::{ValueSet, compare};

/// A leaf condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Sorted, without duplicates.
    Ids(Vec<String>),
    Exists {
        field: String,
    },
    /// Greater or less than a number, a string or a boolean.
    Compare {
        field: String,
        relation: Relation,
        value: Value,
    },
    /// Equal to one of the values.
    OneOf {
        field: String,
        values: ValueSet,
    },
    /// A string that begins with another.
    Prefix {
        field: String,
        prefix: String,
    },
    /// An array of this many elements.
    Size {
        field: String,
        size: usize,
    },
}

/// How a field is to be ordered relative to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Test {
    pub(super) fn holds(&self, id: &str, metadata: Option<&Value>) -> bool {
        // A missing field counts as null, except for `Exists`.
        const NULL: &Value = &Value::Null;
        match self {
            Self::Ids(_) => self.holds_for_id(id) == Some(true),
            Self::Exists { field } => each_at(metadata, field, |found| found.is_some()),
            Self::Compare { field, relation, value } => each_at(metadata, field, |found| {
                compare(found.unwrap_or(NULL), value).is_some_and(|order| relation.holds(order))
            }),
            Self::OneOf { field, values } => {
                each_at(metadata, field, |found| values.contains(found.unwrap_or(NULL)))
            }
            Self::Prefix { field, prefix } => each_at(metadata, field, |found| {
                found.and_then(Value::as_str).is_some_and(|text| text.starts_with(prefix))
            }),
            // An array in the array at the field is not the field's.
            Self::Size { field, size } => each_whole_at(metadata, field, |found| {
                found.and_then(Value::as_array).is_some_and(|items| items.len() == *size)
            }),
        }
    }

    /// Whether it holds, if the id alone decides.
    pub(super) fn holds_for_id(&self, id: &str) -> Option<bool> {
        match self {
            Self::Ids(ids) => Some(ids.binary_search_by(|other| other.as_str().cmp(id)).is_ok()),
            _ => None,
        }
    }

    /// The field that it looks at.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Ids(_) => None,
            Self::Exists { field }
            | Self::Compare { field, .. }
            | Self::OneOf { field, .. }
            | Self::Prefix { field, .. }
            | Self::Size { field, .. } => Some(field),
        }
    }
}

impl Relation {
    /// Each with its JSON operator.
    pub(super) const ALL: [(&str, Self); 4] = [
        ("$gt", Self::Greater),
        ("$gte", Self::GreaterOrEqual),
        ("$lt", Self::Less),
        ("$lte", Self::LessOrEqual),
    ];

    pub(super) fn operator(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

/// Whether `holds` for a value that `field` leads to, for an element of one, or for `None` if the path leads
/// to nothing.
pub(super) fn each_at(
    metadata: Option<&Value>,
    field: &str,
    mut holds: impl FnMut(Option<&Value>) -> bool,
) -> bool {
    each_whole_at(metadata, field, |found| {
        let mut items = found.and_then(Value::as_array).into_iter().flatten();
        holds(found) || items.any(|item| holds(Some(item)))
    })
}

/// As [`each_at`], without the elements of the values.
///
/// A path through arrays can lead to several values. Elements that are not objects, and positions beyond the
/// array, lead nowhere: neither to a value nor to nothing. Without recursion, because an application's
/// metadata may be nested to any depth.
pub(crate) fn each_whole_at(
    metadata: Option<&Value>,
    field: &str,
    mut holds: impl FnMut(Option<&Value>) -> bool,
) -> bool {
    // Each with the rest of the path; `None` at its end.
    let mut todo = vec![];
    match metadata {
        Some(metadata) => todo.push((metadata, Some(field))),
        None => return holds(None),
    }
    while let Some((value, path)) = todo.pop() {
        let Some(path) = path else {
            if holds(Some(value)) {
                return true;
            }
            continue;
        };
        let (key, rest) = match path.split_once('.') {
            Some((key, rest)) => (key, Some(rest)),
            None => (path, None),
        };
        let next = match value {
            Value::Object(fields) => match fields.get(path) {
                Some(found) => Some((found, None)),
                None => fields.get(key).map(|found| (found, rest)),
            },
            Value::Array(items) if is_index(key) => {
                // A number too large for `usize` is beyond the end of any array.
                todo.extend(
                    key.parse().ok().and_then(|index: usize| items.get(index)).map(|item| (item, rest)),
                );
                continue;
            }
            Value::Array(items) => {
                todo.extend(items.iter().filter(|item| item.is_object()).map(|item| (item, Some(path))));
                continue;
            }
            _ => None,
        };
        match next {
            Some(next) => todo.push(next),
            None if holds(None) => return true,
            None => {}
        }
    }
    false
}

fn is_index(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit())
}
