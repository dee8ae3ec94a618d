//! Bytes that order scalars as filters compare them.

use serde_json::{Number, Value};

use super::{time, values::integer};

/// The first byte of a key, in the order of types.
const NULL: u8 = 0;
const BOOLEAN: u8 = 1;
const NUMBER: u8 = 2;
const STRING: u8 = 3;
const SIZE: u8 = 4;

/// The key of a scalar; `None` for arrays and objects. Keys of equal values are equal, and between two
/// numbers, two strings or two booleans, the smaller value has the smaller key.
///
/// A byte for the type, then for
/// - a boolean: 0 or 1
/// - a number: the greatest f64 up to it, as 8 bytes, highest first, the sign inverted, and of a negative one
///   all other bits too; then what is left of an integer that no f64 holds, in 2 bytes, highest first
/// - a string: its bytes in UTF-8; for a time, date and time in UTC to the second, the fraction without zeros
///   at its end, and `\0Z` if the zone is known
pub(crate) fn key(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::Null => vec![NULL],
        Value::Bool(value) => vec![BOOLEAN, u8::from(*value)],
        Value::Number(number) => number_key(number)?,
        Value::String(text) => match time::key(text) {
            Some(time) => [&[STRING], &*time].concat(),
            None => text_key(text),
        },
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The key of a string that is not a time.
pub(super) fn text_key(text: &str) -> Vec<u8> {
    [&[STRING], text.as_bytes()].concat()
}

/// The key of arrays of this many elements: a byte that follows those of scalars, then 8 bytes, highest
/// first.
pub(super) fn size_key(size: usize) -> Vec<u8> {
    [&[SIZE][..], &(size as u64).to_be_bytes()].concat()
}

/// Whether a key is that of a scalar.
pub(super) fn is_scalar(key: &[u8]) -> bool {
    key.first().is_some_and(|kind| *kind < SIZE)
}

/// The value of a key; a time is in UTC if its zone is known. `None` for other bytes.
pub(crate) fn value(key: &[u8]) -> Option<Value> {
    let (&kind, rest) = key.split_first()?;
    match kind {
        NULL if rest.is_empty() => Some(Value::Null),
        BOOLEAN => Some(Value::Bool(rest == [1])),
        NUMBER => number(rest),
        STRING => {
            let text = std::str::from_utf8(rest).ok()?;
            let time = text.strip_suffix("\0Z").map(|time| format!("{time}Z"));
            let time = time.filter(|time| time::key(time).as_deref() == Some(rest));
            Some(time.map_or_else(|| text.into(), Value::from))
        }
        _ => None,
    }
}

/// Whether a key is that of a number.
pub(crate) fn is_number(key: &[u8]) -> bool {
    key.first() == Some(&NUMBER)
}

/// A number by the bytes of its key after the first.
fn number(key: &[u8]) -> Option<Value> {
    let (float, rest) = key.split_first_chunk()?;
    let ordered = u64::from_be_bytes(*float);
    let bits = if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered };
    let (float, rest) = (f64::from_bits(bits), rest.try_into().map_or(0, u16::from_be_bytes));
    // A float of this size is an integer of the same value, if it has no fraction.
    let whole = (float.fract() == 0.0 && float.abs() < 2e19).then(|| float as i128 + i128::from(rest));
    let whole = whole.and_then(|whole| match i64::try_from(whole) {
        Ok(whole) => Some(Number::from(whole)),
        Err(_) => u64::try_from(whole).ok().map(Number::from),
    });
    whole.or_else(|| Number::from_f64(float)).map(Value::Number)
}

/// The key of null.
pub(super) const NULL_KEY: &[u8] = &[NULL];

fn number_key(number: &Number) -> Option<Vec<u8>> {
    let (float, rest) = match integer(number) {
        Some(integer) => {
            let nearest = integer as f64;
            let below = if nearest as i128 > integer { nearest.next_down() } else { nearest };
            (below, (integer - below as i128) as u16)
        }
        // Zero has one key, whatever its sign.
        None => (number.as_f64()? + 0.0, 0),
    };
    let bits = float.to_bits();
    let ordered = if float.is_sign_negative() { !bits } else { bits | 1 << 63 };
    let rest = if rest == 0 { &[][..] } else { &rest.to_be_bytes() };
    Some([&[NUMBER], &ordered.to_be_bytes()[..], rest].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::filter::values::order;

    fn scalar() -> impl Strategy<Value = Value> {
        let near = (any::<i64>(), -3i64..=3).prop_map(|(integer, near)| {
            json!(f64::from_bits((integer as f64).to_bits().saturating_add_signed(near)))
        });
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-4i64..4).prop_map(Value::from),
            (-8i32..8).prop_map(|n| json!(f64::from(n) / 2.0)),
            any::<f64>().prop_filter("JSON has no others", |x| x.is_finite()).prop_map(Value::from),
            near,
            "[a-c.Z\0]{0,3}".prop_map(Value::from),
            "2024-01-0[12]T1[01]:00:00(\\.0|\\.50?)?(Z|\\+01:00|\\+00:30)?".prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_values(a in scalar(), b in scalar()) {
            prop_assert_eq!(key(&a).cmp(&key(&b)), order(&a, &b), "{} {}", a, b);
        }

        #[test]
        fn an_integer_beside_a_float_has_its_place(integer in any::<i64>(), near in -2i64..=2) {
            let float = f64::from_bits((integer as f64).to_bits().saturating_add_signed(near));
            let (a, b) = (json!(integer), json!(float));
            prop_assert_eq!(key(&a).cmp(&key(&b)), order(&a, &b), "{} {}", a, b);
        }
    }

    proptest! {
        #[test]
        fn keys_tell_their_values(a in scalar()) {
            let found = value(&key(&a).unwrap()).unwrap();
            prop_assert_eq!(order(&found, &a), std::cmp::Ordering::Equal, "{} {}", found, a);
            prop_assert_eq!(key(&found), key(&a));
        }
    }

    #[test]
    fn arrays_and_objects_have_no_key() {
        assert_eq!((key(&json!([1])), key(&json!({}))), (None, None));
        assert_eq!(key(&json!(u64::MAX)).unwrap()[9..], [7, 255]);
        assert_eq!(key(&json!(-0.0)), key(&json!(0)));
    }
}
