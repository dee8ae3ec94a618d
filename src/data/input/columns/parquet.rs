//! The columns of a Parquet file, as batches of rows within a budget of bytes.

use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Compression;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::pages::{Budget, Pages, unpacks};
use super::{Batches, Opened, plain};

/// Rows held in memory at once, if they fit.
const BATCH: usize = 256;
/// The factor by which a batch shrinks when it does not fit.
const SHRINK: usize = 4;

/// Opens a file.
pub(super) fn open(file: File) -> Result<Opened, String> {
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| text(&e))?;
    let (schema, file) = (Arc::clone(metadata.schema()), Arc::new(file));
    let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).ok();
    let batches = move |used: &[usize]| -> Result<Batches, String> {
        let mask = ProjectionMask::roots(metadata.parquet_schema(), used.iter().copied());
        // A view of a text points into its page, so many rows with the same text take the memory of one.
        let fields = metadata.schema().fields().iter().map(with_views).collect();
        let levels = parquet_to_arrow_field_levels(metadata.parquet_schema(), mask, Some(&fields));
        let levels = levels.map_err(|error| text(&error))?;
        let (file, metadata) = (Arc::clone(&file), Arc::clone(metadata.metadata()));
        let budget = Arc::default();
        Ok(Box::new(Reading { file, metadata, levels, budget, group: 0, done: 0, size: BATCH, reader: None }))
    };
    Ok(Opened { schema, rows, batches: Box::new(batches) })
}

fn text(error: &ParquetError) -> String {
    plain(&error.to_string())
}

/// A field in which texts are read as views.
fn with_views(field: &FieldRef) -> FieldRef {
    let of = |field: &FieldRef| with_views(field);
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) if matches!(**values, DataType::Utf8 | DataType::LargeUtf8) => {
            DataType::Utf8View
        }
        DataType::List(item) => DataType::List(of(item)),
        DataType::LargeList(item) => DataType::LargeList(of(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(of(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(with_views).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(kind))
}

/// Rows of one group after the other.
struct Reading {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    budget: Arc<Budget>,
    group: usize,
    /// Rows of the group that were returned.
    done: usize,
    /// Rows of a batch; smaller after a batch that took too many bytes, until the group ends.
    size: usize,
    reader: Option<ParquetRecordBatchReader>,
}

impl Reading {
    /// A reader of the rest of the group.
    fn begin(&self, rows: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        let (file, metadata) = (Arc::clone(&self.file), Arc::clone(&self.metadata));
        let group = Group { file, metadata, group: self.group, budget: Arc::clone(&self.budget) };
        let rest = (self.done > 0).then(|| {
            let rest = rows.saturating_sub(self.done);
            RowSelection::from(vec![RowSelector::skip(self.done), RowSelector::select(rest)])
        });
        ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, self.size, rest)
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let group = self.metadata.row_groups().get(self.group)?;
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            self.budget.begin(self.size);
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => match self.begin(rows) {
                    Ok(reader) => reader,
                    Err(error) => return Some(Err(text(&error))),
                },
            };
            match reader.next() {
                Some(Ok(batch)) => {
                    self.done += batch.num_rows();
                    self.reader = Some(reader);
                    return Some(Ok(batch));
                }
                Some(Err(_)) if self.budget.is_exceeded() && self.size > 1 => {
                    self.size = (self.size / SHRINK).max(1);
                }
                Some(Err(error)) => return Some(Err(plain(&error.to_string()))),
                None => (self.group, self.done, self.size) = (self.group + 1, 0, BATCH),
            }
        }
    }
}

/// A row group of a file.
struct Group {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    group: usize,
    budget: Arc<Budget>,
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        Ok(Box::new(Chunk(Some(self.pages(column)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

impl Group {
    fn pages(&self, column: usize) -> Result<Box<dyn PageReader>, ParquetError> {
        let chunk = self.metadata.row_group(self.group).column(column);
        let codec = chunk.compression();
        let bare = match unpacks(codec) {
            true => chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?,
            false => chunk.clone(),
        };
        let pages = SerializedPageReader::new(Arc::clone(&self.file), &bare, self.num_rows(), None)?;
        let (is_list, budget) = (chunk.column_descr().max_rep_level() > 0, Arc::clone(&self.budget));
        Ok(Box::new(Pages { pages: Box::new(pages), codec, is_list, budget }))
    }
}

/// The pages of a column in a group.
struct Chunk(Option<Result<Box<dyn PageReader>, ParquetError>>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for Chunk {}
