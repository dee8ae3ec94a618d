//! Documents from CSV and TSV with a row of names.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::cells::{self, Tally};
use super::fields::Fields;
use super::format::{Fits, separated};
use super::strict::Record;
use crate::data::Note;
use crate::data::error::{DataError, DataErrorKind, Place, listing};
use crate::data::quotes::{self, Quotes};
use crate::data::rows::Rows;
use crate::data::streams::DocumentSource;
use crate::data::unpack::{Again, Unpacked};
use crate::document::Document;

/// How the cells of a table are separated.
#[derive(Clone, Copy, Debug)]
pub(in crate::data) struct TableLayout {
    /// The delimiter; detected from the first rows if `None`.
    pub delimiter: Option<u8>,
    /// The meaning of quotes; detected from the content if `None`.
    pub quotes: Option<Quotes>,
}

impl TableLayout {
    /// The layout of a table whose delimiter was detected from its content.
    pub fn told(delimiter: u8) -> Self {
        let quotes = (delimiter != b'\t').then_some(Quotes::Around(0));
        Self { delimiter: Some(delimiter), quotes }
    }

    /// The delimiter and quoting of a stream, from the layout or detected from the content; then the stream
    /// again, and what it is read from if it can be read repeatedly.
    pub fn of_stream(
        self,
        mut stream: Unpacked,
        again: Option<Again>,
        fits: Fits<'_>,
    ) -> Result<(u8, Quotes, Unpacked, Option<Again>), DataError> {
        let delimiter = self.delimiter.map_or_else(|| separated(&mut stream, fits), Ok)?;
        let Some(quotes) = self.quotes else {
            let again = match again {
                Some(again) => again,
                None => Again::copy(stream, &[])?,
            };
            let quotes = quotes::told(again.stream()?);
            return Ok((delimiter, quotes, again.stream()?, Some(again)));
        };
        Ok((delimiter, quotes, stream, again))
    }
}

pub(super) struct Table {
    rows: Rows,
    columns: Vec<String>,
    /// For each column, whether it is metadata; `None` if it is not used.
    uses: Vec<Option<bool>>,
    /// For each column, whether its cells become numbers or booleans.
    typed: Vec<bool>,
    /// The cells of each column of the metadata.
    tallies: Vec<Tally>,
    /// Whether cells are text because the caller wants it.
    cells_as_text: bool,
    fields: Fields,
    /// Cells in quotes, of a table with tabs.
    quotes: Quotes,
    /// Cells that begin and end with a literal quote.
    kept: u64,
}

impl Table {
    /// Reads the row of names, after a first pass over all rows if their types must be detected; `None` for a
    /// stream without a row of names.
    pub fn open(
        stream: Unpacked,
        again: Option<Again>,
        layout: TableLayout,
        fields: &Fields,
        cells_as_text: bool,
    ) -> Result<Option<Self>, DataError> {
        let name = stream.name.clone();
        let fits = |names: &[String]| fields.for_columns(names, &name).is_ok();
        let (delimiter, quotes, stream, again) = layout.of_stream(stream, again, &fits)?;
        let begin = |stream| Rows::new(stream, delimiter, quotes != Quotes::Literal);
        let mut rows = begin(stream);
        // What a copy must begin with.
        rows.raw = again.is_none().then(Vec::new);
        if !rows.advance()? {
            return Ok(None);
        }
        let columns = columns(&rows)?;
        let fields = fields.for_columns(&columns, &name)?;
        let uses = fields.uses(&columns);
        let mut typed = vec![false; columns.len()];
        if !cells_as_text && uses.contains(&Some(true)) {
            let again = match (again, rows.raw.take()) {
                (Some(again), _) => again,
                (None, head) => Again::copy(rows.into_stream(), &head.unwrap_or_default())?,
            };
            let mut first = begin(again.stream()?);
            first.advance()?;
            typed = cells::typed_columns(&mut first, &uses);
            rows = begin(again.stream()?);
            rows.advance()?;
        }
        rows.raw = None;
        let tallies = vec![Tally::default(); columns.len()];
        Ok(Some(Self { rows, columns, uses, typed, tallies, cells_as_text, fields, quotes, kept: 0 }))
    }

    /// The count of packed bytes read so far.
    pub fn position(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows.stream().position)
    }

    fn document(&mut self) -> Result<Document, DataError> {
        let Self { rows, columns, uses, typed, tallies, fields, quotes, kept, .. } = self;
        let at = rows.place();
        if rows.len() != columns.len() {
            let (found, listed) = (rows.len(), listing(columns.iter()));
            let message = format!("{found} cells for {} columns; columns found: {listed}", columns.len());
            return Err(at.error(DataErrorKind::Row, message));
        }
        let mut record = Record::new();
        for (place, column) in columns.iter().enumerate() {
            let Some(is_metadata) = uses[place] else { continue };
            let cell = rows.text(place, || column.clone())?;
            *kept += u64::from(quotes.keeps(cell));
            // An empty cell of the metadata counts as missing.
            if is_metadata && cell.is_empty() {
                continue;
            }
            if is_metadata {
                tallies[place].count(cell, at.line);
            }
            record.insert(column.clone(), if typed[place] { cells::typed(cell) } else { cell.into() });
        }
        // The names of the fields were checked.
        fields.document(record, at, true).map_err(DataError::of_one_record)
    }
}

impl DocumentSource for Table {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        match self.rows.advance() {
            Ok(true) => Some(self.document()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn line(&self) -> u64 {
        self.rows.place().line
    }

    fn notes(&self) -> Vec<Note> {
        let text = self.columns.iter().zip(&self.tallies).filter(|_| !self.cells_as_text);
        let text = text.filter_map(|(column, tally)| tally.note(column));
        let is_empty = |&place: &usize| self.uses[place] == Some(true) && self.tallies[place].cells() == 0;
        let empty = (0..self.columns.len()).filter(is_empty);
        let columns: Vec<&str> = empty.map(|place| &*self.columns[place]).collect();
        let what = if columns.len() == 1 { "the column" } else { "the columns" };
        let message = format!("no row has a value in {what} `{}`", columns.join("`, `"));
        let empty = (!columns.is_empty()).then_some(Note::new(message));
        self.quotes.note(self.kept).into_iter().chain(text).chain(empty).collect()
    }
}

/// The names of the first row. A column without a name, such as the index written by pandas, is named by its
/// position.
fn columns(rows: &Rows) -> Result<Vec<String>, DataError> {
    let mut columns: Vec<String> = Vec::with_capacity(rows.len());
    let mut known = HashSet::with_capacity(rows.len());
    for place in 0..rows.len() {
        let of_place = || format!("column {}", place + 1);
        let name = match rows.text(place, of_place)?.trim() {
            "" => of_place(),
            name => name.to_owned(),
        };
        if !known.insert(name.clone()) {
            return Err(twice(rows.place(), &name, &columns));
        }
        columns.push(name);
    }
    Ok(columns)
}

/// The error for a second column with the same name.
pub(super) fn twice(at: Place<'_>, column: &str, before: &[String]) -> DataError {
    let before = listing(before.iter());
    let message = format!("two columns are called `{column}`; columns before: {before}");
    at.error(DataErrorKind::Column, message)
}
