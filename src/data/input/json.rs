//! Documents from JSON lines, and from an array of objects.

use std::io::Read;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::array::JsonArray;
use super::cells::exact;
use super::fields::Fields;
use super::strict::{Record, Strings, record};
use crate::data::error::{DataError, Place};
use crate::data::lines::Lines;
use crate::data::note::{Note, Seen, counted};
use crate::data::streams::{DocumentSource, Documents};
use crate::data::unpack::Unpacked;
use crate::document::Document;

/// The texts of the objects.
pub(super) enum JsonTexts {
    Lines(Lines),
    Array(JsonArray),
}

pub(super) struct JsonRecords {
    texts: JsonTexts,
    records: Records,
    rounded: Rounded,
}

impl JsonRecords {
    pub fn new(texts: JsonTexts, fields: Fields) -> Self {
        Self { texts, records: Records::new(fields), rounded: Rounded::default() }
    }
}

/// Reads records that are at hand as JSON, one at a time: [`Input::records`](super::Input::records).
#[derive(Clone, Debug)]
pub struct Records {
    fields: Fields,
    /// Field names not found in any record so far.
    unseen: Vec<String>,
    /// Whether a record so far had a field of the text.
    has_text: bool,
    /// Whether a record so far was a document, so that the names of the fields are right.
    has_document: bool,
}

impl Records {
    pub(super) fn new(fields: Fields) -> Self {
        let unseen = fields.optional();
        Self { fields, unseen, has_text: false, has_document: false }
    }

    /// The document of the next record.
    ///
    /// # Errors
    /// A record that is not a valid document; the next one may be.
    pub fn document(&mut self, record: Map<String, Value>) -> Result<Document, DataError> {
        self.document_at(record, Place { name: "", line: 0 })
    }

    fn document_at(&mut self, record: Record, at: Place<'_>) -> Result<Document, DataError> {
        let Self { fields, unseen, has_text, has_document } = self;
        let document = fields.flattened(record, at).and_then(|record| {
            // Usually empty after the first records.
            unseen.retain(|name| !record.contains_key(name));
            *has_text = *has_text || fields.texts().any(|name| record.contains_key(name));
            fields.document(record, at, *has_text)
        });
        *has_document = *has_document || document.is_ok();
        document.map_err(|error| if *has_document { error.of_one_record() } else { error })
    }
}

impl DocumentSource for JsonRecords {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        let Self { texts, records, rounded } = self;
        let line = match texts {
            JsonTexts::Lines(lines) => lines.next_line(),
            JsonTexts::Array(array) => array.next_element(),
        };
        Some(line?.and_then(|line| {
            let record = record(line.text).map_err(|source| match is_of_a_number(line.text, &source) {
                true => line.at.number(source).of_one_record(),
                false => line.at.json(source),
            })?;
            rounded.see(&record, line.text, line.at.line);
            records.document_at(record, line.at)
        }))
    }

    fn line(&self) -> u64 {
        match &self.texts {
            JsonTexts::Lines(lines) => lines.number(),
            JsonTexts::Array(array) => array.line(),
        }
    }

    fn unseen(&self) -> &[String] {
        &self.records.unseen
    }

    fn notes(&self) -> Vec<Note> {
        self.rounded.note().into_iter().collect()
    }
}

/// Whether JSON cannot be read because of a number that it cannot express, as some programs write them.
fn is_of_a_number(text: &str, error: &serde_json::Error) -> bool {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let names_one = |from: usize| {
        line.get(from..).is_some_and(|rest| rest.starts_with("NaN") || rest.starts_with("Infinity"))
    };
    error.to_string().starts_with("number out of range")
        || names_one(error.column().saturating_sub(1))
        || names_one(error.column())
}

/// Integers below 2^63 are read exactly.
const EXACT: f64 = (1_u64 << 63) as f64;

/// The count of integers with more digits than 64-bit numbers hold, and the line of the first.
#[derive(Default)]
struct Rounded(Seen);

impl Rounded {
    /// Checks a record, and its text if it has such a large number.
    fn see(&mut self, record: &Record, text: &str, line: u64) {
        if record.values().any(is_large) {
            self.0.see(rounded(text), line);
        }
    }

    fn note(&self) -> Option<Note> {
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
    let mut strings = Strings::default();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let outside = |byte| if strings.is_outside(byte) && is_part(byte) { char::from(byte) } else { ' ' };
    let words: String = text.bytes().map(outside).collect();
    let is_whole = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    words.split_whitespace().filter(|word| is_whole(word) && exact(word).is_none()).count() as u64
}

/// Streams documents from JSON lines, plain or gzip-compressed: a file or standard input.
///
/// Each line is an object with `_id`, a string or an integer, `text` and, if there is one, `title`. All other
/// fields, and the members of `metadata`, are the metadata, as with an [`Input`](crate::data::Input). Memory
/// is bounded by one line, at most [`MAX_LINE_BYTES`](crate::data::MAX_LINE_BYTES). Ids are not checked for
/// duplicates.
///
/// `name` is the name of the stream in errors, such as its path or `<stdin>`.
///
/// # Errors
/// Nothing is read before the first item. An item is an error if its line is not UTF-8, not an object, or not
/// a valid document; the next item is then the next line. Any other error is the last item.
///
/// # Examples
///
/// ```
/// let lines = r#"{"_id": "a", "title": "Trees", "text": "have leaves"}"#.as_bytes();
/// for document in ehi::data::read_documents(lines, "example") {
///     assert_eq!(document?.title, "Trees");
/// }
/// # Ok::<(), ehi::data::DataError>(())
/// ```
pub fn read_documents(reader: impl Read + Send + 'static, name: impl Into<String>) -> Documents {
    let stream = Unpacked::new(reader, name);
    let position = Arc::clone(&stream.position);
    let texts = JsonTexts::Lines(Lines::of(stream));
    Documents::new(Box::new(JsonRecords::new(texts, Fields::default())), position)
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
