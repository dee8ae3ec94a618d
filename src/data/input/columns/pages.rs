//! The pages of a column of Parquet: unpacked with a bound on their size, and counted.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use crate::data::MAX_LINE_BYTES;
use crate::data::unpack::ZstdDecoder;

/// Most bytes of a batch of rows, except a batch of one row.
const BATCH_BYTES: usize = 64 << 20;
/// Bytes of a list value in addition to its text: a view and its levels.
const VALUE_BYTES: usize = 20;
const BROTLI_BUFFER: usize = 4 << 10;
/// Largest expansion of a byte by LZ4.
const LZ4_RATIO: usize = 255;

/// Counts the bytes of pages in a batch of rows.
#[derive(Default)]
pub(super) struct Budget {
    rows: AtomicUsize,
    used: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Budget {
    /// Starts a batch of `rows` rows.
    pub fn begin(&self, rows: usize) {
        self.rows.store(rows, Relaxed);
        self.used.store(0, Relaxed);
        self.is_exceeded.store(false, Relaxed);
    }

    /// Whether the batch failed for its size.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Relaxed)
    }

    fn take(&self, page: &Page, is_list: bool) -> Result<(), ParquetError> {
        let rows = self.rows.load(Relaxed);
        let bytes = page.buffer().len();
        let values = page.num_values() as usize;
        let copied = match page.encoding() {
            // A value may repeat all of the previous one except its end, so a small page can hold many long
            // values.
            Encoding::DELTA_BYTE_ARRAY => bytes.saturating_mul(values.min(rows)),
            _ => 0,
        };
        // One row may hold all values of a list column's page.
        let values = if is_list { values.saturating_mul(VALUE_BYTES) } else { 0 };
        let bytes = bytes.saturating_add(copied).saturating_add(values);
        let most = if rows > 1 { BATCH_BYTES } else { MAX_LINE_BYTES };
        if self.used.fetch_add(bytes, Relaxed).saturating_add(bytes) > most {
            self.is_exceeded.store(true, Relaxed);
            return Err(ParquetError::General(format!("a row of more than {most} bytes; split it")));
        }
        Ok(())
    }
}

/// Unpacks and counts the raw pages returned by another reader.
pub(super) struct Pages {
    pub pages: Box<dyn PageReader>,
    /// How they are compressed.
    pub codec: Compression,
    /// Whether a row may have several values.
    pub is_list: bool,
    pub budget: Arc<Budget>,
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
        let page = unpacked(page, self.codec)?;
        self.budget.take(&page, self.is_list)?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Whether pages are unpacked here. The library's own codecs trust the size stated in a page.
pub(super) fn unpacks(codec: Compression) -> bool {
    use Compression::{BROTLI, GZIP, LZ4_RAW, SNAPPY, ZSTD};
    matches!(codec, ZSTD(_) | GZIP(_) | BROTLI(_) | SNAPPY | LZ4_RAW)
}

fn unpacked(mut page: Page, codec: Compression) -> Result<Page, ParquetError> {
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = unpack(buf, 0, codec)?,
        // Its levels are not compressed.
        Page::DataPageV2 { buf, is_compressed, def_levels_byte_len, rep_levels_byte_len, .. } => {
            if *is_compressed {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                *buf = unpack(buf, levels, codec)?;
                *is_compressed = false;
            }
        }
    }
    Ok(page)
}

/// Keeps the first bytes and unpacks the rest.
fn unpack(bytes: &Bytes, levels: u64, codec: Compression) -> Result<Bytes, ParquetError> {
    if !unpacks(codec) {
        return Ok(bytes.clone());
    }
    let damaged = |detail: &str| ParquetError::General(format!("a page compressed with {codec} {detail}"));
    let levels = usize::try_from(levels).ok().filter(|levels| *levels <= bytes.len());
    let (levels, packed) = bytes.split_at(levels.ok_or_else(|| damaged("is cut off"))?);
    let mut whole = levels.to_vec();
    if packed.is_empty() {
        return Ok(whole.into());
    }
    let failed = |error: &dyn std::fmt::Display| damaged(&format!("is damaged: {error}"));
    let mut read = |unpacked: &mut dyn Read| {
        unpacked.take(MAX_LINE_BYTES as u64 + 1).read_to_end(&mut whole).map_err(|error| failed(&error))
    };
    match codec {
        Compression::ZSTD(_) => {
            read(&mut ZstdDecoder::new(packed))?;
        }
        Compression::GZIP(_) => {
            read(&mut MultiGzDecoder::new(packed))?;
        }
        Compression::BROTLI(_) => {
            read(&mut brotli::Decompressor::new(Cursor::new(packed), BROTLI_BUFFER))?;
        }
        Compression::SNAPPY => {
            let size = snap::raw::decompress_len(packed).map_err(|error| failed(&error))?;
            if size > MAX_LINE_BYTES {
                return Err(damaged("is too large"));
            }
            let unpacked = snap::raw::Decoder::new().decompress_vec(packed);
            whole.append(&mut unpacked.map_err(|error| failed(&error))?);
        }
        _ => {
            let most = packed.len().saturating_mul(LZ4_RATIO).min(MAX_LINE_BYTES);
            let mut unpacked = vec![0; most];
            let size = lz4_flex::block::decompress_into(packed, &mut unpacked);
            unpacked.truncate(size.map_err(|error| failed(&error))?);
            whole.append(&mut unpacked);
        }
    }
    if whole.len() > MAX_LINE_BYTES {
        return Err(damaged("is too large"));
    }
    Ok(whole.into())
}
