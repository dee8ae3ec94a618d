//! Sealed files: written once from front to back, synced, named by the manifest, never changed.
//!
//! ```text
//! header (one page) | sections | page checksums | section directory | tail (fixed width)
//! ```
//!
//! Every byte before the checksums belongs to a page of [`PAGE_BYTES`] with its own CRC-32. A reader maps the
//! file, checks header, checksums and directory on opening, and each page when it is first read: opening
//! costs the same whatever the size, and no byte is ever used unchecked. The manifest holds the length of
//! each file and a checksum of its end, so that a file copied in from elsewhere, or from another generation,
//! is noticed.

mod mend;
mod read;
mod salvage;
mod write;

pub(super) use read::SealedFile;
pub(super) use write::SealedWriter;

use std::{fmt, path::Path};

use super::{
    error::{Damage, Result},
    header::{self, StoreId},
    layout::{CRC_BYTES, names, sealed::*},
};
use crate::{disk::Backend, ids::Generation};

/// The kind of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SealedKind {
    /// Rows of embeddings.
    Vectors,
    /// Documents, ids and posting lists of the same rows.
    Documents,
    /// The dead rows of a segment as of a generation.
    Dead(Generation),
}

/// The name of a sealed file: its segment, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SealedName {
    pub(super) segment: u64,
    pub(super) kind: SealedKind,
}

/// How the manifest identifies a sealed file: no other file has this length and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) len: u64,
    pub(super) crc: u32,
}

/// A store's directory, with the id that its files have.
#[derive(Clone, Copy)]
pub(super) struct SealedFolder<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) dir: &'a Path,
    pub(super) store_id: StoreId,
}

/// The path of the file, relative to the store.
impl fmt::Display for SealedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:08}.", names::SEGMENTS, self.segment)?;
        match self.kind {
            SealedKind::Vectors => f.write_str("vectors"),
            SealedKind::Documents => f.write_str("documents"),
            SealedKind::Dead(generation) => write!(f, "{:016}.dead", generation.0),
        }
    }
}

impl SealedName {
    /// The file with this name in the directory of segments; `None` for a foreign name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let segment = parts.next()?.parse().ok()?;
        let kind = match (parts.next()?, parts.next()) {
            ("vectors", None) => SealedKind::Vectors,
            ("documents", None) => SealedKind::Documents,
            (generation, Some("dead")) => SealedKind::Dead(Generation(generation.parse().ok()?)),
            _ => return None,
        };
        let own = Self { segment, kind };
        // Each file has only one valid name.
        (own.to_string() == format!("{}/{name}", names::SEGMENTS)).then_some(own)
    }

    fn header(self, store_id: StoreId) -> SealedHeader {
        let kind = match self.kind {
            SealedKind::Vectors => 1,
            SealedKind::Documents => 2,
            SealedKind::Dead(_) => 3,
        };
        let blank: SealedHeader = bytemuck::Zeroable::zeroed();
        header::sign(SealedHeader { kind, store_id, segment: self.segment, ..blank }, MAGIC)
    }
}

impl Tail {
    fn new(body_bytes: u64, sections: u32, directory_crc: u32) -> Self {
        let mut tail = Self { body_bytes, sections, directory_crc, magic: TAIL_MAGIC, crc: 0 };
        tail.crc = tail.checksum();
        tail
    }

    fn checksum(self) -> u32 {
        crc32fast::hash(&bytemuck::bytes_of(&self)[..TAIL_BYTES - CRC_BYTES])
    }

    fn pages(self) -> u64 {
        self.body_bytes.div_ceil(PAGE_BYTES)
    }

    /// Size of the longest possible end, starting at the directory, of a file of this length.
    fn most_end_bytes(len: u64) -> u64 {
        let checksums = len.div_ceil(PAGE_BYTES) * CRC_BYTES as u64;
        let most = checksums + (MOST_SECTIONS as usize * SECTION_BYTES + TAIL_BYTES) as u64;
        most.min(len)
    }

    fn directory_bytes(self) -> u64 {
        self.pages() * CRC_BYTES as u64 + u64::from(self.sections) * SECTION_BYTES as u64
    }

    /// Length of the whole file; `None` if it would overflow.
    fn file_bytes(self) -> Option<u64> {
        self.body_bytes.checked_add(self.directory_bytes())?.checked_add(TAIL_BYTES as u64)
    }

    /// Identifies a file of this length. Not by the checksum of all bytes of the tail: the CRC of anything
    /// followed by its own CRC is always the same number.
    fn seal(self, len: u64) -> Seal {
        Seal { len, crc: self.crc }
    }

    fn decode(bytes: &[u8; TAIL_BYTES]) -> Result<Self, Damage> {
        let tail: Self = bytemuck::pod_read_unaligned(bytes);
        if tail.checksum() != tail.crc {
            return Err(Damage::Checksum { what: "the end of the file", number: 0 });
        }
        if tail.magic == TAIL_MAGIC { Ok(tail) } else { Err(Damage::Magic) }
    }

    /// The sections in a directory, where they follow the page checksums.
    fn sections_in(self, directory: &[u8]) -> Vec<Section> {
        let sections = &directory[self.pages() as usize * CRC_BYTES..];
        sections.chunks_exact(SECTION_BYTES).map(bytemuck::pod_read_unaligned).collect()
    }
}

#[cfg(test)]
mod tests;
