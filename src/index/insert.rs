//! The write path: check, encode, route to leaves, commit.

use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tracing::field::Empty;

use super::Index;
use super::active_model::{ActiveModel, check_model};
use super::with_progress::WithProgress;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Generation;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{Committed, WriteBatch};

/// Documents encoded and committed together, at most.
pub(super) const DOCUMENTS_PER_COMMIT: usize = 256;

/// Bytes of documents, and of embeddings that are given, which are committed together; more for a single
/// larger document.
pub(super) const BYTES_PER_COMMIT: usize = 32 << 20;

/// What became of one document of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// hundred, and of some 32 MiB; a group is visible whole or not at all. Of several documents with
    /// one id in the batch the last one counts. Text beyond the encoder's maximum length is stored but
    /// does not count for its embedding.
    ///
    /// # Memory
    /// The iterator is read to its end before anything is stored, so that a bad document is refused before
    /// that: all of its documents are held in memory, beside what one group needs. Give a large corpus in
    /// parts.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::EmptyDocument`] and [`InputError::InvalidId`] before anything is stored,
    /// [`InputError::DocumentTooLarge`] and [`InputError::MetadataTooDeep`] before its group is; failures of
    /// the encoder and of the disk. Where groups before the failure are in place, the error is
    /// [`Error::Partial`], with the failure as its source.
    pub fn insert_batch(&self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        self.insert_texts(documents.into_iter().collect(), &mut no_progress)
    }

    fn insert_texts(
        &self,
        documents: Vec<Document>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<InsertSummary> {
        self.check_process()?;
        let span = tracing::debug_span!("insert", documents = documents.len(), generation = Empty).entered();
        for document in &documents {
            check(document)?;
        }
        let kept = last_of_each_id(&documents);
        let mut summary = InsertSummary::new(self.serving().view().generation());
        let total = kept.iter().filter(|kept| **kept).count();
        let mut done = 0;
        let mut rest = documents.into_iter().zip(kept).peekable();
        while rest.peek().is_some() {
            let (group, own) = next_group(&mut rest);
            let size = group.len();
            let committed = self.encode_and_commit(group).map_err(|e| partial(e, done, total - done))?;
            done += size;
            summary.add(&own, &committed);
            if on_progress(Progress::new(Stage::Insert, done, total)) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
        span.record("generation", summary.generation.0);
        Ok(summary)
    }

    fn encode_and_commit(&self, mut group: Vec<Document>) -> Result<Committed> {
        loop {
            // Without a lock: encoding takes long, and runs on threads that may be waiting for one.
            let serving = self.serving();
            let batch = WriteBatch { puts: serving.ingest().prepare(group)?, deletes: Vec::new() };
            match self.commit_as_made(&serving, batch)? {
                Ok(committed) => return Ok(committed),
                // The model was changed meanwhile.
                Err(batch) => group = batch.puts.into_iter().map(|put| put.document).collect(),
            }
        }
    }

    /// Stores documents with embeddings that the caller has: nothing is encoded, and a document may be
    /// without text.
    ///
    /// The embeddings should be of the index's own encoder, or of one whose space it shares. They are
    /// routed by the tree like any other. A later change of model encodes from the texts. Of several
    /// documents with one id the last one counts.
    ///
    /// # Memory
    /// The iterator is read as it goes: documents and embeddings of some 32 MiB are held and committed
    /// together, each such group visible whole or not at all. So a corpus of any size can be given at once.
    ///
    /// # Shapes
    /// each vector `[dim]` f32, finite and not all zeros; at unit norm or not. Stored as f16, at unit norm
    /// for cosine.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::Dimension`], [`InputError::BadVector`], [`InputError::ModelMismatch`] where the model is
    /// changed meanwhile, [`InputError::InvalidId`], [`InputError::NotFinite`] for a value that f16 cannot
    /// hold, [`InputError::DocumentTooLarge`], [`InputError::MetadataTooDeep`], and failures of the disk.
    /// Where groups before the failure are in place, the error is [`Error::Partial`], with the failure as its
    /// source.
    pub fn insert_vectors(
        &self,
        documents: impl IntoIterator<Item = (Document, Vec<f32>)>,
    ) -> Result<InsertSummary> {
        self.insert_embedded(&mut documents.into_iter(), &mut no_progress)
    }

    fn insert_embedded(
        &self,
        documents: &mut dyn Iterator<Item = (Document, Vec<f32>)>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<InsertSummary> {
        self.check_process()?;
        let span = tracing::debug_span!("insert", documents = Empty, generation = Empty).entered();
        let mut rest = documents.fuse();
        // The embeddings are of its space.
        let serving = self.serving();
        let dim = serving.model().encoder.dim();
        let mut summary = InsertSummary::new(serving.view().generation());
        loop {
            let (mut group, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut vectors = Vec::new();
            let stored = summary.inserted + summary.replaced;
            while bytes < BYTES_PER_COMMIT
                && let Some((document, vector)) = rest.next()
            {
                bytes += 4 * dim + bytes_of(&document);
                let id = crate::store::check_id(&document.id).map_err(Error::from);
                let checked = id.and_then(|()| serving.check_vector(&vector));
                checked.map_err(|e| partial(e, stored, group.len() + 1))?;
                group.push(document);
                vectors.push(vector);
            }
            if group.is_empty() {
                span.record("documents", summary.statuses.len());
                span.record("generation", summary.generation.0);
                return Ok(summary);
            }
            let kept = last_of_each_id(&group);
            let own = vectors.iter().zip(&kept).filter(|(_, kept)| **kept);
            own.for_each(|(vector, _)| rows.extend_from_slice(vector));
            drop(vectors);
            let puts = serving.ingest().place(keep(group, &kept), &rows);
            drop(rows);
            let refused = puts.len();
            let committed = self.commit_vectors(&serving, WriteBatch { puts, deletes: Vec::new() });
            let committed = committed.map_err(|e| partial(e, stored, refused))?;
            summary.add(&kept, &committed);
            let done = summary.statuses.len() as u64;
            let progress = Progress { stage: Stage::Insert, done, total: None };
            if on_progress(progress) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Commits embeddings of the model of `serving`, which must serve still.
    fn commit_vectors(&self, serving: &Arc<ActiveModel>, batch: WriteBatch) -> Result<Committed> {
        if let Ok(committed) = self.commit_as_made(serving, batch)? {
            return Ok(committed);
        }
        let now = self.serving().bundle.hash();
        check_model(now, serving.bundle.hash())?;
        Err(InputError::SameModel { model: now }.into())
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::insert_batch`], with progress in documents and cancellation between groups.
    ///
    /// # Errors
    /// Those of [`Index::insert_batch`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_batch(mut self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        self.index.insert_texts(documents.into_iter().collect(), &mut self.on_progress)
    }

    /// As [`Index::insert_vectors`], with progress in documents and cancellation between groups.
    ///
    /// # Errors
    /// Those of [`Index::insert_vectors`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_vectors(
        mut self,
        documents: impl IntoIterator<Item = (Document, Vec<f32>)>,
    ) -> Result<InsertSummary> {
        self.index.insert_embedded(&mut documents.into_iter(), &mut self.on_progress)
    }
}

/// A failure with documents of the same call in place.
fn partial(source: Error, stored: usize, refused: usize) -> Error {
    match stored {
        0 => source,
        _ => Error::Partial { stored, refused, source: Box::new(source) },
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

fn keep(documents: Vec<Document>, kept: &[bool]) -> Vec<Document> {
    documents.into_iter().zip(kept).filter(|(_, kept)| **kept).map(|(document, _)| document).collect()
}

/// The documents to be committed together, and of all up to the last of them, whether it is one of them.
fn next_group(rest: &mut Peekable<impl Iterator<Item = (Document, bool)>>) -> (Vec<Document>, Vec<bool>) {
    let (mut group, mut kept, mut bytes) = (Vec::new(), Vec::new(), 0usize);
    let fits = |(document, own): &(Document, bool), held: usize, bytes: &mut usize| {
        if !own {
            return true;
        }
        *bytes += bytes_of(document);
        held == 0 || (held < DOCUMENTS_PER_COMMIT && *bytes <= BYTES_PER_COMMIT)
    };
    while let Some((document, own)) = rest.next_if(|next| fits(next, group.len(), &mut bytes)) {
        kept.push(own);
        group.extend(own.then_some(document));
    }
    (group, kept)
}

/// About the bytes of a document in memory.
pub(super) fn bytes_of(document: &Document) -> usize {
    fn of_value(value: &Value) -> usize {
        size_of::<Value>()
            + match value {
                Value::String(text) => text.len(),
                Value::Array(values) => values.iter().map(of_value).sum(),
                Value::Object(fields) => {
                    fields.iter().map(|(name, value)| name.len() + of_value(value)).sum()
                }
                _ => 0,
            }
    }
    let metadata = document.metadata.as_ref().map_or(0, of_value);
    document.id.len() + document.title.len() + document.text.len() + metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The sizes of the groups that documents of so many bytes make.
    fn groups(sizes: &[usize]) -> Vec<usize> {
        let documents = sizes.iter().map(|&size| (Document::new("i", "", "x".repeat(size - 1)), true));
        let mut rest = documents.peekable();
        std::iter::from_fn(|| rest.peek().is_some().then(|| next_group(&mut rest).0.len())).collect()
    }

    #[test]
    fn groups_are_bounded_by_number_and_by_bytes() {
        const HALF: usize = BYTES_PER_COMMIT / 2;
        assert_eq!(groups(&[1; 600]), [256, 256, 88]);
        assert_eq!(groups(&[HALF, HALF, 1]), [2, 1]);
        assert_eq!(groups(&[HALF + 1, HALF, 2 * HALF, 1]), [1, 1, 1, 1]);
        assert_eq!(groups(&[3 * HALF, 3 * HALF]), [1, 1]);
    }

    #[test]
    fn superseded_documents_go_with_a_group_and_do_not_count() {
        let document = |n: usize, kept| (Document::new(n.to_string(), "", "x".repeat(1 << 20)), kept);
        let mut rest = (0..100).map(|n| document(n, n % 2 == 1)).peekable();
        let (group, kept) = next_group(&mut rest);
        assert_eq!((group.len(), kept.len()), (31, 63));
        assert_eq!(group[30].id, "61");
        assert_eq!(rest.count(), 37);
    }

    #[test]
    fn metadata_counts_for_the_bytes() {
        let text = "x".repeat(1000);
        let document = Document::new("i", "", "t").with_metadata(json!({ "a": [text, 1, null] }));
        assert!(bytes_of(&document) > 1000 + 5 * size_of::<Value>());
    }
}
