//! Removing a model: the files that this crate wrote, and nothing else.

use std::io::ErrorKind;
use std::path::Path;

use super::measured;
use super::root::{kind, model_dir, sync};
use crate::disk::{Backend, FileSystem, Kind, names};
use crate::model::{CARD_FILE, ModelError, PAGE_FILE, remove_bundle};
use crate::store::{Operation, StoreError, clear_store};

type Result<T> = std::result::Result<T, StoreError>;

/// Removes the directory of a model, which must be one that `CURRENT` names, or the only one of an
/// interrupted create. Files of other names stay where they are; what a repair set aside moves to the
/// index's own `damaged/`.
pub(super) fn remove_model(backend: &dyn Backend, index: &Path, number: u32) -> Result<()> {
    let dir = model_dir(index, number);
    match kind(backend, &dir)? {
        None => return Ok(()),
        Some(Kind::Directory) => {}
        Some(_) => {
            tracing::warn!(path = %dir.display(), "it is not a directory, so it is left where it is");
            return Ok(());
        }
    }
    keep_damaged(backend, index, &dir, number)?;
    clear_store(backend, &dir)?;
    for path in measured::ALL.into_iter().flat_map(|measured| measured.names()).map(|name| dir.join(name)) {
        if kind(backend, &path)? == Some(Kind::File) {
            backend.remove(&path).map_err(StoreError::io(&path, Operation::Remove))?;
        }
    }
    for name in [names::BUNDLE, names::BUNDLE_NEW] {
        remove_bundle(backend, &dir.join(name)).map_err(as_store_error)?;
    }
    if !remove_if_empty(backend, &dir)? {
        tracing::warn!(path = %dir.display(), "files that are not the index's own are left there");
    }
    sync(backend, &index.join(names::MODELS))
}

/// Removes what a training left in its folder in an index; not what somebody else put there, which training
/// then refuses to write over.
pub(crate) fn remove_trained(index: &Path) -> Result<()> {
    let output = index.join(names::TRAINED);
    // With these alone there, the folder would stay.
    for name in [PAGE_FILE, CARD_FILE] {
        let _ = FileSystem.remove(&output.join(name));
    }
    remove_bundle(&FileSystem, &output).map_err(as_store_error)
}

/// Removes an empty directory, if it is there; says whether it is gone.
pub(super) fn remove_if_empty(backend: &dyn Backend, dir: &Path) -> Result<bool> {
    match backend.remove_directory(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(StoreError::io(dir, Operation::Remove)(error)),
    }
}

/// Moves what a repair set aside in a model's directory to where it outlives the model.
fn keep_damaged(backend: &dyn Backend, index: &Path, dir: &Path, number: u32) -> Result<()> {
    let damaged = dir.join(names::DAMAGED);
    if kind(backend, &damaged)?.is_some() {
        set_aside(backend, index, &damaged, &format!("{number}-{}", names::DAMAGED))?;
    }
    Ok(())
}

/// Moves a directory to the index's `damaged/`, under a name that is free there; returns where it is now.
pub(super) fn set_aside(
    backend: &dyn Backend,
    index: &Path,
    from: &Path,
    name: &str,
) -> Result<std::path::PathBuf> {
    let aside = index.join(names::DAMAGED);
    backend.create_directory(&aside).map_err(StoreError::io(&aside, Operation::CreateDirectory))?;
    let mut to = aside.join(name);
    let mut number = 0u32;
    while kind(backend, &to)?.is_some() {
        number += 1;
        to = aside.join(format!("{name}.{number}"));
    }
    backend.rename(from, &to).map_err(StoreError::io(&to, Operation::Rename))?;
    // The new name before the old one is gone for certain.
    sync(backend, &aside)?;
    sync(backend, index)?;
    if let Some(parent) = from.parent() {
        sync(backend, parent)?;
    }
    Ok(to)
}

fn as_store_error(error: ModelError) -> StoreError {
    match error {
        ModelError::Io { path, source, .. } => StoreError::io(path, Operation::Remove)(source),
        other => StoreError::io("", Operation::Remove)(std::io::Error::other(other)),
    }
}
