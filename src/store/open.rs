//! Creating and opening an index.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, RwLock,
        atomic::{AtomicU8, Ordering},
    },
};

use super::{
    Durability, Notice, Result, Store, StoreConfig, StoreError, StoreOptions, Writer,
    error::{Damage, Operation},
    files,
    health::Health,
    layout::names,
    lock::DirectoryLock,
    manifest::Manifest,
    part::VersionPart,
    recovery,
    reserve::Reserve,
    segment::Segment,
    version::Version,
};
use crate::disk::{Backend, FileSystem, Identity, Kind};

/// How often a read-only handle rereads the manifest when a file that it names is gone: the writer may have
/// published a newer generation in the meantime.
const READ_ATTEMPTS: usize = 16;

impl Store {
    /// Creates an empty index in `dir`, and `dir` itself if missing, and opens it.
    ///
    /// Files with other names are left alone, including a model bundle.
    ///
    /// # Durability
    ///
    /// The empty index survives a power failure once this has returned; an earlier crash leaves a directory
    /// that [`Store::open`] recognises and this call finishes.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidConfig`], [`StoreError::AlreadyExists`], [`StoreError::Locked`],
    /// and failures of the file system.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn create(dir: impl AsRef<Path>, config: &StoreConfig, options: StoreOptions) -> Result<Self> {
        Self::create_on(options.backend(), dir.as_ref(), config, options)
    }

    /// Opens the index in `dir` for reading and writing.
    ///
    /// Costs the same whatever the size of the index, unless the last handle was not closed: then its
    /// unflushed commits are taken over from the log; [`Store::notices`] says how many.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`], [`StoreError::Corrupt`],
    /// and failures of the file system.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        Self::open_on(options.backend(), dir.as_ref(), options)
    }

    /// Opens the index in `dir` for reading, alongside a writer in this process or another.
    ///
    /// Shows the newest flushed generation; [`Store::refresh`] moves on. If commits wait in the log,
    /// [`Store::notices`] says so.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`] except [`StoreError::Locked`].
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_read_only_on(Arc::new(FileSystem), dir.as_ref())
    }

    pub(super) fn open_read_only_on(backend: Arc<dyn Backend>, dir: &Path) -> Result<Self> {
        Self::check_is_index(dir)?;
        let dir = &absolute(dir)?;
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        let (manifest, state) = read_newest(&*backend, dir, &[])?;
        let waiting = recovery::waiting(&*backend, dir, &manifest);
        let durable = u64::from(state.live);
        let writer = Writer { manifest, left: None, durable, log: None, reserve: Reserve::new(dir) };
        let mut opened = Self::with(backend, dir, writer, state, StoreOptions::default(), None);
        match waiting {
            Ok(Some(waiting)) => opened.notices.extend(opened.waiting_notice(&waiting)),
            Ok(None) => {}
            Err(StoreError::Corrupt { file, detail }) => {
                opened.notices.push(Notice::DamagedLog { file: file.into_owned(), damage: detail });
            }
            Err(error) => {
                tracing::warn!(index = %dir.display(), %error, "what waits in the log cannot be read");
            }
        }
        for notice in &opened.notices {
            tracing::warn!(index = %dir.display(), "{notice}");
        }
        Ok(opened)
    }

    /// Moves a read-only handle to the newest flushed generation; returns whether it moved.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open_read_only`]; the handle then stays where it was.
    pub fn refresh(&self) -> Result<bool> {
        if self.lock.is_some() {
            // A writer's handle always shows its newest generation.
            return Ok(false);
        }
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = self.state();
        let (manifest, state) = read_newest(&*self.backend, &self.dir, &before.parts)?;
        if manifest == writer.manifest {
            return Ok(false);
        }
        if manifest.store_id != self.store_id {
            return Err(StoreError::corrupt(names::MANIFEST, Damage::Foreign));
        }
        self.terms.store(manifest.config.terms, Ordering::Release);
        writer.manifest = manifest;
        self.publish(state);
        Ok(true)
    }

    pub(crate) fn create_on(
        backend: Arc<dyn Backend>,
        dir: &Path,
        config: &StoreConfig,
        options: StoreOptions,
    ) -> Result<Self> {
        config.check()?;
        files::create_directory(&*backend, dir)?;
        refuse_existing(dir)?;
        let dir = &absolute(dir)?;
        let lock = DirectoryLock::take(dir, options.lock_wait)?;
        // Checked again, for an index created between the check and the lock.
        refuse_existing(dir)?;
        // First, and durable before anything else: it marks a directory in which a create began.
        let manifest = Manifest::empty(config);
        manifest.write_provisional(&*backend, dir)?;
        files::sync(&*backend, dir)?;
        for folder in [names::SEGMENTS, names::LOG].map(|name| dir.join(name)) {
            files::create_directory(&*backend, &folder)?;
            files::sync(&*backend, &folder)?;
        }
        files::sync(&*backend, dir)?;
        Manifest::publish(&*backend, dir)?;
        manifest.write_copy(&*backend, dir);
        let state = Version::new(manifest.generation, Vec::new())?;
        let left = identity(&*backend, dir)?;
        files::sync_parent(&*backend, dir);
        let writer = Writer { manifest, left, durable: 0, log: None, reserve: Reserve::new(dir) };
        Ok(Self::with(backend, dir, writer, state, options, Some(lock)))
    }

    pub(crate) fn open_on(backend: Arc<dyn Backend>, dir: &Path, options: StoreOptions) -> Result<Self> {
        Self::check_is_index(dir)?;
        let dir = &absolute(dir)?;
        let lock = DirectoryLock::take(dir, options.lock_wait)?;
        // Under the lock, so that a create in progress is not mistaken for an interrupted one.
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        // The rename that made it may have been the last operation before a crash. It must be durable before
        // anything is built on it.
        files::sync(&*backend, dir)?;
        let left = identity(&*backend, dir)?;
        let manifest = Manifest::read(&*backend, dir)?;
        if let Some(error) = recovery::evidence_of_later(&*backend, dir, &manifest) {
            return Err(error);
        }
        let state = load(&*backend, dir, &manifest, &[])?;
        make_directories(&*backend, dir)?;
        let durable = u64::from(state.live);
        let (state, log, notices) = recovery::recover(&*backend, dir, &manifest, state)?;
        manifest.renew_copy(&*backend, dir);
        for notice in &notices {
            tracing::warn!(index = %dir.display(), "{notice}");
        }
        let writer = Writer { manifest, left, durable, log, reserve: Reserve::new(dir) };
        let mut opened = Self::with(backend, dir, writer, state, options, Some(lock));
        opened.notices = notices;
        opened.settle();
        Ok(opened)
    }

    /// Removes the remains of a crash, and reserves space; neither is required to continue.
    fn settle(&self) {
        let Ok(mut writer) = self.lock_writer() else { return };
        // Logged where it happens.
        let _ = self.remove_orphans(&writer);
        if self.options.durability != Durability::None
            && let Err(error) = writer.reserve.ensure(&*self.backend, &self.state())
        {
            tracing::warn!(index = %self.dir.display(), %error, "could not reserve disk space for the next flush");
        }
    }

    fn check_is_index(dir: &Path) -> Result<()> {
        if !exists(dir)? {
            return Err(StoreError::NotFound { path: dir.to_owned() });
        }
        if !dir.is_dir() {
            return Err(StoreError::NotAnIndex { path: dir.to_owned() });
        }
        if has(dir, names::MANIFEST)? {
            return Ok(());
        }
        // A copy exists only for a published manifest.
        if has(dir, names::MANIFEST_COPY)? {
            return Err(StoreError::corrupt(names::MANIFEST, Damage::Missing { what: "the file" }));
        }
        if !has(dir, names::MANIFEST_NEW)? {
            return Err(StoreError::NotAnIndex { path: dir.to_owned() });
        }
        Ok(())
    }

    /// A handle, with the lock of the directory if it may write.
    fn with(
        backend: Arc<dyn Backend>,
        dir: &Path,
        writer: Writer,
        state: Version,
        options: StoreOptions,
        lock: Option<DirectoryLock>,
    ) -> Self {
        let manifest = &writer.manifest;
        Self {
            dir: dir.to_owned(),
            config: manifest.config.clone(),
            store_id: manifest.store_id,
            backend,
            options,
            terms: AtomicU8::new(manifest.config.terms),
            lexers: OnceLock::new(),
            health: Health::default(),
            notices: Vec::new(),
            writer: Mutex::new(writer),
            state: RwLock::new(Arc::new(state)),
            lock,
        }
    }
}

/// The absolute path of an existing directory, independent of later changes of the working directory.
fn absolute(dir: &Path) -> Result<PathBuf> {
    dir.canonicalize().map_err(StoreError::io(dir, Operation::Open))
}

/// The identity of the manifest's file.
fn identity(backend: &dyn Backend, dir: &Path) -> Result<Option<Identity>> {
    let path = dir.join(names::MANIFEST);
    backend.identity(&path).map_err(StoreError::io(&path, Operation::Read))
}

/// Checks that the store's directories are directories, not links to another store's. A missing one counts as
/// empty: tools that copy an index may leave out empty directories.
fn check_directories(backend: &dyn Backend, dir: &Path, manifest: &Manifest) -> Result<()> {
    for name in [names::SEGMENTS, names::LOG] {
        let path = dir.join(name);
        match files::kind(backend, &path)? {
            Some(Kind::Directory) => {}
            None if name == names::LOG || manifest.segments.is_empty() => {}
            None => return Err(StoreError::corrupt(name, Damage::Missing { what: "the directory" })),
            Some(_) => return Err(StoreError::corrupt(name, Damage::NotADirectory)),
        }
    }
    Ok(())
}

/// Creates missing directories.
fn make_directories(backend: &dyn Backend, dir: &Path) -> Result<()> {
    for folder in [names::SEGMENTS, names::LOG].map(|name| dir.join(name)) {
        if files::kind(backend, &folder)?.is_none() {
            files::create_directory(backend, &folder)?;
            files::sync(backend, dir)?;
        }
    }
    Ok(())
}

/// Opens the segments of a generation, or reuses those of a handle's earlier one.
fn load(backend: &dyn Backend, dir: &Path, manifest: &Manifest, before: &[VersionPart]) -> Result<Version> {
    check_directories(backend, dir, manifest)?;
    let folder = manifest.folder(backend, dir);
    let mut parts = Vec::with_capacity(manifest.segments.len());
    for entry in &manifest.segments {
        let mut known = before.iter().filter_map(|part| Some((part, part.segment()?)));
        let known = known.find(|(_, segment)| segment.files() == entry.files);
        parts.push(match known {
            Some((part, _)) if part.on_disk == entry.tombstones => part.clone(),
            _ => {
                let tombstones = entry.read_tombstones(folder, false)?;
                let segment = match known {
                    Some((_, segment)) => Arc::clone(segment),
                    None => Arc::new(Segment::open(folder, manifest.config.dim, entry.files, false)?),
                };
                VersionPart::sealed(segment, tombstones, entry.tombstones)?
            }
        });
    }
    Version::new(manifest.generation, parts)
}

/// The newest generation that can be opened while a writer is active.
fn read_newest(backend: &dyn Backend, dir: &Path, before: &[VersionPart]) -> Result<(Manifest, Version)> {
    let mut manifest = Manifest::read(backend, dir)?;
    let mut attempts = READ_ATTEMPTS;
    loop {
        match load(backend, dir, &manifest, before) {
            Err(error @ StoreError::Corrupt { detail: Damage::Missing { .. }, .. }) if attempts > 0 => {
                attempts -= 1;
                let newer = Manifest::read(backend, dir)?;
                if newer == manifest {
                    return Err(error);
                }
                manifest = newer;
            }
            loaded => return Ok((manifest, loaded?)),
        }
    }
}

/// Refuses a directory with an index, or with a file of ours that is not from an unfinished create.
fn refuse_existing(dir: &Path) -> Result<()> {
    let unfinished = has(dir, names::MANIFEST_NEW)?;
    for name in [names::MANIFEST, names::MANIFEST_COPY, names::SEGMENTS, names::LOG] {
        if has(dir, name)? && (name.starts_with(names::MANIFEST) || !unfinished) {
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
