//! Streams of documents and queries from lines of any form.

#[cfg(feature = "folders")]
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Note;
use super::error::{DataError, DataErrorKind};
use super::lines::{Line, Lines};
use super::unpack::Unpacked;
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

/// The entries of a folder, as far as it was read.
#[cfg(feature = "folders")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderReport {
    /// Ids of the existing files that have text, including those that were skipped or could not be read.
    pub present: BTreeSet<String>,
    /// Files that were skipped as unchanged.
    pub unchanged: u64,
    /// Hidden files and folders.
    pub hidden: u64,
    /// Files and folders in `.gitignore`, `.ignore` or another list of git.
    pub ignored: u64,
    /// Symbolic links.
    pub links: u64,
    /// Files of source code, which `Folder::with_code` reads.
    pub code: u64,
    /// Files of other kinds.
    pub others: u64,
    /// Ids of the files without text.
    pub empty: BTreeSet<String>,
    /// Ids of the files that could not be read.
    pub failed: BTreeSet<String>,
    /// Problems in files that were read, one sentence each, starting with the file's path.
    pub notes: Vec<String>,
    /// Whether the whole folder was listed, so that a file that is not in `present` does not exist.
    pub is_whole: bool,
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
    fn folder(&self) -> Option<&FolderReport> {
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

impl Documents {
    pub(super) fn new(source: Box<dyn DocumentSource>, position: Arc<AtomicU64>) -> Self {
        Self { source, position }
    }

    pub(super) fn of_lines(
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
        parse: Parse<Document>,
    ) -> Self {
        let stream = Unpacked::new(reader, name);
        let position = Arc::clone(&stream.position);
        Self::new(Box::new(Parsed { lines: Lines::of(stream), parse }), position)
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
    pub fn folder(&self) -> Option<&FolderReport> {
        self.source.folder()
    }

    /// Compressed bytes of the stream read so far, including read-ahead.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

impl Iterator for Documents {
    type Item = Result<Document, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.source.next()
    }
}

/// The queries of some lines, and of files of the same form, one after the other.
pub(super) fn queries(
    mut lines: Lines,
    files: Vec<PathBuf>,
    parse: Parse<DatasetQuery>,
) -> impl Iterator<Item = Result<DatasetQuery, DataError>> + Send {
    let mut files = files.into_iter();
    std::iter::from_fn(move || {
        loop {
            let item = match lines.next_line() {
                Some(line) => line.and_then(parse),
                None => match open_either(&files.next()?) {
                    Ok((file, name)) => {
                        lines = Lines::new(file, name);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            if item.as_ref().is_err_and(DataError::ends_stream) {
                files = Vec::new().into_iter();
            }
            return Some(item);
        }
    })
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
