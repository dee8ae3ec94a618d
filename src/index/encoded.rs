//! What made the embeddings of a store, in the file `ENCODED` beside it.
//!
//! It is written before the first embedding of a kind, so that it never says less than there is. It may say more:
//! of embeddings that a crash kept from being stored, or of documents deleted since.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;

use super::active_model::ActiveModel;
use super::measured::ENCODED;
use crate::disk::Backend;
use crate::error::Result;
use crate::model::EncoderPrecision;
use crate::store::EncodedBy;

/// What made the embeddings of the store in `dir`.
pub(super) fn read(backend: &dyn Backend, dir: &Path, has_rows: bool) -> BTreeSet<EncodedBy> {
    let unknown = || if has_rows { BTreeSet::from([EncodedBy::Unknown]) } else { BTreeSet::new() };
    ENCODED.read(backend, dir, |_| true).unwrap_or_else(unknown)
}

/// Notes what is about to make embeddings of the store in `dir`; all that has made some.
pub(super) fn note(
    backend: &dyn Backend,
    dir: &Path,
    has_rows: bool,
    more: &BTreeSet<EncodedBy>,
) -> Result<BTreeSet<EncodedBy>> {
    let before = read(backend, dir, has_rows);
    if before.is_superset(more) {
        return Ok(before);
    }
    let all: BTreeSet<EncodedBy> = before.union(more).copied().collect();
    ENCODED.write(backend, dir, &all)?;
    if are_mixed(&all) && !are_mixed(&before) {
        tracing::warn!(
            path = %dir.display(),
            "its embeddings are now of two precisions, f32 and int8: scores of the same text differ by up to about \
             0.01. export the documents and insert them into a new index to have one"
        );
    }
    Ok(all)
}

fn are_mixed(by: &BTreeSet<EncodedBy>) -> bool {
    by.contains(&EncodedBy::F32) && by.contains(&EncodedBy::Int8)
}

impl ActiveModel {
    /// What made the embeddings of the store.
    pub(super) fn encoded_by(&self, backend: &dyn Backend) -> BTreeSet<EncodedBy> {
        read(backend, self.store.path(), self.view().rows() > 0)
    }

    /// What its encoder makes.
    pub(super) fn encodes(&self) -> BTreeSet<EncodedBy> {
        BTreeSet::from([match self.model().encoder().precision() {
            EncoderPrecision::F32 => EncodedBy::F32,
            EncoderPrecision::Int8 => EncodedBy::Int8,
        }])
    }

    /// Notes what is about to make embeddings of the store.
    pub(super) fn note_encoded(&self, backend: &dyn Backend, more: &BTreeSet<EncodedBy>) -> Result<()> {
        let mut noted = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.is_superset(more) {
            *noted = note(backend, self.store.path(), self.view().rows() > 0, more)?;
        }
        Ok(())
    }
}
