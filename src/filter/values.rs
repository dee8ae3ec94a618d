//! Comparison of JSON values.

use std::cmp::Ordering;

use serde_json::Value;

use super::{number, time};

/// The order of two numbers, two strings (by bytes, except for fractions of a second), two booleans (false
/// first) or two nulls; `None` across types, and for arrays and objects.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b),
        (Value::String(a), Value::String(b)) => Some(time::compare(a, b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        _ => None,
    }
}

/// Equality as in [`compare`] for scalars, applied recursively to arrays and objects.
///
/// Without recursion, because an application's value may be nested to any depth.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    let mut todo = Vec::new();
    let mut next = Some((a, b));
    while let Some(pair) = next {
        match pair {
            (Value::Array(a), Value::Array(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                todo.extend(a.iter().zip(b));
            }
            (Value::Object(a), Value::Object(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                for (key, a) in a {
                    let Some(b) = b.get(key) else { return false };
                    todo.push((a, b));
                }
            }
            (a, b) => {
                if compare(a, b) != Some(Ordering::Equal) {
                    return false;
                }
            }
        }
        next = todo.pop();
    }
    true
}

/// Nesting depth of objects and arrays: 0 for a scalar, at most `most + 1`.
pub(crate) fn depth(value: &Value, most: usize) -> usize {
    let mut level = vec![value];
    for depth in 0..=most {
        level.retain(|value| value.is_array() || value.is_object());
        if level.is_empty() {
            return depth;
        }
        let mut below = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => below.extend(items),
                Value::Object(fields) => below.extend(fields.values()),
                _ => {}
            }
        }
        level = below;
    }
    most + 1
}

/// A set of values; fast for many scalars.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ValueSet {
    /// Everything that [`compare`] orders, sorted by [`order`], without duplicates.
    scalars: Vec<Value>,
    /// Arrays and objects, searched one by one.
    others: Vec<Value>,
}

impl ValueSet {
    pub(super) fn new(values: impl IntoIterator<Item = Value>) -> Self {
        let (mut scalars, others): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| compare(value, value).is_some());
        scalars.sort_by(order);
        scalars.dedup_by(|a, b| order(a, b).is_eq());
        Self { scalars, others }
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        match compare(value, value) {
            Some(_) => self.scalars.binary_search_by(|scalar| order(scalar, value)).is_ok(),
            None => self.others.iter().any(|other| equal(other, value)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.scalars.iter().chain(&self.others)
    }
}

/// A total order of scalars: by type, then by [`compare`].
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Number(_) => 2,
            Value::String(_) => 3,
            Value::Array(_) | Value::Object(_) => 4,
        }
    }
    compare(a, b).unwrap_or_else(|| rank(a).cmp(&rank(b)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equality_goes_into_arrays_and_objects() {
        let value = json!({"a": [1, {"b": 2.0}], "c": null});
        assert!(equal(&value, &json!({"c": null, "a": [1.0, {"b": 2}]})));
        for other in [
            json!({"a": [1, {"b": 2.5}], "c": null}),
            json!({"a": [1, {"b": 2.0}, 3], "c": null}),
            json!({"a": [{"b": 2.0}, 1], "c": null}),
            json!({"a": [1, {"b": 2.0}], "d": null}),
            json!({"a": [1, {"b": 2.0}]}),
            json!({"a": {"0": 1, "1": {"b": 2.0}}, "c": null}),
        ] {
            assert!(!equal(&value, &other) && !equal(&other, &value), "{other}");
        }
    }

    #[test]
    fn nothing_compares_across_types() {
        let all = [json!(null), json!(false), json!(0), json!(""), json!("0"), json!([]), json!({})];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(equal(a, b), i == j, "{a} {b}");
                assert!(i == j || a.is_string() && b.is_string() || compare(a, b).is_none(), "{a} {b}");
            }
        }
    }

    #[test]
    fn depth_counts_objects_and_arrays_up_to_the_limit() {
        for (value, expected) in
            [(json!(1), 0), (json!([]), 1), (json!({"a": 1, "b": [2]}), 2), (json!([[[1]], 1]), 3)]
        {
            assert_eq!(depth(&value, 9), expected, "{value}");
            assert_eq!(depth(&value, 1), expected.min(2), "{value}");
        }
    }

    #[test]
    fn a_set_finds_every_value_and_no_other() {
        let numbers = (0..2_000).map(|n| json!(n * 2)).chain((0..2_000).map(|n| json!(f64::from(n) + 0.5)));
        let set = ValueSet::new(numbers.chain([json!("x"), json!(null), json!([1]), json!({"a": [2.0]})]));
        for found in
            [json!(0), json!(0.0), json!(3998.0), json!(1999.5), json!("x"), json!(null), json!([1.0])]
        {
            assert!(set.contains(&found), "{found}");
        }
        assert!(set.contains(&json!({"a": [2]})));
        for absent in [json!(1), json!(4000), json!(-0.5), json!(0.25), json!(false), json!("0"), json!([])] {
            assert!(!set.contains(&absent), "{absent}");
        }
    }
}
