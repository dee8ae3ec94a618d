//! Errors of reading data.

use std::error::Error;
use std::path::Path;

/// Bytes of a listing of names in an error.
const MOST_LISTED: usize = 300;

/// Data that cannot be used: its place, the problem, and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}{message}", prefix(name, *line, *kind))]
pub struct DataError {
    name: String,
    line: u64,
    kind: DataErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    is_of_one_record: bool,
    field: Option<Box<str>>,
    id: Option<Box<str>>,
}

/// The kinds of [`DataError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataErrorKind {
    /// A file, a directory or a split is missing, or a folder has no texts.
    Missing,
    /// The operating system refused to open or list something.
    Open,
    /// The operating system failed in the middle of a file.
    Read,
    /// A compressed stream ends too early.
    CutOff,
    /// A compressed stream cannot be unpacked.
    Damaged,
    /// A line, a record or a file is larger than the reader allows.
    TooLarge,
    /// A text or a name is not UTF-8.
    Encoding,
    /// A line is not a JSON object of the expected form, or an array of objects is malformed.
    Json,
    /// A row has the wrong number of cells, or quotes that are not closed.
    Row,
    /// A column is missing, unknown, or has the name of another one.
    Column,
    /// A field is missing, empty, or has a value of another kind.
    Field,
    /// Two judgments of a query and a document differ, or a second one is given where only one is allowed.
    Conflict,
    /// A Parquet or Arrow file cannot be read, or has a column of an unsupported type.
    Columnar,
    /// The content has an unsupported or unknown format.
    Format,
    /// A command that prints the text of a file failed or could not be run.
    Command,
    /// An option is out of range, contradicts another one, or has no effect on the kind of file.
    Option,
}

/// The place of a record or a line in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// The file or the stream.
    pub name: &'a str,
    /// The line or the row, from 1; 0 for the file as a whole.
    pub line: u64,
}

/// Messages about reading itself include the line.
fn prefix(name: &str, line: u64, kind: DataErrorKind) -> String {
    match (name, line) {
        ("", _) => String::new(),
        (name, 0) => format!("{name}: "),
        (name, _) if is_of_reading(kind) => format!("{name}: "),
        (name, line) => format!("{name}:{line}: "),
    }
}

fn is_of_reading(kind: DataErrorKind) -> bool {
    matches!(kind, DataErrorKind::Read | DataErrorKind::CutOff | DataErrorKind::Damaged)
}

impl DataError {
    pub(crate) fn new(kind: DataErrorKind, message: impl Into<String>) -> Self {
        Place { name: "", line: 0 }.error(kind, message)
    }

    pub(crate) fn of_path(path: &Path, kind: DataErrorKind, message: impl Into<String>) -> Self {
        Place { name: &path.display().to_string(), line: 0 }.error(kind, message)
    }

    pub(crate) fn open(path: &Path, source: std::io::Error) -> Self {
        Self::of_path(path, DataErrorKind::Open, "cannot be opened").with(source)
    }

    /// Attaches the source error.
    pub(crate) fn with(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// Marks an error of a record's fields.
    pub(super) fn of_one_record(self) -> Self {
        Self { is_of_one_record: true, ..self }
    }

    /// Names the field or the column of the record.
    pub(super) fn in_field(self, field: &str) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Names the id of the record.
    #[cfg(feature = "parquet")]
    pub(super) fn of_id(self, id: Option<String>) -> Self {
        Self { id: id.map(String::into_boxed_str), ..self }
    }

    /// The id of the record, if the error is about one of a table of columns that has an id.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The field or the column that cannot be used, if the error is about one.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The kind of the error.
    pub fn kind(&self) -> DataErrorKind {
        self.kind
    }

    /// The file or the stream; empty for an error of options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line, or the row of a file without lines, from 1, if the error is about one. Lines are those of
    /// the unpacked text.
    pub fn line(&self) -> Option<u64> {
        Some(self.line).filter(|line| *line > 0)
    }

    /// Whether it concerns a single file or folder of a [`Folder`](super::Folder), while the others are still
    /// read.
    #[cfg(feature = "folders")]
    pub fn is_of_one_file(&self) -> bool {
        use DataErrorKind::{Command, Damaged, Encoding, Format, Open, TooLarge};
        matches!(self.kind, Open | Encoding | Format | TooLarge | Damaged | Command)
    }

    /// Whether it concerns a single record, whose beginning and end are certain: a field or a value in it
    /// cannot be used, and the records that follow are not affected. A malformed record is not such an
    /// error, nor is the first record of JSON, which may show that the names of its fields are wrong.
    pub fn is_of_one_record(&self) -> bool {
        self.is_of_one_record
    }

    /// Whether the file could not be read to its end because of the system or damage, rather than a faulty
    /// record.
    pub fn is_of_reading(&self) -> bool {
        is_of_reading(self.kind)
    }

    /// Whether it ends its stream.
    pub(super) fn ends_stream(&self) -> bool {
        use DataErrorKind::{Missing, Open, TooLarge};
        matches!(self.kind, TooLarge | Open | Missing) || self.is_of_reading()
    }
}

impl Place<'_> {
    pub fn error(self, kind: DataErrorKind, message: impl Into<String>) -> DataError {
        let (name, message) = (self.name.to_owned(), message.into());
        let (source, is_of_one_record, field, id) = (None, false, None, None);
        DataError { name, line: self.line, kind, message, source, is_of_one_record, field, id }
    }

    /// `source` may be on a later line of the record.
    pub fn json(self, source: serde_json::Error) -> DataError {
        let line = self.line + (source.line() as u64).saturating_sub(1);
        let end = match source.is_eof() {
            true => " on one line (`jq -c .` writes each object on a line)",
            false => "",
        };
        let message = format!("not a JSON object of the expected form{end}");
        Place { line, ..self }.error(DataErrorKind::Json, message).with(source)
    }

    /// As [`Self::json`], for a record whose bounds are certain.
    pub fn number(self, source: serde_json::Error) -> DataError {
        let message = "JSON has neither NaN nor infinite numbers, nor any above 1.8e308; leave the field out, or write null";
        self.error(DataErrorKind::Json, message).with(source)
    }

    pub fn missing(self, field: &str) -> DataError {
        self.error(DataErrorKind::Field, format!("the string field `{field}` is missing")).in_field(field)
    }
}

/// A list of names for an error.
pub(super) fn listing<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let mut listed = String::new();
    let count = names.len();
    for (place, name) in names.enumerate() {
        if listed.len() + name.len() > MOST_LISTED && place > 0 {
            return format!("{listed} and {} more", count - place);
        }
        if place > 0 {
            listed.push_str(", ");
        }
        let quote = if name.contains(',') { "\"" } else { "" };
        listed.push_str(quote);
        listed.extend(name.chars().take(MOST_LISTED));
        listed.push_str(quote);
    }
    if listed.is_empty() { "none".to_owned() } else { listed }
}
