//! Streams of documents and queries from lines of any form.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Note;
use super::error::{DataError, DataErrorKind};
use super::lines::{Line, Lines};
use crate::document::Document;

/// Optional extension of a compressed file.
pub(super) const GZIP_ENDING: &str = ".gz";

/// A query of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetQuery {
    /// Unique in the dataset, across splits.
    pub id: String,
    /// The query's text.
    pub text: String,
}

/// Reads a line.
pub(super) type Parse<T> = fn(Line<'_>) -> Result<T, DataError>;

/// A source of documents.
pub(super) trait DocumentSource: Send {
    /// As [`Iterator::next`].
    fn next(&mut self) -> Option<Result<Document, DataError>>;

    /// The line on which the last item begins, from 1, or its number if the source has no lines.
    fn line(&self) -> u64;

    /// Named fields not found in any record.
    fn unseen(&self) -> &[String] {
        &[]
    }

    /// Decisions about the documents read so far, and losses.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// The report on a folder, if the source is one.
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
    /// Returns the reader and its shared count.
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

/// The documents of a stream in its order; see [`Input`](super::Input) and
/// [`read_documents`](super::read_documents).
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

/// The queries of a stream, or of several files, in their order; see [`read_queries`](super::read_queries).
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

    /// JSON fields named in an [`Input`](super::Input) for title, metadata or one of several texts that no
    /// record has had so far; at the end, these are wrong names. In a table they are an immediate error.
    pub fn unseen(&self) -> &[String] {
        self.source.unseen()
    }

    /// Decisions of an [`Input`](super::Input) about the documents read so far, and values it left out; at
    /// the end, about all documents.
    pub fn notes(&self) -> Vec<Note> {
        self.source.notes()
    }

    /// The report so far, if the documents come from a [`Folder`](super::Folder).
    #[cfg(feature = "folders")]
    pub fn folder(&self) -> Option<&super::FolderReport> {
        self.source.folder()
    }

    /// Compressed bytes of the stream read so far, including read-ahead.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

impl Queries {
    /// The queries of one stream.
    pub(super) fn of_lines(lines: Lines, parse: Parse<DatasetQuery>) -> Self {
        Self { lines, rest: VecDeque::new(), parse }
    }

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

/// Opens `path` or `path` with `.gz`, whichever exists, and returns its name for errors.
pub(super) fn open_either(path: &Path) -> Result<(File, String), DataError> {
    for candidate in [path, &packed(path)] {
        match File::open(candidate) {
            Ok(file) => return Ok((file, candidate.display().to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(DataError::open(candidate, source)),
        }
    }
    Err(missing_file(path))
}

pub(super) fn missing_file(path: &Path) -> DataError {
    let message = "no such file, with or without `.gz`; the layout needs it";
    DataError::of_path(path, DataErrorKind::Missing, message)
}

pub(super) fn either_exists(path: &Path) -> bool {
    path.is_file() || packed(path).is_file()
}

fn packed(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(GZIP_ENDING);
    packed.into()
}
