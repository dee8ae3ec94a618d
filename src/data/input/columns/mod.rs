//! Documents from Parquet and Arrow files.

mod pages;
mod parquet;
mod value;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::Schema;

use super::fields::{At, Fields};
use super::format::Format;
use super::record::Record;
use crate::data::DataError;
use crate::data::streams::Source;
use crate::document::Document;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// Rows of columns, a batch at a time.
pub(super) struct Columns {
    name: String,
    fields: Fields,
    /// Names of the columns that are used.
    used: HashSet<String>,
    batches: Batches,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    next: usize,
    /// Rows before the next one, in all batches.
    row: u64,
    /// All rows where that is known, and the bytes that they stand for.
    whole: Option<(u64, u64)>,
    position: Arc<AtomicU64>,
    is_finished: bool,
}

impl Columns {
    /// The rows of a Parquet file, or of an Arrow file or stream, of which only the columns are read that
    /// are used.
    pub fn open(
        file: File,
        name: String,
        format: Format,
        fields: &Fields,
        position: Arc<AtomicU64>,
    ) -> Result<Self, DataError> {
        let damaged = |detail| DataError::Columnar { name: name.clone(), line: 0, detail };
        guarded(|| Self::begin(file, name.clone(), format, fields, position))
            .unwrap_or_else(|e| Err(damaged(e)))
    }

    fn begin(
        mut file: File,
        name: String,
        format: Format,
        fields: &Fields,
        position: Arc<AtomicU64>,
    ) -> Result<Self, DataError> {
        let failed = |detail: String| DataError::Columnar { name: name.clone(), line: 0, detail };
        let bytes = file.metadata().map(|file| file.len()).map_err(|error| failed(error.to_string()))?;
        let (batches, fields, rows): (Batches, _, _) = match format {
            Format::Parquet => {
                let opened = parquet::open(file, |schema| resolved(fields, schema, &name));
                opened.map_err(|error| error.of(&name))?
            }
            _ => {
                let mut magic = [0; 6];
                let is_file = file.read(&mut magic).is_ok() && magic == *b"ARROW1";
                let rewound = file.seek(SeekFrom::Start(0));
                rewound.map_err(|error| failed(error.to_string()))?;
                let text = |error: arrow_schema::ArrowError| plain(&error.to_string());
                let again = file.try_clone().map_err(|error| failed(error.to_string()))?;
                let file = BufReader::new(file);
                if is_file {
                    let whole = FileReader::try_new(file, None).map_err(|error| failed(text(error)))?;
                    let (fields, used) = resolved(fields, &whole.schema(), &name)?;
                    // It seeks by itself.
                    let again = BufReader::new(again);
                    let own = FileReader::try_new(again, Some(used)).map_err(|error| failed(text(error)))?;
                    (Box::new(own.map(move |batch| batch.map_err(text))), fields, None)
                } else {
                    let whole = StreamReader::try_new(file, None).map_err(|error| failed(text(error)))?;
                    let (fields, _) = resolved(fields, &whole.schema(), &name)?;
                    (Box::new(whole.map(move |batch| batch.map_err(text))), fields, None)
                }
            }
        };
        let whole = rows.map(|rows| (rows, bytes));
        let (batch, next, row, is_finished) = (None, 0, 0, false);
        let used = fields.names().cloned().collect();
        Ok(Self { name, fields, used, batches, batch, next, row, whole, position, is_finished })
    }

    fn document(&self, batch: &RecordBatch, row: usize) -> Result<Document, DataError> {
        let at = At { name: &self.name, line: self.row };
        let mut record = Record::default();
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if self.used.contains(field.name()) {
                let value = guarded(|| value::of(column.as_ref(), row)).flatten();
                let value = value.map_err(|detail| DataError::Columnar {
                    name: self.name.clone(),
                    line: self.row,
                    detail: format!("the column `{}` is {detail}", field.name()),
                })?;
                record.push(field.name().clone(), value);
            }
        }
        self.fields.document(record, at)
    }
}

impl Source for Columns {
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
                    let (name, line) = (self.name.clone(), self.row + 1);
                    return Some(Err(DataError::Columnar { name, line, detail }));
                }
                None => self.is_finished = true,
            }
        }
    }

    fn line(&self) -> u64 {
        self.row
    }
}

/// Calls a library that panics at some damaged files.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // What was half done is not used again.
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        format!("the file is damaged: {said}")
    })
}

/// The fields of a document among the columns, and the places of the columns that are used.
fn resolved(fields: &Fields, schema: &Schema, name: &str) -> Result<(Fields, Vec<usize>), DataError> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut known = HashSet::with_capacity(names.len());
    for (place, column) in names.iter().enumerate() {
        if !known.insert(column) {
            let (name, column, found) = (name.to_owned(), column.clone(), super::listing(&names[..place]));
            return Err(DataError::ColumnTwice { name, line: 0, column, found });
        }
    }
    let fields = fields.for_columns(&names, name)?;
    let uses = fields.uses(&names);
    let used = (0..names.len()).filter(|place| uses[*place].is_some()).collect();
    Ok((fields, used))
}

/// What a library says, without the name of its kind of error.
fn plain(message: &str) -> String {
    let known =
        ["Parquet error: ", "Parquet argument error: ", "Arrow: ", "External: ", "EOF: ", "Ipc error: "];
    known.iter().fold(message, |rest, start| rest.strip_prefix(start).unwrap_or(rest)).to_owned()
}
