//! Pages of Parquet that are compressed with zstd.

use std::io::Read;

use bytes::Bytes;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use crate::data::MAX_LINE_BYTES;
use crate::data::unpack::ZstdDecoder;

/// Unpacks the pages that another reader returns as they lie in the file.
pub(super) struct ZstdPages(pub Box<dyn PageReader>);

impl PageReader for ZstdPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        self.0.get_next_page()?.map(unpacked).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.0.at_record_boundary()
    }
}

impl Iterator for ZstdPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn unpacked(mut page: Page) -> Result<Page, ParquetError> {
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = unpack(buf, 0)?,
        // Its levels are not compressed.
        Page::DataPageV2 { buf, is_compressed, def_levels_byte_len, rep_levels_byte_len, .. } => {
            if *is_compressed {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                *buf = unpack(buf, levels)?;
                *is_compressed = false;
            }
        }
    }
    Ok(page)
}

/// The bytes with those behind the first ones unpacked.
fn unpack(bytes: &Bytes, levels: u64) -> Result<Bytes, ParquetError> {
    let damaged = |detail: &str| ParquetError::General(format!("a page compressed with zstd {detail}"));
    let levels = usize::try_from(levels).ok().filter(|levels| *levels <= bytes.len());
    let (levels, packed) = bytes.split_at(levels.ok_or_else(|| damaged("is cut off"))?);
    let mut whole = levels.to_vec();
    let most = MAX_LINE_BYTES as u64;
    let read = ZstdDecoder::new(packed).take(most + 1).read_to_end(&mut whole);
    read.map_err(|error| damaged(&format!("is damaged: {error}")))?;
    if whole.len() as u64 > most {
        return Err(damaged("is too large"));
    }
    Ok(whole.into())
}
