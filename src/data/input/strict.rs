//! A JSON value in which no object repeats a key.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value as [`Value`] reads it, but for an object with a key that comes twice: that is an error, and not an
/// object with the last of the two.
#[derive(Debug)]
pub(super) struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfAnyKind).map(Self)
    }
}

struct OfAnyKind;

impl<'de> Visitor<'de> for OfAnyKind {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if all.contains_key(&key) {
                return Err(twice(&key));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

/// An object has this key twice.
pub(super) fn twice<E: Error>(key: &str) -> E {
    E::custom(format_args!("the key `{key}` appears twice in one object; remove or rename one of them"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_they_are_and_a_second_key_is_refused() {
        let text = r#"{"a":[1,-2,0.5,18446744073709551615,"x",null,true,{"b":{}}],"c":{"a":1}}"#;
        let Strict(value) = serde_json::from_str(text).unwrap();
        assert_eq!(value, json!({"a": [1, -2, 0.5, u64::MAX, "x", null, true, {"b": {}}], "c": {"a": 1}}));
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            let error = serde_json::from_str::<Strict>(text).unwrap_err().to_string();
            assert!(error.starts_with("the key `a` appears twice in one object"), "{error}");
        }
    }
}
