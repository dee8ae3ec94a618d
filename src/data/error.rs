//! What can go wrong while a dataset is read.

use std::path::PathBuf;

use thiserror::Error;

/// A dataset file that cannot be used, named with the 1-based line where there is one.
///
/// Lines are those of the unpacked text when the file is gzip-compressed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The directory holds neither the file nor its `.gz` form.
    #[error("{}: no such file, with or without `.gz`; the layout needs it", path.display())]
    MissingFile {
        /// The path without `.gz`.
        path: PathBuf,
    },
    /// The dataset's path is missing or is not a directory.
    #[error("{}: not a directory; give the directory that holds the dataset's files", path.display())]
    NotADirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// There is no judgments file for the split.
    #[error("{}: no split `{split}`; found: [{}]", dir.display(), known.join(", "))]
    UnknownSplit {
        /// The dataset's directory.
        dir: PathBuf,
        /// The split asked for.
        split: String,
        /// The splits there are, in order.
        known: Vec<String>,
    },
    /// The operating system refused to open or list something.
    #[error("{}: cannot be opened", path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The operating system failed in the middle of a file.
    #[error("{name}: reading failed at line {line}")]
    Read {
        /// The file.
        name: String,
        /// The line that was being read.
        line: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is gzip-compressed and ends too early.
    #[error("{name}: the gzip stream is cut off in line {line}; fetch the file again")]
    TruncatedGzip {
        /// The file.
        name: String,
        /// The line that was being read.
        line: u64,
    },
    /// The file begins as gzip does but does not unpack.
    #[error("{name}: the gzip stream is damaged near line {line}; fetch the file again")]
    CorruptGzip {
        /// The file.
        name: String,
        /// The line that was being read.
        line: u64,
        /// The decoder's error.
        source: std::io::Error,
    },
    /// A line is longer than the reader allows, as in a file that is not line-based.
    #[error("{name}:{line}: longer than {limit} bytes; is this one JSON object a line?")]
    LineTooLong {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The most bytes a line may have.
        limit: usize,
    },
    /// A line is not UTF-8.
    #[error("{name}:{line}: not UTF-8 from byte {valid_up_to} of the line; convert the file")]
    InvalidUtf8 {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The number of bytes of the line that are valid.
        valid_up_to: usize,
    },
    /// A line is not a JSON object with fields of the right types.
    #[error("{name}:{line}: not a JSON object of the expected form")]
    Json {
        /// The file.
        name: String,
        /// The line. The position in `source` is within this line.
        line: u64,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// An object lacks a required field, or the field is null.
    #[error("{name}:{line}: the string field `{field}` is missing")]
    MissingField {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The field.
        field: &'static str,
    },
    /// An id is the empty string.
    #[error("{name}:{line}: `{field}` is empty; every id needs at least one character")]
    EmptyId {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The field or column.
        field: &'static str,
    },
    /// A row has the wrong number of columns.
    #[error("{name}:{line}: {got} columns instead of {expected}")]
    Columns {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The number of columns found.
        got: usize,
        /// The columns of the form.
        expected: &'static str,
    },
    /// A first row of names has other ones, or lacks one.
    #[error(
        "{name}:1: `{found}` in what looks like a row of names; the columns are called question, id, grade, weight, time, \
         the first two of which must be there"
    )]
    Header {
        /// The file.
        name: String,
        /// A name that is unknown, or the first one where one is missing.
        found: String,
    },
    /// A column or a field has a value of another kind.
    #[error("{name}:{line}: `{found}` is no {expected}")]
    Field {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The value.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A table of rows and columns cannot be read.
    #[error("{name}:{line}: {detail}")]
    Table {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What the parser says.
        detail: String,
    },
    /// A point's target is not among the labels.
    #[error("{name}:{line}: the target {target} is not among the {labels} labels")]
    Target {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The position named, from 0.
        target: u64,
        /// The number of labels.
        labels: usize,
    },
    /// A point has another number of relevances than of targets.
    #[error("{name}:{line}: {relevances} values of target_rel for {targets} of target_ind")]
    TargetCount {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// Values of `target_ind`.
        targets: usize,
        /// Values of `target_rel`.
        relevances: usize,
    },
    /// The score of a judgment is not an integer.
    #[error("{name}:{line}: the score `{got}` is not a 32-bit integer")]
    QrelsScore {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The column's text.
        got: String,
    },
    /// One query and document are judged twice, with different scores.
    #[error(
        "{name}:{line}: query `{query}` and document `{document}` have score {first} above and {second} here; keep one"
    )]
    ConflictingJudgment {
        /// The file.
        name: String,
        /// The line of the later judgment.
        line: u64,
        /// The query.
        query: String,
        /// The document.
        document: String,
        /// The earlier score.
        first: i32,
        /// The later score.
        second: i32,
    },
    /// A fraction of queries lies outside `0.0..=1.0` or is not a number.
    #[error("the dev fraction {got} is not between 0 and 1")]
    InvalidFraction {
        /// The value as given.
        got: f64,
    },
}

impl DataError {
    /// Whether nothing more can be read from the stream that it comes from.
    pub(super) fn ends_stream(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::TruncatedGzip { .. }
                | Self::CorruptGzip { .. }
                | Self::LineTooLong { .. }
                | Self::Open { .. }
                | Self::MissingFile { .. }
        )
    }
}
