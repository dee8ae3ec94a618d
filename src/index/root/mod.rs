//! The directory of an index: its lock, and `CURRENT`, which names the model in service.

mod current;
mod make;
mod restore;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use current::Current;
pub(super) use current::FIRST_MODEL;
#[cfg(feature = "fuzzing")]
pub use current::fuzz_current;
pub(super) use make::make;
pub(super) use restore::{Restored, restore};

use crate::disk::{Backend, Identity, Kind, OpenMode, names};
pub(super) use crate::store::files::{kind, list, remove_file, sync};
use crate::store::{Damage, DirectoryLock, Operation, StoreError, files::write};

type Result<T> = std::result::Result<T, StoreError>;

/// The directory of an open index.
pub(crate) struct Root {
    /// Absolute, without links: independent of later changes of the working directory.
    dir: PathBuf,
    backend: Arc<dyn Backend>,
    published: Mutex<Published>,
    /// After a failed sync or rename, it is unknown which `CURRENT` is on disk.
    refuses_writes: AtomicBool,
    /// `None` for a read-only handle. Last, so that it is released after everything else is closed.
    lock: Option<DirectoryLock>,
}

/// A `CURRENT` as this handle last read or wrote it.
struct Published {
    current: Current,
    bytes: Vec<u8>,
    identity: Option<Identity>,
}

impl Root {
    /// Opens a directory for writing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`],
    /// [`StoreError::Corrupt`], and failures of the file system.
    pub(super) fn open(backend: Arc<dyn Backend>, path: &Path, wait: Duration) -> Result<Self> {
        let dir = canonical(path)?;
        check_is_index(&*backend, &dir)?;
        let lock = DirectoryLock::take(&dir, wait)?;
        // Under the lock, so that a create in progress is not mistaken for an interrupted one.
        check_is_index(&*backend, &dir)?;
        let published = Published::read(&*backend, &dir)?;
        check_directory(&*backend, &dir.join(names::MODELS))?;
        published.settle(&*backend, &dir)?;
        Ok(Self::with(backend, dir, published, Some(lock)))
    }

    /// Opens a directory for reading.
    ///
    /// # Errors
    /// Those of [`Self::open`] except [`StoreError::Locked`].
    pub(super) fn open_read_only(backend: Arc<dyn Backend>, path: &Path) -> Result<Self> {
        let dir = canonical(path)?;
        check_is_index(&*backend, &dir)?;
        let published = Published::read(&*backend, &dir)?;
        check_directory(&*backend, &dir.join(names::MODELS))?;
        Ok(Self::with(backend, dir, published, None))
    }

    fn with(
        backend: Arc<dyn Backend>,
        dir: PathBuf,
        published: Published,
        lock: Option<DirectoryLock>,
    ) -> Self {
        let (published, refuses_writes) = (Mutex::new(published), AtomicBool::new(false));
        Self { dir, backend, published, refuses_writes, lock }
    }

    /// The directory of the index.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What all durable operations of the handle go through.
    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.lock.is_none()
    }

    /// The directory of a model.
    pub(super) fn model_dir(&self, number: u32) -> PathBuf {
        model_dir(&self.dir, number)
    }

    /// As this handle last read or wrote it. For a writer it matches the disk.
    pub(crate) fn current(&self) -> Current {
        self.published().current
    }

    /// As it is on disk now.
    ///
    /// # Errors
    /// Damage, failures of reading, and [`StoreError::Replaced`] if it belongs to another index.
    pub(super) fn read(&self) -> Result<Current> {
        let current = Published::read(&*self.backend, &self.dir)?.current;
        match current.id == self.current().id {
            true => Ok(current),
            false => Err(StoreError::Replaced { path: self.dir.join(names::CURRENT) }),
        }
    }

    /// Whether the copy that a repair falls back on matches the current file.
    pub(super) fn has_copy(&self) -> bool {
        let read = |name| read_bytes(&*self.backend, &self.dir, name);
        matches!((read(names::CURRENT), read(names::CURRENT_COPY)), (Ok(own), Ok(copy)) if own == copy)
    }

    /// Fails in a forked child of the process that opened the directory for writing.
    ///
    /// # Errors
    /// [`StoreError::Forked`].
    pub(super) fn check_process(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), DirectoryLock::check_process)
    }

    /// Fails if the handle may not write.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Forked`]; [`StoreError::Poisoned`] after a failure that left
    /// the state on disk unknown.
    pub(super) fn check_writes(&self) -> Result<()> {
        self.writable().map(drop)
    }

    fn writable(&self) -> Result<&DirectoryLock> {
        let lock = self.lock.as_ref().ok_or_else(|| StoreError::ReadOnly { path: self.dir.clone() })?;
        lock.check_process()?;
        if self.refuses_writes.load(Ordering::Acquire) { Err(StoreError::Poisoned) } else { Ok(lock) }
    }

    /// Checks that the directory is still the one that was opened. Must be called before anything in it is
    /// removed.
    ///
    /// # Errors
    /// Those of [`Self::check_writes`], [`StoreError::Replaced`], and failures of reading.
    pub(super) fn check(&self) -> Result<()> {
        self.check_against(&self.published())
    }

    fn check_against(&self, published: &Published) -> Result<()> {
        let lock = self.writable()?;
        lock.check().inspect_err(|_| self.refuse_writes())?;
        let path = self.dir.join(names::CURRENT);
        let identity = self.backend.identity(&path).map_err(StoreError::io(&path, Operation::Read))?;
        let found = match identity {
            None => None,
            Some(_) => Some(read_bytes(&*self.backend, &self.dir, names::CURRENT)?),
        };
        if identity == published.identity && found.as_ref() == Some(&published.bytes) {
            return Ok(());
        }
        self.refuse_writes();
        Err(StoreError::Replaced { path })
    }

    /// Replaces `CURRENT`. The rename is the commit point; the change is durable once this has returned.
    ///
    /// # Errors
    /// Those of [`Self::check`] with nothing written. After a failed write the call may be repeated; after
    /// a failed sync or rename the handle refuses writes.
    pub(super) fn publish(&self, next: Current) -> Result<()> {
        let mut published = self.published();
        self.check_against(&published)?;
        let bytes = next.encode().to_vec();
        let (new, path) = (self.dir.join(names::CURRENT_NEW), self.dir.join(names::CURRENT));
        let written = write(&*self.backend, &new, &bytes)
            .and_then(|()| self.backend.identity(&new).map_err(StoreError::io(&new, Operation::Read)))
            // Before the commit point: a sound copy is never older than its `CURRENT`.
            .and_then(|identity| write_copy(&*self.backend, &self.dir, &bytes).map(|()| identity));
        let identity = written.inspect_err(|error| {
            if matches!(error, StoreError::Io { operation: Operation::Sync, .. }) {
                self.refuse_writes();
            }
            // The next writer removes the remains.
            let _ = self.backend.remove(&new);
        })?;
        self.backend
            .rename(&new, &path)
            .map_err(StoreError::io(&path, Operation::Rename))
            .and_then(|()| sync(&*self.backend, &self.dir))
            .inspect_err(|_| self.refuse_writes())?;
        *published = Published { current: next, bytes, identity };
        Ok(())
    }

    fn refuse_writes(&self) {
        self.refuses_writes.store(true, Ordering::Release);
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Published {
    fn read(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        let path = dir.join(names::CURRENT);
        let identity = backend.identity(&path).map_err(StoreError::io(&path, Operation::Read))?;
        let bytes = read_bytes(backend, dir, names::CURRENT)?;
        Ok(Self { current: Current::decode(&bytes)?, bytes, identity })
    }

    /// For a handle that is going to write: makes `CURRENT` durable, and its copy match.
    fn settle(&self, backend: &dyn Backend, dir: &Path) -> Result<()> {
        // The rename that made it may have been the last operation before the crash.
        sync(backend, dir)?;
        match read_bytes(backend, dir, names::CURRENT_COPY) {
            Ok(copy) if copy == self.bytes => Ok(()),
            _ => write_copy(backend, dir, &self.bytes),
        }
    }
}

/// The directory of a model of the index in `index`.
pub(super) fn model_dir(index: &Path, number: u32) -> PathBuf {
    index.join(names::MODELS).join(number.to_string())
}

/// The prefix of that directory's file names, relative to the index.
pub(super) fn model_prefix(number: u32) -> String {
    format!("{}/{number}/", names::MODELS)
}

/// The absolute path of a directory that must exist.
fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => StoreError::NotFound { path: path.to_owned() },
        _ => StoreError::io(path, Operation::Open)(source),
    })
}

/// Checks that a directory contains an index.
fn check_is_index(backend: &dyn Backend, dir: &Path) -> Result<()> {
    if kind(backend, dir)? != Some(Kind::Directory) {
        return Err(StoreError::NotAnIndex { path: dir.to_owned() });
    }
    let has = |name: &str| Ok(kind(backend, &dir.join(name))?.is_some());
    if has(names::CURRENT)? {
        return Ok(());
    }
    // A copy exists only for a published `CURRENT`.
    if has(names::CURRENT_COPY)? {
        return Err(StoreError::corrupt(names::CURRENT, Damage::Missing { what: "the file" }));
    }
    let path = dir.to_owned();
    if has(names::CURRENT_NEW)? {
        return Err(StoreError::InterruptedCreate { path });
    }
    // An index without its CURRENT: a repair recreates it.
    if kind(backend, &model_dir(dir, FIRST_MODEL).join(names::MANIFEST))?.is_some() {
        return Err(StoreError::corrupt(names::CURRENT, Damage::Missing { what: "the file" }));
    }
    Err(StoreError::NotAnIndex { path })
}

/// Refuses a link, or anything else, in place of a directory. Callers report a missing directory.
pub(super) fn check_directory(backend: &dyn Backend, path: &Path) -> Result<()> {
    match kind(backend, path)? {
        None | Some(Kind::Directory) => Ok(()),
        Some(_) => {
            let source = std::io::Error::new(std::io::ErrorKind::NotADirectory, "it is not a directory");
            Err(StoreError::io(path, Operation::Open)(source))
        }
    }
}

/// Reads a `CURRENT`, and at most one byte beyond its end, which reveals a file that is too long.
fn read_bytes(backend: &dyn Backend, dir: &Path, name: &str) -> Result<Vec<u8>> {
    let path = dir.join(name);
    let io = |operation| StoreError::io(&path, operation);
    let file = backend.open(&path, OpenMode::Read).map_err(io(Operation::Open))?;
    let len = file.len().map_err(io(Operation::Read))?.min(current::CURRENT_BYTES as u64 + 1);
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(io(Operation::Read))?;
    Ok(bytes)
}

/// Writes the copy that repair falls back on, or removes it: an outdated copy must not outlive its `CURRENT`.
fn write_copy(backend: &dyn Backend, dir: &Path, bytes: &[u8]) -> Result<()> {
    let path = dir.join(names::CURRENT_COPY);
    write(backend, &path, bytes).or_else(|error| {
        tracing::warn!(index = %dir.display(), %error, "could not write a copy of CURRENT");
        remove_file(backend, &path)
    })
}
