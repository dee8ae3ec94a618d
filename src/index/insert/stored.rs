//! Documents of another index, with their embeddings from there.

use std::collections::BTreeSet;

use super::super::active_model::{ActiveModel, check_model};
use super::{BYTES_PER_COMMIT, DOCUMENTS_PER_COMMIT, Index, partial};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::store::{EncodedBy, Put, PutRow, View, WriteBatch};

impl Index {
    /// Stores documents of another index with their embeddings from there; returns how many. Nothing is
    /// encoded. Documents with the same id are replaced.
    ///
    /// If both have the same model, each document keeps its leaves too, so that the same search of either
    /// index has the same results, bit for bit; with another tree of the same encoder, documents are routed
    /// anew. Ids that `source` does not have are skipped, and writes to it during the call are not seen.
    ///
    /// # Durability
    /// As [`Self::insert`], in groups like those of [`Self::insert_batch`].
    ///
    /// # Errors
    /// With nothing stored: [`InputError::ModelMismatch`] if the encoders differ,
    /// [`InputError::SimilarityMismatch`], and [`InputError::PassagesMismatch`] and
    /// [`InputError::NeedsTexts`] if only one index has passages, or theirs differ. Damage of `source`, and
    /// failures of the disk. If earlier groups are already stored, the error is
    /// [`Error::Partial`](crate::Error::Partial), with the failure as its source.
    pub fn insert_from(&self, source: &Self, ids: impl IntoIterator<Item: AsRef<str>>) -> Result<usize> {
        self.check_process()?;
        source.check_process()?;
        let span = tracing::debug_span!("insert", documents = tracing::field::Empty).entered();
        let from = source.serving();
        check(&from, &self.serving())?;
        let view = from.view();
        let encoded_by = from.encoded_by();
        let mut ids = ids.into_iter();
        let mut stored = 0;
        loop {
            let group = next_group(&view, &mut ids).map_err(|e| partial(e, stored, 0))?;
            if group.is_empty() {
                span.record("documents", stored);
                return Ok(stored);
            }
            let size = group.len();
            self.take(&from, &view, group, &encoded_by).map_err(|e| partial(e, stored, size))?;
            stored += size;
        }
    }

    fn take(
        &self,
        from: &ActiveModel,
        view: &View,
        group: Vec<(Row, Document)>,
        encoded_by: &BTreeSet<EncodedBy>,
    ) -> Result<()> {
        loop {
            let serving = self.serving();
            let puts = puts(from, view, &serving, &group)?;
            // Otherwise the model changed in the meantime.
            let batch = WriteBatch { puts, deletes: Vec::new() };
            if self.commit_as_made(&serving, batch, encoded_by)?.is_ok() {
                return Ok(());
            }
        }
    }
}

/// The next documents to commit together; empty at the end.
fn next_group(view: &View, ids: &mut impl Iterator<Item: AsRef<str>>) -> Result<Vec<(Row, Document)>> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while group.len() < DOCUMENTS_PER_COMMIT
        && bytes < BYTES_PER_COMMIT
        && let Some(id) = ids.next()
    {
        if let Some(row) = view.row_of(id.as_ref())? {
            let document = view.document(row)?;
            bytes += document.heap_bytes();
            group.push((row, document));
        }
    }
    Ok(group)
}

fn puts(from: &ActiveModel, view: &View, to: &ActiveModel, group: &[(Row, Document)]) -> Result<Vec<Put>> {
    check(from, to)?;
    let same = from.bundle.hash() == to.bundle.hash();
    let rows = group.iter().map(|(row, _)| stored_rows(view, *row)).collect::<Result<_>>()?;
    let documents = group.iter().map(|(_, document)| document.clone()).collect();
    to.ingest().keep_stored(documents, rows, same)
}

/// The rows of a row's document, as stored.
pub(in crate::index) fn stored_rows(view: &View, row: Row) -> Result<Vec<PutRow>> {
    let stored = |row| {
        let (embedding, leaf) = (view.embedding(row)?.to_vec(), view.leaf_of(row)?);
        Ok(PutRow { embedding, leaf, span: view.span(row)?.unwrap_or_default() })
    };
    view.rows_of(row)?.into_iter().map(stored).collect()
}

/// Refuses embeddings that are not compatible with those of the index.
fn check(from: &ActiveModel, to: &ActiveModel) -> Result<()> {
    if !to.bundle.has_encoder_of(&from.bundle) {
        check_model(to.bundle.hash(), from.bundle.hash())?;
    }
    let (index, given) = (to.similarity, from.similarity);
    if index != given {
        return Err(InputError::SimilarityMismatch { index, given }.into());
    }
    match (to.passages(), from.passages()) {
        (index, given) if index == given => Ok(()),
        (index, Some(given)) => Err(InputError::PassagesMismatch { index, given }.into()),
        (Some(passages), None) => Err(InputError::NeedsTexts { passages }.into()),
        (None, None) => Ok(()),
    }
}
