//! The sled database: the only module that knows sled.
//!
//! What sled 0.34.7 does not do is done here: its `flush` writes without an fsync, so the
//! log is synced through our own handle; it panics on some damaged files, so every call
//! is guarded; values are kept small, because a large node would go to a file that is
//! never synced (`layout::limits::VALUE_BYTES`).

use std::{
    fs, io,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{
    error::{Damage, Operation, Result, StoreError},
    io::{Backend, BackendFile, OpenMode},
    layout::{limits, names},
};

/// Memory sled keeps pages in; it is exceeded for short whiles.
const CACHE_BYTES: u64 = 64 << 20;
/// How often sled's thread writes out its buffer and collects garbage.
const FLUSH_EVERY_MS: u64 = 500;
/// How long to wait for sled's own lock, which a dropped handle gives back a little late.
/// Ours is taken by then, so nobody else can rightfully hold it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The open database.
pub(super) struct Database {
    // Before `log`, so that sled writes out its buffers first.
    tree: sled::Db,
    log: Box<dyn BackendFile>,
    path: PathBuf,
}

/// Changes that become visible and recoverable together.
#[derive(Default)]
pub(super) struct Changes {
    batch: sled::Batch,
}

impl Changes {
    pub(super) fn put(&mut self, key: &[u8], value: Vec<u8>) {
        debug_assert!(value.len() <= limits::VALUE_BYTES);
        self.batch.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        self.batch.remove(key);
    }
}

impl Database {
    /// Makes an empty database. Not durable before [`Self::sync_creation`].
    pub(super) fn create(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        Self::open_sled(backend, dir)
    }

    /// Opens what [`Self::create`] made.
    pub(super) fn open(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        // sled would make an empty database in place of missing files.
        for name in [names::SLED_LOG, names::SLED_CONFIG] {
            let path = dir.join(names::DOCUMENTS).join(name);
            if !path.try_exists().map_err(StoreError::io(&path, Operation::Read))? {
                return Err(corrupt(Damage::Missing { what: "a file of the database" }));
            }
        }
        Self::open_sled(backend, dir)
    }

    fn open_sled(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        let path = dir.join(names::DOCUMENTS);
        let config =
            sled::Config::new().path(&path).cache_capacity(CACHE_BYTES).flush_every_ms(Some(FLUSH_EVERY_MS));
        let started = Instant::now();
        let tree = loop {
            let opened = guarded(&path, Operation::Open, || config.open());
            match opened {
                Err(StoreError::Io { source, .. })
                    if is_lock_failure(&source) && started.elapsed() < LOCK_PATIENCE =>
                {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(StoreError::Io { source, .. }) if is_lock_failure(&source) => {
                    return Err(StoreError::Locked { path: dir.to_owned() });
                }
                other => break other?,
            }
        };
        let log_path = path.join(names::SLED_LOG);
        let log = backend
            .open(&log_path, OpenMode::ReadWrite)
            .map_err(StoreError::io(&log_path, Operation::Open))?;
        Ok(Self { tree, log, path })
    }

    /// Makes a new database durable, its directory entries included.
    pub(super) fn sync_creation(&self, backend: &dyn Backend) -> Result<()> {
        self.flush()?;
        let config_path = self.path.join(names::SLED_CONFIG);
        backend
            .open(&config_path, OpenMode::ReadWrite)
            .and_then(|config| config.sync_all())
            .map_err(StoreError::io(&config_path, Operation::Sync))?;
        backend.sync_directory(&self.path).map_err(StoreError::io(&self.path, Operation::Sync))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>> {
        guarded(&self.path, Operation::Read, || self.tree.get(key))
    }

    /// Every entry from `start` on whose key begins with `prefix`, in key order.
    pub(super) fn scan(
        &self,
        prefix: u8,
        start: Bound<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(sled::IVec, sled::IVec)>> {
        self.entries(start, Bound::Excluded(vec![prefix + 1]))
    }

    /// Every entry, in key order.
    pub(super) fn all(&self) -> impl Iterator<Item = Result<(sled::IVec, sled::IVec)>> {
        self.entries(Bound::Unbounded, Bound::Unbounded)
    }

    fn entries(
        &self,
        start: Bound<Vec<u8>>,
        end: Bound<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(sled::IVec, sled::IVec)>> {
        let mut entries = self.tree.range((start, end));
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let entry = guarded(&self.path, Operation::Read, || entries.next().transpose()).transpose();
            failed = matches!(entry, Some(Err(_)));
            entry
        })
    }

    /// Applies all of `changes` or, as a crash leaves it, none: sled recovers a batch of
    /// one tree whole. Durable after the next [`Self::flush`].
    pub(super) fn apply(&self, changes: Changes) -> Result<()> {
        guarded(&self.path, Operation::Apply, || self.tree.apply_batch(changes.batch))
    }

    /// Makes everything applied so far durable.
    pub(super) fn flush(&self) -> Result<()> {
        guarded(&self.path, Operation::Sync, || self.tree.flush())?;
        let log_path = || self.path.join(names::SLED_LOG);
        self.log.sync_all().map_err(|source| StoreError::io(log_path(), Operation::Sync)(source))
    }

    /// Bytes the database takes on disk.
    pub(super) fn size_bytes(&self) -> Result<u64> {
        guarded(&self.path, Operation::Read, || self.tree.size_on_disk())
    }
}

/// Removes what an interrupted create left of a database.
pub(super) fn remove_unfinished(dir: &Path) -> Result<()> {
    let path = dir.join(names::DOCUMENTS);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(path, Operation::Remove)(error))
        }
        _ => Ok(()),
    }
}

fn corrupt(detail: Damage) -> StoreError {
    StoreError::corrupt(names::DOCUMENTS, detail)
}

/// sled gives its lock failure no kind of its own.
fn is_lock_failure(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// Runs a call into sled; its errors become ours and its panics, which damaged files
/// cause, become errors too.
fn guarded<T>(path: &Path, operation: Operation, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    // Sound to go on: after an error from here a writer is poisoned, and reading through a
    // tree that a panic passed by can at worst give another error.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(source))) => Err(StoreError::io(path, operation)(source)),
        Ok(Err(error @ sled::Error::Corruption { .. })) => {
            Err(corrupt(Damage::Engine { report: error.to_string() }))
        }
        Ok(Err(error)) => Err(StoreError::Database { operation, source: error.into() }),
        Err(panic) => {
            let report = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "it stopped without a message".to_owned());
            Err(corrupt(Damage::Engine { report }))
        }
    }
}
