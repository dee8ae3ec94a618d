//! Whole numbers as models write them: `3` and `3.0` are the same to a JSON schema.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// # Errors
/// What is no whole number, or one that the type does not hold.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(Whole(PhantomData))
}

/// As [`whole`], for what may be left out.
///
/// # Errors
/// As there.
pub fn some_whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(from: D) -> Result<Option<T>, D::Error> {
    whole(from).map(Some)
}

struct Whole<T>(PhantomData<T>);

impl<T: TryFrom<i64>> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a whole number in the range of the schema")
    }

    fn visit_i64<E: Error>(self, given: i64) -> Result<T, E> {
        T::try_from(given).map_err(|_| E::invalid_value(Unexpected::Signed(given), &self))
    }

    fn visit_u64<E: Error>(self, given: u64) -> Result<T, E> {
        let own = i64::try_from(given).ok().and_then(|given| T::try_from(given).ok());
        own.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(given), &self))
    }

    fn visit_f64<E: Error>(self, given: f64) -> Result<T, E> {
        // Beyond 2^53 a number with a point is no longer the one that was meant.
        let is_whole = given.fract() == 0.0 && given.abs() <= (1_u64 << 53) as f64;
        let own = is_whole.then_some(given as i64).and_then(|given| T::try_from(given).ok());
        own.ok_or_else(|| E::invalid_value(Unexpected::Float(given), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::whole;

    #[test]
    fn a_whole_number_may_have_a_point() {
        for (given, number) in [(json!(3), 3), (json!(3.0), 3), (json!(0), 0), (json!(-0.0), 0)] {
            assert_eq!(whole::<_, usize>(given).unwrap(), number);
        }
        assert_eq!(whole::<_, i32>(json!(-2.0)).unwrap(), -2);
        for bad in [json!(3.5), json!(-1), json!(1e300), json!("3"), json!(u64::MAX), json!(true)] {
            let said = whole::<Value, usize>(bad).unwrap_err().to_string();
            assert!(said.contains("expected a whole number"), "{said}");
        }
        assert!(whole::<_, i32>(json!(1_u64 << 40)).is_err());
    }
}
