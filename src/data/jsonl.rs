//! Documents and queries, one JSON object a line.

use std::io::Read;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DataError, Lines};
use crate::document::Document;

/// Streams documents from JSON lines, plain or gzip-compressed: a file or standard input.
///
/// Each line is an object with the strings `_id` and `text` and, if there is one, `title`;
/// `metadata` is kept unless it is null or an empty object; other keys are ignored. Memory
/// stays at one line, at most [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES). Ids are not
/// compared with one another.
///
/// `name` is what errors call the stream, say its path or `<stdin>`.
///
/// # Errors
///
/// Nothing is read before the first item. An item is an error when its line is not UTF-8
/// ([`DataError::InvalidUtf8`]), not such an object ([`DataError::Json`],
/// [`DataError::MissingField`]) or has an empty id ([`DataError::EmptyId`]); the next item
/// is then the next line. Any other error is the last item.
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
    Documents { lines: Lines::new(reader, name) }
}

/// Streams queries from JSON lines, as [`read_documents`] does documents.
///
/// # Errors
///
/// The items' errors are those of [`read_documents`].
pub fn read_queries(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name) }
}

/// A query of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Unique in the dataset, across splits.
    pub id: String,
    /// What is asked.
    pub text: String,
}

/// The documents of a stream in its order; see [`read_documents`].
#[must_use = "nothing is read until the iterator is advanced"]
pub struct Documents {
    lines: Lines,
}

/// The queries of a stream in its order; see [`read_queries`].
#[must_use = "nothing is read until the iterator is advanced"]
pub struct Queries {
    lines: Lines,
}

impl Documents {
    /// The line that the last item is from, counted from 1.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }
}

impl Iterator for Documents {
    type Item = Result<Document, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.lines).map(|record| {
            let (at, record): (_, DocumentRecord) = record?;
            Ok(Document {
                id: at.id(record._id)?,
                title: record.title.unwrap_or_default(),
                text: at.required(record.text, "text")?,
                metadata: record.metadata.filter(|value| !is_empty_object(value)),
            })
        })
    }
}

impl Iterator for Queries {
    type Item = Result<Query, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.lines).map(|record| {
            let (at, record): (_, QueryRecord) = record?;
            Ok(Query { id: at.id(record._id)?, text: at.required(record.text, "text")? })
        })
    }
}

// Absent and null fields are told from wrong types by hand, so that the error can name them.
#[derive(Deserialize)]
struct DocumentRecord {
    _id: Option<String>,
    title: Option<String>,
    text: Option<String>,
    metadata: Option<Value>,
}

#[derive(Deserialize)]
struct QueryRecord {
    _id: Option<String>,
    text: Option<String>,
}

/// Where a record stood, for errors found after parsing.
struct Place {
    name: String,
    line: u64,
}

impl Place {
    fn required(&self, value: Option<String>, field: &'static str) -> Result<String, DataError> {
        value.ok_or_else(|| DataError::MissingField { name: self.name.clone(), line: self.line, field })
    }

    fn id(&self, value: Option<String>) -> Result<String, DataError> {
        let id = self.required(value, "_id")?;
        if id.is_empty() {
            return Err(DataError::EmptyId { name: self.name.clone(), line: self.line, field: "_id" });
        }
        Ok(id)
    }
}

fn next_record<T: DeserializeOwned>(lines: &mut Lines) -> Option<Result<(Place, T), DataError>> {
    let (number, parsed) = match lines.next_line()? {
        Ok(line) => (line.number, serde_json::from_str(line.text)),
        Err(error) => return Some(Err(error)),
    };
    let at = Place { name: lines.name().to_owned(), line: number };
    Some(match parsed {
        Ok(record) => Ok((at, record)),
        Err(source) => Err(DataError::Json { name: at.name, line: at.line, source }),
    })
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}
