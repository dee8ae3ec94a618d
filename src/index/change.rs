//! Change of model: every document encoded and routed anew beside the index in service, then one switch.
//!
//! The new model gets a store of its own. It is filled from the store in service in passes: each compares the
//! documents of both and encodes what differs, so a pass that was cut short is continued by the next one,
//! and what was written meanwhile is caught up with. Writers wait for the last pass only. The switch is one
//! rename, that of the manifest in the root of the index. The old store is kept to go back to, which is
//! the same in the other direction: nothing written since is lost.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Index;
use super::insert::DOCUMENTS_PER_COMMIT;
use super::serving::{MODELS_DIR, Serving, remove_model, store_dir};
use crate::error::{Error, InputError, Result};
use crate::model::{Bundle, ModelHash};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{Difference, Durability, Models, Operation, Store, StoreError, StoreOptions, WriteBatch};

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
        let target = match self.kept()? {
            Some(kept) if kept.bundle.hash() == bundle.hash() => kept,
            _ => self.shadow(bundle)?,
        };
        self.change_to(target, on_progress)
    }

    /// Returns to the model before the last change.
    ///
    /// Documents written since the change are encoded with it first, so nothing is lost; otherwise as
    /// [`Self::reencode`]. Another call returns again.
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
        let kept = self.kept()?.ok_or(InputError::NoPreviousModel)?;
        self.change_to(kept, on_progress)
    }

    /// The model that [`Self::rollback`] would return to.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn previous_model(&self) -> Result<Option<ModelHash>> {
        let Some(number) = self.root.models().kept else { return Ok(None) };
        if number == 0 {
            return Ok(Some(ModelHash(self.root.config().model_hash)));
        }
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

    /// The store to go back to, open for writing.
    fn kept(&self) -> Result<Option<Serving>> {
        let Some(number) = self.root.models().kept else { return Ok(None) };
        self.open_for_filling(number).map(Some)
    }

    fn open_for_filling(&self, number: u32) -> Result<Serving> {
        let store = match number {
            0 => Arc::clone(&self.root),
            _ => Arc::new(Store::open(store_dir(self.path(), number), filling())?),
        };
        Serving::open(number, store)
    }

    /// The store that is to be filled for a model: the one that an earlier call began, or a new one.
    fn shadow(&self, bundle: &Bundle) -> Result<Serving> {
        let begun = self.remove_unnamed(Some(bundle.hash()))?;
        if let Some(number) = begun {
            return self.open_for_filling(number);
        }
        let Models { current, kept } = self.root.models();
        let number = current.max(kept.unwrap_or(0)) + 1;
        let dir = store_dir(self.path(), number);
        fs::create_dir_all(&dir).map_err(io(&dir, Operation::CreateDirectory))?;
        // The store syncs its own directory and the one above it, `models`.
        let root = self.path();
        fs::File::open(root).and_then(|dir| dir.sync_all()).map_err(io(root, Operation::Sync))?;
        Serving::create(&dir, number, bundle, self.serving().similarity, filling())
    }

    /// Removes stores that the index does not name, but one of the model `keep`, whose number is returned.
    /// Nothing was ever promised of them.
    fn remove_unnamed(&self, keep: Option<ModelHash>) -> Result<Option<u32>> {
        let models = self.root.models();
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
                fs::remove_dir_all(&path).map_err(io(&path, Operation::Remove))?;
            }
        }
        Ok(begun)
    }

    /// Fills the target and puts it into service.
    fn change_to(&self, target: Serving, on_progress: &mut OnProgress<'_>) -> Result<ModelChange> {
        let before = self.serving();
        let mut encoded = 0;
        let mut tick = |done: &mut usize, more: usize, left: usize| {
            *done += more;
            match on_progress(Progress::new(Stage::Reencode, *done, *done + left)) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        };
        for _ in 0..MOST_PASSES {
            let view = before.view();
            let difference = view.difference(&target.view())?;
            let few = difference.len() <= FEW;
            if few {
                break;
            }
            let mut left = difference.missing.len();
            fill(&target, &view, difference, |more| {
                left -= more;
                tick(&mut encoded, more, left)
            })?;
        }
        let _no_writes = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let view = before.view();
        let difference = view.difference(&target.view())?;
        let mut left = difference.missing.len();
        fill(&target, &view, difference, |more| {
            left -= more;
            tick(&mut encoded, more, left)
        })?;
        target.store.flush()?;
        let number = target.number;
        let next = match number {
            0 => target,
            _ => {
                // With the durability of the handle.
                drop(target);
                let store = Store::open(store_dir(self.path(), number), self.options)?;
                Serving::open(number, Arc::new(store))?
            }
        };
        let change = ModelChange {
            from: before.bundle.hash(),
            to: next.bundle.hash(),
            documents: view.live(),
            encoded,
        };
        let old = self.root.models();
        let models = Models { current: number, kept: Some(old.current) };
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

    /// Removes a store that is no longer wanted.
    fn give_up(&self, number: u32, models: Models) -> Result<()> {
        if number == 0 {
            self.root.give_up(models)?;
            return remove_model(self.path());
        }
        self.root.point_to(models)?;
        let dir = store_dir(self.path(), number);
        fs::remove_dir_all(&dir).map_err(io(&dir, Operation::Remove))?;
        Ok(())
    }
}

/// How a store is open while it is filled: each group lasts, so that a call that is cut off can be
/// continued, and no journal is needed.
fn filling() -> StoreOptions {
    StoreOptions { durability: Durability::EveryBatch, lock_wait: READERS_WAIT }
}

/// Encodes and stores what a store lacks of a view of another one.
fn fill(
    target: &Serving,
    view: &crate::store::View,
    difference: Difference,
    mut tick: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let Difference { missing, surplus } = difference;
    target.store.commit(WriteBatch { puts: Vec::new(), deletes: surplus })?;
    for rows in missing.chunks(DOCUMENTS_PER_COMMIT) {
        let documents = rows.iter().map(|&row| Ok(view.document(row)?)).collect::<Result<_>>()?;
        let puts = target.placer().prepare(documents)?;
        target.store.commit(WriteBatch { puts, deletes: Vec::new() })?;
        tick(rows.len())?;
    }
    Ok(())
}

fn io(path: &Path, operation: Operation) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, operation, source }
}
