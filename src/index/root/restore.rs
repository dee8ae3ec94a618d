//! Opens the directory of an index for a repair: a damaged `CURRENT` is recreated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Current, Published, Result, Root, canonical, check_directory, check_is_index, kind, list, model_dir,
    read_bytes, write,
};
use crate::disk::{Backend, Kind, names};
use crate::store::files::set_aside;
use crate::store::{DirectoryLock, Operation, StoreError};

/// The directory of an index under repair, open for writing, and the new path of its damaged `CURRENT`.
pub(in crate::index) struct Restored {
    pub root: Root,
    pub was_damaged: bool,
    pub set_aside: Option<PathBuf>,
}

/// Takes the lock, and finds `CURRENT` or recreates it: from its copy or, if that is damaged too, from the
/// only model. If there are several models and neither file, nothing says which one is in service.
///
/// # Errors
/// [`StoreError::Locked`], [`StoreError::NotAnIndex`], [`StoreError::SeveralModels`]; the damage of `CURRENT`
/// if it cannot be recreated for another reason.
pub(in crate::index) fn restore(backend: Arc<dyn Backend>, path: &Path, wait: Duration) -> Result<Restored> {
    let dir = canonical(path)?;
    match check_is_index(&*backend, &dir) {
        Ok(()) | Err(StoreError::Corrupt { .. }) => {}
        Err(StoreError::NotAnIndex { .. }) if !stores(&*backend, &dir)?.1.is_empty() => {}
        Err(error) => return Err(error),
    }
    let lock = DirectoryLock::take(&dir, wait)?;
    check_directory(&*backend, &dir.join(names::MODELS))?;
    let is_missing = kind(&*backend, &dir.join(names::CURRENT))?.is_none();
    let error = match Published::read(&*backend, &dir) {
        Ok(published) => {
            published.settle(&*backend, &dir)?;
            let root = Root::with(backend, dir, published, Some(lock));
            return Ok(Restored { root, was_damaged: false, set_aside: None });
        }
        Err(error) if is_missing || matches!(error, StoreError::Corrupt { .. }) => error,
        Err(error) => return Err(error),
    };
    let current = match from_copy(&*backend, &dir)? {
        Some(current) => current,
        None => sole_model(&*backend, &dir)?.ok_or(error)?,
    };
    let set_aside = if is_missing { None } else { Some(set_aside(&*backend, &dir, names::CURRENT)?) };
    let bytes = current.encode().to_vec();
    let (new, to) = (dir.join(names::CURRENT_NEW), dir.join(names::CURRENT));
    write(&*backend, &new, &bytes)?;
    backend.rename(&new, &to).map_err(StoreError::io(&to, Operation::Rename))?;
    let published = Published::read(&*backend, &dir)?;
    // The copy last: it may have been the only sound one.
    published.settle(&*backend, &dir)?;
    Ok(Restored { root: Root::with(backend, dir, published, Some(lock)), was_damaged: true, set_aside })
}

/// The content of the copy, if the model that it names exists.
fn from_copy(backend: &dyn Backend, dir: &Path) -> Result<Option<Current>> {
    if kind(backend, &dir.join(names::CURRENT_COPY))?.is_none() {
        return Ok(None);
    }
    match read_bytes(backend, dir, names::CURRENT_COPY).and_then(|bytes| Current::decode(&bytes)) {
        Ok(current) if has_store(backend, &model_dir(dir, current.serving))? => Ok(Some(current)),
        Ok(_) | Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// A `CURRENT` of the only model with a store, sound or not.
///
/// # Errors
/// [`StoreError::SeveralModels`]: one of them may be an earlier or an unfinished one.
fn sole_model(backend: &dyn Backend, dir: &Path) -> Result<Option<Current>> {
    let (last, found) = stores(backend, dir)?;
    match found[..] {
        [] => Ok(None),
        [serving] => {
            let made = Current::of_one(serving, last);
            // One that cannot be decoded again is useless.
            Ok(Current::decode(&made.encode()).ok())
        }
        _ => {
            let mut found: Vec<PathBuf> = found.into_iter().map(|number| model_dir(dir, number)).collect();
            let written =
                |dir: &PathBuf| dir.join(names::MANIFEST).metadata().and_then(|it| it.modified()).ok();
            found.sort_by_key(written);
            found.reverse();
            Err(StoreError::SeveralModels { models: found })
        }
    }
}

/// The highest number of a model that is there, and the numbers of those with a store.
fn stores(backend: &dyn Backend, dir: &Path) -> Result<(u32, Vec<u32>)> {
    let models = dir.join(names::MODELS);
    let (mut last, mut found) = (0, Vec::new());
    if kind(backend, &models)? != Some(Kind::Directory) {
        return Ok((last, found));
    }
    let numbers = list(backend, &models)?.into_iter().filter_map(|name| {
        let number = name.parse::<u32>().ok()?;
        (number.to_string() == name).then_some(number)
    });
    for number in numbers {
        last = last.max(number);
        if has_store(backend, &model_dir(dir, number))? {
            found.push(number);
        }
    }
    Ok((last, found))
}

fn has_store(backend: &dyn Backend, dir: &Path) -> Result<bool> {
    if kind(backend, dir)? != Some(Kind::Directory) {
        return Ok(false);
    }
    let has = |name: &str| Ok(kind(backend, &dir.join(name))? == Some(Kind::File));
    Ok(has(names::MANIFEST)? || has(names::MANIFEST_COPY)?)
}
