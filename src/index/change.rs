//! Change of model: every document encoded and routed anew beside the index in service, then one switch.
//!
//! The new model gets a store of its own. It is filled from the store in service in passes: each compares the
//! documents of both and encodes what differs, so a pass that was cut short is continued by the next one,
//! and what was written meanwhile is caught up with. Writers wait for the last pass only. The switch is one
//! rename, that of the manifest in the root of the index. The old store is kept to go back to, which is
//! the same in the other direction: nothing written since is lost.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Index;
use super::apart::Apart;
use super::insert::DOCUMENTS_PER_COMMIT;
use super::options::HandleOptions;
use super::serving::{MODELS_DIR, Serving, model_dir, remove_model, store_dir};
use crate::error::{Error, InputError, Result};
use crate::model::{Bundle, ModelHash};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{
    DAMAGED_DIR, Difference, Durability, Models, Operation, Store, StoreError, StoreOptions, WriteBatch,
};

/// Documents that may be left for the last pass, during which writers wait.
const FEW: usize = DOCUMENTS_PER_COMMIT;
/// Passes before the last one, however many documents are written meanwhile.
const MOST_PASSES: usize = 8;
/// How long searches that still read the store to go back to are waited for.
const READERS_WAIT: Duration = Duration::from_secs(60);

/// What a change of model did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelChange {
    /// The model that was in service.
    pub from: ModelHash,
    /// The one that is now.
    pub to: ModelHash,
    /// Live documents.
    pub documents: usize,
    /// Documents that this call encoded; the others were there from a call before.
    pub encoded: usize,
}

impl Index {
    /// Encodes and routes every document with another model, and changes over to it.
    ///
    /// Searches go on with the old model meanwhile, and so do writes, which are caught up with; they wait only
    /// while the last few documents are encoded. Then one atomic switch, in this handle at once and in
    /// read-only ones at their next [`Self::refresh`]. The old model and its embeddings are kept until
    /// [`Self::drop_previous_model`], or until the next change, and [`Self::rollback`] returns to them; until
    /// then they keep documents that are deleted meanwhile.
    ///
    /// Every document is encoded from its text, also one whose embedding was given ([`Self::insert_vectors`]).
    /// The disk needs room for a second set of documents and embeddings.
    ///
    /// # Durability
    /// A call that is cut off, by a crash too, leaves the index as it was; calling again with the same
    /// bundle goes on from there, with another one starts over. Once it has returned, the change lasts.
    ///
    /// # Errors
    /// [`InputError::SameModel`]; failures of the encoder and of the disk, with nothing changed.
    pub fn reencode(&self, bundle: &Bundle) -> Result<ModelChange> {
        self.reencode_with(bundle, &mut no_progress)
    }

    /// As [`Self::reencode`], with progress in documents and cancellation between groups of them.
    ///
    /// # Errors
    /// Those of [`Self::reencode`], and [`Error::Cancelled`].
    pub fn reencode_with(&self, bundle: &Bundle, on_progress: &mut OnProgress<'_>) -> Result<ModelChange> {
        self.check_writable()?;
        let _only = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if bundle.hash() == self.serving().bundle.hash() {
            return Err(InputError::SameModel { model: bundle.hash().to_string() }.into());
        }
        let target = match self.root.models().kept {
            Some(number) if self.previous_model()? == Some(bundle.hash()) => self.open_for_filling(number)?,
            _ => self.shadow(bundle)?,
        };
        self.change_to(target, on_progress)
    }

    /// Returns to the model before the last change.
    ///
    /// Documents written since the change are encoded with it first, from their texts, so none is lost; an embedding that
    /// was given anew for the same text is not taken back. Otherwise as [`Self::reencode`]. Another call returns again.
    ///
    /// # Errors
    /// [`InputError::NoPreviousModel`], and those of [`Self::reencode`].
    pub fn rollback(&self) -> Result<ModelChange> {
        self.rollback_with(&mut no_progress)
    }

    /// As [`Self::rollback`], with progress and cancellation as in [`Self::reencode_with`].
    ///
    /// # Errors
    /// Those of [`Self::rollback`], and [`Error::Cancelled`].
    pub fn rollback_with(&self, on_progress: &mut OnProgress<'_>) -> Result<ModelChange> {
        self.check_writable()?;
        let _only = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.root.models().kept.ok_or(InputError::NoPreviousModel)?;
        self.change_to(self.open_for_filling(kept)?, on_progress)
    }

    /// The model that [`Self::rollback`] would return to.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn previous_model(&self) -> Result<Option<ModelHash>> {
        // From the disk: a read-only handle may have begun with another store, and a writer's is held while it writes.
        let Some(number) = Store::models_of(self.path())?.kept else { return Ok(None) };
        let store = Store::open_read_only(store_dir(self.path(), number))?;
        Ok(Some(ModelHash(store.config().model_hash)))
    }

    /// Gives back the space of the model before the last change, and of a change that was cut off; says
    /// whether there was one to return to. After it, [`Self::rollback`] is an error.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn drop_previous_model(&self) -> Result<bool> {
        self.check_writable()?;
        let _only = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let models = self.root.models();
        if let Some(kept) = models.kept {
            self.give_up(kept, Models { kept: None, ..models })?;
        }
        self.remove_unnamed(None)?;
        Ok(models.kept.is_some())
    }

    /// A store that does not serve, open for writing.
    fn open_for_filling(&self, number: u32) -> Result<Serving> {
        let store = match number {
            0 => Arc::clone(&self.root),
            _ => Arc::new(Store::open(store_dir(self.path(), number), self.filling().store)?),
        };
        Serving::open(number, store, self.options.precision)
    }

    /// The store that is to be filled for a model: the one that an earlier call began, or a new one.
    fn shadow(&self, bundle: &Bundle) -> Result<Serving> {
        let begun = self.remove_unnamed(Some(bundle.hash()))?;
        if let Some(number) = begun {
            match self.open_for_filling(number) {
                Err(error) if !matches!(error, Error::Store(StoreError::Locked { .. })) => {
                    tracing::warn!(index = %self.path().display(), %error, "the beginning of a change is unusable");
                    self.remove_unnamed(None)?;
                }
                begun => return begun,
            }
        }
        let number = self.root.models().next();
        let dir = store_dir(self.path(), number);
        fs::create_dir_all(&dir).map_err(io(&dir, Operation::CreateDirectory))?;
        // The index is going to name it.
        sync(&self.path().join(MODELS_DIR))?;
        sync(self.path())?;
        Serving::create(&dir, number, bundle, self.serving().similarity, self.filling())
    }

    /// Removes stores that the index does not name, but one of the model `keep`, whose number is returned.
    /// Nothing was ever promised of them.
    fn remove_unnamed(&self, keep: Option<ModelHash>) -> Result<Option<u32>> {
        let models = self.root.models();
        if models.current != 0 && models.kept != Some(0) {
            // A crash may have come between leaving the first store out and giving it up.
            let left = self.root.read().rows() > 0 || model_dir(self.path()).exists();
            if left {
                self.give_up(0, models)?;
            }
        }
        let dir = self.path().join(MODELS_DIR);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(&dir, Operation::Read)(error).into()),
        };
        let mut begun = None;
        for entry in entries {
            let entry = entry.map_err(io(&dir, Operation::Read))?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if number == models.current || models.kept == Some(number) {
                continue;
            }
            let path = entry.path();
            let store = Store::open_read_only(&path);
            if begun.is_none() && store.is_ok_and(|store| Some(ModelHash(store.config().model_hash)) == keep)
            {
                begun = Some(number);
            } else {
                remove_store(self.path(), &path)?;
            }
        }
        Ok(begun)
    }

    /// Fills the target and puts it into service.
    fn change_to(&self, target: Serving, on_progress: &mut OnProgress<'_>) -> Result<ModelChange> {
        let before = self.serving();
        let mut encoded = 0;
        let apart = Apart::new();
        let mut on_progress = self.refusing_writes(on_progress);
        let mut tick = |more: usize, left: usize| {
            encoded += more;
            Progress::new(Stage::Reencode, encoded, encoded + left).tell(&mut on_progress, Error::Cancelled)
        };
        for _ in 0..MOST_PASSES {
            let view = before.view();
            let difference = view.difference(&target.view())?;
            if difference.len() <= FEW {
                break;
            }
            fill(&target, &view, difference, &apart, &mut tick)?;
        }
        let _no_writes = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let view = before.view();
        fill(&target, &view, view.difference(&target.view())?, &apart, &mut tick)?;
        target.store.flush()?;
        let number = target.number;
        let next = match number {
            0 => target,
            _ => {
                // With the durability of the handle.
                let (bundle, similarity) = (Arc::clone(&target.bundle), target.similarity);
                drop(target);
                let options = StoreOptions { lock_wait: READERS_WAIT, ..self.options.store };
                let store = Arc::new(Store::open(store_dir(self.path(), number), options)?);
                Serving::new(number, store, bundle, similarity)
            }
        };
        let change = ModelChange {
            from: before.bundle.hash(),
            to: next.bundle.hash(),
            documents: view.live(),
            encoded,
        };
        let old = self.root.models();
        let models = Models { current: number, kept: Some(old.current), ..old };
        before.store.flush()?;
        self.root.point_to(models)?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        // What was kept so far has served its time, unless it is what serves now.
        if let Some(dropped) = old.kept.filter(|&dropped| dropped != number)
            && let Err(error) = self.give_up(dropped, models)
        {
            tracing::warn!(index = %self.path().display(), %error, "could not remove an earlier model");
        }
        Ok(change)
    }

    /// How a store is open while it is filled: each group lasts, so that a call that is cut off can be
    /// continued, and no journal is needed.
    fn filling(&self) -> HandleOptions {
        let own = self.options.store;
        let store = StoreOptions { durability: Durability::EveryBatch, lock_wait: READERS_WAIT, ..own };
        HandleOptions { store, ..self.options }
    }

    /// Removes a store that is no longer wanted.
    fn give_up(&self, number: u32, models: Models) -> Result<()> {
        if number == 0 {
            self.root.give_up(models)?;
            return remove_model(self.path());
        }
        self.root.point_to(models)?;
        remove_store(self.path(), &store_dir(self.path(), number))
    }
}

/// Encodes and stores what a store lacks of a view of another one; tells how many documents were encoded, and how
/// many are left.
fn fill(
    target: &Serving,
    view: &crate::store::View,
    difference: Difference,
    apart: &Apart,
    tick: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let Difference { missing, surplus } = difference;
    target.store.commit(WriteBatch { puts: Vec::new(), deletes: surplus })?;
    let mut left = missing.len();
    for rows in missing.chunks(DOCUMENTS_PER_COMMIT) {
        let documents = rows.iter().map(|&row| Ok(view.document(row)?)).collect::<Result<_>>()?;
        let placer = target.placer();
        let puts = apart.run(|| placer.prepare(documents))?;
        target.store.commit(WriteBatch { puts, deletes: Vec::new() })?;
        left -= rows.len();
        tick(rows.len(), left)?;
    }
    Ok(())
}

/// Removes a store that nothing names; what a repair, or an unreadable journal, set aside in it stays.
fn remove_store(index: &Path, dir: &Path) -> Result<()> {
    let kept = index.join(DAMAGED_DIR);
    let number = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut moved = false;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == DAMAGED_DIR || name.contains(".unreadable-") {
            fs::create_dir_all(&kept).map_err(io(&kept, Operation::CreateDirectory))?;
            let free = (0..).map(|n| kept.join(format!("{number}-{name}-{n}"))).find(|path| !path.exists());
            let to = free.unwrap_or_else(|| kept.clone());
            fs::rename(entry.path(), &to).map_err(io(&to, Operation::Rename))?;
            moved = true;
        }
    }
    if moved {
        sync(&kept)?;
        sync(index)?;
    }
    fs::remove_dir_all(dir).map_err(io(dir, Operation::Remove))?;
    Ok(())
}

fn sync(dir: &Path) -> Result<()> {
    Ok(fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(io(dir, Operation::Sync))?)
}

fn io(path: &Path, operation: Operation) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, operation, source }
}
