//! A filter written as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::{
    Filter,
    matches::{Relation, Test},
    nodes::Join,
    values,
};

impl Filter {
    /// The filter in JSON; [`Filter::from_json`] reads the same filter from it.
    ///
    /// Two exceptions, which only the functions can make: a field that begins with `$` is refused when read;
    /// and a filter nested deeper than [`Filter::MAX_DEPTH`], which would be refused too, is written as null,
    /// because dropping a deep [`Value`] can exhaust the stack.
    pub fn to_json(&self) -> Value {
        if self.depth() > Self::MAX_DEPTH {
            return Value::Null;
        }
        self.fold(write_test, |join, parts| match join {
            Join::All if parts.is_empty() => json!({}),
            Join::All => json!({ "$and": parts }),
            Join::Any if parts.is_empty() => json!({ "$not": {} }),
            Join::Any => json!({ "$or": parts }),
        })
        .unwrap_or_default()
    }

    /// Nesting depth of objects and arrays in this filter's JSON; beyond the limit it may be reported as just
    /// above the limit.
    pub(super) fn depth(&self) -> usize {
        self.fold(test_depth, |join, parts| match (join, parts.into_iter().max()) {
            (Join::All, None) => 1,
            (Join::Any, None) => 2,
            (_, Some(deepest)) => deepest + 2,
        })
        .unwrap_or_default()
    }
}

/// The JSON of [`Filter::to_json`], on one line.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

fn write_test(test: &Test, negated: bool) -> Value {
    match (test, negated) {
        (Test::Ids(ids), false) => json!({ "$ids": ids }),
        (Test::Ids(ids), true) => json!({ "$not": { "$ids": ids } }),
        (Test::Exists { field }, _) => json!({ field: { "$exists": !negated } }),
        (Test::OneOf { field, values }, _) => {
            let operator = if negated { "$nin" } else { "$in" };
            json!({ field: { operator: values.iter().collect::<Vec<_>>() } })
        }
        (Test::Compare { field, relation: Relation::Equal, value }, false) if !value.is_object() => {
            json!({ field: value })
        }
        (Test::Compare { field, relation: Relation::Equal, value }, true) => {
            json!({ field: { "$ne": value } })
        }
        (Test::Compare { field, relation, value }, false) => json!({ field: { relation.operator(): value } }),
        (Test::Compare { field, relation, value }, true) => {
            json!({ field: { "$not": { relation.operator(): value } } })
        }
    }
}

/// Depth of the output of [`write_test`].
fn test_depth(test: &Test, negated: bool) -> usize {
    let depth = |value| values::depth(value, Filter::MAX_DEPTH);
    match test {
        Test::Ids(_) => 2 + usize::from(negated),
        Test::Exists { .. } => 2,
        Test::OneOf { values, .. } => 3 + values.iter().map(depth).max().unwrap_or(0),
        Test::Compare { relation: Relation::Equal, value, .. } => {
            1 + usize::from(negated || value.is_object()) + depth(value)
        }
        Test::Compare { .. } => 2 + usize::from(negated),
    }
}
