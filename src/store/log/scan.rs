//! Reads a log from front to back, and distinguishes a crash from damage.

use std::path::Path;

use super::{append::boot, frame::LogPlace, name};
use crate::{
    disk::{Backend, BackendFile, OpenMode},
    ids::Generation,
    store::{
        error::{Damage, Operation, Result, StoreError},
        layout::log::*,
    },
};

/// Bytes read at once while searching for frames.
const WINDOW: usize = 1 << 20;

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Frame {
    /// Where it begins in the file.
    pub(in crate::store) offset: u64,
    /// The generation that its commit creates.
    pub(in crate::store) generation: Generation,
    /// Whether damage precedes it.
    pub(in crate::store) is_behind: bool,
}

/// What follows the last frame of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Tail {
    /// Zeros, as left by a writer.
    Clean,
    /// Bytes that do not form a whole frame, up to the last nonzero one: the remains of an unacknowledged
    /// commit after a crash. Damage of the last commit looks the same.
    Torn { bytes: u64 },
    /// The file ends where a writer would have left zeros: it was truncated, or a power failure lost its end.
    Cut,
    /// A power failure lost bytes before whole frames that were not promised to survive it.
    Lost { commits: u64 },
    /// Only the header is damaged: every frame names its own place, so all of them count.
    Header,
    /// Damage: before whole frames, or in the last one in a way that no crash can cause.
    Damaged { commits: u64, detail: Damage },
}

/// The content of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Scan {
    pub(in crate::store) place: LogPlace,
    /// Whether the header exists.
    pub(in crate::store) has_header: bool,
    /// Frames before the end.
    pub(in crate::store) commits: u64,
    /// The generation that the last of them creates.
    pub(in crate::store) generation: Generation,
    /// The offset of the next frame.
    pub(in crate::store) end: u64,
    /// Length of the file.
    pub(in crate::store) len: u64,
    pub(in crate::store) tail: Tail,
}

impl Scan {
    /// The error for a log that only a repair may change.
    pub(in crate::store) fn check(&self) -> Result<()> {
        match &self.tail {
            Tail::Damaged { detail, .. } => Err(StoreError::corrupt(name(self.place.base), detail.clone())),
            _ => Ok(()),
        }
    }
}

/// A log in the course of reading.
struct Reader<'a> {
    file: &'a dyn BackendFile,
    place: LogPlace,
    path: &'a Path,
    len: u64,
}

/// Reads a log, and passes each whole frame to `visit`: those before its end, then those after damage.
///
/// # Errors
///
/// [`StoreError::UnsupportedVersion`]; [`StoreError::Corrupt`] for a log of another store, or one that is too
/// long; failures of reading; errors of `visit`. Damage between frames is in [`Scan::tail`].
pub(in crate::store) fn scan(
    backend: &dyn Backend,
    dir: &Path,
    place: LogPlace,
    visit: &mut dyn FnMut(Frame, &[u8]) -> Result<()>,
) -> Result<Scan> {
    let file_name = name(place.base);
    let path = &dir.join(&file_name);
    let io = |operation| StoreError::io(path, operation);
    let file = backend.open(path, OpenMode::Read).map_err(io(Operation::Open))?;
    let len = file.len().map_err(io(Operation::Read))?;
    if len > MOST_BYTES {
        let detail = Damage::Disagreement { what: "its length", expected: MOST_BYTES, found: len };
        return Err(StoreError::corrupt(file_name, detail));
    }
    let reader = Reader { file: &*file, place, path, len };
    let header = reader.header(&file_name)?;
    let mut at = HEADER_BYTES as u64;
    let mut found = Scan {
        place,
        has_header: header.is_none(),
        commits: 0,
        generation: place.base,
        end: at,
        len,
        tail: Tail::Clean,
    };
    let (mut synced, mut last_boot) = (0, 0);
    while let Some((header, commit)) = reader.frame(at)?
        && Generation(header.generation) == found.generation.next()
    {
        let generation = Generation(header.generation);
        visit(Frame { offset: at, generation, is_behind: false }, &commit)?;
        synced = synced.max(header.synced);
        last_boot = header.boot;
        found.commits += 1;
        found.generation = generation;
        at += header.frame_bytes();
    }
    found.end = at.min(len.max(HEADER_BYTES as u64));
    // Whole frames in the wrong place.
    let (mut whole, mut written_in) = (0u64, 0);
    let mut from = at;
    while let Some((offset, header, commit)) = reader.next_frame(from)? {
        visit(Frame { offset, generation: Generation(header.generation), is_behind: true }, &commit)?;
        if whole == 0 {
            // The boot of the process that wrote what is missing before the frame: each process clears
            // whatever it does not continue from.
            written_in = header.boot;
        }
        synced = synced.max(header.synced);
        whole += 1;
        from = offset + header.frame_bytes();
    }
    let here = boot(backend);
    let power_failure = written_in == 0 || written_in != here;
    let is_short = len < at + FRAME_BYTES as u64;
    // An interrupted extension of the file, which loses nothing.
    let is_cut = is_short || !len.is_multiple_of(CHUNK_BYTES);
    found.tail = if whole > 0 {
        match power_failure && at >= synced {
            true => Tail::Lost { commits: whole },
            false => Tail::Damaged { commits: whole, detail: Damage::Gap { offset: at, commits: whole } },
        }
    } else if reader.header_of_frame(at)?.is_some_and(|header| here != 0 && header.boot == here) {
        // The header of a frame is written after its commit, and nothing was lost since.
        Tail::Damaged { commits: 0, detail: Damage::Checksum { what: "the commit at offset", number: at } }
    } else if is_short && last_boot != 0 && last_boot == here {
        // Space is allocated before a frame is written, and nothing was lost since.
        Tail::Damaged { commits: 0, detail: Damage::TooShort { needed: at + FRAME_BYTES as u64, found: len } }
    } else {
        match reader.last_byte(at)? {
            Some(last) => Tail::Torn { bytes: last + 1 - at },
            None if is_cut => Tail::Cut,
            None if header.is_some() && found.commits > 0 => Tail::Header,
            // The header was never written, and so nothing else was.
            None if header.is_some() => Tail::Cut,
            None => Tail::Clean,
        }
    };
    Ok(found)
}

impl Reader<'_> {
    fn read(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.file.read_at(buffer, at).map_err(StoreError::io(self.path, Operation::Read))
    }

    /// The damage of the header, if any.
    fn header(&self, file: &str) -> Result<Option<Damage>> {
        if self.len < HEADER_BYTES as u64 {
            return Ok(Some(Damage::TooShort { needed: HEADER_BYTES as u64, found: self.len }));
        }
        let mut bytes = [0; HEADER_BYTES];
        self.read(&mut bytes, 0)?;
        match self.place.check(file, &bytes) {
            Ok(()) => Ok(None),
            // These are intact headers: of another store, or of another generation.
            Err(StoreError::Corrupt {
                detail: detail @ (Damage::Magic | Damage::Checksum { .. }), ..
            }) => Ok(Some(detail)),
            Err(other) => Err(other),
        }
    }

    /// The whole frame at an offset; `None` for anything else. Never allocates more memory than the file has
    /// bytes.
    fn frame(&self, at: u64) -> Result<Option<(FrameHeader, Vec<u8>)>> {
        let Some(header) = self.header_of_frame(at)? else { return Ok(None) };
        if at + header.frame_bytes() > self.len || u64::from(header.len) > MOST_COMMIT_BYTES {
            return Ok(None);
        }
        let mut commit = vec![0; header.frame_bytes() as usize - FRAME_BYTES];
        self.read(&mut commit, at + FRAME_BYTES as u64)?;
        // The bytes that align the next frame must be zeros: no byte is used unchecked.
        let padding = commit.split_off(header.len as usize);
        let whole = crc32fast::hash(&commit) == header.payload_crc && padding.iter().all(|byte| *byte == 0);
        Ok(whole.then_some((header, commit)))
    }

    /// The header of a frame at an offset, regardless of its commit.
    fn header_of_frame(&self, at: u64) -> Result<Option<FrameHeader>> {
        if at + FRAME_BYTES as u64 > self.len {
            return Ok(None);
        }
        let mut bytes = [0; FRAME_BYTES];
        self.read(&mut bytes, at)?;
        Ok(FrameHeader::decode(&bytes, self.place, at))
    }

    /// The first whole frame at or after an offset.
    fn next_frame(&self, from: u64) -> Result<Option<(u64, FrameHeader, Vec<u8>)>> {
        let mut window = Vec::new();
        let mut start = from.next_multiple_of(ALIGNMENT);
        while start < self.len {
            let bytes = (self.len - start).min(WINDOW as u64) as usize;
            window.resize(bytes, 0);
            self.read(&mut window, start)?;
            for (place, word) in window.chunks_exact(ALIGNMENT as usize).enumerate() {
                if word[..4] == FRAME_MAGIC.to_le_bytes() {
                    let at = start + place as u64 * ALIGNMENT;
                    if let Some((header, commit)) = self.frame(at)? {
                        return Ok(Some((at, header, commit)));
                    }
                }
            }
            start += (bytes as u64).next_multiple_of(ALIGNMENT);
        }
        Ok(None)
    }

    /// The offset of the last nonzero byte at or after an offset.
    fn last_byte(&self, from: u64) -> Result<Option<u64>> {
        let mut window = Vec::new();
        let mut end = self.len;
        while end > from {
            let start = end.saturating_sub(WINDOW as u64).max(from);
            window.resize((end - start) as usize, 0);
            self.read(&mut window, start)?;
            if let Some(place) = window.iter().rposition(|byte| *byte != 0) {
                return Ok(Some(start + place as u64));
            }
            end = start;
        }
        Ok(None)
    }
}
