//! Documents from CSV and TSV with a row of names.

use std::collections::HashSet;

use serde_json::{Number, Value};

use super::fields::{At, Fields};
use super::format::{Format, delimiter};
use super::listing;
use super::record::Record;
use crate::data::DataError;
use crate::data::rows::Rows;
use crate::data::streams::Source;
use crate::data::unpack::{ByteStream, Packing};
use crate::document::Document;

pub(super) struct Table {
    rows: Rows,
    columns: Vec<String>,
    /// Of each column whether it is metadata; `None` of those that are not used.
    uses: Vec<Option<bool>>,
    fields: Fields,
    /// Whether a cell of the metadata that is a number stays text.
    cells_as_text: bool,
}

impl Table {
    /// Reads the row of names; `None` for a stream without one.
    pub fn open(
        name: String,
        packing: Packing,
        stream: ByteStream,
        format: Format,
        fields: &Fields,
        cells_as_text: bool,
    ) -> Result<Option<Self>, DataError> {
        let mut rows = match format {
            Format::Tsv => Rows::begin(name, packing, stream, |_| b'\t', false)?,
            _ => Rows::begin(name, packing, stream, |row| delimiter(row).unwrap_or(b','), true)?,
        };
        if !rows.advance()? {
            return Ok(None);
        }
        let columns = columns(&rows)?;
        let fields = fields.for_columns(&columns, rows.name())?;
        let uses = fields.uses(&columns);
        Ok(Some(Self { rows, columns, uses, fields, cells_as_text }))
    }

    fn document(&self) -> Result<Document, DataError> {
        let at = At { name: self.rows.name(), line: self.rows.line() };
        if self.rows.len() != self.columns.len() {
            let (name, line, got) = (at.name.to_owned(), at.line, self.rows.len());
            let (expected, found) = (self.columns.len(), listing(&self.columns));
            return Err(DataError::Cells { name, line, got, expected, found });
        }
        let mut record = Record::default();
        for (place, (column, is_metadata)) in self.columns.iter().zip(&self.uses).enumerate() {
            if let &Some(is_metadata) = is_metadata {
                let cell = self.rows.text(place, || column.clone())?;
                let value = match is_metadata {
                    // An empty cell is no value.
                    true if cell.is_empty() => continue,
                    true if !self.cells_as_text => typed(cell),
                    _ => Value::String(cell.to_owned()),
                };
                record.push(column.clone(), value);
            }
        }
        self.fields.document(record, at)
    }
}

impl Source for Table {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        match self.rows.advance() {
            Ok(true) => Some(self.document()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn line(&self) -> u64 {
        self.rows.line()
    }
}

/// The names of the first row. One without a name, as in front of the numbers that pandas writes, is called
/// by its place.
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
            let (stream, line) = (rows.name().to_owned(), rows.line());
            return Err(DataError::ColumnTwice {
                name: stream,
                line,
                column: name,
                found: listing(&columns),
            });
        }
        columns.push(name);
    }
    Ok(columns)
}

/// A cell that reads as JSON writes a number or a boolean is one: `7`, `-0.5`, `12.50`, `true`, but not
/// `007`, `+7`, `1e5` or `TRUE`, which may be something else, and no number that would lose digits.
fn typed(cell: &str) -> Value {
    let number = || -> Option<Number> {
        let number: Number = match cell.parse::<i64>() {
            Ok(whole) => whole.into(),
            Err(_) => Number::from_f64(cell.parse().ok()?)?,
        };
        (number.to_string() == cell || same_fraction(&number.to_string(), cell)).then_some(number)
    };
    match cell {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if cell.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            number().map_or_else(|| Value::String(cell.to_owned()), Value::Number)
        }
        _ => Value::String(cell.to_owned()),
    }
}

/// Whether two numbers with a fraction differ only by zeros at their ends, as prices have them.
fn same_fraction(a: &str, b: &str) -> bool {
    let parts = |text: &str| {
        let (whole, part) = text.split_once('.').filter(|(_, part)| !part.is_empty())?;
        Some((whole.to_owned(), part.trim_end_matches('0').to_owned()))
    };
    b.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'.'))
        && parts(a).is_some_and(|a| Some(a) == parts(b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_become_numbers_where_no_digit_is_lost() {
        for (cell, number) in [
            ("7", json!(7)),
            ("-7", json!(-7)),
            ("12.50", json!(12.5)),
            ("18.00", json!(18.0)),
            ("-0.10", json!(-0.1)),
            ("0.5", json!(0.5)),
        ] {
            assert_eq!(typed(cell), number, "{cell}");
        }
        for text in [
            "007",
            "+7",
            "1e5",
            "1.",
            ".5",
            "1.2.3",
            "12345678901234567890123",
            "0.12345678901234567890",
            "00.50",
            "7-",
            "-",
            "",
        ] {
            assert_eq!(typed(text), json!(text));
        }
    }
}
