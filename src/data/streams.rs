//! Streams of documents and queries, whatever the form of their lines.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::open_either;
use super::input::{json_lines, label};
use super::{DataError, Lines, Note, extreme, jsonl, tsv};
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
///
/// Nothing is read before the first item. An item is an error when its line is not UTF-8
/// ([`DataError::InvalidUtf8`]), not an object ([`DataError::Json`]), or makes no document
/// ([`DataError::NoField`], [`DataError::FieldKind`], [`DataError::NoId`], [`DataError::MetadataTwice`]); the
/// next item is then the next line. Any other error is the last item.
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

/// Streams queries from JSON lines, as [`read_documents`] does documents.
///
/// # Errors
///
/// As [`read_documents`], with [`DataError::MissingField`] and [`DataError::EmptyId`] for what a query lacks.
pub fn read_queries(reader: impl Read + Send + 'static, name: impl Into<String>) -> Queries {
    Queries { lines: Lines::new(reader, name), rest: VecDeque::new(), parse: jsonl::query }
}

/// Streams documents from rows `id <TAB> text`, the form of MS MARCO's `collection.tsv`.
///
/// What stands behind the first tab is the text, further tabs included; there is no title.
///
/// # Errors
///
/// [`DataError::InvalidUtf8`], [`DataError::Columns`] for a row without a tab, and [`DataError::EmptyId`];
/// the next item is then the next line. Any other error is the last item.
pub fn read_collection(reader: impl Read + Send + 'static, name: impl Into<String>) -> Documents {
    Documents::of_lines(reader, name, tsv::document)
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
/// line with `uid`, `title` and, if there is one, `content`; other fields are the metadata.
///
/// # Errors
///
/// As [`read_documents`], with [`DataError::MissingField`] for a label without `uid` or `title`.
pub fn read_labels(reader: impl Read + Send + 'static, name: impl Into<String>) -> Documents {
    Documents::of_lines(reader, name, label)
}

/// Streams the points of an extreme classification set as queries: `trn.json` or `tst.json`.
///
/// Their lines have the form of [`read_labels`]; the query is the title and the content.
///
/// # Errors
///
/// The items' errors are those of [`read_queries`].
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

/// What documents come from.
pub(super) trait Source: Send {
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

impl Source for Parsed {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        (self.parse)(&mut self.lines)
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
    source: Box<dyn Source>,
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
    parse: Parse<Query>,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Documents {
    pub(super) fn new(source: Box<dyn Source>, position: Arc<AtomicU64>) -> Self {
        Self { source, position }
    }

    fn of_lines(reader: impl Read + Send + 'static, name: impl Into<String>, parse: Parse<Document>) -> Self {
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
    pub(super) fn of_files(files: impl IntoIterator<Item = PathBuf>, parse: Parse<Query>) -> Self {
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
