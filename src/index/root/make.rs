//! Creation of an index directory, by a create or a snapshot.
//!
//! `CURRENT.new` exists, durably, before anything else: without a `CURRENT` it marks the other files as
//! remains of an interrupted call. The next call clears these and nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::current::may_be_torn;
use super::{
    Current, FIRST_MODEL, Published, Root, kind, model_dir, read_bytes, remove_file, sync, write, write_copy,
};
use crate::disk::{Backend, Kind, names};
use crate::error::{Error, Result};
use crate::index::begun::{remove_if_empty, remove_model};
use crate::store::files::{create_directory, rename, sync_parent};
use crate::store::{DirectoryLock, Operation, StoreError, clear_store};

/// Creates an index in a directory that is missing or empty, or where an earlier call was interrupted.
/// `build` makes the rest: it gets the directory of the index and that of its one model. If it fails, what
/// was made is removed.
///
/// # Errors
/// [`StoreError::AlreadyExists`], [`StoreError::Locked`], failures of the file system, and those of `build`.
pub(in crate::index) fn make<T>(
    backend: Arc<dyn Backend>,
    path: &Path,
    wait: Duration,
    build: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<(Root, T)> {
    let is_new = !path.exists();
    let path = std::path::absolute(path).map_err(StoreError::io(path, Operation::CreateDirectory))?;
    create_directory(&*backend, &path)?;
    let dir = super::canonical(&path)?;
    let made = lock(&*backend, &dir, wait).map_err(Error::from).and_then(|(lock, is_first)| {
        let filled = fill(&*backend, &dir, build).inspect_err(|_| {
            if let Err(left) = undo(&*backend, &dir, is_first) {
                tracing::warn!(index = %dir.display(), error = %left, "could not remove the remains of an interrupted operation");
            }
        })?;
        Ok((lock, filled))
    });
    match made {
        Ok((lock, (published, built))) => {
            sync_parent(&*backend, &dir);
            Ok((Root::with(backend, dir, published, Some(lock)), built))
        }
        Err(error) => {
            if is_new {
                // Fails if something in it could not be removed.
                let _ = backend.remove_directory(&dir);
            }
            Err(error)
        }
    }
}

/// Takes the lock of a directory for a new index; returns whether the lock file is new.
fn lock(
    backend: &dyn Backend,
    dir: &Path,
    wait: Duration,
) -> std::result::Result<(DirectoryLock, bool), StoreError> {
    refuse_occupied(backend, dir)?;
    let is_first = kind(backend, &dir.join(names::LOCK))?.is_none();
    let lock = DirectoryLock::take(dir, wait)?;
    // Checked again, for an index created between the check and the lock.
    match refuse_occupied(backend, dir) {
        Ok(()) => Ok((lock, is_first)),
        Err(error) => {
            if is_first && !matches!(error, StoreError::AlreadyExists { .. }) {
                let _ = backend.remove(&dir.join(names::LOCK));
            }
            Err(error)
        }
    }
}

fn fill<T>(
    backend: &dyn Backend,
    dir: &Path,
    build: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<(Published, T)> {
    let current = Current::of_one(FIRST_MODEL, FIRST_MODEL);
    let bytes = current.encode().to_vec();
    let new = dir.join(names::CURRENT_NEW);
    if kind(backend, &new)?.is_some() {
        clear(backend, dir)?;
    }
    write(backend, &new, &bytes)?;
    sync(backend, dir)?;
    let model = model_dir(dir, FIRST_MODEL);
    create_directory(backend, &model)?;
    sync(backend, &dir.join(names::MODELS))?;
    sync(backend, dir)?;
    let built = build(dir, &model)?;
    let path = dir.join(names::CURRENT);
    let identity = backend.identity(&new).map_err(StoreError::io(&new, Operation::Read))?;
    rename(backend, &new, &path)?;
    // After the commit point: a copy distinguishes an index from an interrupted create.
    write_copy(backend, dir, &bytes)?;
    Ok((Published { current, bytes, identity }, built))
}

/// Removes what [`fill`] made, if it did not make an index.
fn undo(backend: &dyn Backend, dir: &Path, with_lock: bool) -> std::result::Result<(), StoreError> {
    if kind(backend, &dir.join(names::CURRENT))?.is_some() {
        // It may already be an index: the next open finds out.
        return Ok(());
    }
    clear(backend, dir)?;
    // The mark goes last.
    remove_file(backend, &dir.join(names::CURRENT_NEW))?;
    if with_lock {
        remove_file(backend, &dir.join(names::LOCK))?;
    }
    Ok(())
}

/// Removes everything next to the mark of an interrupted call.
fn clear(backend: &dyn Backend, dir: &Path) -> std::result::Result<(), StoreError> {
    remove_model(backend, dir, FIRST_MODEL)?;
    remove_if_empty(backend, &dir.join(names::MODELS))?;
    let judgments = dir.join(names::JUDGMENTS);
    if kind(backend, &judgments)? == Some(Kind::Directory) {
        clear_store(backend, &judgments)?;
        remove_if_empty(backend, &judgments)?;
    }
    sync(backend, dir)
}

/// Refuses a directory that holds anything except the remains of an interrupted call.
fn refuse_occupied(backend: &dyn Backend, dir: &Path) -> std::result::Result<(), StoreError> {
    let list = |dir: &Path| backend.list(dir).map_err(StoreError::io(dir, Operation::Read));
    let occupied = || StoreError::AlreadyExists { path: dir.to_owned() };
    let entries = list(dir)?;
    let is_marked = entries.iter().any(|name| name == names::CURRENT_NEW)
        && kind(backend, &dir.join(names::CURRENT_NEW))? == Some(Kind::File)
        && may_be_torn(&read_bytes(backend, dir, names::CURRENT_NEW)?);
    for name in entries {
        let is_own = name == names::LOCK
            || is_marked && (name == names::CURRENT_NEW || name == names::JUDGMENTS)
            || is_marked && name == names::MODELS && {
                let models = dir.join(names::MODELS);
                kind(backend, &models)? == Some(Kind::Directory)
                    && list(&models)?.iter().all(|name| name.to_str() == Some(&FIRST_MODEL.to_string()))
            };
        if !is_own {
            return Err(occupied());
        }
    }
    Ok(())
}
