//! Streams of documents and queries, whatever the form of their lines.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Note;
use super::dataset::{json_query, open_either};
use super::error::DataError;
use super::input::json_lines;
use super::lines::{Line, Lines};
use crate::document::Document;

/// Streams documents from JSON lines, plain or gzip-compressed: a file or standard input.
///
/// Each line is an object with `_id`, a string or an integer, `text` and, if there is one, `title`. All other
/// fields are the metadata, with the members of `metadata` beside them, as an [`Input`](super::Input) reads
/// them. Memory stays at one line, at most [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES). Ids are not compared
/// with one another.
///
/// `name` is what errors call the stream, say its path or `<stdin>`.
///
/// # Errors
/// Nothing is read before the first item. An item is an error where its line is not UTF-8, no object, or makes
/// no document; the next item is then the next line. Any other error is the last item.
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
    let (reader, position) = Counting::new(reader);
    Documents::new(json_lines(Lines::new(reader, name)), position)
}

/// Streams queries from JSON lines with `_id` and `text`, as [`read_documents`] does documents.
///
/// # Errors
/// As [`read_documents`].
pub fn read_queries(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name), rest: VecDeque::new(), parse: json_query }
}

/// A query of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetQuery {
    /// Unique in the dataset, across splits.
    pub id: String,
    /// What is asked.
    pub text: String,
}

/// Reads a line.
pub(super) type Parse<T> = fn(Line<'_>) -> Result<T, DataError>;

/// What documents come from.
pub(super) trait DocumentSource: Send {
    /// As [`Iterator::next`].
    fn next(&mut self) -> Option<Result<Document, DataError>>;

    /// The line on which the last item begins, counted from 1, or its number where there are no lines.
    fn line(&self) -> u64;

    /// Fields that were named and that no record had.
    fn unseen(&self) -> &[String] {
        &[]
    }

    /// What was decided about what was read so far, and what was left out of it.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// What a folder holds.
    #[cfg(feature = "folders")]
    fn folder(&self) -> Option<&super::FolderReport> {
        None
    }
}

/// Lines, each of which is a document.
struct Parsed {
    lines: Lines,
    parse: Parse<Document>,
}

impl DocumentSource for Parsed {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        Some(self.lines.next_line()?.and_then(self.parse))
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }
}

/// Counts the bytes that are read.
pub(super) struct Counting<R> {
    reader: R,
    bytes: Arc<AtomicU64>,
}

impl<R> Counting<R> {
    /// With the count, which others may look at.
    pub fn new(reader: R) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::new(AtomicU64::new(0));
        (Self { reader, bytes: Arc::clone(&bytes) }, bytes)
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The documents of a stream in its order; see [`Input`](super::Input) and [`read_documents`].
#[must_use = "nothing is read until the iterator is advanced"]
pub struct Documents {
    source: Box<dyn DocumentSource>,
    position: Arc<AtomicU64>,
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
    parse: Parse<DatasetQuery>,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Documents {
    pub(super) fn new(source: Box<dyn DocumentSource>, position: Arc<AtomicU64>) -> Self {
        Self { source, position }
    }

    pub(super) fn of_lines(
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
        parse: Parse<Document>,
    ) -> Self {
        let (reader, position) = Counting::new(reader);
        Self::new(Box::new(Parsed { lines: Lines::new(reader, name), parse }), position)
    }

    /// The line that the last item is from, counted from 1.
    pub fn line(&self) -> u64 {
        self.source.line()
    }

    /// Fields of JSON that an [`Input`](super::Input) names for title, metadata and one of several texts, and
    /// that no record had so far: at the end, names that are wrong. Of a table they are an error at once.
    pub fn unseen(&self) -> &[String] {
        self.source.unseen()
    }

    /// What an [`Input`](super::Input) decided about the documents read so far, and what it left out of them;
    /// of all of them at the end.
    pub fn notes(&self) -> Vec<Note> {
        self.source.notes()
    }

    /// What was found so far, of documents that come from a [`Folder`](super::Folder).
    #[cfg(feature = "folders")]
    pub fn folder(&self) -> Option<&super::FolderReport> {
        self.source.folder()
    }

    /// Bytes of the stream, as it is compressed, that were read so far; some of them were read ahead.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

impl Queries {
    /// The queries of files of one form, one after the other.
    pub(super) fn of_files(files: impl IntoIterator<Item = PathBuf>, parse: Parse<DatasetQuery>) -> Self {
        let nothing = Lines::new(std::io::empty(), String::new());
        Self { lines: nothing, rest: files.into_iter().collect(), parse }
    }
}

impl Iterator for Documents {
    type Item = Result<Document, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.source.next()
    }
}

impl Iterator for Queries {
    type Item = Result<DatasetQuery, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.lines.next_line() {
                let item = line.and_then(self.parse);
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
