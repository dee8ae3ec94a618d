//! Change of model: every document is encoded and routed anew next to the index in service, then one switch.
//!
//! The new model gets a store of its own. It is filled from the store in service in passes: each compares the
//! documents of both and encodes what differs, so a pass that was cut short is continued by the next one, and
//! writes in the meantime are picked up. Writers wait for the last pass only. The switch is one rename, that
//! of `CURRENT`. The old store is kept. Returning to it is the same process in the other direction, so
//! nothing written since is lost.
//!
//! `CURRENT` names a model, as the unfinished one, from before its directory is made until it is gone. So a
//! foreign directory in `models/` is never mistaken for one of the index's own.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Index;
use super::active_model::{ActiveModel, HandleOptions, Ranking, check_passages};
use super::begun::{self, remove_model};
use super::fusion::KeptFusion;
use super::insert::{BYTES_PER_COMMIT, DOCUMENTS_PER_COMMIT, stored_rows};
use super::private_pool::PrivatePool;
use super::root::{Current, kind, sync};
use super::with_progress::WithProgress;
use crate::disk::{Backend, names};
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::{ModelHash, Row};
use crate::model::{Bundle, Sharing};
use crate::progress::{OnProgress, Progress, Stage, Tick, no_progress};
use crate::store::{
    DocumentDifference, Durability, EncodedBy, Put, Store, StoreError, StoreOptions, View, WriteBatch,
    files::create_directory,
};

/// If a pass has at most this many documents, the next pass is the last.
const FEW: usize = 64;
/// Most passes before the last one, however many documents are written in the meantime.
const MOST_PASSES: usize = 8;
/// Documents named in an error.
const NAMED: usize = 5;
/// How long to wait for searches that still read the kept store.
const READERS_WAIT: Duration = Duration::from_secs(60);

/// What a change of model did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelChange {
    /// The model that was in service.
    pub from: ModelHash,
    /// The present model.
    pub to: ModelHash,
    /// Live documents.
    pub documents: usize,
    /// Documents that this call encoded.
    pub encoded: usize,
    /// Documents routed with their existing embeddings, because the encoder is the same. The others were
    /// stored by an earlier call.
    pub routed: usize,
}

impl Index {
    /// Encodes and routes every document with another model, and switches to it.
    ///
    /// Searches and writes go on with the old model in the meantime; writes wait only while the last few
    /// documents are encoded. Then one atomic switch takes effect, in this handle at once and in read-only
    /// ones at their next [`Self::refresh`]. The old model and its embeddings, including documents deleted
    /// since, are kept until [`Self::drop_previous_model`] or the next change; until then [`Self::rollback`]
    /// returns to them.
    ///
    /// Every document is encoded from its text, even if its embedding was given ([`Self::insert_vectors`]).
    /// If the bundle has the same encoder ([`Bundle::has_encoder_of`]), nothing is encoded, and documents are
    /// routed with the embeddings that they have. So a change to another encoder is refused if a document has
    /// neither title nor text: its embedding would be lost. The disk needs room for a second set of documents
    /// and embeddings.
    ///
    /// # Durability
    /// A call that is interrupted, even by a crash, leaves the index as it was. Calling again with the same
    /// bundle continues it; with another bundle it starts over. Once it has returned, the change is durable.
    ///
    /// # Errors
    /// [`InputError::SameModel`]; [`InputError::WithoutText`]; [`InputError::NoEncoder`] for a
    /// bundle without an encoder; [`InputError::ChangeUnderWay`]; failures of
    /// the encoder and of the disk, with nothing changed and the unfinished model removed.
    pub fn reencode(&self, bundle: &Bundle) -> Result<ModelChange> {
        self.with_progress(no_progress).reencode(bundle)
    }

    /// Switches to a bundle that is deleted once this has returned, if `check` accepts the filled model. The
    /// caller must hold [`Self::alone`]. A cancelled call could not be continued, so the unfinished model is
    /// removed.
    #[cfg(feature = "train")]
    pub(crate) fn change_if(
        &self,
        bundle: &Bundle,
        check: &mut Check<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<ModelChange>> {
        let changed = self.change_with(bundle, on_progress, |target, filled, on_progress| {
            match check(&target, on_progress)? {
                true => self.switch(target, filled, on_progress).map(Some),
                false => Ok(None),
            }
        });
        if matches!(changed, Ok(None) | Err(Error::Cancelled)) {
            self.discard_unfinished();
        }
        changed
    }

    /// Fills a model and passes it to `finish`, with the number of documents that it got.
    fn change_with<T>(
        &self,
        bundle: &Bundle,
        on_progress: &mut OnProgress<'_>,
        finish: impl FnOnce(ActiveModel, usize, &mut OnProgress<'_>) -> Result<T>,
    ) -> Result<T> {
        if bundle.hash() == self.serving().bundle.hash() {
            return Err(InputError::SameModel { model: bundle.hash() }.into());
        }
        if !bundle.has_encoder_of(&self.serving().bundle) {
            bundle.model().encoder()?;
        }
        let changed = self.model_to_fill(bundle).and_then(|target| {
            let filled = self.fill_while_serving(&target, on_progress)?;
            finish(target, filled, on_progress)
        });
        // The next call continues a cancelled one.
        if changed.as_ref().is_err_and(|error| !matches!(error, Error::Cancelled)) {
            self.discard_unfinished();
        }
        changed
    }

    /// The model to change to: the kept one if it is this bundle, or a new one.
    fn model_to_fill(&self, bundle: &Bundle) -> Result<ActiveModel> {
        if let Some(number) = self.root.current().kept
            && self.is_kept(number, bundle.hash())
        {
            match self.open_for_filling(number) {
                // The given bundle replaces a damaged copy.
                Err(Error::Model(error)) => {
                    tracing::warn!(index = %self.path().display(), %error, "the kept model is damaged");
                }
                kept => return kept,
            }
        }
        self.unfinished_or_new(bundle)
    }

    /// Returns to the model before the last change.
    ///
    /// Documents written since the change are first encoded with the earlier model from their texts, so none
    /// is lost. Those whose title and text are as before have their earlier embedding back; if both models
    /// have the same encoder, the present embeddings are kept. If the encoders differ, an embedding that was
    /// given again for the same text is not carried over. The earlier model's measurements
    /// ([`Self::fuse`](Self#method.fuse), [`Self::calibrate`]) and its query encoder come back as they were.
    /// Otherwise as [`Self::reencode`]. Another call switches back again.
    ///
    /// # Errors
    /// [`InputError::NoPreviousModel`]; [`InputError::WithoutVector`] if the earlier model has no encoder and
    /// documents were added or got other texts; and those of [`Self::reencode`].
    pub fn rollback(&self) -> Result<ModelChange> {
        self.with_progress(no_progress).rollback()
    }

    /// The model that [`Self::rollback`] would return to.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn previous_model(&self) -> Result<Option<ModelHash>> {
        // Read from disk: a writer may have changed it since this read-only handle was opened.
        self.root.read()?.kept.map(|number| self.hash_of(number)).transpose()
    }

    fn hash_of(&self, number: u32) -> Result<ModelHash> {
        let store = Store::open_read_only(self.root.model_dir(number))?;
        Ok(store.config().model_hash)
    }

    /// Whether this is the kept model. A damaged one does not count: it must not block a change.
    fn is_kept(&self, number: u32, hash: ModelHash) -> bool {
        self.attempted(self.hash_of(number), "the kept model cannot be read") == Some(hash)
    }

    /// Frees the space of the previous model and of everything unfinished; returns whether there was a
    /// previous model. Afterwards [`Self::rollback`] is an error.
    ///
    /// # Errors
    /// [`InputError::ChangeUnderWay`]; a damaged bundle of the serving model, with nothing dropped; failures
    /// of the disk.
    pub fn drop_previous_model(&self) -> Result<bool> {
        self.check_writable()?;
        let _only = self.alone()?;
        self.remove_unfinished()?;
        self.clear_begun()?;
        let current = self.root.current();
        if current.kept.is_some() {
            // The remaining model must be usable.
            Bundle::open(self.root.model_dir(current.serving).join(names::BUNDLE))?;
            self.root.publish(Current { unfinished: current.kept, kept: None, ..current })?;
            self.remove_unfinished()?;
        }
        Ok(current.kept.is_some())
    }

    /// A model that is not in service, open for writing.
    fn open_for_filling(&self, number: u32) -> Result<ActiveModel> {
        ActiveModel::open(self.root.backend(), &self.root.model_dir(number), number, &self.filling())
    }

    /// The model of a bundle that an earlier call has begun to fill, or a new one.
    fn unfinished_or_new(&self, bundle: &Bundle) -> Result<ActiveModel> {
        let serving = self.serving();
        let keeps_embeddings = serving.bundle.has_encoder_of(bundle);
        if let Some(begun) = self.root.current().unfinished {
            match self.open_for_filling(begun) {
                Ok(model)
                    if model.bundle.hash() == bundle.hash()
                        && (keeps_embeddings || model.precision() == model.measured().precision) =>
                {
                    return Ok(model);
                }
                Err(Error::Store(error @ StoreError::Locked { .. })) => return Err(error.into()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(index = %self.path().display(), %error, "the beginning of a change is unusable");
                }
            }
            self.remove_unfinished()?;
        }
        let backend = self.root.backend();
        let is_free = |number| Ok(kind(&*backend, &self.root.model_dir(number))?.is_none());
        let (number, current) = self.root.current().with_new(is_free)?;
        self.root.publish(current)?;
        let dir = self.root.model_dir(number);
        make_directory(&*backend, &dir)?;
        let (analyzer, passages) = (serving.analyzer(), serving.passages());
        check_passages(bundle, passages)?;
        let expires = serving.store.config().expires.clone();
        let ranking = Ranking { similarity: serving.similarity, analyzer, passages, expires };
        let options = self.filling();
        // A bundle that was trained here is soon removed.
        let is_own = bundle.path() == self.path().join(names::TRAINED);
        let sharing = if is_own { Sharing::Index } else { options.sharing() };
        let model =
            ActiveModel::create(Arc::clone(&backend), &dir, number, bundle, sharing, ranking, &options)?;
        let precision = serving.measured().precision;
        if keeps_embeddings && model.measured().precision != precision {
            model.measure(&*backend, |measured| measured.precision = precision)?;
        }
        Ok(model)
    }

    /// Removes the unfinished model, which carries no promise.
    fn remove_unfinished(&self) -> Result<()> {
        let current = self.root.current();
        let Some(number) = current.unfinished else { return Ok(()) };
        self.root.check()?;
        remove_model(&*self.root.backend(), self.path(), number)?;
        Ok(self.root.publish(Current { unfinished: None, ..current })?)
    }

    /// As [`Self::remove_unfinished`], if failure does not matter. The next change tries again.
    pub(super) fn discard_unfinished(&self) {
        self.attempted(self.remove_unfinished(), "could not remove a model that does not serve");
    }

    /// Removes everything unfinished except a change of model, which can be continued. The caller must hold
    /// [`Self::alone`].
    ///
    /// # Errors
    /// Failures of the disk.
    pub(crate) fn clear_begun(&self) -> Result<()> {
        Ok(begun::clear(&*self.root.backend(), self.path(), &self.root.current())?)
    }

    /// As [`Self::clear_begun`], if failure does not matter.
    pub(crate) fn discard_begun(&self) {
        let failed = "could not remove the remains of an interrupted operation; the next writer tries again";
        self.attempted(self.clear_begun(), failed);
    }

    /// Fills a model from the one in service, except for writes made meanwhile; returns how many
    /// documents it got.
    fn fill_while_serving(&self, target: &ActiveModel, on_progress: &mut OnProgress<'_>) -> Result<usize> {
        let before = self.serving();
        let filling = Filling::new(&before, target, self.root.backend());
        let (mut done, mut filled) = (0, 0);
        let mut tick = |more: usize, left: usize| {
            done += more;
            Progress::new(Stage::Reencode, done, done + left).tell(on_progress, Error::Cancelled)
        };
        for _ in 0..MOST_PASSES {
            let view = before.view();
            let (difference, made) = filling.difference(&view)?;
            filled += made;
            let few = difference.len() <= FEW;
            let puts: Puts<'_> = &|rows, documents, tick| filling.puts(&view, rows, documents, tick);
            filling.store(&view, difference, puts, &mut tick)?;
            if few {
                break;
            }
        }
        Ok(filled)
    }

    /// Puts a filled model into service.
    fn switch(
        &self,
        target: ActiveModel,
        mut filled: usize,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<ModelChange> {
        let before = self.serving();
        let filling = Filling::new(&before, &target, self.root.backend());
        let keeps_embeddings = filling.keeps_embeddings;
        // Picks up writes made during the last pass. Writers wait now, so progress is not reported: a
        // callback might write.
        let apart = PrivatePool::new();
        let no_writes = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let view = before.view();
        let (difference, made) = filling.difference(&view)?;
        filled += made;
        let puts: Puts<'_> = &|rows, documents, _| {
            apart.run(|| filling.puts(&view, rows, documents, &mut || ControlFlow::Continue(())))
        };
        filling.store(&view, difference, puts, &mut |_, _| Ok(()))?;
        target.store.flush()?;
        // Posting lists may have been added to the index since the target was begun or kept.
        if before.store.is_lexical() && !target.store.is_lexical() {
            target.store.make_lexical(before.store.terms(), &mut || Ok(()))?;
        }
        let (number, learned) = (target.number, target.measured().fusion.clone());
        // Reopened with the durability of the handle.
        drop(target);
        let store = StoreOptions { lock_wait: READERS_WAIT, ..self.options.store };
        let dir = self.root.model_dir(number);
        // Check the target completely before it goes into service.
        let load = self.options.load.lazy_encoder(false);
        let options = HandleOptions { store, load, models: None, cache: self.options.cache.clone() };
        let next = ActiveModel::open(self.root.backend(), &dir, number, &options)?;
        let change = ModelChange {
            from: before.bundle.hash(),
            to: next.bundle.hash(),
            documents: view.live(),
            encoded: if keeps_embeddings { 0 } else { filled },
            routed: if keeps_embeddings { filled } else { 0 },
        };
        before.store.flush()?;
        let old = self.root.current();
        // A kept model has its own measurements.
        if old.kept != Some(number) {
            let of_before = || before.measured().fusion.clone().filter(|_| keeps_embeddings);
            self.take_fusion_over(learned.or_else(of_before), &next);
        }
        let filled = next.view().generation().0;
        let noted = next.measure(&*self.root.backend(), |measured| measured.filled = Some(filled));
        self.attempted(noted, "a repair will not take lost embeddings from the kept model");
        if keeps_embeddings {
            let copied = before.copy_vectors(&*self.root.backend(), &dir, next.bundle.hash());
            self.attempted(copied, "the vectors of judged questions are made again");
        }
        // The model kept so far is not needed any more, unless it is the one now in service.
        let unfinished = old.others().find(|&other| other != number);
        self.root.publish(Current { serving: number, kept: Some(old.serving), unfinished, ..old })?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.discard_unfinished();
        drop(no_writes);
        before.memory.retire();
        self.judgments_changed(&HashMap::new());
        self.calibrate_if_needed(on_progress);
        Ok(change)
    }

    /// Gives a new model a learned weight of words: its own, or that of a model with the same encoder, which
    /// has the same scores. Before the switch, so that both are durable together; losing the file is
    /// harmless.
    fn take_fusion_over(&self, fusion: Option<KeptFusion>, next: &ActiveModel) {
        let fusion = fusion.filter(|_| next.store.is_lexical());
        // An interrupted change may have left an outdated one.
        if next.measured().fusion != fusion {
            let kept = next.measure(&*self.root.backend(), |measured| measured.fusion = fusion);
            self.attempted(kept, "the weight of words is not kept");
        }
    }

    /// How a store is open while it is filled: each group is durable, so that an interrupted call can be
    /// continued.
    fn filling(&self) -> HandleOptions {
        let own = self.options.store;
        let store = StoreOptions { durability: Durability::EveryBatch, lock_wait: READERS_WAIT, ..own };
        let mut load = self.options.load.lazy_encoder(false);
        let serving = self.serving();
        // An encoder without matrix products says nothing about how others are to encode.
        if serving.model().encoder().is_ok_and(|encoder| !encoder.is_static()) {
            load = load.usual_precision(serving.measured().precision.unwrap_or_default());
        }
        HandleOptions { store, load, ..self.options.clone() }
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::reencode`], with progress in documents and cancellation between groups of them.
    ///
    /// # Errors
    /// Those of [`Index::reencode`], and [`Error::Cancelled`].
    pub fn reencode(mut self, bundle: &Bundle) -> Result<ModelChange> {
        let index = self.index;
        index.check_writable()?;
        let _only = index.alone()?;
        let switch =
            |target, filled, on_progress: &mut OnProgress<'_>| index.switch(target, filled, on_progress);
        index.change_with(bundle, &mut self.on_progress, switch)
    }

    /// As [`Index::rollback`], with progress in documents and cancellation between groups of them.
    ///
    /// # Errors
    /// Those of [`Index::rollback`], and [`Error::Cancelled`].
    pub fn rollback(mut self) -> Result<ModelChange> {
        let index = self.index;
        index.check_writable()?;
        let _only = index.alone()?;
        let kept = index.root.current().kept.ok_or(InputError::NoPreviousModel)?;
        let target = index.open_for_filling(kept)?;
        let filled = index.fill_while_serving(&target, &mut self.on_progress)?;
        index.switch(target, filled, &mut self.on_progress)
    }
}

/// Decides whether a completely filled model goes into service.
#[cfg(feature = "train")]
pub(crate) type Check<'a> = dyn FnMut(&ActiveModel, &mut OnProgress<'_>) -> Result<bool> + 'a;

/// Fills one store from another.
struct Filling<'a> {
    target: &'a ActiveModel,
    /// Whether the embeddings are those of the target's encoder.
    keeps_embeddings: bool,
    /// What made the target's embeddings.
    encoded_by: BTreeSet<EncodedBy>,
    backend: Arc<dyn Backend>,
}

/// What to store for some rows of a view, given their documents.
type Puts<'a> = &'a dyn Fn(&[Row], Vec<Document>, &mut Tick<'_>) -> Result<Vec<Put>>;

impl<'a> Filling<'a> {
    fn new(before: &ActiveModel, target: &'a ActiveModel, backend: Arc<dyn Backend>) -> Self {
        let keeps_embeddings = before.bundle.has_encoder_of(&target.bundle);
        let encoded_by = if keeps_embeddings { before.encoded_by() } else { target.encodes() };
        Self { target, keeps_embeddings, encoded_by, backend }
    }

    /// What the target lacks compared with a view, and how many documents are to be encoded, or to be routed
    /// with the embeddings of the view.
    ///
    /// # Errors
    /// [`InputError::WithoutText`] if a document that must be encoded has no text, and
    /// [`InputError::WithoutVector`] if there is no encoder for it; failures of reading.
    fn difference(&self, view: &View) -> Result<(DocumentDifference, usize)> {
        let own = self.target.view();
        let difference = view.difference(&own, self.keeps_embeddings)?;
        let mut made = difference.missing.len();
        if !self.keeps_embeddings {
            let has_encoder = self.target.model().has_encoder();
            let mut without = WithoutText::default();
            for &row in &difference.missing {
                let document = view.document(row)?;
                if row_of_texts(&own, &document)?.is_some() {
                    made -= 1;
                } else if document.is_empty() || !has_encoder {
                    without.note(&document);
                }
            }
            without.refuse(has_encoder)?;
        }
        Ok((difference, made))
    }

    fn puts(
        &self,
        view: &View,
        rows: &[Row],
        documents: Vec<Document>,
        tick: &mut Tick<'_>,
    ) -> Result<Vec<Put>> {
        let (ingest, own) = (self.target.ingest(), self.target.view());
        if !self.keeps_embeddings {
            let kept = |document: &Document| {
                row_of_texts(&own, document)?.map(|row| stored_rows(&own, row)).transpose()
            };
            let rows = documents.iter().map(kept).collect::<Result<_>>()?;
            return ingest.again(documents, rows, true, tick);
        }
        let rows = rows.iter().map(|row| stored_rows(view, *row)).collect::<Result<_>>()?;
        ingest.keep_stored(documents, rows, false)
    }

    /// Stores what the target lacks compared with a view; `tick` gets how many documents were stored, and how
    /// many remain.
    fn store(
        &self,
        view: &View,
        difference: DocumentDifference,
        puts: Puts<'_>,
        tick: &mut dyn FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let DocumentDifference { missing, surplus } = difference;
        self.commit(WriteBatch { puts: Vec::new(), deletes: surplus })?;
        if !missing.is_empty() {
            self.target.note_encoded(&*self.backend, &self.encoded_by)?;
        }
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            let (pace, begun) = (&self.target.pace, Instant::now());
            // Bounded by bytes, as inserts are.
            let (mut documents, mut bytes) = (Vec::new(), 0);
            let most = pace.share(DOCUMENTS_PER_COMMIT).min(rest.len());
            while documents.len() < most && bytes < BYTES_PER_COMMIT {
                let document = view.document(rest[documents.len()])?;
                bytes += document.heap_bytes();
                documents.push(document);
            }
            let (group, left) = rest.split_at(documents.len());
            rest = left;
            let still = &mut || match tick(0, group.len() + rest.len()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let puts = puts(group, documents, still)?;
            self.commit(WriteBatch { puts, deletes: Vec::new() })?;
            if !rest.is_empty() {
                pace.took(begun.elapsed());
            }
            tick(group.len(), rest.len())?;
        }
        Ok(())
    }

    /// If it fails, the index is as before.
    fn commit(&self, batch: WriteBatch) -> Result<()> {
        self.target.store.commit(batch).map(drop).map_err(|error| error.without_counts().into())
    }
}

/// The row of a view that has the title and text of a document, and so an embedding for it.
pub(super) fn row_of_texts(view: &View, document: &Document) -> Result<Option<Row>> {
    let Some(row) = view.row_of(&document.id)? else { return Ok(None) };
    let own = view.document(row)?;
    let is_same = own.title == document.title && own.text == document.text && own.outline == document.outline;
    Ok(is_same.then_some(row))
}

/// Documents without an embedding for a model, and without a text or an encoder to make one.
#[derive(Debug, Default)]
pub(crate) struct WithoutText {
    documents: usize,
    /// Ids of the first of them.
    ids: Vec<String>,
}

impl WithoutText {
    #[cfg(feature = "train")]
    pub fn of(documents: &[Document]) -> Self {
        let mut without = Self::default();
        documents.iter().filter(|own| own.is_empty()).for_each(|document| without.note(document));
        without
    }

    fn note(&mut self, document: &Document) {
        self.documents += 1;
        if self.ids.len() < NAMED {
            self.ids.push(document.id.clone());
        }
    }

    /// Refuses a change to a model, with or without an encoder, that has no embeddings for these.
    ///
    /// # Errors
    /// [`InputError::WithoutText`] and [`InputError::WithoutVector`].
    pub fn refuse(self, has_encoder: bool) -> Result<()> {
        let Self { documents, ids } = self;
        match (documents, has_encoder) {
            (0, _) => Ok(()),
            (_, true) => Err(InputError::WithoutText { documents, ids }.into()),
            (_, false) => Err(InputError::WithoutVector { documents, ids }.into()),
        }
    }
}

/// Makes the directory of a model, durably.
fn make_directory(backend: &dyn Backend, dir: &Path) -> Result<()> {
    create_directory(backend, dir)?;
    Ok(dir.parent().map_or(Ok(()), |models| sync(backend, models))?)
}
