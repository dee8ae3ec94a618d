//! The write path: check, encode, route to leaves, commit.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use half::f16;

use super::Index;
use super::search::unit;
use super::serving::Serving;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Generation;
use crate::model::Role;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::scan::Similarity;
use crate::store::{Put, WriteBatch};

/// Documents encoded and committed together.
pub(super) const DOCUMENTS_PER_COMMIT: usize = 256;

/// What a batch of inserts did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertSummary {
    /// Documents stored under a new id.
    pub inserted: usize,
    /// Documents stored in place of one of the same id.
    pub replaced: usize,
    /// Documents of the batch that a later one with the same id took the place of.
    pub superseded: usize,
    /// The generation that readers see now.
    pub generation: Generation,
}

impl Index {
    /// Stores one document, in place of the one with the same id if there is one.
    ///
    /// # Durability
    /// Visible to searches when this returns; on disk for certain after [`Index::flush`].
    ///
    /// # Errors
    /// As [`Self::insert_batch`].
    pub fn insert(&self, document: Document) -> Result<InsertSummary> {
        self.insert_batch([document])
    }

    /// Stores many documents: the fast way to fill an index.
    ///
    /// They are encoded on the calling thread's rayon pool and committed in groups of a few
    /// hundred; a group is visible whole or not at all. Of several documents with one id in the
    /// batch the last one counts. Text beyond the encoder's maximum length is stored but
    /// does not count for its embedding. The whole batch is held in memory: give a large corpus in
    /// parts.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::EmptyDocument`] and [`StoreError::InvalidId`](crate::StoreError::InvalidId)
    /// before anything is stored; failures of the encoder and of the disk with the groups
    /// before them in place.
    pub fn insert_batch(&self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        self.insert_batch_with(documents, &mut no_progress)
    }

    /// As [`Self::insert_batch`], with progress in documents and cancellation between groups.
    ///
    /// # Errors
    /// Those of [`Self::insert_batch`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_batch_with(
        &self,
        documents: impl IntoIterator<Item = Document>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<InsertSummary> {
        let mut documents: Vec<Document> = documents.into_iter().collect();
        for document in &documents {
            check(document)?;
        }
        let given = documents.len();
        keep_last(&mut documents);
        let mut summary = InsertSummary {
            inserted: 0,
            replaced: 0,
            superseded: given - documents.len(),
            generation: self.serving().view().generation(),
        };
        let total = documents.len();
        let mut done = 0;
        let mut rest = documents.into_iter();
        loop {
            let group: Vec<Document> = rest.by_ref().take(DOCUMENTS_PER_COMMIT).collect();
            if group.is_empty() {
                return Ok(summary);
            }
            done += group.len();
            let committed = self.write(|on| {
                let batch = WriteBatch { puts: on.prepare(group)?, deletes: Vec::new() };
                Ok(on.store.commit(batch)?)
            })?;
            summary.inserted += committed.inserted;
            summary.replaced += committed.replaced;
            summary.generation = committed.generation;
            if on_progress(Progress::new(Stage::Insert, done, total)) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
    }
}

impl Serving {
    /// Encodes and routes documents.
    pub(super) fn prepare(&self, documents: Vec<Document>) -> Result<Vec<Put>> {
        let model = self.model();
        let texts: Vec<_> = documents.iter().map(Document::embedding_text).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let rows = model.encoder.embed(&texts, Role::Document)?;
        let dim = model.encoder.dim();
        let units: Vec<f32> = rows.chunks_exact(dim).flat_map(unit).collect();
        let count = NonZeroUsize::new(self.leaves_per_document() as usize).unwrap_or(NonZeroUsize::MIN);
        let leaves = model.indexer.route_rows(&units, count);
        let stored = match self.similarity {
            Similarity::Cosine => &units,
            _ => &rows,
        };
        Ok(documents
            .into_iter()
            .zip(stored.chunks_exact(dim))
            .zip(leaves)
            .map(|((document, row), leaves)| Put {
                document,
                embedding: row.iter().map(|&x| f16::from_f32(x)).collect(),
                leaves,
            })
            .collect())
    }
}

fn check(document: &Document) -> Result<()> {
    crate::store::check_id(&document.id)?;
    if document.title.trim().is_empty() && document.text.trim().is_empty() {
        return Err(InputError::EmptyDocument { id: document.id.clone() }.into());
    }
    Ok(())
}

/// Drops every document but the last of each id, keeping the order of the rest.
fn keep_last(documents: &mut Vec<Document>) {
    let last: HashMap<String, usize> =
        documents.iter().enumerate().map(|(place, document)| (document.id.clone(), place)).collect();
    if last.len() < documents.len() {
        let mut place = 0;
        documents.retain(|document| {
            place += 1;
            last[&document.id] == place - 1
        });
    }
}
