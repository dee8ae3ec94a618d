//! Change of model: every document encoded and routed anew beside the index in service, then one switch.
//!
//! The new model gets a store of its own. It is filled from the store in service in passes: each compares the
//! documents of both and encodes what differs, so a pass that was cut short is continued by the next one,
//! and what was written meanwhile is caught up with. Writers wait for the last pass only. The switch is one
//! rename, that of `CURRENT`. The old store is kept to go back to, which is the same in the other direction:
//! nothing written since is lost.
//!
//! `CURRENT` names a model before its directory is made, and until it is gone: as the unfinished one. So no
//! directory that somebody else put into `models/` is ever taken for one of the index's own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::Index;
use super::active_model::{ActiveModel, HandleOptions, Ranking, check_passages};
use super::begun::{self, remove_model};
use super::fusion::KeptFusion;
use super::insert::{BYTES_PER_COMMIT, DOCUMENTS_PER_COMMIT, stored_rows};
use super::measured::{self, Files};
use super::private_pool::PrivatePool;
use super::root::{Current, kind, sync};
use super::with_progress::WithProgress;
use crate::disk::{Backend, names};
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::{ModelHash, Row};
use crate::model::Bundle;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{
    Difference, Durability, EncodedBy, Put, Store, StoreError, StoreOptions, View, WriteBatch,
    files::create_directory,
};

/// Documents of a pass after which the next one is the last.
const FEW: usize = 64;
/// Passes before the last one, however many documents are written meanwhile.
const MOST_PASSES: usize = 8;
/// Documents that an error names.
const NAMED: usize = 5;
/// How long searches that still read the store to go back to are waited for.
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
    /// Documents that it routed with the embeddings that they had, since the encoder is the same. The others
    /// were there from a call before.
    pub routed: usize,
}

impl Index {
    /// Encodes and routes every document with another model, and changes over to it.
    ///
    /// Searches go on with the old model meanwhile, and so do writes, which are caught up with; they wait
    /// only while the last few documents are encoded. Then one atomic switch, in this handle at once and in
    /// read-only ones at their next [`Self::refresh`]. The old model and its embeddings are kept until
    /// [`Self::drop_previous_model`], or until the next change, and [`Self::rollback`] returns to them; until
    /// then they keep documents that are deleted meanwhile.
    ///
    /// Every document is encoded from its text, also one whose embedding was given
    /// ([`Self::insert_vectors`]); but where the bundle has the same encoder ([`Bundle::has_encoder_of`]),
    /// none is, and all are routed with the embeddings that they have. So a change to another encoder is
    /// refused where a document has neither title nor text: its embedding would be lost. The disk needs room
    /// for a second set of documents and embeddings.
    ///
    /// # Durability
    /// A call that is cut off, by a crash too, leaves the index as it was; calling again with the same
    /// bundle goes on from there, with another one starts over. Once it has returned, the change lasts.
    ///
    /// # Errors
    /// [`InputError::SameModel`]; [`InputError::WithoutText`]; [`InputError::ChangeUnderWay`]; failures of
    /// the encoder and of the disk, with nothing changed, and what was begun removed.
    pub fn reencode(&self, bundle: &Bundle) -> Result<ModelChange> {
        self.with_progress(no_progress).reencode(bundle)
    }

    /// Changes over to a bundle that is gone once this has returned, if `check` says so of the model that is
    /// filled with all documents and about to serve. For a caller that holds the right to ([`Self::alone`]).
    /// A call that is cancelled could not be continued, so what it began is removed.
    #[cfg(feature = "train")]
    pub(crate) fn change_if(
        &self,
        bundle: &Bundle,
        check: &mut Check<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<ModelChange>> {
        let changed = self.change_model_alone(bundle, check, on_progress);
        if matches!(changed, Err(Error::Cancelled)) {
            self.discard_unfinished();
        }
        changed
    }

    fn change_model_alone(
        &self,
        bundle: &Bundle,
        check: &mut Check<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<ModelChange>> {
        if bundle.hash() == self.serving().bundle.hash() {
            return Err(InputError::SameModel { model: bundle.hash() }.into());
        }
        if let Some(number) = self.root.current().kept
            && self.is_kept(number, bundle.hash())
        {
            match self.open_for_filling(number) {
                // The bundle at hand takes the place of a damaged copy.
                Err(Error::Model(error)) => {
                    tracing::warn!(index = %self.path().display(), %error, "the kept model is damaged");
                }
                kept => return self.change_to(kept?, check, on_progress),
            }
        }
        let changed = self.shadow(bundle).and_then(|target| self.change_to(target, check, on_progress));
        match &changed {
            // A call that was cancelled is continued by the next one.
            Ok(Some(_)) | Err(Error::Cancelled) => {}
            Ok(None) | Err(_) => self.discard_unfinished(),
        }
        changed
    }

    /// Returns to the model before the last change.
    ///
    /// Documents written since the change are encoded with it first, from their texts, so none is lost; where
    /// both models have one encoder, their embeddings are taken over. Where the encoders differ, an embedding
    /// that was given again for the same text does not go with it. What was measured of the earlier model
    /// ([`Self::fuse`](Self#method.fuse), [`Self::calibrate`]) and its query encoder are back as they were.
    /// Otherwise as [`Self::reencode`]. Another call returns again.
    ///
    /// # Errors
    /// [`InputError::NoPreviousModel`], and those of [`Self::reencode`].
    pub fn rollback(&self) -> Result<ModelChange> {
        self.with_progress(no_progress).rollback()
    }

    /// The model that [`Self::rollback`] would return to.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn previous_model(&self) -> Result<Option<ModelHash>> {
        // From the disk: a writer may have changed it since a read-only handle was opened.
        self.root.read()?.kept.map(|number| self.hash_of(number)).transpose()
    }

    fn hash_of(&self, number: u32) -> Result<ModelHash> {
        let store = Store::open_read_only(self.root.model_dir(number))?;
        Ok(store.config().model_hash)
    }

    /// Whether the kept model is this one. A damaged one is none: it must not be in the way of a change.
    fn is_kept(&self, number: u32, hash: ModelHash) -> bool {
        self.hash_of(number).map_or_else(
            |error| {
                tracing::warn!(index = %self.path().display(), %error, "the kept model cannot be read");
                false
            },
            |kept| kept == hash,
        )
    }

    /// Gives back the space of the model before the last change, and of whatever was begun and cut off; says
    /// whether there was a model to return to. After it, [`Self::rollback`] is an error.
    ///
    /// # Errors
    /// [`InputError::ChangeUnderWay`]; a damaged bundle of the model that serves, with nothing dropped;
    /// failures of the disk.
    pub fn drop_previous_model(&self) -> Result<bool> {
        self.check_writable()?;
        let _only = self.alone()?;
        self.remove_unfinished()?;
        self.clear_begun()?;
        let current = self.root.current();
        if current.kept.is_some() {
            // What is left must be of use.
            Bundle::open(self.root.model_dir(current.serving).join(names::BUNDLE))?;
            self.root.publish(Current { unfinished: current.kept, ..current.without_kept() })?;
            self.remove_unfinished()?;
        }
        Ok(current.kept.is_some())
    }

    /// A model that does not serve, open for writing.
    fn open_for_filling(&self, number: u32) -> Result<ActiveModel> {
        ActiveModel::open(self.root.backend(), &self.root.model_dir(number), number, self.filling())
    }

    /// The store that is to be filled for a model: the one that an earlier call began, or a new one.
    fn shadow(&self, bundle: &Bundle) -> Result<ActiveModel> {
        if let Some(begun) = self.root.current().unfinished {
            match self.open_for_filling(begun) {
                Ok(begun) if begun.bundle.hash() == bundle.hash() => return Ok(begun),
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
        let serving = self.serving();
        let (analyzer, passages) = (serving.analyzer(), serving.passages());
        check_passages(bundle, passages)?;
        let ranking = Ranking { similarity: serving.similarity, analyzer, passages };
        ActiveModel::create(backend, &dir, number, bundle, ranking, self.filling())
    }

    /// Removes the unfinished model, of which nothing was ever promised.
    fn remove_unfinished(&self) -> Result<()> {
        let current = self.root.current();
        let Some(number) = current.unfinished else { return Ok(()) };
        self.root.check()?;
        remove_model(&*self.root.backend(), self.path(), number)?;
        Ok(self.root.publish(Current { unfinished: None, ..current })?)
    }

    /// As [`Self::remove_unfinished`], after a failure, or where nothing rests on it. The next change tries
    /// again.
    pub(super) fn discard_unfinished(&self) {
        if let Err(error) = self.remove_unfinished() {
            let index = self.path().display();
            tracing::warn!(%index, %error, "could not remove a model that does not serve");
        }
    }

    /// Removes whatever was begun and cut off, but for a change of model, which can be continued. For a
    /// caller that holds the right to ([`Self::alone`]).
    ///
    /// # Errors
    /// Failures of the disk.
    pub(crate) fn clear_begun(&self) -> Result<()> {
        Ok(begun::clear(&*self.root.backend(), self.path(), &self.root.current())?)
    }

    /// As [`Self::clear_begun`], where nothing rests on it.
    pub(crate) fn discard_begun(&self) {
        if let Err(error) = self.clear_begun() {
            let index = self.path().display();
            tracing::warn!(%index, %error, "could not remove what was begun; the next writer tries again");
        }
    }

    /// Fills the target and, if `check` says so, puts it into service.
    fn change_to(
        &self,
        target: ActiveModel,
        check: &mut Check<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<ModelChange>> {
        let before = self.serving();
        let keeps_embeddings = before.bundle.has_encoder_of(&target.bundle);
        let backend = self.root.backend();
        let encoded_by = if keeps_embeddings { before.encoded_by(&*backend) } else { target.encodes() };
        let filling = Filling { target: &target, keeps_embeddings, encoded_by, backend: &*backend };
        let mut filled = 0;
        let mut tick = |more: usize, left: usize| {
            filled += more;
            Progress::new(Stage::Reencode, filled, filled + left).tell(on_progress, Error::Cancelled)
        };
        for _ in 0..MOST_PASSES {
            let view = before.view();
            let difference = filling.difference(&view)?;
            let few = difference.len() <= FEW;
            let puts: Puts<'_> = &|rows, documents| filling.puts(&view, rows, documents);
            filling.fill(&view, difference, puts, &mut tick)?;
            if few {
                break;
            }
        }
        if !check(&target, on_progress)? {
            return Ok(None);
        }
        // What was written during the last pass. Writers wait, so nobody is told: a callback could be one.
        let apart = PrivatePool::new();
        let no_writes = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let view = before.view();
        let difference = filling.difference(&view)?;
        filled += difference.missing.len();
        let puts = &|rows: &[Row], documents| apart.run(|| filling.puts(&view, rows, documents));
        filling.fill(&view, difference, puts, &mut |_, _| Ok(()))?;
        target.store.flush()?;
        // Words may have been added to the index since the target was begun or kept.
        if before.store.is_lexical() && !target.store.is_lexical() {
            target.store.make_lexical(before.store.terms(), &mut || Ok(()))?;
        }
        let (number, learned) = (target.number, target.kept_fusion());
        // Opened again, with the durability of the handle.
        drop(target);
        let store = StoreOptions { lock_wait: READERS_WAIT, ..self.options.store };
        let dir = self.root.model_dir(number);
        // What is to serve is checked whole before it does.
        let load = self.options.load.lazy_encoder(false);
        let next = ActiveModel::open(self.root.backend(), &dir, number, HandleOptions { store, load })?;
        let change = ModelChange {
            from: before.bundle.hash(),
            to: next.bundle.hash(),
            documents: view.live(),
            encoded: if keeps_embeddings { 0 } else { filled },
            routed: if keeps_embeddings { filled } else { 0 },
        };
        before.store.flush()?;
        let old = self.root.current();
        let measured = match old.kept == Some(number) {
            // What was measured of it, and nothing else.
            true => old.kept_measured,
            false => {
                let fusion = learned.or_else(|| before.kept_fusion().filter(|_| keeps_embeddings));
                self.take_fusion_over(fusion, &next)
            }
        };
        // What was kept so far has served its time, unless it is what serves now.
        let unfinished = old.others().find(|&other| other != number);
        let (kept, kept_measured) = (Some(old.serving), old.measured);
        self.root.publish(Current { serving: number, measured, kept, kept_measured, unfinished, ..old })?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.discard_unfinished();
        drop(no_writes);
        self.calibrate_if_needed(on_progress);
        Ok(Some(change))
    }

    /// Gives a new model a weight of words: the one that was learned for it, or that of a model with the same
    /// encoder, whose scores are the same. Before the switch, so that it lasts where that does; nothing rests
    /// on the file.
    fn take_fusion_over(&self, fusion: Option<KeptFusion>, next: &ActiveModel) -> Files {
        let (backend, dir) = (self.root.backend(), self.root.model_dir(next.number));
        let fusion = fusion.filter(|_| next.store.is_lexical());
        let written = match &fusion {
            Some(fusion) => measured::FUSION.write(&*backend, &dir, &next.origin(), fusion),
            // A change that was cut off may have left one that does not hold any more.
            None => measured::FUSION.remove(&*backend, &dir),
        };
        if let Err(error) = written {
            tracing::warn!(index = %self.path().display(), %error, "the weight of words is not kept");
        }
        let is_there = fusion.is_some();
        next.put_fusion(fusion);
        Files::default().with(measured::FUSION, is_there)
    }

    /// How a store is open while it is filled: each group lasts, so that a call that is cut off can be
    /// continued.
    fn filling(&self) -> HandleOptions {
        let own = self.options.store;
        let store = StoreOptions { durability: Durability::EveryBatch, lock_wait: READERS_WAIT, ..own };
        HandleOptions { store, load: self.options.load.lazy_encoder(false) }
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::reencode`], with progress in documents and cancellation between groups of them.
    ///
    /// # Errors
    /// Those of [`Index::reencode`], and [`Error::Cancelled`].
    pub fn reencode(mut self, bundle: &Bundle) -> Result<ModelChange> {
        self.index.check_writable()?;
        let _only = self.index.alone()?;
        changed(self.index.change_model_alone(bundle, &mut always, &mut self.on_progress)?)
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
        changed(index.change_to(index.open_for_filling(kept)?, &mut always, &mut self.on_progress)?)
    }
}

/// Whether a model that has all documents is put into service.
pub(crate) type Check<'a> = dyn FnMut(&ActiveModel, &mut OnProgress<'_>) -> Result<bool> + 'a;

fn always(_: &ActiveModel, _: &mut OnProgress<'_>) -> Result<bool> {
    Ok(true)
}

/// Of a change that nothing stood against.
fn changed(change: Option<ModelChange>) -> Result<ModelChange> {
    change.ok_or(Error::Cancelled)
}

/// What fills a store from another one.
struct Filling<'a> {
    target: &'a ActiveModel,
    /// Whether the embeddings are those of the target's encoder.
    keeps_embeddings: bool,
    /// What made the embeddings that the target gets.
    encoded_by: BTreeSet<EncodedBy>,
    backend: &'a dyn Backend,
}

/// What is stored for some rows of a view, with their documents.
type Puts<'a> = &'a dyn Fn(&[Row], Vec<Document>) -> Result<Vec<Put>>;

impl Filling<'_> {
    /// What the target lacks of a view.
    ///
    /// # Errors
    /// [`InputError::WithoutText`] where a document would be encoded that has no text; failures of reading.
    fn difference(&self, view: &View) -> Result<Difference> {
        let difference = view.difference(&self.target.view(), self.keeps_embeddings)?;
        if !self.keeps_embeddings {
            let mut without = WithoutText::default();
            difference
                .missing
                .iter()
                .try_for_each(|&row| view.document(row).map(|own| without.note(&own)))?;
            without.refuse()?;
        }
        Ok(difference)
    }

    fn puts(&self, view: &View, rows: &[Row], documents: Vec<Document>) -> Result<Vec<Put>> {
        let ingest = self.target.ingest();
        if !self.keeps_embeddings {
            return Ok(ingest.prepare(documents)?.puts);
        }
        let rows = rows.iter().map(|&row| stored_rows(view, row)).collect::<Result<_>>()?;
        ingest.keep_stored(documents, rows, false)
    }

    /// Stores what the target lacks of a view; tells how many documents were stored, and how many are left.
    fn fill(
        &self,
        view: &View,
        difference: Difference,
        puts: Puts<'_>,
        tick: &mut dyn FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let Difference { missing, surplus } = difference;
        self.target.store.commit(WriteBatch { puts: Vec::new(), deletes: surplus })?;
        if !missing.is_empty() {
            self.target.note_encoded(self.backend, &self.encoded_by)?;
        }
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            // Bounded by bytes as inserts are.
            let (mut documents, mut bytes) = (Vec::new(), 0);
            while documents.len() < DOCUMENTS_PER_COMMIT.min(rest.len()) && bytes < BYTES_PER_COMMIT {
                let document = view.document(rest[documents.len()])?;
                bytes += document.heap_bytes();
                documents.push(document);
            }
            let (group, left) = rest.split_at(documents.len());
            rest = left;
            self.target.store.commit(WriteBatch { puts: puts(group, documents)?, deletes: Vec::new() })?;
            tick(group.len(), rest.len())?;
        }
        Ok(())
    }
}

/// Documents that an encoder has nothing to read of: they have an embedding alone.
#[derive(Debug, Default)]
pub(crate) struct WithoutText {
    documents: usize,
    /// Of the first of them.
    ids: Vec<String>,
}

impl WithoutText {
    #[cfg(feature = "train")]
    pub fn of(documents: &[Document]) -> Self {
        let mut without = Self::default();
        documents.iter().for_each(|document| without.note(document));
        without
    }

    fn note(&mut self, document: &Document) {
        if document.is_empty() {
            self.documents += 1;
            if self.ids.len() < NAMED {
                self.ids.push(document.id.clone());
            }
        }
    }

    /// Refuses a change to another encoder, which would lose their embeddings.
    ///
    /// # Errors
    /// [`InputError::WithoutText`].
    pub fn refuse(self) -> Result<()> {
        let Self { documents, ids } = self;
        match documents {
            0 => Ok(()),
            _ => Err(InputError::WithoutText { documents, ids }.into()),
        }
    }
}

/// Makes the directory of a model, durably.
fn make_directory(backend: &dyn Backend, dir: &Path) -> Result<()> {
    create_directory(backend, dir)?;
    Ok(dir.parent().map_or(Ok(()), |models| sync(backend, models))?)
}
