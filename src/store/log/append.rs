//! Appends commits to a log.

use std::path::{Path, PathBuf};

use super::{Scan, Tail, frame::LogPlace, name};
use crate::{
    disk::{Backend, BackendFile, Identity, OpenMode},
    ids::Generation,
    store::{
        error::{Operation, Result, StoreError},
        files,
        layout::{log::*, names},
    },
};

/// Allocated bytes at the end of a log that documents must not use, so that deletes can be recorded on a full
/// disk.
const SPARE_BYTES: u64 = 64 << 10;
/// Bytes of zeros written per call.
const ZEROS: usize = 64 << 10;

/// How much of the allocated space a frame may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Room {
    /// All except what is reserved for deletes.
    Ordinary,
    /// All of it: a commit that frees space once it is flushed.
    Last,
}

/// A writer's open log.
pub(in crate::store) struct Log {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    place: LogPlace,
    boot: u32,
    /// Identity of the file: a different file with its name does not belong to this handle.
    identity: Option<Identity>,
    /// The generation of the last frame.
    generation: Generation,
    /// The offset of the next frame; the file has zeros from there on.
    end: u64,
    allocated: u64,
    synced: u64,
    /// Whether the name of the file is durable.
    named: bool,
}

impl Log {
    /// Creates an empty log; a failed call removes what it made.
    pub(in crate::store) fn create(
        backend: &dyn Backend,
        dir: &Path,
        name: &str,
        place: LogPlace,
    ) -> Result<Self> {
        let path = dir.join(name);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Replace).map_err(io(Operation::Create))?;
        let mut log = Self {
            file,
            path: path.clone(),
            place,
            boot: boot(backend),
            identity: None,
            generation: place.base,
            end: HEADER_BYTES as u64,
            allocated: 0,
            synced: 0,
            named: false,
        };
        let room = log.make_room(log.end, Room::Ordinary);
        let made = room
            .and_then(|()| {
                log.file.write_at(bytemuck::bytes_of(&place.header()), 0).map_err(io(Operation::Write))
            })
            .and_then(|()| backend.identity(&path).map_err(io(Operation::Read)));
        match made {
            Ok(identity) => Ok(Self { identity, ..log }),
            Err(error) => {
                let _ = backend.remove(&path);
                Err(error)
            }
        }
    }

    /// Continues a log that was read to its end. Bytes after the end are first overwritten with zeros, so
    /// that no abandoned frame is ever found after a new one.
    pub(in crate::store) fn resume(backend: &dyn Backend, dir: &Path, found: &Scan) -> Result<Self> {
        let place = found.place;
        let path = dir.join(name(place.base));
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Update).map_err(io(Operation::Open))?;
        let log = Self {
            file,
            path: path.clone(),
            place,
            boot: boot(backend),
            identity: backend.identity(&path).map_err(io(Operation::Read))?,
            generation: found.generation,
            end: found.end,
            allocated: found.len,
            // What an earlier process wrote may exist only in the page cache.
            synced: 0,
            named: false,
        };
        if found.tail != Tail::Clean {
            if matches!(found.tail, Tail::Lost { .. })
                && let Err(error) = keep(backend, dir, &*log.file, found)
            {
                tracing::warn!(index = %dir.display(), %error, "no copy of what a power failure left is kept");
            }
            if !found.has_header {
                log.file.write_at(bytemuck::bytes_of(&place.header()), 0).map_err(io(Operation::Write))?;
            }
            log.clear(log.end, log.allocated)?;
            log.file.sync_all().map_err(io(Operation::Sync))?;
        }
        Ok(log)
    }

    /// Appends a commit, which survives the end of the process from then on.
    ///
    /// # Errors
    ///
    /// After a failed write, the log is as before. [`Operation::Sync`] if even that is uncertain: then the
    /// commit may reappear, and the log must not be used again.
    pub(in crate::store) fn append(&mut self, commit: &[u8], room: Room) -> Result<()> {
        let generation = self.generation.next();
        let header = FrameHeader::new(commit, self.boot, generation, self.synced).at(self.place, self.end);
        let bytes = header.frame_bytes();
        self.make_room(self.end + bytes, room)?;
        // The header is written last: it completes the frame. The bytes that align the next frame are zeros
        // already.
        let written = self
            .file
            .write_at(commit, self.end + FRAME_BYTES as u64)
            .and_then(|()| self.file.write_at(bytemuck::bytes_of(&header), self.end));
        if let Err(source) = written {
            // It was not acknowledged, so it must not reappear.
            let cleared = self.clear(self.end, self.end + bytes);
            let operation = if cleared.is_ok() { Operation::Write } else { Operation::Sync };
            return Err(StoreError::io(&self.path, operation)(source));
        }
        self.end += bytes;
        self.generation = generation;
        Ok(())
    }

    /// Makes all commits so far survive a power failure.
    ///
    /// # Errors
    ///
    /// After any of them, the state on disk is unknown.
    pub(in crate::store) fn sync(&mut self, backend: &dyn Backend) -> Result<()> {
        self.file.sync_data().map_err(StoreError::io(&self.path, Operation::Sync))?;
        if !self.named {
            files::sync(backend, self.path.parent().unwrap_or(Path::new(names::LOG)))?;
            self.named = true;
        }
        self.synced = self.end;
        Ok(())
    }

    /// Checks that the file is still in place.
    ///
    /// # Errors
    ///
    /// [`StoreError::Replaced`].
    pub(in crate::store) fn check(&self, backend: &dyn Backend) -> Result<()> {
        let found = backend.identity(&self.path).map_err(StoreError::io(&self.path, Operation::Read))?;
        match found == self.identity {
            true => Ok(()),
            false => Err(StoreError::Replaced { path: self.path.clone() }),
        }
    }

    /// Total bytes of its frames.
    pub(in crate::store) fn bytes(&self) -> u64 {
        self.end
    }

    /// Ensures that the file has space up to `end`, and for what must follow the last frame.
    fn make_room(&mut self, end: u64, room: Room) -> Result<()> {
        let needed = end + FRAME_BYTES as u64;
        if needed + SPARE_BYTES <= self.allocated {
            return Ok(());
        }
        let wanted = (needed + SPARE_BYTES).next_multiple_of(CHUNK_BYTES);
        match self.file.allocate(wanted) {
            Ok(()) => self.allocated = wanted,
            Err(_) if room == Room::Last && needed <= self.allocated => {}
            Err(source) => {
                // The file may have grown in part.
                let _ = self.file.truncate(self.allocated);
                return Err(StoreError::io(&self.path, Operation::Grow)(source));
            }
        }
        Ok(())
    }

    /// Writes zeros over allocated space.
    fn clear(&self, from: u64, to: u64) -> Result<()> {
        for at in (from..to).step_by(ZEROS) {
            let zeros = &[0; ZEROS][..(to - at).min(ZEROS as u64) as usize];
            self.file.write_at(zeros, at).map_err(StoreError::io(&self.path, Operation::Write))?;
        }
        Ok(())
    }
}

/// Copies a log to `damaged`, so that the bytes after its end can be examined.
fn keep(backend: &dyn Backend, dir: &Path, file: &dyn BackendFile, found: &Scan) -> std::io::Result<()> {
    let aside = dir.join(names::DAMAGED);
    backend.create_directory(&aside)?;
    let copy = backend.open(&aside.join(format!("{:08}.log", found.place.base.0)), OpenMode::Replace)?;
    let mut window = vec![0; ZEROS];
    for at in (0..found.len).step_by(ZEROS) {
        let bytes = &mut window[..(found.len - at).min(ZEROS as u64) as usize];
        file.read_at(bytes, at)?;
        copy.write_at(bytes, at)?;
    }
    copy.sync_all()?;
    backend.sync_directory(&aside)
}

/// Identifies the boot of the operating system in frames: 0 if unknown.
pub(super) fn boot(backend: &dyn Backend) -> u32 {
    backend.boot().map_or(0, |boot| crc32fast::hash(&boot).max(1))
}
