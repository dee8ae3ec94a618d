//! Documents from the files that people have: JSON, CSV and others, with fields of any names.

mod array;
mod cells;
#[cfg(feature = "parquet")]
mod columns;
mod fields;
mod format;
mod lines;
mod record;
mod rounded;
mod strict;
mod table;
mod told;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "parquet")]
use std::sync::atomic::AtomicU64;

pub use format::Format;
#[cfg(feature = "folders")]
pub(super) use format::foreign;
pub(super) use lines::label;
pub(super) use told::told;

pub(super) use format::separated;

use super::again::Again;
#[cfg(feature = "parquet")]
use super::again::copied;
use super::streams::{Documents, Source};
use super::{DataError, Lines};
use array::JsonArray;
use fields::Fields;
use format::{Kind, sniff};
use lines::JsonLines;
use table::{Layout, Quoting, Table};
use told::refused;

/// Bytes of a listing of names in an error.
const MOST_LISTED: usize = 300;

/// How documents are read from a file or a stream, and which of its fields they are made of.
///
/// The kind of file is told by its first bytes unless [`Self::format`] says it. Any of them may be compressed
/// with gzip or zstd. Files are streamed: memory stays at one record, of
/// [`MAX_LINE_BYTES`](super::MAX_LINE_BYTES) at most; of Parquet at a page of each column that is used and
/// 64 MiB of rows, of Arrow at a batch as it was written.
///
/// A column of CSV or TSV is numbers, or booleans, in the metadata where all its cells are, and else text. So
/// a table with metadata is read twice. Of a stream what was read is kept for that, beyond 4 MiB in a
/// temporary file; a stream of Parquet or Arrow is put into one whole.
///
/// Where nothing is named, the id is `_id` or `id`, title and text are `title` (may be absent) and `text`,
/// and all other fields are the metadata. Columns of a table are found whatever the case of their names.
///
/// An id is a string or an integer, a text a string or a number. The members of a field `metadata` that is an
/// object are metadata beside the other fields. A null is kept in the metadata, and is no id, title or text;
/// an empty cell of CSV or TSV is no value.
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
pub struct Input {
    format: Option<Format>,
    delimiter: Option<char>,
    fields: Fields,
    cells_as_text: bool,
}

impl Input {
    /// Everything by its usual name.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kind of file, whatever its content looks like.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// What separates the cells of a table, a character of ASCII other than a quote and the ends of lines; by
    /// the first rows where this is not called.
    #[must_use]
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.delimiter = Some(delimiter);
        self
    }

    /// The field that holds the id.
    #[must_use]
    pub fn id(mut self, name: impl Into<String>) -> Self {
        self.fields.id = Some(name.into());
        self.fields.hashed_ids = false;
        self
    }

    /// Ids that are hashes of title and text, 32 hexadecimal digits, for documents without ids of their own:
    /// a document that is read again takes its own place, and of equal ones one is stored.
    #[must_use]
    pub fn hashed_ids(mut self) -> Self {
        self.fields.id = None;
        self.fields.hashed_ids = true;
        self
    }

    /// The field that holds the title.
    #[must_use]
    pub fn title(mut self, name: impl Into<String>) -> Self {
        self.fields.title = Some(name.into());
        self
    }

    /// The fields that hold the text, in their order; a blank line comes between those that are not empty.
    #[must_use]
    pub fn text(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fields.text = names.into_iter().map(Into::into).collect();
        self
    }

    /// The fields that make the metadata, none of them perhaps; all that are nothing else where this is not
    /// called.
    #[must_use]
    pub fn metadata(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fields.metadata = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Whether all cells of CSV and TSV stay text in the metadata. Otherwise those of a column become numbers
    /// or booleans where all of them read as JSON writes these: `7` and `12.50`, but not `007` or `1e5`.
    #[must_use]
    pub fn cells_as_text(mut self, yes: bool) -> Self {
        self.cells_as_text = yes;
        self
    }

    /// Whether anything was said about fields, so that it would be ignored by what has none.
    pub fn names_fields(&self) -> bool {
        !self.fields.are_default() || self.cells_as_text || self.delimiter.is_some()
    }

    /// The documents of a file.
    ///
    /// # Errors
    /// [`DataError::Open`], and those of [`Self::read`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Documents, DataError> {
        let path = path.as_ref();
        let failed = |source| DataError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let name = path.display().to_string();
        #[cfg(feature = "parquet")]
        if let Some(format) = self.columnar(&file).map_err(failed)? {
            self.check()?;
            let position = Arc::new(AtomicU64::new(0));
            let own = Arc::clone(&position);
            self.check_format(format, &name)?;
            let columns = columns::Columns::open(file, name, format, &self.fields, own)?;
            return Ok(Documents::new(Box::new(columns), position));
        }
        let is_regular = file.metadata().map_err(failed)?.is_file();
        self.begin(if is_regular { Again::of_file(file) } else { Again::of_stream(file) }, name)
    }

    /// The format of a file of columns, which is read from many places.
    #[cfg(feature = "parquet")]
    fn columnar(&self, file: &File) -> std::io::Result<Option<Format>> {
        use std::os::unix::fs::FileExt;

        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        if self.format.is_some() {
            return Ok(self.format.filter(|format| format.is_columnar()));
        }
        let mut head = [0; 8];
        let read = file.read_at(&mut head, 0)?;
        let known = format::COLUMNAR.iter().find(|(magic, _)| head[..read].starts_with(magic));
        Ok(known.map(|(_, format)| *format))
    }

    fn check(&self) -> Result<(), DataError> {
        if let Some(delimiter) = self.delimiter
            && (!delimiter.is_ascii() || matches!(delimiter, '"' | '\r' | '\n' | '\0'))
        {
            return Err(DataError::Delimiter { delimiter });
        }
        match self.fields.named_twice() {
            Some(field) => Err(DataError::FieldTwice { field: field.to_owned() }),
            None => Ok(()),
        }
    }

    fn check_format(&self, format: Format, name: &str) -> Result<(), DataError> {
        let option = match (format, self.delimiter) {
            (Format::Csv, _) | (Format::Tsv, None | Some('\t')) => return Ok(()),
            (Format::Tsv, Some(_)) => "delimiters",
            _ if self.cells_as_text => "text cells",
            (_, Some(_)) => "delimiters",
            (_, None) => return Ok(()),
        };
        Err(DataError::NotForFormat { name: name.to_owned(), option, format })
    }

    /// The documents of a stream; `name` is what errors call it, say its path or `<stdin>`.
    ///
    /// Reads as far as it takes to tell the kind of file, and of a table as far as it takes to tell what its
    /// columns are, perhaps to the end.
    ///
    /// # Errors
    /// [`DataError::FieldTwice`] for a field in two roles, [`DataError::Delimiter`] for a character that
    /// cannot separate cells, [`DataError::Foreign`] and [`DataError::UnknownFormat`] for another kind of
    /// file, [`DataError::Columnar`] for a Parquet or Arrow file that cannot be read,
    /// [`DataError::NoFeature`] without their feature, [`DataError::NotForFormat`] for an option that the
    /// kind of file has no use for; [`DataError::NoColumn`], [`DataError::ColumnTwice`],
    /// [`DataError::CellUtf8`] and [`DataError::OpenQuote`] for a row of names; and the errors of reading.
    ///
    /// An item is an error where its record is malformed ([`DataError::Json`], [`DataError::InvalidUtf8`],
    /// [`DataError::Cells`], [`DataError::CellUtf8`], [`DataError::Columnar`]) or makes no document
    /// ([`DataError::NoField`], [`DataError::FieldKind`], [`DataError::NoId`], [`DataError::MetadataTwice`]);
    /// the next item is then the next record. Any other error is the last item.
    pub fn read(
        &self,
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
    ) -> Result<Documents, DataError> {
        self.begin(Again::of_stream(reader), name.into())
    }

    fn begin(&self, again: Again, name: String) -> Result<Documents, DataError> {
        self.check()?;
        let mut pass = again.pass(&name)?;
        let kind = match self.format {
            Some(format) => Kind::Known(format),
            None => {
                let fits = |names: &[String]| self.fields.for_columns(names, &name).is_ok();
                let told = sniff(pass.stream, &fits);
                let (kind, stream) = told.map_err(|source| pass.packing.error(&name, 1, source))?;
                pass.stream = stream;
                kind
            }
        };
        let delimiter = self.delimiter.and_then(|sign| u8::try_from(sign).ok());
        let (format, layout) = match kind {
            Kind::Known(format) => {
                self.check_format(format, &name)?;
                let tabs = (Some(b'\t'), Quoting::No);
                let (delimiter, quoting) =
                    if format == Format::Tsv { tabs } else { (delimiter, Quoting::Yes) };
                (format, Layout { delimiter, quoting })
            }
            Kind::Empty => return Ok(Documents::new(Box::new(Nothing), pass.position)),
            Kind::Table(sign) => (Format::Csv, Layout::told(delimiter.unwrap_or(sign))),
            Kind::Unknown if delimiter.is_some() => {
                (Format::Csv, Layout { delimiter, quoting: Quoting::Yes })
            }
            Kind::Unknown | Kind::Foreign(..) => return Err(refused(kind, pass.packing, pass.stream, &name)),
        };
        let position = Arc::clone(&pass.position);
        let fields = self.fields.clone();
        let source: Box<dyn Source> = match format {
            Format::Csv | Format::Tsv => {
                let table = Table::open(name, &again, pass, layout, &fields, self.cells_as_text)?;
                return Ok(match table {
                    Some((table, position)) => Documents::new(Box::new(table), position),
                    None => Documents::new(Box::new(Nothing), position),
                });
            }
            Format::Json => {
                again.keep_no_more();
                Box::new(JsonArray::new(name, pass.packing, pass.stream, fields))
            }
            Format::JsonLines => {
                again.keep_no_more();
                Box::new(JsonLines::new(Lines::unpacked(pass.packing, pass.stream, name), fields))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet | Format::Arrow => {
                again.keep_no_more();
                // They are read from many places, so a stream is put into a file first.
                let failed = |source| pass.packing.error(&name, 1, source);
                let file = copied(&mut pass.stream).map_err(failed)?;
                Box::new(columns::Columns::open(file, name, format, &fields, Arc::default())?)
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet | Format::Arrow => {
                return Err(DataError::NoFeature { name, format, feature: "parquet" });
            }
        };
        Ok(Documents::new(source, position))
    }
}

/// The documents of JSON lines with fields of the usual names.
pub(super) fn json_lines(lines: Lines) -> Box<dyn Source> {
    Box::new(JsonLines::new(lines, Fields::default()))
}

/// A stream without a document.
struct Nothing;

impl Source for Nothing {
    fn next(&mut self) -> Option<Result<crate::document::Document, DataError>> {
        None
    }

    fn line(&self) -> u64 {
        0
    }
}

/// Names as an error lists them.
fn listing(names: &[String]) -> String {
    let mut listed = String::new();
    for (place, name) in names.iter().enumerate() {
        if listed.len() + name.len() > MOST_LISTED && place > 0 {
            return format!("{listed} and {} more", names.len() - place);
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
