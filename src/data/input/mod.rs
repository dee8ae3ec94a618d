//! Documents from JSON, CSV and other files, with arbitrary field names.

mod array;
mod cells;
#[cfg(feature = "parquet")]
mod columns;
mod fields;
mod format;
mod json;
mod strict;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub use cells::decimal;
pub(super) use cells::without_zeros;
pub(super) use fields::label;
pub use format::Format;
#[cfg(feature = "folders")]
pub(super) use format::foreign;
pub(super) use format::{StreamKind, first_line, refused, sniff};
pub use json::{Records, read_documents};
pub(super) use strict::record;

use super::error::{DataError, DataErrorKind, Place};
use super::lines::Lines;
use super::quotes::Quotes;
use super::streams::{DocumentSource, Documents};
use super::unpack::{Again, Unpacked};
use array::JsonArray;
use fields::Fields;
use json::{JsonRecords, JsonTexts};
use table::Table;
pub(super) use table::TableLayout;

/// Options for reading documents from a file or a stream, and their fields.
///
/// The format is detected from the first bytes unless [`Self::format`] is called. Files may be compressed
/// with gzip or zstd. They are streamed: memory is bounded by one record of at most
/// [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES); for Parquet by a page of each column in use and 64 MiB of rows,
/// for Arrow by a batch as written.
///
/// A column of CSV or TSV becomes numbers or booleans in the metadata if all its cells are, and text
/// otherwise. A table with metadata is therefore read twice. A stream of such a table is first copied, beyond
/// 4 MiB to a temporary file, and so is a stream of Parquet or Arrow.
///
/// By default the id is `_id` or `id`, title and text are `title` (may be absent) and `text`, and all other
/// fields are the metadata. Columns of a table match in any case.
///
/// An id is a string or an integer, a text a string or a number. The members of an object `metadata` are
/// metadata like the other fields. A null is kept in the metadata, but counts as a missing id, title or text;
/// an empty cell of CSV or TSV counts as missing. A field may be named in several roles, and has them all.
/// The text may be missing where there is a title.
///
/// # Examples
///
/// ```
/// use ehi::data::Input;
///
/// let csv = "key,headline,body,year\n7,Trees,have leaves,2020\n".as_bytes();
/// let input = Input::new().id("key").title("headline").text(["body"]);
/// let documents: Vec<_> = input.read(csv, "example.csv")?.collect::<Result<_, _>>()?;
/// assert_eq!((documents[0].id.as_str(), documents[0].text.as_str()), ("7", "have leaves"));
/// assert_eq!(documents[0].metadata, Some(serde_json::json!({ "year": 2020 })));
/// # Ok::<(), ehi::data::DataError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Input {
    format: Option<Format>,
    delimiter: Option<char>,
    fields: Fields,
    cells_as_text: bool,
}

impl Input {
    /// Default field names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format, regardless of the content.
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Sets the delimiter of a table, an ASCII character other than a quote or a line end; by default it is
    /// detected from the first rows.
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.delimiter = Some(delimiter);
        self
    }

    /// The field that holds the id.
    pub fn id(mut self, name: impl Into<String>) -> Self {
        self.fields.id = Some(name.into());
        self.fields.hashed_ids = false;
        self
    }

    /// Ids that are hashes of title and text, 32 hexadecimal digits, for documents without ids: a document
    /// read again replaces itself, and equal documents are stored once. A document that has neither is an
    /// error.
    pub fn hashed_ids(mut self) -> Self {
        self.fields.id = None;
        self.fields.hashed_ids = true;
        self
    }

    /// The field that holds the title.
    pub fn title(mut self, name: impl Into<String>) -> Self {
        self.fields.title = Some(name.into());
        self
    }

    /// The fields that hold the text, in order; non-empty ones are joined by a blank line.
    pub fn text(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fields.text = names.into_iter().map(Into::into).collect();
        self
    }

    /// Whether a document may have neither text nor title, as where it comes with an embedding. An empty name
    /// of the text then stands for none.
    pub fn optional_text(mut self) -> Self {
        self.fields.optional_text = true;
        self
    }

    /// The fields of the metadata, possibly none; by default all fields not used otherwise.
    pub fn metadata(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fields.metadata = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Whether all cells of CSV and TSV remain text in the metadata. Otherwise a column becomes numbers or
    /// booleans if all its cells have JSON's form of these: `7` and `12.50`, but not `007` or `1e5`.
    pub fn cells_as_text(mut self, yes: bool) -> Self {
        self.cells_as_text = yes;
        self
    }

    /// Whether field options were set.
    pub fn names_fields(&self) -> bool {
        !self.fields.are_default() || self.cells_as_text || self.delimiter.is_some()
    }

    /// Reads records that are at hand as JSON, by the rules of a file of JSON lines; with `columns`, the
    /// names of the fields that all of them have, by those of a table.
    ///
    /// # Errors
    /// A column named twice in one option, and a required one that is not among `columns`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ehi::data::Input;
    /// use serde_json::json;
    ///
    /// let mut records = Input::new().records(None)?;
    /// let record = json!({ "id": 7, "text": "Trees have leaves.", "year": 2020 });
    /// let document = records.document(record.as_object().cloned().unwrap_or_default())?;
    /// assert_eq!((document.id.as_str(), document.metadata), ("7", Some(json!({ "year": 2020 }))));
    /// # Ok::<(), ehi::data::DataError>(())
    /// ```
    pub fn records(&self, columns: Option<&[String]>) -> Result<Records, DataError> {
        self.check()?;
        let fields = match columns {
            Some(columns) => self.fields.for_columns(columns, "")?,
            None => self.fields.clone(),
        };
        Ok(Records::new(fields))
    }

    /// The documents of a file.
    ///
    /// # Errors
    /// [`DataErrorKind::Open`], and those of [`Self::read`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Documents, DataError> {
        let path = path.as_ref();
        let (name, failed) = (path.display().to_string(), |source| DataError::open(path, source));
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return self.begin(Unpacked::new(file, name), None);
        }
        let again = Again::of_file(file, name);
        self.begin(again.stream()?, Some(again))
    }

    fn check(&self) -> Result<(), DataError> {
        if let Some(delimiter) = self.delimiter
            && (!delimiter.is_ascii() || matches!(delimiter, '"' | '\r' | '\n' | '\0'))
        {
            let message = format!(
                "{delimiter:?} cannot separate cells; a delimiter is an ASCII character other than a quote or a line end"
            );
            return Err(DataError::new(DataErrorKind::Option, message));
        }
        let Some((field, option)) = self.fields.named_twice() else { return Ok(()) };
        let message = format!("the field `{field}` is named twice for the {option}; name it once");
        Err(DataError::new(DataErrorKind::Option, message))
    }

    fn check_format(&self, format: Format, at: Place<'_>) -> Result<(), DataError> {
        let option = match (format, self.delimiter) {
            (Format::Csv, _) | (Format::Tsv, None | Some('\t')) => return Ok(()),
            (Format::Tsv, Some(_)) => "delimiters",
            _ if self.cells_as_text => "text cells",
            (_, Some(_)) => "delimiters",
            (_, None) => return Ok(()),
        };
        let message = format!("{option} do not apply to the format {format}; leave them out");
        Err(at.error(DataErrorKind::Option, message))
    }

    /// The documents of a stream; `name` is its name in errors, such as its path or `<stdin>`.
    ///
    /// Reads as far as needed to detect the format and, for a table, the types of its columns, possibly to
    /// the end.
    ///
    /// # Errors
    /// An option that contradicts another one or does not apply to the format, an unsupported format, a table
    /// or columnar file without a required column, and failures of reading.
    ///
    /// An item is an error if its record is malformed or not a valid document; the next item is then the next
    /// record. Any other error is the last item.
    pub fn read(
        &self,
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
    ) -> Result<Documents, DataError> {
        self.begin(Unpacked::new(reader, name), None)
    }

    fn begin(&self, mut stream: Unpacked, again: Option<Again>) -> Result<Documents, DataError> {
        self.check()?;
        let (name, position) = (stream.name.clone(), Arc::clone(&stream.position));
        let kind = match self.format {
            Some(format) => StreamKind::Known(format),
            None => sniff(&mut stream, &|names| self.fields.for_columns(names, &name).is_ok())?,
        };
        let none = || JsonTexts::Lines(Lines::new(std::io::empty(), ""));
        let json =
            |texts| -> Box<dyn DocumentSource> { Box::new(JsonRecords::new(texts, self.fields.clone())) };
        let delimiter = self.delimiter.and_then(|sign| u8::try_from(sign).ok());
        let quoted = TableLayout { delimiter, quotes: Some(Quotes::Around(0)) };
        let (format, layout) = match kind {
            StreamKind::Known(format) => {
                self.check_format(format, stream.place(0))?;
                let tabs = TableLayout { delimiter: Some(b'\t'), quotes: Some(Quotes::Literal) };
                (format, if format == Format::Tsv { tabs } else { quoted })
            }
            StreamKind::Empty => return Ok(Documents::new(json(none()), position)),
            StreamKind::Table(sign) => (Format::Csv, TableLayout::told(delimiter.unwrap_or(sign))),
            StreamKind::Unknown if delimiter.is_some() => (Format::Csv, quoted),
            StreamKind::Unknown | StreamKind::Foreign(..) => return Err(refused(kind, &mut stream)),
        };
        let source = match format {
            Format::Csv | Format::Tsv => {
                let table = Table::open(stream, again, layout, &self.fields, self.cells_as_text)?;
                let Some(table) = table else { return Ok(Documents::new(json(none()), position)) };
                let position = table.position();
                return Ok(Documents::new(Box::new(table), position));
            }
            Format::JsonLines => json(JsonTexts::Lines(Lines::of(stream))),
            Format::Json => json(JsonTexts::Array(JsonArray::new(stream))),
            #[cfg(feature = "parquet")]
            Format::Parquet | Format::Arrow => {
                // The first bytes show whether it is compressed.
                stream.fill(1)?;
                // They are read at many positions, so a stream is first copied to a file.
                let (file, own) = match again.filter(|_| !stream.is_packed()).and_then(Again::into_file) {
                    Some(file) => (file, Arc::clone(&position)),
                    None => (stream.into_file()?, Arc::default()),
                };
                Box::new(columns::Columns::open(file, name, format, &self.fields, own)?)
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet | Format::Arrow => {
                let message = format!(
                    "this build does not read the format {format}, which takes the feature `parquet`"
                );
                return Err(stream.place(0).error(DataErrorKind::Format, message));
            }
        };
        Ok(Documents::new(source, position))
    }
}
