//! What can go wrong while a dataset is read.

use std::path::PathBuf;

use thiserror::Error;

use super::Format;

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
    #[error("{}: no split `{split}`; found: {}", dir.display(), known.join(", "))]
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
    /// The file is compressed with zstd and ends too early.
    #[error("{name}: the zstd stream is cut off in line {line}; fetch the file again")]
    TruncatedZstd {
        /// The file.
        name: String,
        /// The line that was being read.
        line: u64,
    },
    /// The file begins as zstd does but does not unpack.
    #[error("{name}: the zstd stream is damaged near line {line}; fetch the file again")]
    CorruptZstd {
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
    #[error(
        "{name}:{line}: not a JSON object of the expected form{}",
        if source.is_eof() { " on one line (`jq -c .` writes each object on a line)" } else { "" }
    )]
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
        "{name}:{line}: `{unknown}` in what looks like a row of names; the columns are called question, id, grade, weight, \
         time, the first two of which must be there; columns found: {found}"
    )]
    Header {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// A name that is unknown, or the first one where one is missing.
        unknown: String,
        /// The names that are there.
        found: String,
    },
    /// A column or a field has a value of another kind.
    #[error("{name}:{line}: `{found}` is not {expected}")]
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
    /// A record is longer than the reader allows, as where a quote or a bracket is not closed.
    #[error("{name}:{line}: a record of more than {limit} bytes; is {hint} not closed?")]
    RecordTooLong {
        /// The file.
        name: String,
        /// The line on which it begins.
        line: u64,
        /// The most bytes a record may have.
        limit: usize,
        /// What is probably not closed.
        hint: &'static str,
    },
    /// A row has more cells than the reader allows, as where a quote is not closed.
    #[error("{name}:{line}: a row of more than {limit} cells; is a quote not closed?")]
    TooManyCells {
        /// The file.
        name: String,
        /// The line on which it begins.
        line: u64,
        /// The most cells a row may have.
        limit: usize,
    },
    /// The file ends within quotes.
    #[error("{name}:{line}: a quote in the row that begins here is not closed")]
    OpenQuote {
        /// The file.
        name: String,
        /// The line on which the last row begins.
        line: u64,
    },
    /// Text follows the quote that ends a cell, as where a quote is not closed or not doubled.
    #[error(
        "{name}:{line}: a cell of this row ends with a quote{}, and text follows the quote; close the quotes around \
         cells, and write a quote within them twice (`\"\"`)",
        if at == line { String::new() } else { format!(" in line {at}") }
    )]
    StrayQuote {
        /// The file.
        name: String,
        /// The line on which the row begins.
        line: u64,
        /// The line of the quote.
        at: u64,
    },
    /// A cell is not UTF-8.
    #[error("{name}:{line}: the column `{column}` is not UTF-8; convert the file")]
    CellUtf8 {
        /// The file.
        name: String,
        /// The line on which the row begins.
        line: u64,
        /// The column.
        column: String,
    },
    /// A row has another number of cells than the row of names.
    #[error("{name}:{line}: {got} cells for {expected} columns; columns found: {found}")]
    Cells {
        /// The file.
        name: String,
        /// The line on which the row begins.
        line: u64,
        /// The number of cells.
        got: usize,
        /// The number of columns.
        expected: usize,
        /// The names of the columns.
        found: String,
    },
    /// Two columns have the same name.
    #[error("{name}{}: two columns are called `{column}`; columns before: {found}", at(*line))]
    ColumnTwice {
        /// The file.
        name: String,
        /// The line of the row of names.
        line: u64,
        /// The name.
        column: String,
        /// The columns before the second one.
        found: String,
    },
    /// A table lacks a column.
    #[error(
        "{name}: no column `{wanted}` for the {role}; columns found: {found}; `--{role}` names another one{}{}",
        if *role == "id" { ", `--hash-ids` makes ids" } else { "" },
        if found.contains(", ") { "" } else { ", `--delimiter` says what separates columns" }
    )]
    NoColumn {
        /// The file.
        name: String,
        /// The column.
        wanted: String,
        /// What it is for: `id`, `title`, `text` or `metadata`.
        role: &'static str,
        /// The names of the columns.
        found: String,
    },
    /// A record lacks a field, or the field is null.
    #[error(
        "{name}:{line}: there is no {role}: {} missing or null; fields found: {found}; `--{role}` names another \
         one",
        if wanted.contains("`, `") { format!("the fields `{wanted}` are") } else { format!("the field `{wanted}` is") }
    )]
    NoField {
        /// The file.
        name: String,
        /// The line on which the record begins.
        line: u64,
        /// The field, or the fields of which one is needed.
        wanted: String,
        /// What it is for: `id` or `text`.
        role: &'static str,
        /// The names of the record's fields.
        found: Box<str>,
    },
    /// A field has a value of a kind that makes no id or text.
    #[error("{name}:{line}: the field `{field}` is {found}; {expected} is needed")]
    FieldKind {
        /// The file.
        name: String,
        /// The line on which the record begins.
        line: u64,
        /// The field.
        field: String,
        /// What it is.
        found: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The field of the id is the empty string.
    #[error("{name}:{line}: the field `{field}` is empty; every id needs at least one character")]
    NoId {
        /// The file.
        name: String,
        /// The line on which the record begins.
        line: u64,
        /// The field.
        field: String,
    },
    /// A name is used by a field and by a member of the field `metadata`.
    #[error("{name}:{line}: `{field}` is a field and a member of the field `metadata`; rename one")]
    MetadataTwice {
        /// The file.
        name: String,
        /// The line on which the record begins.
        line: u64,
        /// The name.
        field: String,
    },
    /// A file of a folder is not UTF-8.
    #[error("{}: not UTF-8 from byte {valid_up_to}; convert the file", path.display())]
    FileUtf8 {
        /// The file.
        path: PathBuf,
        /// The number of bytes that are valid.
        valid_up_to: usize,
    },
    /// A page of a folder declares another charset than UTF-8, and is written in it.
    #[error("{}: its charset is `{charset}`, and text must be UTF-8; convert it to UTF-8", path.display())]
    Charset {
        /// The file.
        path: PathBuf,
        /// The charset, in lower case.
        charset: String,
    },
    /// A file of a folder is of a kind that is not read.
    #[error("{}: this is {what}, which is not read here; {remedy}", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What may be done.
        remedy: &'static str,
    },
    /// A file of a folder is larger than a document may be.
    #[error("{}: {bytes} bytes, at most {limit} are read; split it", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The path of a folder, or of a file of it, is not UTF-8, so that it names no source and makes no id.
    #[error("{}: the name is not UTF-8, so it makes no id; rename it", path.display())]
    FileName {
        /// The file.
        path: PathBuf,
    },
    /// A folder has no file that is read.
    #[error(
        "{}: no corpus.jsonl, collection.tsv or lbl.json of a dataset, and no file with text that ends in .md, .html \
         or .txt, also in the folders in it; other files found: {found}; give files of other kinds by their names",
        dir.display()
    )]
    NoTexts {
        /// The folder.
        dir: PathBuf,
        /// Files of other kinds.
        found: String,
    },
    /// One field was given for two of id, title, text and metadata.
    #[error("the field `{field}` is named twice; it can be one of id, title, text and metadata")]
    FieldTwice {
        /// The field.
        field: String,
    },
    /// A sign that cannot separate the cells of a table.
    #[error(
        "{delimiter:?} cannot separate cells; a delimiter is a character of ASCII, no quote and no end of a line"
    )]
    Delimiter {
        /// The sign.
        delimiter: char,
    },
    /// An array of objects is broken.
    #[error("{name}:{line}: {found} in place of {expected}, in an array of objects")]
    JsonArray {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// A Parquet or Arrow file cannot be read, or has a column of a kind that is not read.
    #[error("{name}{}: {detail}", at(*line))]
    Columnar {
        /// The file.
        name: String,
        /// The row, from 1; 0 for the file as a whole.
        line: u64,
        /// What is wrong.
        detail: String,
    },
    /// A kind of file that this build does not read.
    #[error("{name}: this build does not read the format {format}, which takes the feature `{feature}`")]
    NoFeature {
        /// The file.
        name: String,
        /// The kind of file.
        format: Format,
        /// The feature.
        feature: &'static str,
    },
    /// The content is that of a kind of file that is not read.
    #[error("{name}: this is {what}, which is not read; {remedy}")]
    Foreign {
        /// The file.
        name: String,
        /// What it is.
        what: &'static str,
        /// What may be done.
        remedy: &'static str,
    },
    /// The content says nothing about the kind of file.
    #[error(
        "{name}: it begins with `{first}`, which is neither JSON nor a row of names between commas, semicolons, tabs \
         or bars; `--delimiter` names another sign between cells, and `--format` the kind of file"
    )]
    UnknownFormat {
        /// The file.
        name: String,
        /// How it begins.
        first: String,
    },
    /// An option that the kind of file has no use for.
    #[error("{name}: {option} mean nothing to the format {format}; leave them out")]
    NotForFormat {
        /// The file.
        name: String,
        /// The option.
        option: &'static str,
        /// The kind of file.
        format: Format,
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

/// A line behind a name; nothing for 0.
fn at(line: u64) -> String {
    if line > 0 { format!(":{line}") } else { String::new() }
}

impl DataError {
    /// Whether it is about one file, or one folder, of a [`Folder`](super::Folder), the others of which are
    /// read.
    #[cfg(feature = "folders")]
    pub fn is_of_one_file(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::FileUtf8 { .. }
                | Self::Charset { .. }
                | Self::ForeignFile { .. }
                | Self::FileTooLarge { .. }
                | Self::FileName { .. }
        )
    }

    /// Whether the file could not be read to its end, for the system or for what it was packed with: no
    /// record of it is at fault.
    pub fn is_of_reading(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::TruncatedGzip { .. }
                | Self::CorruptGzip { .. }
                | Self::TruncatedZstd { .. }
                | Self::CorruptZstd { .. }
        )
    }

    /// Whether nothing more can be read from the stream that it comes from.
    pub(super) fn ends_stream(&self) -> bool {
        let ends = matches!(self, Self::LineTooLong { .. } | Self::Open { .. } | Self::MissingFile { .. });
        ends || self.is_of_reading()
    }
}
