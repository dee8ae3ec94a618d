//! Creating an index and opening one.

use std::{
    path::Path,
    sync::{Arc, Mutex, RwLock},
};

use super::{
    Durability, JournalState, Result, Store, StoreConfig, StoreError, StoreOptions, Writer,
    dead::DeadRows,
    error::{Damage, Operation},
    health::Health,
    journal::{Journal, Recovered},
    layout::names,
    lock::DirectoryLock,
    manifest::{Manifest, Models, SegmentEntry, StoreId},
    part::Part,
    segment::Segment,
    state::State,
};
use crate::disk::{Backend, FileSystem, Unsynced};

/// How often a read-only handle reads the manifest again when a file that it names is gone: the
/// writer may have made a newer generation meanwhile.
const READ_ATTEMPTS: usize = 16;

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
    pub fn create(dir: impl AsRef<Path>, config: &StoreConfig, options: StoreOptions) -> Result<Self> {
        Self::create_on(options.backend(), dir.as_ref(), config, options)
    }

    /// Opens the index in `dir` for reading and writing.
    ///
    /// Costs the same whatever the size of the index, unless the last handle was not closed: then the
    /// commits that it did not flush are taken over from its journal.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`], [`StoreError::Corrupt`],
    /// and failures of the file system.
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        Self::open_on(options.backend(), dir.as_ref(), options)
    }

    /// Opens the index in `dir` for reading, beside a writer in this process or another one.
    ///
    /// Shows the newest generation that was flushed; [`Store::refresh`] moves on.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`] but [`StoreError::Locked`].
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self> {
        let (backend, dir) = (Arc::new(FileSystem), dir.as_ref());
        Self::check_is_index(dir)?;
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        let (manifest, state) = read_newest(&*backend, dir, None)?;
        let (journal, options) = (JournalState::None, StoreOptions::default());
        Ok(Self::with(backend, dir, manifest, state, journal, options, None))
    }

    /// Moves a read-only handle to the newest flushed generation; says whether that is another one.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open_read_only`]; the handle then shows what it showed before.
    pub fn refresh(&self) -> Result<bool> {
        if self.lock.is_some() {
            // A writer's handle always shows its newest generation.
            return Ok(false);
        }
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = self.state();
        let (manifest, state) = read_newest(&*self.backend, &self.dir, Some((&writer.manifest, &before)))?;
        if manifest == writer.manifest {
            return Ok(false);
        }
        if manifest.store_id != self.store_id {
            return Err(StoreError::corrupt(names::MANIFEST, Damage::Foreign));
        }
        if manifest.models.current != writer.manifest.models.current {
            // Another store serves from now on, and this one may be empty by then.
            return Ok(false);
        }
        writer.manifest = manifest;
        self.publish(state);
        Ok(true)
    }

    pub(super) fn create_on(
        backend: Arc<dyn Backend>,
        dir: &Path,
        config: &StoreConfig,
        options: StoreOptions,
    ) -> Result<Self> {
        config.check()?;
        backend.create_directory(dir).map_err(StoreError::io(dir, Operation::CreateDirectory))?;
        refuse_existing(dir)?;
        let lock = DirectoryLock::take(dir, options.lock_wait)?;
        // Again, for one that was made between the check and the lock.
        refuse_existing(dir)?;
        // First, and durable before anything else: it marks the directory as one where a create began.
        let manifest = Manifest::empty(config);
        manifest.write_provisional(&*backend, dir)?;
        let sync = |dir: &Path| backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync));
        sync(dir)?;
        let segments = dir.join(names::SEGMENTS);
        backend.create_directory(&segments).map_err(StoreError::io(&segments, Operation::CreateDirectory))?;
        Journal::clear(dir)?;
        sync(&segments)?;
        sync(dir)?;
        Manifest::publish(&*backend, dir)?;
        let state = State::new(manifest.generation, Vec::new())?;
        let made = Self::with(backend, dir, manifest, state, JournalState::None, options, Some(lock));
        made.sync_parent(dir);
        Ok(made)
    }

    /// Makes the entry of a directory that may be new durable. What is above it is not ours, so it may be
    /// unreadable; then its entry is as durable as its owner makes it.
    pub(super) fn sync_parent(&self, dir: &Path) {
        if let Some(parent) = dir.canonicalize().ok().as_deref().and_then(Path::parent)
            && let Err(error) = self.backend.sync_directory(parent)
        {
            tracing::warn!(directory = %parent.display(), %error, "could not sync the parent directory");
        }
    }

    pub(super) fn open_on(backend: Arc<dyn Backend>, dir: &Path, options: StoreOptions) -> Result<Self> {
        Self::check_is_index(dir)?;
        let lock = DirectoryLock::take(dir, options.lock_wait)?;
        // Under the lock, so that a create still at work is not taken for an interrupted one.
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        // The rename that made it may have been the last thing before a crash. It must last before
        // anything is built on it.
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))?;
        let manifest = Manifest::read(&*backend, dir)?;
        let state = load(&*backend, dir, &manifest, None)?;
        let (state, journal, unreadable) = recover(dir, &manifest, state)?;
        manifest.renew_copy(&*backend, dir);
        let opened = Self::with(backend, dir, manifest, state, journal, options, Some(lock));
        if let Some(error) = unreadable {
            // First what could be read of it.
            opened.flush()?;
            let aside = Journal::set_aside(dir)?;
            tracing::warn!(
                index = %dir.display(), %error, journal = %aside.display(),
                "the journal cannot be read to its end and was set aside; commits that were never flushed are lost"
            );
        }
        Ok(opened)
    }

    /// Which store serves the index in `dir`, as its manifest says now.
    ///
    /// # Errors
    ///
    /// As [`Store::open_read_only`].
    pub(crate) fn models_of(dir: &Path) -> Result<Models> {
        Self::check_is_index(dir)?;
        if !has(dir, names::MANIFEST)? {
            return Err(StoreError::InterruptedCreate { path: dir.to_owned() });
        }
        Ok(Manifest::read(&FileSystem, dir)?.models)
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
        // There is a copy of published manifests only.
        if has(dir, names::MANIFEST_COPY)? {
            return Err(StoreError::corrupt(names::MANIFEST, Damage::Missing { what: "the file" }));
        }
        if !has(dir, names::MANIFEST_NEW)? {
            return Err(StoreError::NotAnIndex { path: dir.to_owned() });
        }
        Ok(())
    }

    fn with(
        backend: Arc<dyn Backend>,
        dir: &Path,
        manifest: Manifest,
        state: State,
        journal: JournalState,
        options: StoreOptions,
        lock: Option<DirectoryLock>,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            config: manifest.config.clone(),
            store_id: manifest.store_id,
            backend,
            options,
            health: Health::default(),
            writer: Mutex::new(Writer { manifest, journal }),
            state: RwLock::new(Arc::new(state)),
            lock,
        }
    }
}

impl StoreOptions {
    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        match self.durability {
            Durability::None => Arc::new(Unsynced(FileSystem)),
            _ => Arc::new(FileSystem),
        }
    }
}

/// Opens the segments of a generation, or takes them over from a handle's earlier one.
fn load(
    backend: &dyn Backend,
    dir: &Path,
    manifest: &Manifest,
    before: Option<(&Manifest, &State)>,
) -> Result<State> {
    let mut parts = Vec::with_capacity(manifest.segments.len());
    for entry in &manifest.segments {
        let known = before.and_then(|(old, state)| {
            let place = old.segments.iter().position(|other| other.files == entry.files)?;
            Some((&old.segments[place], state.parts().get(place)?))
        });
        if let Some((old, part)) = known
            && old.dead == entry.dead
        {
            parts.push(part.clone());
            continue;
        }
        let store_id = manifest.store_id;
        let dead = open_dead(backend, dir, store_id, entry, false)?;
        parts.push(match known {
            Some((_, part)) => Part { dead, ..part.clone() },
            None => {
                Part::sealed(Segment::open(backend, dir, store_id, manifest.config.dim, entry.files)?, dead)
            }
        });
    }
    State::new(manifest.generation, parts)
}

/// The dead rows of a segment; with `damaged` also from a file with a damaged header or end.
pub(super) fn open_dead(
    backend: &dyn Backend,
    dir: &Path,
    store_id: StoreId,
    entry: &SegmentEntry,
    damaged: bool,
) -> Result<Arc<DeadRows>> {
    match entry.dead {
        Some(file) => file.read(backend, dir, store_id, entry.files.number, entry.files.rows, damaged),
        None => Ok(Arc::default()),
    }
}

/// The newest generation that can be opened while a writer goes on.
fn read_newest(
    backend: &dyn Backend,
    dir: &Path,
    before: Option<(&Manifest, &State)>,
) -> Result<(Manifest, State)> {
    let mut manifest = Manifest::read(backend, dir)?;
    for _ in 0..READ_ATTEMPTS {
        match load(backend, dir, &manifest, before) {
            Ok(state) => return Ok((manifest, state)),
            Err(error @ StoreError::Corrupt { detail: Damage::Missing { .. }, .. }) => {
                let newer = Manifest::read(backend, dir)?;
                if newer == manifest {
                    return Err(error);
                }
                manifest = newer;
            }
            Err(error) => return Err(error),
        }
    }
    let state = load(backend, dir, &manifest, before)?;
    Ok((manifest, state))
}

/// The state with the commits of the journal that an earlier handle left, if it did.
///
/// A journal promises nothing: one that cannot be read to its end is to be set aside, for the reason returned, and the index
/// opens with what could be read of it. What is not the journal's fault is an error, and the journal stays for the next try.
fn recover(
    dir: &Path,
    manifest: &Manifest,
    state: State,
) -> Result<(State, JournalState, Option<StoreError>)> {
    if !Journal::exists(dir) {
        return Ok((state, JournalState::None, None));
    }
    let Recovered { journal, commits, cut } =
        match Journal::recover(dir, manifest.store_id, manifest.generation) {
            Ok(recovered) => recovered,
            Err(error) if is_own_fault(&error) => return Ok((state, JournalState::None, Some(error))),
            Err(error) => return Err(error),
        };
    let Some(commits) = commits else {
        journal.remove(dir)?;
        return Ok((state, JournalState::None, None));
    };
    let dim = manifest.config.dim as usize;
    let (mut replayed, mut cut) = (state, cut);
    for commit in &commits {
        if let Err(error) = commit.check(&manifest.config) {
            cut = Some(error);
            break;
        }
        // Looks for ids in sealed files, so its errors are theirs.
        replayed = replayed.apply(dim, commit)?.0;
    }
    match cut {
        None => Ok((replayed, JournalState::Open(journal), None)),
        Some(error) if is_own_fault(&error) => Ok((replayed, JournalState::None, Some(error))),
        Some(error) => Err(error),
    }
}

/// Whether an error of the journal is for its bytes, and not for want of room, memory, files or rights.
fn is_own_fault(error: &StoreError) -> bool {
    use std::io::ErrorKind::{OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    // Too many files open; they have no kind.
    const TOO_MANY: [Option<i32>; 2] = [Some(23), Some(24)];
    match error {
        StoreError::Locked { .. } => false,
        StoreError::Io { source, .. } => {
            let wants = [OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
            !wants.contains(&source.kind()) && !TOO_MANY.contains(&source.raw_os_error())
        }
        _ => true,
    }
}

/// Refuses a directory that has an index, or a file of ours that no unfinished create left.
fn refuse_existing(dir: &Path) -> Result<()> {
    let unfinished = has(dir, names::MANIFEST_NEW)?;
    for name in [names::MANIFEST, names::MANIFEST_COPY, names::SEGMENTS, names::DOCUMENTS] {
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
