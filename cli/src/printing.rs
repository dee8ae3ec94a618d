//! Prints JSON, or text, as a command reports.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::failure::Failure;
use crate::plain::write_with;
use crate::text::{acts, escaped};

/// Compact JSON in which characters that act are written as `\u001b`; it parses to the same strings.
struct VisibleJson;

impl Formatter for VisibleJson {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // All of them have four hexadecimal digits.
        write_with(out, fragment, acts, |c| format!("\\u{:04x}", u32::from(c)))
    }
}

/// Prints a value as JSON on a line.
pub fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    let mut serializer = Serializer::with_formatter(&mut *out, VisibleJson);
    value.serialize(&mut serializer).map_err(|error| Failure::Output(error.into()))?;
    writeln!(out).map_err(Failure::Output)
}

/// A value as JSON, with the numbers that are printed of it: `json!` gives an `f32` digits that it has not.
#[cfg(feature = "explore")]
pub fn value(of: &impl Serialize) -> Result<serde_json::Value, Failure> {
    let printed = serde_json::to_vec(of).and_then(|json| serde_json::from_slice(&json));
    printed.map_err(|error| Failure::Output(error.into()))
}

/// Prints a value as one JSON object, or else as `text` writes it.
pub fn report(
    out: &mut dyn Write,
    as_json: bool,
    value: &impl Serialize,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    if as_json { json(out, value) } else { text(out).map_err(Failure::Output) }
}

/// A path as it is printed.
pub fn path(path: &Path) -> String {
    escaped(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plain::tests::HOSTILE;

    fn printed(value: &Value) -> String {
        let mut out = Vec::new();
        super::json(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_parses_to_the_same_strings_without_a_character_that_acts() {
        let value = json!({ HOSTILE: [HOSTILE, 1, null, { "x": HOSTILE }] });
        let line = printed(&value);
        assert!(!line.trim_end_matches('\n').chars().any(acts), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        assert!(line.contains("é\u{1F600}") && line.contains("\\u009b"), "{line:?}");
    }
}
