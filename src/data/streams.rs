//! Streams of documents and queries, whatever the form of their lines.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;

use super::files::open_either;
use super::{DataError, Lines, extreme, jsonl, tsv};
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
    Documents { lines: Lines::new(reader, name), parse: jsonl::document }
}

/// Streams queries from JSON lines, as [`read_documents`] does documents.
///
/// # Errors
///
/// The items' errors are those of [`read_documents`].
pub fn read_queries(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name), rest: VecDeque::new(), parse: jsonl::query }
}

/// Streams documents from rows `id <TAB> text`, the form of MS MARCO's `collection.tsv`.
///
/// What stands behind the first tab is the text, further tabs included; there is no title.
///
/// # Errors
///
/// As [`read_documents`], with [`DataError::Columns`] for a row without a tab.
pub fn read_collection(reader: impl Read + Send + 'static, name: impl Into<String>) -> Documents {
    Documents { lines: Lines::new(reader, name), parse: tsv::document }
}

/// Streams queries from rows `id <TAB> text`, as [`read_collection`] does documents.
///
/// # Errors
///
/// The items' errors are those of [`read_collection`].
pub fn read_query_table(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name), rest: VecDeque::new(), parse: tsv::query }
}

/// Streams the labels of an extreme classification set as documents: `lbl.json`, an object a
/// line with the strings `uid`, `title` and, if there is one, `content`.
///
/// # Errors
///
/// As [`read_documents`].
pub fn read_labels(reader: impl Read + Send + 'static, name: impl Into<String>) -> Documents {
    Documents { lines: Lines::new(reader, name), parse: extreme::label }
}

/// Streams the points of an extreme classification set as queries: `trn.json` or `tst.json`.
///
/// Their lines have the form of [`read_labels`]; the query is the title and the content.
///
/// # Errors
///
/// The items' errors are those of [`read_labels`].
pub fn read_points(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name), rest: VecDeque::new(), parse: extreme::point }
}

/// A query of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Unique in the dataset, across splits.
    pub id: String,
    /// What is asked.
    pub text: String,
}

type Parse<T> = fn(&mut Lines) -> Option<Result<T, DataError>>;

/// The documents of a stream in its order; see [`read_documents`].
#[must_use = "nothing is read until the iterator is advanced"]
pub struct Documents {
    lines: Lines,
    parse: Parse<Document>,
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents").finish_non_exhaustive()
    }
}

/// The queries of a stream, or of several files, in their order; see [`read_queries`].
#[must_use = "nothing is read until the iterator is advanced"]
pub struct Queries {
    lines: Lines,
    /// Files that come after `lines`, without `.gz`.
    rest: VecDeque<PathBuf>,
    parse: Parse<Query>,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Documents {
    /// The line that the last item is from, counted from 1.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }
}

impl Queries {
    /// The queries of files of one form, one after the other.
    pub(super) fn of_files(files: impl IntoIterator<Item = PathBuf>, parse: Parse<Query>) -> Self {
        let nothing = Lines::new(std::io::empty(), String::new());
        Self { lines: nothing, rest: files.into_iter().collect(), parse }
    }
}

impl Iterator for Documents {
    type Item = Result<Document, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.parse)(&mut self.lines)
    }
}

impl Iterator for Queries {
    type Item = Result<Query, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = (self.parse)(&mut self.lines) {
                if item.as_ref().is_err_and(DataError::ends_stream) {
                    self.rest.clear();
                }
                return Some(item);
            }
            match open_either(&self.rest.pop_front()?) {
                Ok((file, name)) => self.lines = Lines::new(file, name),
                Err(error) => {
                    self.rest.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
