//! JSON integers with more digits than 64-bit numbers hold.

use serde_json::Value;

use super::strict::{Record, Strings};
use crate::data::note::{Note, Seen, counted};

/// Integers below 2^63 are read exactly.
const EXACT: f64 = (1_u64 << 63) as f64;

/// The count of rounded numbers, and the line of the first.
#[derive(Default)]
pub(super) struct Rounded(Seen);

impl Rounded {
    /// Checks a record, and its text if it has such a large number.
    pub fn see(&mut self, record: &Record, text: &str, line: u64) {
        if record.values().any(is_large) {
            self.0.see(rounded(text), line);
        }
    }

    pub fn note(&self) -> Option<Note> {
        let numbers = counted(self.0.count, "number has", "numbers have");
        let message = format!(
            "{numbers} more digits than 64 bits hold and lost some, the first in line {}; quotes around a number \
             keep all of them",
            self.0.first
        );
        (self.0.count > 0).then_some(Note::new(message))
    }
}

fn is_large(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().is_some_and(|it| it.abs() >= EXACT),
        Value::Array(items) => items.iter().any(is_large),
        Value::Object(fields) => fields.values().any(is_large),
        _ => false,
    }
}

/// Counts integers outside strings that change when parsed.
fn rounded(text: &str) -> u64 {
    let (mut strings, mut start, mut count) = (Strings::default(), None, 0);
    for (at, byte) in text.bytes().enumerate() {
        let is_part = strings.is_outside(byte) && (byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        match start {
            None if is_part => start = Some(at),
            Some(from) if !is_part => {
                count += u64::from(is_rounded(&text[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    count
}

fn is_rounded(word: &str) -> bool {
    let is_whole = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_exact = || word.parse::<u64>().is_ok() || word.parse::<i64>().is_ok();
    is_whole && !is_exact() && word.parse::<f64>().is_ok_and(|number| format!("{number:.0}") != word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_where_a_digit_is_lost() {
        for (text, count) in [
            (r#"{"a":18446744073709551616}"#, 0),
            (r#"{"a":18446744073709551617,"b":[-9223372036854775809,{"c":99999999999999999999}]}"#, 3),
            (r#"{"a":18446744073709551615,"b":-9223372036854775808}"#, 0),
            (r#"{"a":"18446744073709551617 \" 18446744073709551617","b":1e20}"#, 0),
            (r#"{"a":1e20,"b":12345678901234567890.5,"c":true}"#, 0),
        ] {
            let mut found = Rounded::default();
            found.see(&crate::data::input::record(text).unwrap(), text, 7);
            let said = found.note().map(|note| note.to_string()).unwrap_or_default();
            assert_eq!(
                (found.0.count, said.contains("the first in line 7")),
                (count, count > 0),
                "{text}: {said}"
            );
        }
    }
}
