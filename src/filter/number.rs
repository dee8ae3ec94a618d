//! JSON numbers compared by their mathematical value.

use std::cmp::Ordering;

use serde_json::Number;

/// Exact between any two numbers, whether stored as `i64`, `u64` or `f64`.
///
/// `None` only for a number that fits none of the three, which `serde_json` produces only with its feature
/// `arbitrary_precision`.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => compare_with_float(a, b.as_f64()?),
        (None, Some(b)) => compare_with_float(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// `integer` is an `i64` or a `u64`. As `f64` it might be rounded, so the float is split instead:
/// its whole part is exact in `i128`, or saturates far beyond every `integer`.
fn compare_with_float(integer: i128, float: f64) -> Option<Ordering> {
    let whole = float.trunc() as i128;
    let rest = 0.0.partial_cmp(&float.fract())?;
    Some(integer.cmp(&whole).then(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cmp(a: &serde_json::Value, b: &serde_json::Value) -> Ordering {
        let (serde_json::Value::Number(a), serde_json::Value::Number(b)) = (a, b) else { panic!() };
        let ordering = compare(a, b).unwrap();
        assert_eq!(compare(b, a), Some(ordering.reverse()), "{a} {b}");
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
