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

mod read;
mod salvage;
mod write;

pub(super) use read::SealedFile;
pub(super) use write::SealedWriter;

use super::{
    error::{Damage, Result},
    layout::{CRC_BYTES, FORMAT_VERSION, MAGIC_BYTES, STORE_ID_BYTES, sealed::*, u32_at, u64_at},
    manifest::{StoreId, check_version},
};

/// The kind of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Rows of embeddings.
    Vectors = 1,
    /// Documents, ids and posting lists of the same rows.
    Documents = 2,
    /// The dead rows of a segment.
    Dead = 3,
}

/// The owner of a file; part of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    pub(super) store_id: StoreId,
    /// Number of the segment.
    pub(super) segment: u64,
}

/// How the manifest identifies a sealed file: no other file has this length and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) len: u64,
    pub(super) crc: u32,
}

/// A named part of a sealed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    name: u32,
    offset: u64,
    len: u64,
}

/// The fixed-width end of the file, which locates the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail {
    /// The offset of the page checksums: the end of the sections.
    body_bytes: u64,
    sections: u32,
    /// Checksum of page checksums and directory.
    crc: u32,
}

impl Tail {
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

    /// Identifies the whole file in its [`Seal`]. Not over all bytes of the tail: the CRC of anything
    /// followed by its own CRC is always the same number.
    fn checksum(self) -> u32 {
        u32_at(&self.encode(), AT_TAIL_CRC.start)
    }

    fn encode(self) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        bytes[AT_BODY_BYTES].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[AT_SECTIONS].copy_from_slice(&self.sections.to_le_bytes());
        bytes[AT_DIRECTORY_CRC].copy_from_slice(&self.crc.to_le_bytes());
        bytes[AT_TAIL_MAGIC].copy_from_slice(&TAIL_MAGIC);
        let crc = crc32fast::hash(&bytes[..AT_TAIL_CRC.start]);
        bytes[AT_TAIL_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; TAIL_BYTES]) -> Result<Self, Damage> {
        if crc32fast::hash(&bytes[..AT_TAIL_CRC.start]) != u32_at(bytes, AT_TAIL_CRC.start) {
            return Err(Damage::Checksum { what: "the end of the file", number: 0 });
        }
        if bytes[AT_TAIL_MAGIC] != TAIL_MAGIC {
            return Err(Damage::Magic);
        }
        Ok(Self {
            body_bytes: u64_at(bytes, AT_BODY_BYTES.start),
            sections: u32_at(bytes, AT_SECTIONS.start),
            crc: u32_at(bytes, AT_DIRECTORY_CRC.start),
        })
    }
}

impl Section {
    fn encode(self) -> [u8; SECTION_BYTES] {
        let mut bytes = [0; SECTION_BYTES];
        bytes[AT_SECTION_NAME].copy_from_slice(&self.name.to_le_bytes());
        bytes[AT_SECTION_OFFSET].copy_from_slice(&self.offset.to_le_bytes());
        bytes[AT_SECTION_LEN].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The entries of a directory, which follows the page checksums.
    fn decode_all(directory: &[u8], tail: Tail) -> Vec<Self> {
        let checksums = tail.pages() as usize * CRC_BYTES;
        directory[checksums..].chunks_exact(SECTION_BYTES).map(Self::decode).collect()
    }

    fn decode(bytes: &[u8]) -> Self {
        Self {
            name: u32_at(bytes, AT_SECTION_NAME.start),
            offset: u64_at(bytes, AT_SECTION_OFFSET.start),
            len: u64_at(bytes, AT_SECTION_LEN.start),
        }
    }
}

impl Identity {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[AT_MAGIC].copy_from_slice(&MAGIC);
        bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[AT_KIND].copy_from_slice(&[self.kind as u8]);
        bytes[AT_STORE_ID].copy_from_slice(&self.store_id.0);
        bytes[AT_SEGMENT].copy_from_slice(&self.segment.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
        bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Whether `bytes` are this header.
    fn check(self, file: &str, bytes: &[u8; HEADER_BYTES]) -> Result<()> {
        let corrupt = |detail| super::StoreError::corrupt(file.to_owned(), detail);
        if bytes[AT_MAGIC] != MAGIC {
            return Err(corrupt(Damage::Magic));
        }
        if crc32fast::hash(&bytes[..AT_CRC.start]) != u32_at(bytes, AT_CRC.start) {
            return Err(corrupt(Damage::Checksum { what: "the header", number: 0 }));
        }
        check_version(file, u32_at(bytes, AT_VERSION.start))?;
        if bytes[AT_STORE_ID] != self.store_id.0 {
            return Err(corrupt(Damage::Foreign));
        }
        let disagreement = |what, expected, found| corrupt(Damage::Disagreement { what, expected, found });
        if bytes[AT_KIND.start] != self.kind as u8 {
            return Err(disagreement("its kind", self.kind as u64, bytes[AT_KIND.start].into()));
        }
        let segment = u64_at(bytes, AT_SEGMENT.start);
        if segment != self.segment {
            return Err(disagreement("its segment", self.segment, segment));
        }
        match bytes[AT_PAD].iter().chain(&bytes[AT_RESERVED]).find(|byte| **byte != 0) {
            Some(&byte) => Err(corrupt(Damage::Field { field: "reserved byte", found: byte.into() })),
            None => Ok(()),
        }
    }
}

const _: () = {
    assert!(AT_CRC.end == HEADER_BYTES && AT_TAIL_CRC.end == TAIL_BYTES);
    assert!(AT_STORE_ID.end - AT_STORE_ID.start == STORE_ID_BYTES);
    assert!(AT_MAGIC.end - AT_MAGIC.start == MAGIC_BYTES);
    // The header size is a multiple of the section alignment, so that rows stay aligned.
    assert!(HEADER_BYTES.is_multiple_of(ALIGNMENT));
};

#[cfg(test)]
mod tests;
