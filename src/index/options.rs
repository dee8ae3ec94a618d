//! Options of an index, with their defaults.

use std::path::Path;
use std::time::Duration;

use super::Index;
use super::active_model::{ActiveModel, check_model};
use crate::error::Result;
use crate::model::{Bundle, EncoderPrecision, ModelHash};
use crate::scan::Similarity;
use crate::store::{Durability, StoreOptions};

/// Options with which an index is created or opened.
#[derive(Clone, Debug)]
pub struct IndexBuilder {
    pub(super) similarity: Similarity,
    pub(super) handle: HandleOptions,
    pub(super) expected: Option<ModelHash>,
}

/// What holds for a handle, whatever store it has open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandleOptions {
    pub store: StoreOptions,
    pub precision: EncoderPrecision,
}

impl Default for IndexBuilder {
    fn default() -> Self {
        Self { similarity: Similarity::Cosine, handle: HandleOptions::default(), expected: None }
    }
}

impl IndexBuilder {
    /// How documents are ranked (section 3.6); cosine by default. Holds for the life of the index.
    ///
    /// Documents and queries are stored and compared at unit norm for cosine, and as the
    /// encoder gives them for the others. Routing through the tree always uses unit norm.
    #[must_use]
    pub fn similarity(mut self, similarity: Similarity) -> Self {
        self.similarity = similarity;
        self
    }

    /// What survives what; [`Durability::OnFlush`] by default. Holds for this handle, not for the index.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.handle.store.durability = durability;
        self
    }

    /// Whether documents are stored with codes beside their embeddings
    /// ([`Query::codes`](crate::Query::codes)), an eighth more bytes or less; they are by default, but for
    /// Manhattan distance and for embeddings narrower than 64. Holds for what this handle writes; compaction
    /// brings all documents to it.
    #[must_use]
    pub fn codes(mut self, codes: bool) -> Self {
        self.handle.store.without_codes = !codes;
        self
    }

    /// Waits this long for another handle or process to give the index back, where one has it open for
    /// writing; not at all by default.
    #[must_use]
    pub fn lock_wait(mut self, most: Duration) -> Self {
        self.handle.store.lock_wait = most;
        self
    }

    /// How this handle encodes texts; [`EncoderPrecision::F32`] by default. Documents and queries need not be
    /// encoded in the same way.
    #[must_use]
    pub fn encoder_precision(mut self, precision: EncoderPrecision) -> Self {
        self.handle.precision = precision;
        self
    }

    /// Makes [`Self::open`] an error ([`InputError::ModelMismatch`](crate::InputError::ModelMismatch)) where
    /// the index is served by another model.
    #[must_use]
    pub fn expect_model(mut self, bundle: &Bundle) -> Self {
        self.expected = Some(bundle.hash());
        self
    }

    pub(super) fn check(&self, serving: &ActiveModel) -> Result<()> {
        self.expected.map_or(Ok(()), |expected| check_model(serving.bundle.hash(), expected))
    }

    /// As [`Index::create`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::create`].
    pub fn create(self, path: impl AsRef<Path>, bundle: &Bundle) -> Result<Index> {
        Index::create_on(self.handle.store.backend(), path.as_ref(), bundle, &self)
    }

    /// As [`Index::open`], with these options; the similarity is the index's own.
    ///
    /// # Errors
    /// Those of [`Index::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Index> {
        Index::open_on(self.handle.store.backend(), path.as_ref(), &self)
    }

    /// As [`Index::open_read_only`], with these options as far as they are for reading.
    ///
    /// # Errors
    /// Those of [`Index::open_read_only`], and
    /// [`InputError::ModelMismatch`](crate::InputError::ModelMismatch).
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Index> {
        Index::open_read_only_with(path.as_ref(), &self)
    }
}
