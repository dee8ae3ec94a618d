//! What repairs set aside: the `damaged/` folders of the index, of each model and of the judgments.

use std::path::{Path, PathBuf};

use super::root::{Current, kind, list, model_dir, sync};
use crate::disk::{Backend, Kind, names};
use crate::store::files::{path_aside, rename};
use crate::store::{Operation, StoreError};

type Result<T> = std::result::Result<T, StoreError>;

/// The folders of an index in which a repair may have set something aside.
fn folders(index: &Path, current: &Current) -> impl Iterator<Item = PathBuf> {
    let models = current.all().map(|number| model_dir(index, number));
    models.chain([index.join(names::JUDGMENTS), index.to_owned()]).map(|dir| dir.join(names::DAMAGED))
}

/// Removes what repairs set aside; returns its names.
pub(super) fn forget(backend: &dyn Backend, index: &Path, current: &Current) -> Result<Vec<PathBuf>> {
    let mut forgotten = Vec::new();
    for folder in folders(index, current) {
        if kind(backend, &folder)? == Some(Kind::Directory) {
            forgotten.extend(list(backend, &folder)?.into_iter().map(|name| folder.join(name)));
            remove_all(backend, &folder)?;
            folder.parent().map_or(Ok(()), |above| sync(backend, above))?;
        }
    }
    Ok(forgotten)
}

/// Removes a directory and its contents. A link is removed, not followed.
fn remove_all(backend: &dyn Backend, dir: &Path) -> Result<()> {
    for path in list(backend, dir)?.into_iter().map(|name| dir.join(name)) {
        match kind(backend, &path)? {
            Some(Kind::Directory) => remove_all(backend, &path)?,
            _ => backend.remove(&path).map_err(StoreError::io(&path, Operation::Remove))?,
        }
    }
    backend.remove_directory(dir).map_err(StoreError::io(dir, Operation::Remove))
}

/// Moves what a repair set aside in a model's directory to a place that outlives the model.
pub(super) fn keep_damaged(backend: &dyn Backend, index: &Path, dir: &Path, number: u32) -> Result<()> {
    let damaged = dir.join(names::DAMAGED);
    if kind(backend, &damaged)?.is_some() {
        set_aside(backend, index, &damaged, &format!("{number}-{}", names::DAMAGED))?;
    }
    Ok(())
}

/// Moves a file or directory to the index's `damaged/` under an unused name; returns the new path.
pub(super) fn set_aside(backend: &dyn Backend, index: &Path, from: &Path, name: &str) -> Result<PathBuf> {
    let to = path_aside(backend, index, name)?;
    // The new name is durable before the old one is gone.
    rename(backend, from, &to)?;
    sync(backend, index)?;
    if let Some(parent) = from.parent() {
        sync(backend, parent)?;
    }
    Ok(to)
}
