//! `FLUSHED`: the newest generation that a flush promised to keep.
//!
//! sled opens a damaged log at the last intact place and says nothing, so that documents
//! once promised would be gone without a word. This file remembers the promise outside
//! of sled: a database older than it is refused.

use std::path::{Path, PathBuf};

use super::{
    error::{Damage, Operation, Result, StoreError},
    io::{Backend, BackendFile, OpenMode},
    layout::{flushed::*, names},
    manifest::StoreId,
};
use crate::ids::Generation;

/// The open file: two slots, written in turn, so that a torn write spoils the older one.
pub(super) struct FlushedMark {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    store_id: StoreId,
    newest: Generation,
    /// The slot that does not hold `newest`.
    next_slot: u64,
}

impl FlushedMark {
    /// Makes the file with generation 0 in the first slot; the directory is the caller's.
    pub(super) fn create(backend: &dyn Backend, dir: &Path, store_id: StoreId) -> Result<()> {
        let path = dir.join(names::FLUSHED);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Replace).map_err(io(Operation::Create))?;
        let mut bytes = [0; BYTES];
        bytes[..SLOT_BYTES].copy_from_slice(&encode(Generation(0), store_id));
        file.write_at(&bytes, 0).map_err(io(Operation::Write))?;
        file.sync_all().map_err(io(Operation::Sync))
    }

    pub(super) fn open(backend: &dyn Backend, dir: &Path, store_id: StoreId) -> Result<Self> {
        let path = dir.join(names::FLUSHED);
        let io = |operation| StoreError::io(&path, operation);
        let corrupt = |detail| StoreError::corrupt(names::FLUSHED, detail);
        let file = backend.open(&path, OpenMode::ReadWrite).map_err(|source| {
            if source.kind() == std::io::ErrorKind::NotFound {
                corrupt(Damage::Missing { what: "the file" })
            } else {
                io(Operation::Open)(source)
            }
        })?;
        let (needed, found) = (BYTES as u64, file.len().map_err(io(Operation::Read))?);
        if found < needed {
            return Err(corrupt(Damage::TooShort { needed, found }));
        }
        let mut newest = None;
        for slot in 0..SLOTS {
            let mut bytes = [0; SLOT_BYTES];
            file.read_at(&mut bytes, slot * SLOT_STRIDE).map_err(io(Operation::Read))?;
            newest = newest.max(decode(&bytes, store_id).map(|generation| (generation, slot)));
        }
        let (newest, slot) =
            newest.ok_or_else(|| corrupt(Damage::Checksum { what: "both slots", number: 0 }))?;
        Ok(Self { file, path, store_id, newest, next_slot: (slot + 1) % SLOTS })
    }

    /// Refuses a database that is older than what was promised.
    pub(super) fn check(&self, found: Generation) -> Result<()> {
        if found >= self.newest {
            return Ok(());
        }
        let (what, expected, found) = ("the newest generation left", self.newest.0, found.0);
        let detail = Damage::Disagreement { what, expected, found };
        Err(StoreError::corrupt(names::DOCUMENTS, detail))
    }

    /// Records that `generation` is durable in the database, durably.
    pub(super) fn advance(&mut self, generation: Generation) -> Result<()> {
        let bytes = encode(generation, self.store_id);
        self.file
            .write_at(&bytes, self.next_slot * SLOT_STRIDE)
            .map_err(StoreError::io(&self.path, Operation::Write))?;
        self.file.sync_data().map_err(StoreError::io(&self.path, Operation::Sync))?;
        self.newest = generation;
        self.next_slot = (self.next_slot + 1) % SLOTS;
        Ok(())
    }
}

fn encode(generation: Generation, store_id: StoreId) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[AT_GENERATION].copy_from_slice(&generation.0.to_le_bytes());
    bytes[AT_STORE_ID].copy_from_slice(&store_id.0);
    let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
    bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// `None` for a slot never written, torn, damaged or of another index.
fn decode(bytes: &[u8; SLOT_BYTES], store_id: StoreId) -> Option<Generation> {
    let (generation, _) = bytes.split_first_chunk()?;
    let generation = Generation(u64::from_le_bytes(*generation));
    (encode(generation, store_id) == *bytes).then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::{super::io::FileSystem, *};

    const ID: StoreId = StoreId([5; 16]);

    #[test]
    fn every_flipped_bit_of_a_slot_is_refused() {
        let bytes = encode(Generation(77), ID);
        assert_eq!(decode(&bytes, ID), Some(Generation(77)));
        assert_eq!(decode(&bytes, StoreId([6; 16])), None);
        for bit in 0..SLOT_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped, ID), None);
        }
    }

    #[test]
    fn the_newest_promise_survives_a_torn_write_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FlushedMark::open(&FileSystem, dir.path(), ID);
        FlushedMark::create(&FileSystem, dir.path(), ID).unwrap();
        let mut mark = open().unwrap();
        mark.check(Generation(0)).unwrap();
        for n in 1..6 {
            mark.advance(Generation(n)).unwrap();
            mark = open().unwrap();
            assert!(mark.check(Generation(n - 1)).is_err());
            mark.check(Generation(n)).unwrap();
            mark.file.write_at(&[0xaa; 9], mark.next_slot * SLOT_STRIDE).unwrap();
            assert!(open().unwrap().check(Generation(n - 1)).is_err());
        }
        mark.file.write_at(&[0; BYTES], 0).unwrap();
        assert!(matches!(open(), Err(StoreError::Corrupt { file: names::FLUSHED, .. })));
    }
}
