//! Comparison of JSON values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::time;

/// The order of two numbers, two strings (by bytes, except for fractions of a second), two booleans (false
/// first) or two nulls; `None` across types, and for arrays and objects.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => Some(time::compare(a, b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        _ => None,
    }
}

/// Equality as in [`compare`] for scalars, applied to all elements of arrays and objects.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => compare(a, b) == Some(Ordering::Equal),
    }
}

/// Nesting depth of objects and arrays: 0 for a scalar, at most `most + 1`.
pub(crate) fn depth(value: &Value, most: usize) -> usize {
    let below = |value| most.checked_sub(1).map_or(0, |most| depth(value, most));
    match value {
        Value::Array(items) => 1 + items.iter().map(below).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(below).max().unwrap_or(0),
        _ => 0,
    }
}

/// Exact between any two numbers, whether stored as `i64`, `u64` or `f64`.
///
/// `None` only for a number that fits none of the three, which `serde_json` produces only with its feature
/// `arbitrary_precision`.
fn compare_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => compare_with_float(a, b.as_f64()?),
        (None, Some(b)) => compare_with_float(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// The number as an integer, unless it is stored as a float.
pub(super) fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// `integer` is an `i64` or a `u64`. As `f64` it might be rounded, so the float is split instead:
/// its whole part is exact in `i128`, or saturates far beyond every `integer`.
fn compare_with_float(integer: i128, float: f64) -> Option<Ordering> {
    let whole = float.trunc() as i128;
    let rest = 0.0.partial_cmp(&float.fract())?;
    Some(integer.cmp(&whole).then(rest))
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
            values.into_iter().partition(|value| !value.is_array() && !value.is_object());
        scalars.sort_by(order);
        scalars.dedup_by(|a, b| order(a, b).is_eq());
        Self { scalars, others }
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Array(_) | Value::Object(_) => self.others.iter().any(|other| equal(other, value)),
            _ => self.scalars.binary_search_by(|scalar| order(scalar, value)).is_ok(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.scalars.iter().chain(&self.others)
    }

    /// The only value, if there is one.
    pub(super) fn single(&self) -> Option<&Value> {
        self.iter().next().filter(|_| self.scalars.len() + self.others.len() == 1)
    }
}

/// A total order of scalars: by type, then by [`compare`].
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        _ => 3,
    };
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

#[cfg(test)]
mod number_tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cmp(a: &serde_json::Value, b: &serde_json::Value) -> Ordering {
        let (serde_json::Value::Number(a), serde_json::Value::Number(b)) = (a, b) else { panic!() };
        let ordering = compare_numbers(a, b).unwrap();
        assert_eq!(compare_numbers(b, a), Some(ordering.reverse()), "{a} {b}");
        ordering
    }

    #[test]
    fn the_kind_of_a_number_does_not_matter() {
        use Ordering::{Equal, Greater, Less};
        let beyond = 18_446_744_073_709_551_616.0; // 2^64
        for (a, b, expected) in [
            (json!(1), json!(1.0), Equal),
            (json!(0), json!(-0.0), Equal),
            (json!(0.0), json!(-0.0), Equal),
            (json!(1), json!(1.5), Less),
            (json!(-1), json!(-1.5), Greater),
            (json!(0), json!(5e-324), Less),
            (json!(0), json!(-5e-324), Greater),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), Greater),
            (json!(-9_007_199_254_740_993_i64), json!(-9_007_199_254_740_992.0), Less),
            (json!(i64::MIN), json!(-9_223_372_036_854_775_808.0), Equal),
            (json!(i64::MAX), json!(9_223_372_036_854_775_808.0), Less),
            (json!(u64::MAX), json!(beyond), Less),
            (json!(u64::MAX), json!(-1), Greater),
            (json!(u64::MAX), json!(f64::MAX), Less),
            (json!(i64::MIN), json!(f64::MIN), Greater),
            (json!(0.1), json!(0.2), Less),
        ] {
            assert_eq!(cmp(&a, &b), expected, "{a} {b}");
        }
    }

    /// Compares `integer` with the float's mantissa times a power of two, by shifting whichever is finer.
    fn by_shifting(integer: i128, float: f64) -> Ordering {
        let bits = float.to_bits();
        let fraction = i128::from(bits & ((1 << 52) - 1));
        let (mantissa, power) = match (bits >> 52) & 0x7ff {
            0 => (fraction, -1074),
            exponent => (fraction | (1 << 52), i32::try_from(exponent).unwrap() - 1075),
        };
        let mantissa = if float.is_sign_negative() { -mantissa } else { mantissa };
        match power {
            64.. => 0.cmp(&mantissa),
            0.. => integer.cmp(&(mantissa << power)),
            -60.. => (integer << -power).cmp(&mantissa),
            // Magnitude below 1.
            _ => integer.cmp(&0).then(0.cmp(&mantissa)),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_shifting(
            integer in prop_oneof![any::<i64>().prop_map(i128::from), any::<u64>().prop_map(i128::from)],
            float in any::<f64>().prop_filter("JSON has no others", |float| float.is_finite()),
            near in -3i64..=3,
        ) {
            let number = u64::try_from(integer).map_or_else(|_| json!(integer as i64), |n| json!(n));
            prop_assert_eq!(cmp(&number, &json!(float)), by_shifting(integer, float));
            // Random floats are rarely close: also tests those next to the integer itself.
            let beside = f64::from_bits((integer as f64).to_bits().saturating_add_signed(near));
            prop_assert_eq!(cmp(&number, &json!(beside)), by_shifting(integer, beside));
        }
    }
}
