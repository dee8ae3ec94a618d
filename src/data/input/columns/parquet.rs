//! The columns of a Parquet file, as batches of rows.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Compression;
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::pages::ZstdPages;
use super::{Batches, Fields, plain};
use crate::data::DataError;

/// Rows that are in memory together.
const BATCH: usize = 256;

pub(super) enum OpenError {
    Data(DataError),
    Parquet(ParquetError),
}

impl OpenError {
    pub fn of(self, name: &str) -> DataError {
        match self {
            Self::Data(error) => error,
            Self::Parquet(error) => {
                let detail = plain(&error.to_string());
                DataError::Columnar { name: name.to_owned(), line: 0, detail }
            }
        }
    }
}

impl From<ParquetError> for OpenError {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error)
    }
}

/// The batches of a file with those columns that `choose` picks, what it made of them, and the number of
/// rows.
pub(super) fn open(
    file: File,
    choose: impl FnOnce(&Schema) -> Result<(Fields, Vec<usize>), DataError>,
) -> Result<(Batches, Fields, Option<u64>), OpenError> {
    let opened = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let (fields, used) = choose(opened.schema()).map_err(OpenError::Data)?;
    let metadata = Arc::clone(opened.metadata());
    let schema = opened.parquet_schema();
    let mask = ProjectionMask::roots(schema, used);
    let levels = parquet_to_arrow_field_levels(schema, mask, Some(opened.schema().fields()))?;
    let rows = u64::try_from(metadata.file_metadata().num_rows()).ok();
    let groups = Groups { file: Arc::new(file), metadata };
    let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, BATCH, None)?;
    let batches = reader.map(|batch| batch.map_err(|error| plain(&error.to_string())));
    Ok((Box::new(batches), fields, rows))
}

/// All row groups of a file.
struct Groups {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let (file, metadata) = (Arc::clone(&self.file), Arc::clone(&self.metadata));
        Ok(Box::new(Chunks { file, metadata, column, group: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of a column, group by group.
struct Chunks {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    group: usize,
}

impl Iterator for Chunks {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.group)?;
        self.group += 1;
        Some(self.pages(group))
    }
}

impl Chunks {
    fn pages(&self, group: &RowGroupMetaData) -> Result<Box<dyn PageReader>, ParquetError> {
        let chunk = group.column(self.column);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = |chunk| SerializedPageReader::new(Arc::clone(&self.file), chunk, rows, None);
        match chunk.compression() {
            // The library's own codec is in C: it reads them as they are, and they are unpacked here.
            Compression::ZSTD(_) => {
                let bare = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
                Ok(Box::new(ZstdPages(Box::new(pages(&bare)?))))
            }
            _ => Ok(Box::new(pages(chunk)?)),
        }
    }
}

impl PageIterator for Chunks {}
