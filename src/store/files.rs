//! Operations of the file system, with errors that say what was tried on which path.

use std::path::{Path, PathBuf};

use super::error::{Operation, Result, StoreError};
use crate::disk::{Backend, Kind, OpenMode, names};

/// What has a name; `None` where nothing has it.
pub(crate) fn kind(backend: &dyn Backend, path: &Path) -> Result<Option<Kind>> {
    backend.kind(path).map_err(StoreError::io(path, Operation::Read))
}

/// Names in a directory, sorted; none where it is missing.
pub(crate) fn list(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>> {
    if kind(backend, dir)?.is_none() {
        return Ok(Vec::new());
    }
    let listed = backend.list(dir).map_err(StoreError::io(dir, Operation::Read))?;
    let mut listed: Vec<String> = listed.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    listed.sort();
    Ok(listed)
}

/// Makes a directory where it is missing; its own entry is for the caller to sync.
pub(crate) fn create_directory(backend: &dyn Backend, dir: &Path) -> Result<()> {
    backend.create_directory(dir).map_err(StoreError::io(dir, Operation::CreateDirectory))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(backend: &dyn Backend, dir: &Path) -> Result<()> {
    backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
}

/// Makes the entry of a directory that may be new durable. The directory above it is not ours, so it may be
/// unreadable; then the entry is as durable as its owner makes it.
pub(crate) fn sync_parent(backend: &dyn Backend, dir: &Path) {
    if let Some(parent) = dir.canonicalize().ok().as_deref().and_then(Path::parent)
        && let Err(error) = backend.sync_directory(parent)
    {
        tracing::warn!(directory = %parent.display(), %error, "could not sync the parent directory");
    }
}

/// Writes a file anew and makes its contents durable; its entry is for the caller to sync.
pub(crate) fn write(backend: &dyn Backend, path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |operation| StoreError::io(path, operation);
    let file = backend.open(path, OpenMode::Replace).map_err(io(Operation::Create))?;
    file.write_at(bytes, 0).map_err(io(Operation::Write))?;
    file.sync_all().map_err(io(Operation::Sync))
}

/// Gives a durable file its place, that of another one perhaps; durable when this has returned.
pub(crate) fn rename(backend: &dyn Backend, from: &Path, to: &Path) -> Result<()> {
    backend.rename(from, to).map_err(StoreError::io(to, Operation::Rename))?;
    to.parent().map_or(Ok(()), |dir| sync(backend, dir))
}

/// Removes a file that may be there.
pub(crate) fn remove_file(backend: &dyn Backend, path: &Path) -> Result<()> {
    match backend.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io(path, Operation::Remove)(error))
        }
        _ => Ok(()),
    }
}

/// A path in `damaged` of a directory, which is made where it is missing, that nothing has.
pub(crate) fn path_aside(backend: &dyn Backend, dir: &Path, name: &str) -> Result<PathBuf> {
    let aside = dir.join(names::DAMAGED);
    create_directory(backend, &aside)?;
    let (mut path, mut number) = (aside.join(name), 0u32);
    while kind(backend, &path)?.is_some() {
        number += 1;
        path = aside.join(format!("{name}.{number}"));
    }
    Ok(path)
}

/// Gives a file below a directory a second, lasting name in the directory's `damaged`, and returns that.
pub(crate) fn set_aside(backend: &dyn Backend, dir: &Path, name: &str) -> Result<PathBuf> {
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    let path = path_aside(backend, dir, &file)?;
    backend.link(&dir.join(name), &path).map_err(StoreError::io(&path, Operation::Create))?;
    for dir in [&dir.join(names::DAMAGED), dir] {
        sync(backend, dir)?;
    }
    Ok(path)
}
