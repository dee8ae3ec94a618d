//! Records of JSON: objects that repeat no key and have a bounded number of values.

use serde::de::Error;
use serde_json::{Map, Value};

use crate::serialize::Strict;

/// The fields of a JSON object, or the columns of a row.
pub(in crate::data) type Record = Map<String, Value>;

/// Most values of a large JSON record. A value takes tens of bytes of memory, whatever its size in the file.
const MOST_VALUES: usize = 1 << 20;
/// Values of a smaller record are not counted.
const LARGE: usize = 4 << 20;

/// The record of a JSON object.
pub(in crate::data) fn record(text: &str) -> serde_json::Result<Record> {
    if text.len() > LARGE && has_more_values(text, MOST_VALUES) {
        let what = format!("a record of more than {MOST_VALUES} numbers, strings and others");
        return Err(serde_json::Error::custom(what));
    }
    match serde_json::from_str(text)? {
        Strict(Value::Object(record)) => Ok(record),
        _ => Err(serde_json::Error::custom("a value that is not an object")),
    }
}

/// Whether a text of JSON has more than `most` values, counted by the separators.
fn has_more_values(text: &str, most: usize) -> bool {
    let mut strings = Strings::default();
    let mut signs = text.bytes().filter(|byte| strings.is_outside(*byte) && b",{[".contains(byte));
    signs.nth(most).is_some()
}

/// Tells the bytes of strings of JSON from the others.
#[derive(Default)]
pub(super) struct Strings {
    in_string: bool,
    is_escaped: bool,
}

impl Strings {
    /// Takes the next byte; returns whether it is outside strings and not a quote.
    pub fn is_outside(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => return !self.in_string,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_counted_outside_strings() {
        let text = r#"{"a,b":"x,\",y","c":[1,2]}"#;
        assert!(has_more_values(text, 3) && !has_more_values(text, 4));
        let many = format!("{{\"x\":[{}0]}}", "0,".repeat(LARGE));
        assert!(record(&many).unwrap_err().to_string().starts_with("a record of more than 1048576 "));
        let commas = format!("{{\"x\":\"{}\"}}", ",".repeat(LARGE));
        assert_eq!(record(&commas).unwrap().len(), 1);
    }

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
