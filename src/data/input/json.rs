//! Documents from JSON lines, and from an array of objects.

use std::io::Read;
use std::sync::Arc;

use super::array::JsonArray;
use super::fields::Fields;
use super::rounded::Rounded;
use super::strict::record;
use crate::data::Note;
use crate::data::error::DataError;
use crate::data::lines::Lines;
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
    fields: Fields,
    /// Field names not found in any record so far.
    unseen: Vec<String>,
    rounded: Rounded,
}

impl JsonRecords {
    pub fn new(texts: JsonTexts, fields: Fields) -> Self {
        let unseen = fields.optional();
        Self { texts, fields, unseen, rounded: Rounded::default() }
    }
}

impl DocumentSource for JsonRecords {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        let Self { texts, fields, unseen, rounded } = self;
        let line = match texts {
            JsonTexts::Lines(lines) => lines.next_line(),
            JsonTexts::Array(array) => array.next_element(),
        };
        Some(line?.and_then(|line| {
            let record = record(line.text).map_err(|source| line.at.json(source))?;
            rounded.see(&record, line.text, line.at.line);
            let record = fields.flattened(record, line.at)?;
            // Usually empty after the first records.
            unseen.retain(|name| !record.contains_key(name));
            fields.document(record, line.at)
        }))
    }

    fn line(&self) -> u64 {
        match &self.texts {
            JsonTexts::Lines(lines) => lines.number(),
            JsonTexts::Array(array) => array.line(),
        }
    }

    fn unseen(&self) -> &[String] {
        &self.unseen
    }

    fn notes(&self) -> Vec<Note> {
        self.rounded.note().into_iter().collect()
    }
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
