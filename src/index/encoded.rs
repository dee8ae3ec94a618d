//! What made the embeddings of a store, in the file `ENCODED` next to it.
//!
//! It is written before the first embedding of a kind, so it never lists too little. It may list too much:
//! embeddings that a crash kept from being stored, or documents deleted since.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::active_model::ActiveModel;
use super::measured::ENCODED;
use crate::disk::Backend;
use crate::error::Result;
use crate::model::EncoderPrecision;
use crate::store::EncodedBy;

fn are_mixed(by: &BTreeSet<EncodedBy>) -> bool {
    by.contains(&EncodedBy::F32) && by.contains(&EncodedBy::Int8)
}

impl ActiveModel {
    /// What made the embeddings of the store.
    pub(super) fn encoded_by(&self, backend: &dyn Backend) -> BTreeSet<EncodedBy> {
        match ENCODED.read(backend, self.store.path(), &self.origin(), |_| true) {
            Ok(Some(by)) => by,
            // An index from before this was recorded, or a damaged file.
            _ if self.view().rows() > 0 => BTreeSet::from([EncodedBy::Unknown]),
            _ => BTreeSet::new(),
        }
    }

    /// The kinds of embeddings that its encoder makes.
    pub(super) fn encodes(&self) -> BTreeSet<EncodedBy> {
        BTreeSet::from([match self.model().encoder().precision() {
            EncoderPrecision::F32 => EncodedBy::F32,
            EncoderPrecision::Int8 => EncodedBy::Int8,
        }])
    }

    /// Records what is about to make embeddings of the store.
    pub(super) fn note_encoded(&self, backend: &dyn Backend, more: &BTreeSet<EncodedBy>) -> Result<()> {
        let mut noted = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_superset(more) {
            return Ok(());
        }
        let before = self.encoded_by(backend);
        let all: BTreeSet<EncodedBy> = before.union(more).copied().collect();
        if all != before {
            ENCODED.write(backend, self.store.path(), &self.origin(), &all)?;
        }
        if are_mixed(&all) && !are_mixed(&before) {
            tracing::warn!(
                path = %self.store.path().display(),
                "its embeddings are now of two precisions, f32 and int8: scores of the same text differ by up to \
                 about 0.01; export the documents and insert them into a new index to have one"
            );
        }
        *noted = all;
        Ok(())
    }
}
