//! A record: named values in their order.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::strict::{Strict, twice};

/// Fields above which they are looked up by a map.
const FEW: usize = 16;

/// The most values of a record of JSON that is large. One takes some tens of bytes of memory, whatever it
/// takes in the file.
const MOST_VALUES: usize = 1 << 20;
/// A smaller record is not counted.
const LARGE: usize = 4 << 20;

/// The fields of a JSON object, or the columns of a row, in their order; no name comes twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    fields: Vec<(String, Option<Value>)>,
    /// Where each field is, if they are many.
    places: HashMap<String, usize>,
}

impl Record {
    /// A field that is not there yet.
    pub fn push(&mut self, name: String, value: Value) {
        let place = self.fields.len();
        self.fields.push((name, Some(value)));
        let new = match self.fields.len() {
            ..=FEW => return,
            many if many == FEW + 1 => 0,
            _ => place,
        };
        let names = self.fields.iter().zip(0..).skip(new);
        self.places.extend(names.map(|((name, _), place)| (name.clone(), place)));
    }

    fn place(&self, name: &str) -> Option<usize> {
        match self.places.is_empty() {
            true => self.fields.iter().position(|(own, _)| own == name),
            false => self.places.get(name).copied(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields[self.place(name)?].1.as_ref()
    }

    /// Takes a value out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let place = self.place(name)?;
        self.fields[place].1.take()
    }

    /// Takes a value for an id, a title or a text out; a null counts as missing.
    pub fn take_set(&mut self, name: &str) -> Option<Value> {
        self.take(name).filter(|value| !value.is_null())
    }

    /// Whether a field of that name is all that was not taken.
    pub fn has_only(&self, name: &str) -> bool {
        self.fields.iter().all(|(own, value)| value.is_none() || own == name)
    }

    /// What was not taken.
    pub fn rest(self) -> Vec<(String, Value)> {
        self.fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// All values that were not taken.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.fields.iter().filter_map(|(_, value)| value.as_ref())
    }

    pub fn names(&self) -> Vec<String> {
        self.fields.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The record of a JSON object.
    pub fn of_json(text: &str) -> serde_json::Result<Self> {
        if text.len() > LARGE && has_more_values(text, MOST_VALUES) {
            let what = format!("a record of more than {MOST_VALUES} numbers, strings and others");
            return Err(serde_json::Error::custom(what));
        }
        serde_json::from_str(text)
    }
}

/// Whether a text of JSON has more than so many values, by the signs between them.
fn has_more_values(text: &str, most: usize) -> bool {
    let (mut in_string, mut is_escaped, mut count) = (false, false, 0);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'{' | b'[' if !in_string => count += 1,
            _ => {}
        }
        if count > most {
            return true;
        }
    }
    false
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
                let mut record = Record::default();
                while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
                    if record.place(&name).is_some() {
                        return Err(twice(&name));
                    }
                    record.push(name, value);
                }
                Ok(record)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn few_and_many_fields_are_found_alike() {
        for count in [1, FEW - 1, FEW, FEW + 1, 100] {
            let mut record = Record::default();
            for field in 0..count {
                record.push(format!("f{field}"), json!(field));
            }
            assert_eq!(record.get("f0"), Some(&json!(0)));
            assert_eq!(record.take(&format!("f{}", count - 1)), Some(json!(count - 1)));
            assert_eq!(record.take(&format!("f{}", count - 1)), None);
            assert_eq!(record.get("other"), None);
            assert_eq!(record.names().len(), count);
            assert_eq!(record.rest().len(), count - 1);
        }
    }

    #[test]
    fn values_are_counted_outside_strings() {
        let text = r#"{"a,b":"x,\",y","c":[1,2]}"#;
        assert!(has_more_values(text, 3) && !has_more_values(text, 4));
        let many = format!("{{\"x\":[{}0]}}", "0,".repeat(LARGE));
        assert!(
            Record::of_json(&many).unwrap_err().to_string().starts_with("a record of more than 1048576 ")
        );
        let commas = format!("{{\"x\":\"{}\"}}", ",".repeat(LARGE));
        assert_eq!(Record::of_json(&commas).unwrap().names(), ["x"]);
    }
}
