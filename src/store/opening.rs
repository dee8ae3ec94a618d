//! Creating an index and opening one.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
    sync::{Arc, Mutex, RwLock},
};

use super::{
    Result, Store, StoreConfig, StoreError, Writer,
    documents::{self, Changes, Database},
    error::{Damage, Operation},
    flushed::FlushedMark,
    health::Health,
    io::{Backend, FileSystem},
    layout::{keys, names},
    manifest::{Manifest, StoreId},
    records::CommitRecord,
    state::State,
    vectors::{Tail, VectorFile},
};
use crate::ids::Generation;

impl Store {
    /// Makes an empty index in `dir`, which is made too where it is missing, and opens it.
    ///
    /// Files of other names are left alone, a model bundle among them.
    ///
    /// # Durability
    ///
    /// The empty index survives a power failure once this has returned; a crash before
    /// leaves a directory that [`Store::open`] tells apart and this finishes.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidConfig`], [`StoreError::AlreadyExists`], [`StoreError::Locked`],
    /// and failures of the file system.
    pub fn create(dir: impl AsRef<Path>, config: &StoreConfig) -> Result<Self> {
        Self::create_on(Arc::new(FileSystem), dir.as_ref(), config)
    }

    /// Opens the index in `dir`.
    ///
    /// Reads the posting lists into memory and checks the newest embeddings; for a check of
    /// everything see [`Store::verify`].
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`], [`StoreError::Corrupt`],
    /// and failures of the file system.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Arc::new(FileSystem), dir.as_ref())
    }

    pub(super) fn create_on(backend: Arc<dyn Backend>, dir: &Path, config: &StoreConfig) -> Result<Self> {
        config.check()?;
        fs::create_dir_all(dir).map_err(StoreError::io(dir, Operation::CreateDirectory))?;
        refuse_existing(dir)?;
        let lock = lock(dir)?;
        // Again, for one that was made between the check and the lock.
        refuse_existing(dir)?;
        documents::remove_unfinished(dir)?;
        let manifest = Manifest { config: config.clone(), store_id: StoreId::unique() };
        manifest.write_provisional(&*backend, dir)?;
        VectorFile::create(&*backend, dir, &manifest)?;
        FlushedMark::create(&*backend, dir, manifest.store_id)?;
        let database = Database::create(&*backend, dir)?;
        let record =
            CommitRecord { generation: Generation(0), rows: 0, documents: 0, tail_crc: Tail::EMPTY.crc };
        let mut changes = Changes::default();
        changes.put(&keys::COMMIT_KEY, record.encode());
        database.apply(changes)?;
        database.sync_creation(&*backend)?;
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))?;
        Manifest::publish(&*backend, dir)?;
        // The directory itself may be new as well. Not ours, so it may be unreadable; then
        // its entry is as durable as its owner makes it.
        if let Some(parent) = dir.canonicalize().ok().as_deref().and_then(Path::parent)
            && let Err(error) = backend.sync_directory(parent)
        {
            tracing::warn!(directory = %parent.display(), %error, "could not sync the parent directory");
        }
        Self::load(backend, dir, manifest, database, lock)
    }

    pub(super) fn open_on(backend: Arc<dyn Backend>, dir: &Path) -> Result<Self> {
        if !exists(dir)? {
            return Err(StoreError::NotFound { path: dir.to_owned() });
        }
        if !dir.is_dir() || !(has(dir, names::MANIFEST)? || has(dir, names::MANIFEST_NEW)?) {
            return Err(StoreError::NotAnIndex { path: dir.to_owned() });
        }
        let lock = lock(dir)?;
        // Under the lock, so that a create still at work is not taken for an interrupted one.
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        let manifest = Manifest::read(&*backend, dir)?;
        // A create may have failed in its last sync. The rename must last before anything
        // is stored, or the directory could turn up as an interrupted create later.
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))?;
        let database = Database::open(&*backend, dir)?;
        Self::load(backend, dir, manifest, database, lock)
    }

    fn load(
        backend: Arc<dyn Backend>,
        dir: &Path,
        manifest: Manifest,
        database: Database,
        lock: File,
    ) -> Result<Self> {
        let corrupt = |detail| StoreError::corrupt(names::DOCUMENTS, detail);
        let what = "the commit record";
        let value = database.get(&keys::COMMIT_KEY)?;
        let value = value.ok_or_else(|| corrupt(Damage::Missing { what }))?;
        let record =
            CommitRecord::decode(&value).ok_or_else(|| corrupt(Damage::Undecodable { what, number: 0 }))?;
        let flushed = FlushedMark::open(&*backend, dir, manifest.store_id)?;
        flushed.check(record.generation)?;
        let vectors = VectorFile::open(&*backend, dir, &manifest, record.rows)?;
        let mapping = vectors.mapping().clone();
        let state = State::load(&manifest.config, record, &database, mapping)?;
        let tail = Tail { rows: record.rows, crc: record.tail_crc };
        Ok(Self {
            dir: dir.to_owned(),
            config: manifest.config,
            store_id: manifest.store_id,
            backend,
            health: Health::default(),
            writer: Mutex::new(Writer { vectors, flushed, tail, dirty: false }),
            state: RwLock::new(state),
            database,
            _lock: lock,
        })
    }
}

/// Refuses a directory that has an index, or a file of ours that no unfinished create left.
fn refuse_existing(dir: &Path) -> Result<()> {
    let unfinished = has(dir, names::MANIFEST_NEW)?;
    for name in [names::MANIFEST, names::FLUSHED, names::VECTORS, names::DOCUMENTS] {
        if has(dir, name)? && (name == names::MANIFEST || !unfinished) {
            return Err(StoreError::AlreadyExists { path: dir.join(name) });
        }
    }
    Ok(())
}

fn has(dir: &Path, name: &str) -> Result<bool> {
    exists(&dir.join(name))
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(StoreError::io(path, Operation::Read))
}

/// Takes the lock of the directory; the operating system gives it back with the handle.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(names::LOCK);
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(StoreError::io(&path, Operation::Open))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::io(&path, Operation::Lock)(source)),
    }
}
