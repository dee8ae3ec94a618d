//! The write path: check, encode, route to leaves, commit.

mod group;
mod stored;
mod summary;
mod update;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use half::f16;
use rayon::prelude::*;
use tracing::field::Empty;

pub(super) use group::{BYTES_PER_COMMIT, DOCUMENTS_PER_COMMIT, Pace};
pub(super) use stored::stored_rows;
pub use summary::{InsertStatus, InsertSummary, RefusedDocument};
pub use update::DocumentUpdate;

use super::Index;
use super::active_model::{ActiveModel, check_model};
use super::ingest::{CutTexts, Prepared};
use super::search::check_vector;
use super::with_progress::WithProgress;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::model::Encoder;
use crate::progress::{OnProgress, Progress, Stage, Tick, no_progress};
use crate::scan::Similarity;
use crate::store::{Committed, EncodedBy, StoreConfig, WriteBatch, check_document, has_expired};
use group::{BYTES_OF_PASSAGES, Fate, fates, next_group};

/// The result of storing a group.
struct Stored {
    committed: Committed,
    cut: CutTexts,
    cached: usize,
    passages: usize,
}

impl Index {
    /// Stores a document, replacing one with the same id.
    ///
    /// # Durability
    /// Visible to searches when this returns; durable after [`Index::flush`].
    ///
    /// # Errors
    /// As [`Self::insert_all_or_none`].
    pub fn insert(&self, document: Document) -> Result<InsertSummary> {
        self.insert_all_or_none([document])
    }

    /// Stores many documents: the fastest way to fill an index. Those that cannot be stored are left out and
    /// reported in [`InsertSummary::refused`]; with [`Self::insert_all_or_none`] nothing is stored then.
    ///
    /// They are encoded on the calling thread's rayon pool and committed in groups of at most a few hundred
    /// documents and about 32 MiB, smaller where a group takes longer than a second; a group is visible
    /// completely or not at all. If several documents of the batch share
    /// an id, the last storable one counts. Text beyond the encoder's maximum length is stored but does not
    /// affect the embedding; [`InsertSummary::cut`] counts it.
    ///
    /// # Memory
    /// The iterator is read to its end before anything is stored: all of its documents are held in memory, in
    /// addition to what one group needs. Split a large corpus into several calls.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// Failures of the encoder and of the disk. If earlier groups are already stored, the error is
    /// [`Error::Partial`], with the failure as its source.
    pub fn insert_batch(&self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        self.insert_texts(documents.into_iter().collect(), false, &mut no_progress)
    }

    /// As [`Self::insert_batch`], but if any document cannot be stored, this is an error and nothing is
    /// stored.
    ///
    /// Not a transaction: groups stored before a failure of the encoder or of the disk stay.
    ///
    /// # Errors
    /// [`InputError::EmptyDocument`], [`InputError::UnknownText`], [`InputError::InvalidId`],
    /// [`InputError::DocumentTooLarge`] and [`InputError::MetadataTooDeep`] with nothing stored, and those of
    /// [`Self::insert_batch`].
    pub fn insert_all_or_none(&self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        self.insert_texts(documents.into_iter().collect(), true, &mut no_progress)
    }

    fn insert_texts(
        &self,
        documents: Vec<Document>,
        all_or_none: bool,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<InsertSummary> {
        self.check_process()?;
        let span = tracing::debug_span!("insert", documents = documents.len(), generation = Empty).entered();
        let mut summary = InsertSummary::new(self.serving().view().generation());
        let config = self.serving().store.config().clone();
        let expired = |document| has_expired(document, &config).then_some(InsertStatus::Expired);
        let mut own: Vec<Fate> = documents.iter().map(expired).collect();
        let serving = self.serving();
        let encoder = serving.model().encoder()?;
        let checked = documents.par_iter().map(|document| check(document, encoder, serving.store.config()));
        let checked = checked.collect::<Result<Vec<_>>>()?;
        for (position, error) in checked.into_iter().enumerate() {
            let Some(error) = error else { continue };
            if all_or_none {
                return Err(error.into());
            }
            own[position] = Some(InsertStatus::Refused);
            summary.refuse(position, &documents[position], error);
        }
        let ids = documents.iter().map(|document| document.id.as_str());
        let fates = fates(ids.zip(own));
        let total = fates.iter().filter(|fate| fate.is_none()).count();
        let mut done = 0;
        Progress::new(Stage::Insert, done, total).tell(on_progress, Error::Cancelled)?;
        let most = serving.passages().map_or(BYTES_PER_COMMIT, |_| BYTES_OF_PASSAGES);
        let mut rest = documents.into_iter().zip(fates).peekable();
        while rest.peek().is_some() {
            let (pace, begun) = (&serving.pace, Instant::now());
            let (group, expired, own) =
                next_group(&mut rest, pace.share(DOCUMENTS_PER_COMMIT), pace.share(most));
            let size = group.len();
            let tick = &mut || on_progress(Progress::new(Stage::Insert, done, total));
            let committed = self.encode_and_commit(group, expired, tick);
            let committed = committed.map_err(|e| partial(e, done, total - done));
            let Stored { committed, cut, cached, passages } = committed?;
            done += size;
            summary.cut.join(cut);
            summary.cached += cached;
            summary.passages += passages;
            summary.add(&own, &committed);
            let is_last = rest.peek().is_none();
            // What was in the cache says nothing about the encoder.
            if !is_last && cached == 0 {
                pace.took(begun.elapsed());
            }
            // After the last group there is nothing left to cancel.
            if on_progress(Progress::new(Stage::Insert, done, total)).is_break() && !is_last {
                return Err(Error::Cancelled);
            }
        }
        span.record("generation", summary.generation.0);
        Ok(summary)
    }

    fn encode_and_commit(
        &self,
        mut group: Vec<Document>,
        mut deletes: Vec<String>,
        tick: &mut Tick<'_>,
    ) -> Result<Stored> {
        loop {
            // Without a lock: encoding is slow, and runs on threads that may be waiting for the lock.
            let serving = self.serving();
            let Prepared { puts, cut, cached } = serving.ingest().prepare(group, tick)?;
            let passages = match serving.passages() {
                Some(_) => puts.iter().map(|put| put.rows.len()).sum(),
                None => 0,
            };
            let batch = WriteBatch { puts, deletes };
            match self.commit_as_made(&serving, batch, &serving.encodes())? {
                Ok(committed) => return Ok(Stored { committed, cut, cached, passages }),
                // The model has changed in the meantime.
                Err(batch) => {
                    group = batch.puts.into_iter().map(|put| put.document).collect();
                    deletes = batch.deletes;
                }
            }
        }
    }

    /// Stores documents with embeddings from the caller: nothing is encoded, and documents need no text.
    ///
    /// The embeddings should come from the index's own encoder, or one with the same vector space. The tree
    /// routes them like any other. A later change to a model with another encoder encodes from the texts, and
    /// is refused if a document has none ([`InputError::WithoutText`]). If several documents share an id, the
    /// last one counts. In an index with passages, such a document has one, its whole text. Documents that
    /// cannot be stored are left out and reported in
    /// [`InsertSummary::refused`], including those with a bad embedding ([`InputError::BadVector`], and
    /// [`InputError::NotFinite`] for a value beyond the range of f16).
    ///
    /// # Memory
    /// The iterator is consumed incrementally: documents and embeddings of about 32 MiB are held and
    /// committed together, each such group visible completely or not at all. So a corpus of any size can be
    /// given at once.
    ///
    /// # Shapes
    /// each vector `[dim]` f32, finite, and for cosine of norm 2^-14 or more; at unit norm or not. Stored as
    /// f16, at unit norm for cosine.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::Dimension`], [`InputError::ModelMismatch`] if the encoder changes during the
    /// call, and failures of the disk. If earlier groups are already stored, the error is [`Error::Partial`],
    /// with the failure as its source.
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
        // The embeddings belong to this encoder's space.
        let mut serving = self.serving();
        let dim = serving.model().dim();
        let mut summary = InsertSummary::new(serving.view().generation());
        loop {
            let (mut entries, mut bytes) = (Vec::new(), 0);
            let stored = summary.inserted + summary.replaced;
            while bytes < BYTES_PER_COMMIT
                && let Some((document, vector)) = rest.next()
            {
                bytes += 4 * dim + document.heap_bytes();
                let found = check_entry(&serving, &document, &vector);
                let found = found.map_err(|e| partial(e, stored, entries.len() + 1))?;
                entries.push((document, vector, found));
            }
            if entries.is_empty() {
                span.record("documents", summary.statuses.len());
                span.record("generation", summary.generation.0);
                return Ok(summary);
            }
            let config = serving.store.config();
            let own = |(document, _, bad): &(Document, _, Option<InputError>)| match bad {
                Some(_) => Some(InsertStatus::Refused),
                None => has_expired(document, config).then_some(InsertStatus::Expired),
            };
            let own: Vec<Fate> = entries.iter().map(own).collect();
            let fates = fates(entries.iter().map(|(document, ..)| document.id.as_str()).zip(own));
            let (mut group, mut deletes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (document, vector, bad)) in entries.into_iter().enumerate() {
                if let Some(error) = bad {
                    summary.refuse(summary.statuses.len() + number, &document, error);
                } else if fates[number].is_none() {
                    group.push(document);
                    rows.extend_from_slice(&vector);
                } else if fates[number] == Some(InsertStatus::Expired) {
                    deletes.push(document.id);
                }
            }
            let puts =
                serving.ingest().place(group, &rows).map_err(|e| partial(e, stored, rows.len() / dim))?;
            drop(rows);
            let refused = puts.len();
            let committed = self.commit_vectors(&mut serving, WriteBatch { puts, deletes });
            let committed = committed.map_err(|e| partial(e, stored, refused))?;
            summary.passages += serving.passages().map_or(0, |_| refused);
            summary.add(&fates, &committed);
            let done = summary.statuses.len() as u64;
            let progress = Progress { stage: Stage::Insert, done, total: None };
            if on_progress(progress) == ControlFlow::Break(()) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Commits embeddings of the encoder of `serving`. If another tree is in service by now, as after a
    /// tuning, they are routed anew, and `serving` becomes the model they were committed to.
    fn commit_vectors(&self, serving: &mut Arc<ActiveModel>, mut batch: WriteBatch) -> Result<Committed> {
        let given = BTreeSet::from([EncodedBy::Given]);
        loop {
            batch = match self.commit_as_made(serving, batch, &given)? {
                Ok(committed) => return Ok(committed),
                Err(batch) => batch,
            };
            let now = self.serving();
            if !now.bundle.has_encoder_of(&serving.bundle) {
                check_model(now.bundle.hash(), serving.bundle.hash())?;
            }
            let deletes = batch.deletes;
            let (documents, rows) = batch.puts.into_iter().map(|put| (put.document, put.rows)).unzip();
            let puts = now.ingest().keep_stored(documents, rows, false)?;
            batch = WriteBatch { puts, deletes };
            *serving = now;
        }
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::insert_batch`], with progress in documents, told several times a second, and cancellation:
    /// a group that is not encoded to its end is not stored.
    ///
    /// # Errors
    /// Those of [`Index::insert_batch`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_batch(mut self, documents: impl IntoIterator<Item = Document>) -> Result<InsertSummary> {
        let documents = documents.into_iter().collect();
        self.index.insert_texts(documents, false, &mut self.on_progress)
    }

    /// As [`Index::insert_all_or_none`], with progress in documents and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::insert_all_or_none`], and [`Error::Cancelled`] with the groups before it in place.
    pub fn insert_all_or_none(
        mut self,
        documents: impl IntoIterator<Item = Document>,
    ) -> Result<InsertSummary> {
        let documents = documents.into_iter().collect();
        self.index.insert_texts(documents, true, &mut self.on_progress)
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

/// A failure after some documents of the same call were stored.
fn partial(source: Error, stored: usize, refused: usize) -> Error {
    match source {
        source if stored == 0 => source,
        Error::Cancelled => Error::Cancelled,
        source => Error::Partial { stored, refused, source: Box::new(source) },
    }
}

/// Why a document cannot be stored, or `None`.
fn check(document: &Document, encoder: &Encoder, config: &StoreConfig) -> Result<Option<InputError>> {
    let id = || document.id.clone();
    let known = encoder.knows(&document.title)? || encoder.knows(&document.text)?;
    Ok(match check_document(document, config) {
        Err(error) => Some(error),
        Ok(()) if document.is_empty() => Some(InputError::EmptyDocument { id: id() }),
        Ok(()) if !known => Some(InputError::UnknownText { id: id() }),
        Ok(()) => None,
    })
}

/// Why a document with its embedding cannot be stored, or `None`.
///
/// # Errors
/// An embedding of the wrong width, which is an error of the whole call.
fn check_entry(serving: &ActiveModel, document: &Document, vector: &[f32]) -> Result<Option<InputError>> {
    match check_vector(vector, serving.model().dim(), serving.similarity)
        .and_then(|()| check_document(document, serving.store.config()))
    {
        Ok(()) => {}
        Err(error @ InputError::Dimension { .. }) => return Err(error.into()),
        Err(error) => return Ok(Some(error)),
    }
    // At unit norm every value fits.
    let overflows = |value: &f32| !f16::from_f32(*value).is_finite();
    let position = match serving.similarity {
        Similarity::Cosine => None,
        _ => vector.iter().position(overflows),
    };
    Ok(position.map(|position| InputError::NotFinite { id: document.id.clone(), position }))
}
