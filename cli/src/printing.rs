//! Prints text and JSON with terminal control characters from data escaped.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::failure::Failure;
use crate::text::{acts, escaped};

/// Standard output with characters that act escaped, except line feeds and tabs.
///
/// A last resort behind [`escaped`], which makes line feeds of data visible too. Text comes in whole
/// characters, since each write is of a `str`.
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            write_with(
                &mut self.0,
                chunk.valid(),
                |c| acts(c) && !matches!(c, '\n' | '\t'),
                |c| c.escape_unicode().to_string(),
            )?;
            if !chunk.invalid().is_empty() {
                write!(self.0, "{}", char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

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

fn write_with<W: ?Sized + Write>(
    out: &mut W,
    text: &str,
    chosen: impl Fn(char) -> bool,
    written: impl Fn(char) -> String,
) -> io::Result<()> {
    let mut rest = text;
    while let Some((place, character)) = rest.char_indices().find(|(_, c)| chosen(*c)) {
        out.write_all(&rest.as_bytes()[..place])?;
        out.write_all(written(character).as_bytes())?;
        rest = &rest[place + character.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[31m\u{7}\u{9b}1m\u{7f}\u{85}\u{2028}\u{202e}\u{2066}\u{2069}é\u{1F600}\"\\\n\t";

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

    #[test]
    fn text_keeps_its_lines_and_nothing_else_that_acts() {
        let mut out = Plain(Vec::new());
        writeln!(out, "first {HOSTILE} last").unwrap();
        out.write_all(b"\xff").unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert!(!text.chars().any(|c| acts(c) && !matches!(c, '\n' | '\t')), "{text:?}");
        assert_eq!(text.matches('\n').count(), 2);
        assert!(
            text.starts_with("first a\\u{1b}[31m\\u{7}\\u{9b}1m") && text.ends_with('\u{fffd}'),
            "{text:?}"
        );
        assert!(escaped(HOSTILE).ends_with("\\u{a}\\u{9}"));
    }
}
