//! Documents from Parquet and Arrow files.

mod arrow;
mod pages;
mod parquet;
mod value;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::fields::Fields;
use super::format::Format;
use super::strict::Record;
use super::table::twice;
use crate::data::error::{DataError, DataErrorKind, Place};
use crate::data::note::{Note, Seen, counted};
use crate::data::streams::DocumentSource;
use crate::document::Document;
use value::{Unread, Values};

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// Rows of columns, a batch at a time.
pub(super) struct Columns {
    name: String,
    fields: Fields,
    columns: Vec<Column>,
    batches: Batches,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    next: usize,
    /// Rows before the next one, in all batches.
    row: u64,
    /// Total rows if known, and the total bytes they represent.
    whole: Option<(u64, u64)>,
    position: Arc<AtomicU64>,
    is_finished: bool,
}

/// A column that is used, in the order of the file.
struct Column {
    name: String,
    values: Values,
}

/// An opened file with its schema.
struct Opened {
    schema: SchemaRef,
    /// Total rows if known.
    rows: Option<u64>,
    /// Reads batches of the columns at these positions, one pass at a time.
    #[expect(clippy::type_complexity)]
    batches: Box<dyn Fn(&[usize]) -> Result<Batches, String>>,
}

impl Columns {
    /// The rows of a Parquet file, or of an Arrow file or stream, reading only the columns in use.
    pub fn open(
        file: File,
        name: String,
        format: Format,
        fields: &Fields,
        position: Arc<AtomicU64>,
    ) -> Result<Self, DataError> {
        let opened = guarded(|| {
            let failed = |detail: String| failed(&name, 0, detail);
            let bytes = file.metadata().map(|file| file.len()).map_err(|error| failed(error.to_string()))?;
            let opened = match format {
                Format::Parquet => parquet::open(file),
                _ => arrow::open(file),
            };
            let opened = opened.map_err(failed)?;
            let (fields, uses) = resolved(fields, &opened.schema, &name)?;
            let used: Vec<usize> = (0..uses.len()).filter(|place| uses[*place].is_some()).collect();
            // Ids, titles and texts keep all digits.
            let is_own = |place: usize| uses[place] == Some(false);
            let column = |&place: &usize| Column {
                name: opened.schema.field(place).name().clone(),
                values: Values::new(is_own(place)),
            };
            let mut columns: Vec<Column> = used.iter().map(column).collect();
            // The name of a type has those of its parts.
            let of_type = |place: usize| opened.schema.field(place).data_type().to_string();
            let has_decimals = |place: &usize| !is_own(*place) && of_type(*place).contains("Decimal");
            let decimals: Vec<usize> = used.iter().copied().filter(has_decimals).collect();
            if !decimals.is_empty() {
                let own = columns.iter_mut().zip(&used).filter(|(_, place)| decimals.contains(place));
                let own = own.map(|(column, _)| &mut column.values).collect();
                find_inexact((opened.batches)(&decimals).map_err(failed)?, own);
            }
            let batches = (opened.batches)(&used).map_err(failed)?;
            Ok((fields, columns, batches, opened.rows.map(|rows| (rows, bytes))))
        });
        let opened = opened.unwrap_or_else(|detail| Err(failed(&name, 0, detail)));
        let (fields, columns, batches, whole) = opened?;
        let (batch, next, row, is_finished) = (None, 0, 0, false);
        Ok(Self { name, fields, columns, batches, batch, next, row, whole, position, is_finished })
    }

    fn document(&mut self, batch: &RecordBatch, row: usize) -> Result<Document, DataError> {
        let at = Place { name: &self.name, line: self.row };
        let mut record = Record::new();
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            let value = guarded(|| column.values.of(array.as_ref(), row, at.line));
            let unread =
                |detail| failed(at.name, at.line, format!("the column `{}` is {detail}", column.name));
            let value = value.map_err(unread)?.map_err(|error| match error {
                Unread::Column(detail) => unread(detail),
                Unread::Row(detail) => unread(detail).of_one_record().in_field(&column.name),
            })?;
            record.insert(column.name.clone(), value);
        }
        let id = self.fields.id.as_ref().and_then(|name| record.get(name)).cloned();
        // The names of the fields were checked.
        self.fields.document(record, at, true).map_err(|error| {
            let id = id.and_then(|id| at.id("id", id).ok());
            error.of_one_record().of_id(id)
        })
    }
}

/// Finds decimals that numbers cannot hold; all decimals of their columns become text. Stops at an error,
/// which the reading of the rows reports.
fn find_inexact(batches: Batches, mut columns: Vec<&mut Values>) {
    let look = || {
        let mut row = 0;
        for batch in batches.map_while(Result::ok) {
            for place in 0..batch.num_rows() {
                row += 1;
                for (values, column) in columns.iter_mut().zip(batch.columns()) {
                    let _ = values.of(column.as_ref(), place, row);
                }
            }
        }
    };
    let _ = guarded(look);
    for values in columns {
        (values.decimals_as_text, values.infinite) = (values.inexact.count > 0, Seen::default());
    }
}

impl DocumentSource for Columns {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        loop {
            if self.is_finished {
                return None;
            }
            if let Some(batch) = self.batch.take() {
                if self.next < batch.num_rows() {
                    let row = self.next;
                    self.next += 1;
                    self.row += 1;
                    if let Some((rows, bytes)) = self.whole {
                        let share = self.row as f64 / rows.max(1) as f64;
                        self.position.store((bytes as f64 * share) as u64, Ordering::Relaxed);
                    }
                    let document = self.document(&batch, row);
                    self.batch = Some(batch);
                    return Some(document);
                }
                self.next = 0;
            }
            let next = guarded(|| self.batches.next());
            match next.unwrap_or_else(|detail| Some(Err(detail))) {
                Some(Ok(batch)) => self.batch = Some(batch),
                Some(Err(detail)) => {
                    self.is_finished = true;
                    return Some(Err(failed(&self.name, self.row + 1, detail)));
                }
                None => self.is_finished = true,
            }
        }
    }

    fn line(&self) -> u64 {
        self.row
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for Column { name, values } in &self.columns {
            if let Seen { count: count @ 1.., first: row } = values.inexact {
                let values = counted(count, "of them has", "of them have");
                let message = format!(
                    "the decimals of the column `{name}` are text: {values} more digits than a number holds, the first \
                     in row {row}"
                );
                notes.push(Note::about_text(message, name));
            }
            if let Seen { count: count @ 1.., first: row } = values.infinite {
                let values = counted(count, "infinite value is", "infinite values are");
                let message = format!(
                    "{values} left out of the column `{name}`, the first in row {row}: JSON has none"
                );
                let mut note = Note::new(message);
                note.left_out = count;
                notes.push(note);
            }
        }
        notes
    }
}

/// The error of a file as a whole, or of a row of it.
fn failed(name: &str, line: u64, detail: String) -> DataError {
    Place { name, line }.error(DataErrorKind::Columnar, detail)
}

/// Calls a library that panics on some damaged files.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // Partial state is not reused.
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        format!("the file is damaged: {said}")
    })
}

/// The document's fields among the columns, and the use of each column.
fn resolved(fields: &Fields, schema: &Schema, name: &str) -> Result<(Fields, Vec<Option<bool>>), DataError> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut known = std::collections::HashSet::with_capacity(names.len());
    for (place, column) in names.iter().enumerate() {
        if !known.insert(column) {
            return Err(twice(Place { name, line: 0 }, column, &names[..place]));
        }
    }
    let fields = fields.for_columns(&names, name)?;
    let uses = fields.uses(&names);
    Ok((fields, uses))
}

/// A library's message without the name of its error kind.
fn plain(message: &str) -> String {
    let known =
        ["Parquet error: ", "Parquet argument error: ", "Arrow: ", "External: ", "EOF: ", "Ipc error: "];
    known.iter().fold(message, |rest, start| rest.strip_prefix(start).unwrap_or(rest)).to_owned()
}
