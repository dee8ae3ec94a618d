//! Documents from CSV and TSV with a row of names.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::Value;

use super::cells::{self, CellKind, Tally, typed};
use super::fields::Fields;
use super::format::{Fits, separated};
use super::strict::Record;
use crate::data::Note;
use crate::data::again::{Again, Pass};
use crate::data::error::{DataError, DataErrorKind, Place, listing};
use crate::data::quotes::{self, Quotes};
use crate::data::rows::Rows;
use crate::data::streams::DocumentSource;
use crate::document::Document;

/// How the cells of a table are separated.
#[derive(Clone, Copy, Debug)]
pub(in crate::data) struct TableLayout {
    /// The delimiter; detected from the first rows if `None`.
    pub delimiter: Option<u8>,
    pub quoting: Quoting,
}

impl TableLayout {
    /// The layout of a table whose delimiter was detected from its content.
    pub fn told(delimiter: u8) -> Self {
        let quoting = if delimiter == b'\t' { Quoting::Told } else { Quoting::Yes };
        Self { delimiter: Some(delimiter), quoting }
    }

    /// The delimiter and quoting of a stream, from the layout or detected from the content.
    pub fn of_stream(
        self,
        again: &Again,
        pass: &mut Pass,
        fits: Fits<'_>,
    ) -> Result<(u8, Quotes), DataError> {
        let delimiter = self.delimiter.map_or_else(|| separated(&mut pass.stream, fits), Ok)?;
        let quotes = match self.quoting {
            Quoting::Yes => Quotes::Around(0),
            Quoting::No => Quotes::Literal,
            Quoting::Told => {
                let told = quotes::told(&mut pass.stream);
                *pass = again.pass(&pass.stream.name)?;
                told
            }
        };
        Ok((delimiter, quotes))
    }
}

/// Whether cells may be in quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::data) enum Quoting {
    Yes,
    No,
    /// Detected from the content.
    Told,
}

pub(super) struct Table {
    rows: Rows,
    columns: Vec<String>,
    uses: Vec<Use>,
    /// For each column, whether a row had a value in it.
    has_value: Vec<bool>,
    fields: Fields,
    /// Cells in quotes, of a table with tabs.
    quotes: Quotes,
    /// Cells that begin and end with a literal quote.
    kept: u64,
}

/// The use of a column.
enum Use {
    Nothing,
    /// Id, title or text.
    Own,
    /// Metadata, unchanged.
    Text,
    /// Metadata of numbers or booleans.
    Typed,
    /// Metadata that is text because of some of its cells.
    Counted(Box<Tally>),
}

impl Table {
    /// Reads the row of names, after a first pass over all rows if their types must be detected; `None` for a
    /// stream without a row of names. Also returns the count of bytes read.
    pub fn open(
        again: &Again,
        mut pass: Pass,
        layout: TableLayout,
        fields: &Fields,
        cells_as_text: bool,
    ) -> Result<(Option<Self>, Arc<AtomicU64>), DataError> {
        let name = pass.stream.name.clone();
        let fits = |names: &[String]| fields.for_columns(names, &name).is_ok();
        let (delimiter, quotes) = layout.of_stream(again, &mut pass, &fits)?;
        let is_quoted = quotes != Quotes::Literal;
        let mut position = pass.position;
        let mut rows = Rows::begin(pass.stream, delimiter, is_quoted)?;
        if !rows.advance()? {
            return Ok((None, position));
        }
        let columns = columns(&rows)?;
        let fields = fields.for_columns(&columns, &name)?;
        let of_columns = fields.uses(&columns);
        let of_use = |used: &Option<bool>| match used {
            None => Use::Nothing,
            Some(false) => Use::Own,
            Some(true) => Use::Text,
        };
        let mut uses: Vec<Use> = of_columns.iter().map(of_use).collect();
        if !cells_as_text && of_columns.contains(&Some(true)) {
            for (used, kind) in uses.iter_mut().zip(cells::kinds(&mut rows, &of_columns)) {
                match kind {
                    Some(CellKind::Text) => *used = Use::Counted(Box::default()),
                    Some(CellKind::Number | CellKind::Boolean) => *used = Use::Typed,
                    None => {}
                }
            }
            drop(rows);
            let pass = again.pass(&name)?;
            position = pass.position;
            rows = Rows::begin(pass.stream, delimiter, is_quoted)?;
            rows.advance()?;
        }
        again.keep_no_more();
        let has_value = vec![false; columns.len()];
        Ok((Some(Self { rows, columns, uses, has_value, fields, quotes, kept: 0 }), position))
    }

    fn document(&mut self) -> Result<Document, DataError> {
        let Self { rows, columns, uses, has_value, fields, quotes, kept } = self;
        let at = rows.place();
        if rows.len() != columns.len() {
            let (found, listed) = (rows.len(), listing(columns.iter()));
            let message = format!("{found} cells for {} columns; columns found: {listed}", columns.len());
            return Err(at.error(DataErrorKind::Row, message));
        }
        let mut record = Record::new();
        for (place, (column, used)) in columns.iter().zip(uses).enumerate() {
            if matches!(used, Use::Nothing) {
                continue;
            }
            let cell = rows.text(place, || column.clone())?;
            *kept += u64::from(quotes.keeps(cell));
            // An empty cell of the metadata counts as missing.
            if cell.is_empty() && !matches!(used, Use::Own) {
                continue;
            }
            has_value[place] = true;
            let value = match used {
                Use::Typed => typed(cell),
                Use::Counted(tally) => {
                    tally.count(cell, at.line);
                    Value::String(cell.to_owned())
                }
                Use::Own | Use::Text | Use::Nothing => Value::String(cell.to_owned()),
            };
            record.insert(column.clone(), value);
        }
        fields.document(record, at)
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
        let quotes = self.quotes.note(self.kept);
        let text = self.columns.iter().zip(&self.uses).filter_map(|(column, used)| match used {
            Use::Counted(tally) => tally.note(column),
            _ => None,
        });
        let is_empty =
            |&place: &usize| !self.has_value[place] && !matches!(self.uses[place], Use::Nothing | Use::Own);
        let empty = (0..self.columns.len()).filter(is_empty);
        let columns: Vec<String> = empty.map(|place| self.columns[place].clone()).collect();
        let what = if columns.len() == 1 { "the column" } else { "the columns" };
        let message = format!("no row has a value in {what} `{}`", columns.join("`, `"));
        let empty = (!columns.is_empty()).then_some(Note::new(message));
        quotes.into_iter().chain(text).chain(empty).collect()
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
