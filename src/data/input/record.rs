//! A record: named values in their order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

/// The fields of a JSON object, or the columns of a row, in their order; no name comes twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record(pub Vec<(String, Value)>);

impl Record {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Takes a value out; a null is none.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let place = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(place).1).filter(|value| !value.is_null())
    }

    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Record;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
                let mut fields: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    fields.push((name, value));
                }
                Ok(Record(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}
