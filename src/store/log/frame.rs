//! The headers of a log and of a frame.

use crate::{
    ids::Generation,
    store::{
        error::{Damage, Result, StoreError},
        header::{self, StoreId},
        layout::log::*,
    },
};

/// The place of a log: part of every checksum, so that a frame of another log is never accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct LogPlace {
    pub(in crate::store) store_id: StoreId,
    /// The generation that precedes the log.
    pub(in crate::store) base: Generation,
}

impl LogPlace {
    /// The first bytes of a log.
    pub(super) fn header(self) -> LogHeader {
        let blank: LogHeader = bytemuck::Zeroable::zeroed();
        header::sign(LogHeader { store_id: self.store_id, base: self.base.0, ..blank }, MAGIC)
    }

    /// Checks the first bytes of a log that should have this place.
    pub(super) fn check(self, file: &str, bytes: &[u8; HEADER_BYTES]) -> Result<()> {
        let found: LogHeader = header::read(file, bytes, MAGIC)?;
        let detail = match (found.store_id == self.store_id, found.base == self.base.0) {
            (true, true) => return Ok(()),
            (false, _) => Damage::Foreign,
            (true, false) => {
                let what = "the generation that it comes after";
                Damage::Disagreement { what, expected: self.base.0, found: found.base }
            }
        };
        Err(StoreError::corrupt(file.to_owned(), detail))
    }
}

impl FrameHeader {
    /// The header of a commit at `offset` of a log.
    pub(super) fn new(commit: &[u8], boot: u32, generation: Generation, synced: u64) -> Self {
        Self {
            magic: FRAME_MAGIC,
            kind: COMMIT,
            reserved: [0; 3],
            len: commit.len() as u32,
            boot,
            generation: generation.0,
            synced,
            payload_crc: crc32fast::hash(commit),
            crc: 0,
        }
    }

    /// Completes the header with its checksum at `offset` of a log.
    pub(super) fn at(self, place: LogPlace, offset: u64) -> Self {
        Self { crc: self.checksum(place, offset), ..self }
    }

    /// `None` for bytes that are not a frame header at `offset` of this log.
    pub(super) fn decode(bytes: &[u8; FRAME_BYTES], place: LogPlace, offset: u64) -> Option<Self> {
        let own: Self = bytemuck::pod_read_unaligned(bytes);
        let is_commit = own.magic == FRAME_MAGIC && own.kind == COMMIT && own.reserved == [0; 3];
        (is_commit && own.crc == own.checksum(place, offset)).then_some(own)
    }

    fn checksum(&self, place: LogPlace, offset: u64) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&place.store_id);
        hasher.update(&place.base.0.to_le_bytes());
        hasher.update(&offset.to_le_bytes());
        hasher.update(&bytemuck::bytes_of(self)[..FRAME_BYTES - size_of::<u32>()]);
        hasher.finalize()
    }

    /// Length of the whole frame; frames begin at multiples of [`ALIGNMENT`].
    pub(super) fn frame_bytes(&self) -> u64 {
        FRAME_BYTES as u64 + u64::from(self.len).next_multiple_of(ALIGNMENT)
    }
}
