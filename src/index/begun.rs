//! Unfinished files and directories in an index: all their names, and their removal.
//!
//! Files with these names carry no promise. [`Index::verify`](crate::Index::verify) names them,
//! [`Index::stats`](crate::Index::stats) counts them, and the next handle that opens the index for writing
//! removes them. A model that `CURRENT` names as unfinished is one of them, but it can be continued, so only
//! the next change of model or `drop-previous` removes it. Each store tracks its own unfinished files.

use std::io::ErrorKind;
use std::path::Path;

use super::aside::keep_damaged;
use super::root::{Current, kind, list, model_dir, model_prefix, remove_file, sync};
use crate::disk::{Backend, Kind, names};
use crate::model::{CARD_FILE, ModelError, remove_bundle, unused_files};
use crate::store::{Operation, StoreError, bytes_below, clear_store};

type Result<T> = std::result::Result<T, StoreError>;

/// An unfinished file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// Its name, relative to the index.
    pub name: String,
    /// Whether it is the folder of a bundle, and not a file.
    is_bundle: bool,
}

impl Begun {
    /// Its size in bytes, as far as it can be read.
    pub fn bytes(&self, index: &Path) -> u64 {
        let path = index.join(&self.name);
        match self.is_bundle {
            true => bytes_below(&path, &|_| true),
            false => path.symlink_metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// Removes the files in it that this crate wrote; foreign files in a folder stay.
    fn remove(&self, backend: &dyn Backend, index: &Path) -> Result<()> {
        let path = index.join(&self.name);
        if !self.is_bundle {
            return remove_file(backend, &path);
        }
        // Otherwise a folder that holds this file alone would stay.
        remove_if_file(backend, &path.join(CARD_FILE))?;
        remove_bundle(backend, &path).map_err(as_store_error)
    }
}

/// Everything unfinished, given what `current` names.
pub(super) fn all(backend: &dyn Backend, index: &Path, current: &Current) -> Result<Vec<Begun>> {
    let mut found = Vec::new();
    let mut note = |dir: &str, names: &[&str], is_bundle: bool| -> Result<()> {
        let expected = if is_bundle { Kind::Directory } else { Kind::File };
        for name in names {
            let name = format!("{dir}{name}");
            if kind(backend, &index.join(&name))? == Some(expected) {
                found.push(Begun { name, is_bundle });
            }
        }
        Ok(())
    };
    note("", &[names::CURRENT_NEW], false)?;
    let mut trained = list(backend, index)?;
    trained.retain(|name| is_trained(name));
    note("", &trained.iter().map(String::as_str).collect::<Vec<_>>(), true)?;
    for number in [current.serving].into_iter().chain(current.kept) {
        let dir = model_prefix(number);
        note(&dir, &[names::MEASURED_NEW], false)?;
        note(&dir, &[names::BUNDLE_NEW], true)?;
        let bundle = format!("{dir}{}/", names::BUNDLE);
        let unused = unused_files(backend, &index.join(&bundle)).map_err(as_store_error)?;
        note(&bundle, &unused.iter().map(String::as_str).collect::<Vec<_>>(), false)?;
    }
    Ok(found)
}

/// Removes everything unfinished except an unfinished model.
pub(super) fn clear(backend: &dyn Backend, index: &Path, current: &Current) -> Result<()> {
    let begun = all(backend, index, current)?;
    begun.iter().try_for_each(|begun| begun.remove(backend, index))
}

/// Whether this is the name of a bundle that a training makes in the index directory.
fn is_trained(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(names::TRAINED) else { return false };
    let number = rest.strip_prefix(names::PARTIAL).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    rest.is_empty() || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes the directory of a model, which must be one that `CURRENT` names, or the only one of an
/// interrupted create. Files with other names stay in place; what a repair set aside moves to the index's own
/// `damaged/`.
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
    for name in [names::MEASURED, names::MEASURED_NEW, names::MEMORY] {
        remove_if_file(backend, &dir.join(name))?;
    }
    for name in [names::BUNDLE, names::BUNDLE_NEW] {
        remove_bundle(backend, &dir.join(name)).map_err(as_store_error)?;
    }
    if !remove_if_empty(backend, &dir)? {
        tracing::warn!(path = %dir.display(), "files that are not the index's own are left there");
    }
    sync(backend, &index.join(names::MODELS))
}

pub(super) fn remove_if_file(backend: &dyn Backend, path: &Path) -> Result<()> {
    match kind(backend, path)? {
        Some(Kind::File) => remove_file(backend, path),
        _ => Ok(()),
    }
}

/// Removes an empty directory if it exists; returns whether it is gone.
pub(super) fn remove_if_empty(backend: &dyn Backend, dir: &Path) -> Result<bool> {
    match backend.remove_directory(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(StoreError::io(dir, Operation::Remove)(error)),
    }
}

fn as_store_error(error: ModelError) -> StoreError {
    match error {
        ModelError::Io { path, source, .. } => StoreError::io(path, Operation::Remove)(source),
        other => StoreError::io("", Operation::Remove)(std::io::Error::other(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_of_trainings_are_known_by_their_names() {
        for name in ["model.trained", "model.trained.partial", "model.trained.partial-7"] {
            assert!(is_trained(name), "{name}");
        }
        for name in ["model", "model.trained2", "model.trained.partial-x", "model.trained.old", "a.partial"] {
            assert!(!is_trained(name), "{name}");
        }
    }
}
