//! The write path: check, encode, route to leaves, commit.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::Index;
use super::serving::check_model;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Generation;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{Committed, WriteBatch};

/// Documents encoded and committed together.
pub(super) const DOCUMENTS_PER_COMMIT: usize = 256;

/// Bytes of embeddings that are committed together where they are given, about.
const BYTES_PER_COMMIT: usize = 32 << 20;

/// What became of one document of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertStatus {
    /// Stored under a new id.
    Inserted,
    /// Stored in place of one of the same id.
    Replaced,
    /// Not stored: a later one of the batch has the same id.
    Superseded,
}

/// What a batch of inserts did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertSummary {
    /// Documents stored under a new id.
    pub inserted: usize,
    /// Documents stored in place of one of the same id.
    pub replaced: usize,
    /// Documents of the batch that a later one with the same id took the place of.
    pub superseded: usize,
    /// Of each document in the order given.
    pub statuses: Vec<InsertStatus>,
    /// The generation that readers see now.
    pub generation: Generation,
}

impl InsertSummary {
    fn new(generation: Generation) -> Self {
        Self { inserted: 0, replaced: 0, superseded: 0, statuses: Vec::new(), generation }
    }

    /// Counts a group: of each of its documents, whether it was kept; of each kept one what it did.
    fn add(&mut self, kept: &[bool], committed: &Committed) {
        let mut replaced = committed.replaced.iter();
        for &kept in kept {
            let (count, status) = match kept.then(|| replaced.next()).flatten() {
                None => (&mut self.superseded, InsertStatus::Superseded),
                Some(true) => (&mut self.replaced, InsertStatus::Replaced),
                Some(false) => (&mut self.inserted, InsertStatus::Inserted),
            };
            *count += 1;
            self.statuses.push(status);
        }
        self.generation = committed.generation;
    }
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
        let documents: Vec<Document> = documents.into_iter().collect();
        for document in &documents {
            check(document)?;
        }
        let mut kept = last_of_each_id(&documents);
        let mut summary = InsertSummary::new(self.serving().view().generation());
        let total = kept.iter().filter(|kept| **kept).count();
        let mut done = 0;
        let mut rest = documents.into_iter();
        while !kept.is_empty() {
            // As far as the last of so many documents that are kept.
            let places = kept.iter().enumerate().filter(|(_, kept)| **kept);
            let last = places.map(|(place, _)| place).nth(DOCUMENTS_PER_COMMIT - 1);
            let own: Vec<bool> = kept.drain(..last.map_or(kept.len(), |last| last + 1)).collect();
            let group = keep(rest.by_ref().take(own.len()), &own);
            done += group.len();
            summary.add(&own, &self.encode_and_commit(group)?);
            if on_progress(Progress::new(Stage::Insert, done, total)) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
        Ok(summary)
    }

    fn encode_and_commit(&self, mut group: Vec<Document>) -> Result<Committed> {
        loop {
            // Without a lock: encoding takes long, and runs on threads that may be waiting for one.
            let serving = self.serving();
            let batch = WriteBatch { puts: serving.placer().prepare(group)?, deletes: Vec::new() };
            match self.commit_as_made(&serving, batch)? {
                Ok(committed) => return Ok(committed),
                // The model was changed meanwhile.
                Err(batch) => group = batch.puts.into_iter().map(|put| put.document).collect(),
            }
        }
    }

    /// Stores documents with embeddings that the caller has: nothing is encoded, and a document may be without text.
    ///
    /// The embeddings should be of the index's own encoder, or of one whose space it shares. They are routed by the
    /// tree like any other. A later change of model encodes from the texts. Reads the iterator as it goes and commits in groups of some 32 MiB, texts included, each visible
    /// whole or not at all; of several documents with one id the last one counts. So a corpus of any size can be
    /// given at once.
    ///
    /// # Shapes
    /// each vector `[dim]` f32, finite and not all zeros; at unit norm or not. Stored as f16, at unit norm for cosine.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::Dimension`], [`InputError::BadVector`], [`InputError::ModelMismatch`] where the model is changed
    /// meanwhile, [`StoreError::InvalidId`](crate::StoreError::InvalidId), [`StoreError::NotFinite`](crate::StoreError::NotFinite) for a
    /// value that f16 cannot hold, and failures of the disk; with the groups before them in place.
    pub fn insert_vectors(
        &self,
        documents: impl IntoIterator<Item = (Document, Vec<f32>)>,
    ) -> Result<InsertSummary> {
        self.insert_vectors_with(documents, &mut no_progress)
    }

    /// As [`Self::insert_vectors`], with progress in documents and cancellation between groups.
    ///
    /// # Errors
    /// Those of [`Self::insert_vectors`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_vectors_with(
        &self,
        documents: impl IntoIterator<Item = (Document, Vec<f32>)>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<InsertSummary> {
        let mut rest = documents.into_iter().fuse();
        // The embeddings are of its space.
        let serving = self.serving();
        let dim = serving.model().encoder.dim();
        let mut summary = InsertSummary::new(serving.view().generation());
        loop {
            let (mut group, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut vectors = Vec::new();
            while bytes < BYTES_PER_COMMIT
                && let Some((document, vector)) = rest.next()
            {
                crate::store::check_id(&document.id)?;
                serving.check_vector(&vector)?;
                bytes += 4 * dim + document.title.len() + document.text.len();
                group.push(document);
                vectors.push(vector);
            }
            if group.is_empty() {
                return Ok(summary);
            }
            let kept = last_of_each_id(&group);
            let own = vectors.iter().zip(&kept).filter(|(_, kept)| **kept);
            own.for_each(|(vector, _)| rows.extend_from_slice(vector));
            drop(vectors);
            let puts = serving.placer().place(keep(group.into_iter(), &kept), &rows);
            drop(rows);
            let batch = WriteBatch { puts, deletes: Vec::new() };
            let Ok(committed) = self.commit_as_made(&serving, batch)? else {
                let now = self.serving().bundle.hash();
                check_model(now, serving.bundle.hash())?;
                return Err(InputError::SameModel { model: now.to_string() }.into());
            };
            summary.add(&kept, &committed);
            let done = summary.statuses.len() as u64;
            let progress = Progress { stage: Stage::Insert, done, total: None };
            if on_progress(progress) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
    }
}

fn check(document: &Document) -> Result<()> {
    crate::store::check_id(&document.id)?;
    if document.title.trim().is_empty() && document.text.trim().is_empty() {
        return Err(InputError::EmptyDocument { id: document.id.clone() }.into());
    }
    Ok(())
}

/// Of each document, whether it is the last one of its id.
fn last_of_each_id(documents: &[Document]) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(documents.len());
    let mut kept: Vec<bool> =
        documents.iter().rev().map(|document| seen.insert(document.id.as_str())).collect();
    kept.reverse();
    kept
}

fn keep(documents: impl Iterator<Item = Document>, kept: &[bool]) -> Vec<Document> {
    documents.zip(kept).filter(|(_, kept)| **kept).map(|(document, _)| document).collect()
}
