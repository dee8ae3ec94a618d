//! The headers of a log and of a frame.

use crate::{
    ids::Generation,
    store::{
        error::{Damage, Result, StoreError},
        layout::{FORMAT_VERSION, STORE_ID_BYTES, log::*, u32_at, u64_at},
        manifest::{StoreId, check_version},
    },
};

/// The place of a log: part of every checksum, so that a frame of another log is never accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Place {
    pub(in crate::store) store_id: StoreId,
    /// The generation that precedes the log.
    pub(in crate::store) base: Generation,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Length of the commit in bytes.
    pub(super) len: u32,
    /// Identifies the boot of the operating system that wrote it; 0 if unknown.
    pub(super) boot: u32,
    /// The generation that the commit creates.
    pub(super) generation: Generation,
    /// The offset up to which the file was known to be durable when the frame was written.
    pub(super) synced: u64,
    /// Checksum of the commit.
    pub(super) crc: u32,
}

impl Place {
    /// The first bytes of a log.
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[AT_MAGIC].copy_from_slice(&MAGIC);
        bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[AT_STORE_ID].copy_from_slice(&self.store_id.0);
        bytes[AT_BASE].copy_from_slice(&self.base.0.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
        bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks the first bytes of a log that should have this place.
    pub(super) fn check(self, file: &str, bytes: &[u8; HEADER_BYTES]) -> Result<()> {
        let corrupt = |detail| StoreError::corrupt(file.to_owned(), detail);
        if bytes[AT_MAGIC] != MAGIC {
            return Err(corrupt(Damage::Magic));
        }
        if crc32fast::hash(&bytes[..AT_CRC.start]) != u32_at(bytes, AT_CRC.start) {
            return Err(corrupt(Damage::Checksum { what: "the header", number: 0 }));
        }
        check_version(file, u32_at(bytes, AT_VERSION.start))?;
        let mut store_id = [0; STORE_ID_BYTES];
        store_id.copy_from_slice(&bytes[AT_STORE_ID]);
        if store_id != self.store_id.0 {
            return Err(corrupt(Damage::Foreign));
        }
        let (what, found) = ("the generation that it comes after", u64_at(bytes, AT_BASE.start));
        if found != self.base.0 {
            return Err(corrupt(Damage::Disagreement { what, expected: self.base.0, found }));
        }
        Ok(())
    }

    fn checksum(self, offset: u64, header: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.store_id.0);
        hasher.update(&self.base.0.to_le_bytes());
        hasher.update(&offset.to_le_bytes());
        hasher.update(header);
        hasher.finalize()
    }
}

impl FrameHeader {
    /// Its bytes at `offset` of a log.
    pub(super) fn encode(&self, place: Place, offset: u64) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[AT_FRAME_MAGIC].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        bytes[AT_KIND.start] = COMMIT;
        bytes[AT_LEN].copy_from_slice(&self.len.to_le_bytes());
        bytes[AT_BOOT].copy_from_slice(&self.boot.to_le_bytes());
        bytes[AT_GENERATION].copy_from_slice(&self.generation.0.to_le_bytes());
        bytes[AT_SYNCED].copy_from_slice(&self.synced.to_le_bytes());
        bytes[AT_PAYLOAD_CRC].copy_from_slice(&self.crc.to_le_bytes());
        let crc = place.checksum(offset, &bytes[..AT_FRAME_CRC.start]);
        bytes[AT_FRAME_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` for bytes that are not a frame header at `offset` of this log.
    pub(super) fn decode(bytes: &[u8; FRAME_BYTES], place: Place, offset: u64) -> Option<Self> {
        let magic = u32_at(bytes, AT_FRAME_MAGIC.start) == FRAME_MAGIC;
        if !magic || place.checksum(offset, &bytes[..AT_FRAME_CRC.start]) != u32_at(bytes, AT_FRAME_CRC.start)
        {
            return None;
        }
        if bytes[AT_KIND.start] != COMMIT || bytes[AT_RESERVED].iter().any(|byte| *byte != 0) {
            return None;
        }
        Some(Self {
            len: u32_at(bytes, AT_LEN.start),
            boot: u32_at(bytes, AT_BOOT.start),
            generation: Generation(u64_at(bytes, AT_GENERATION.start)),
            synced: u64_at(bytes, AT_SYNCED.start),
            crc: u32_at(bytes, AT_PAYLOAD_CRC.start),
        })
    }

    /// Length of the whole frame; frames begin at multiples of [`ALIGNMENT`].
    pub(super) fn frame_bytes(&self) -> u64 {
        FRAME_BYTES as u64 + u64::from(self.len).next_multiple_of(ALIGNMENT)
    }
}
