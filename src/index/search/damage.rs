//! Errors of a search that can only mean damage.

use crate::error::Error;
use crate::lexical::Undecodable;
use crate::scan::ScanError;
use crate::store::{Damage, StoreError};

/// The store returns whole rows and checked postings, so a failed scan means damage.
pub(super) fn scan_failed(error: ScanError) -> Error {
    tracing::error!(%error, "scan of checked rows failed");
    damaged("segments", "a row that a posting list names").into()
}

/// A list of a file whose checksum matches cannot be malformed either.
impl From<Undecodable> for Error {
    fn from(_: Undecodable) -> Self {
        damaged("segments", "a posting list of terms").into()
    }
}

pub(super) fn damaged(file: &'static str, what: &'static str) -> StoreError {
    StoreError::Corrupt { file: file.into(), detail: Damage::Missing { what } }
}
