//! Reserved disk space, so that acknowledged commits can be flushed when the disk is full.

use std::path::{Path, PathBuf};

use super::{
    error::{Operation, Result, StoreError},
    layout::names,
    part::VersionPart,
    rows::Rows,
    version::Version,
};
use crate::disk::{Backend, BackendFile, OpenMode};

/// What a flush takes in addition to documents: manifest, its copy, headers and ends of files, and a log.
const FIXED_BYTES: u64 = 512 << 10;
/// Header and end of a file of dead rows.
const DEAD_FILE_BYTES: u64 = 8 << 10;
/// The reserve grows in steps of this size.
const STEP_BYTES: u64 = 1 << 20;

/// The file that holds the space; it is never read.
pub(super) struct Reserve {
    file: Option<Box<dyn BackendFile>>,
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(super) fn new(dir: &Path) -> Self {
        Self { file: None, path: dir.join(names::RESERVE), bytes: 0 }
    }

    /// Ensures that a flush of `state` will have enough space.
    ///
    /// # Errors
    ///
    /// If the disk is full; the existing reserve stays.
    pub(super) fn ensure(&mut self, backend: &dyn Backend, state: &Version) -> Result<()> {
        let wanted = needed(state);
        if wanted <= self.bytes {
            return Ok(());
        }
        let wanted = FIXED_BYTES + (wanted - FIXED_BYTES).next_multiple_of(STEP_BYTES);
        let grow = |source| StoreError::io(&self.path, Operation::Grow)(source);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(open(backend, &self.path).map_err(grow)?),
        };
        if let Err(source) = file.allocate(wanted) {
            // The file may have grown in part.
            if self.bytes > 0 {
                let _ = file.truncate(self.bytes);
            }
            return Err(StoreError::io(&self.path, Operation::Grow)(source));
        }
        // An earlier handle's file may have been larger.
        self.bytes = file.len().map_or(wanted, |len| len.max(wanted));
        Ok(())
    }

    /// Frees the space, for a flush or for a commit that frees space.
    pub(super) fn release(&mut self) {
        if let Some(file) = &self.file
            && file.truncate(0).is_ok()
        {
            self.bytes = 0;
        }
    }

    /// Frees what is not needed any more.
    pub(super) fn shrink(&mut self, state: &Version) {
        let wanted = needed(state);
        if let Some(file) = &self.file
            && self.bytes > wanted + STEP_BYTES
            && file.truncate(wanted).is_ok()
        {
            self.bytes = wanted;
        }
    }
}

/// The file of an earlier handle, or a new one.
fn open(backend: &dyn Backend, path: &Path) -> std::io::Result<Box<dyn BackendFile>> {
    match backend.kind(path)? {
        Some(_) => backend.open(path, OpenMode::Update),
        None => backend.open(path, OpenMode::Replace),
    }
}

/// Bytes that a flush of the memtables takes, with a margin.
fn needed(state: &Version) -> u64 {
    let segments = state.parts.iter().filter_map(VersionPart::segment);
    let tombstones: u64 = segments.map(|segment| DEAD_FILE_BYTES + u64::from(segment.rows()) / 8).sum();
    let memtable = state.memtable_bytes() as u64;
    // Includes page checksums.
    FIXED_BYTES + tombstones + memtable + memtable / 1024
}
