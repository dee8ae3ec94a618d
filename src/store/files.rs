//! File system operations whose errors include the attempted operation and the path.

use std::path::{Path, PathBuf};

use super::error::{Operation, Result, StoreError};
use crate::disk::{Backend, Kind, OpenMode, names};

/// The kind of entry at a path; `None` if there is none.
pub(crate) fn kind(backend: &dyn Backend, path: &Path) -> Result<Option<Kind>> {
    backend.kind(path).map_err(StoreError::io(path, Operation::Read))
}

/// Names in a directory, sorted; empty if it does not exist.
pub(crate) fn list(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>> {
    if kind(backend, dir)?.is_none() {
        return Ok(Vec::new());
    }
    let listed = backend.list(dir).map_err(StoreError::io(dir, Operation::Read))?;
    let mut listed: Vec<String> = listed.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    listed.sort();
    Ok(listed)
}

/// Creates a directory if it is missing; the caller must sync its own entry.
pub(crate) fn create_directory(backend: &dyn Backend, dir: &Path) -> Result<()> {
    backend.create_directory(dir).map_err(StoreError::io(dir, Operation::CreateDirectory))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(backend: &dyn Backend, dir: &Path) -> Result<()> {
    backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
}

/// Makes the entry of a possibly new directory durable. The parent directory is not ours, so it may be
/// unreadable; then the entry is as durable as the parent's owner makes it.
pub(crate) fn sync_parent(backend: &dyn Backend, dir: &Path) {
    if let Some(parent) = dir.canonicalize().ok().as_deref().and_then(Path::parent)
        && let Err(error) = backend.sync_directory(parent)
    {
        tracing::warn!(directory = %parent.display(), %error, "could not sync the parent directory");
    }
}

/// Writes a new file and makes its contents durable; the caller must sync its entry.
pub(crate) fn write(backend: &dyn Backend, path: &Path, bytes: &[u8]) -> Result<()> {
    let io = |operation| StoreError::io(path, operation);
    let file = backend.open(path, OpenMode::Replace).map_err(io(Operation::Create))?;
    file.write_at(bytes, 0).map_err(io(Operation::Write))?;
    file.sync_all().map_err(io(Operation::Sync))
}

/// Renames a durable file, possibly over another one; durable once this has returned.
pub(crate) fn rename(backend: &dyn Backend, from: &Path, to: &Path) -> Result<()> {
    backend.rename(from, to).map_err(StoreError::io(to, Operation::Rename))?;
    to.parent().map_or(Ok(()), |dir| sync(backend, dir))
}

/// Removes a file if it exists.
pub(crate) fn remove_file(backend: &dyn Backend, path: &Path) -> Result<()> {
    match backend.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io(path, Operation::Remove)(error))
        }
        _ => Ok(()),
    }
}

/// An unused path in `damaged` of a directory, which is created if missing.
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

/// Gives a file below a directory a second, durable name in the directory's `damaged`, and returns it.
pub(crate) fn set_aside(backend: &dyn Backend, dir: &Path, name: &str) -> Result<PathBuf> {
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    let path = path_aside(backend, dir, &file)?;
    backend.link(&dir.join(name), &path).map_err(StoreError::io(&path, Operation::Create))?;
    for dir in [&dir.join(names::DAMAGED), dir] {
        sync(backend, dir)?;
    }
    Ok(path)
}
