//! The dead rows of a part: deleted, or replaced by a later one.

use std::{path::Path, sync::Arc};

use super::{
    error::{Damage, Result},
    layout::{names, tombstones::*},
    manifest::StoreId,
    sealed::{Identity, Kind, Seal, SealedFile, SealedWriter},
};
use crate::disk::Backend;
use crate::ids::Generation;

/// A set of rows. Copied on change: views of older generations keep theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tombstones {
    words: Vec<u64>,
    count: u32,
}

/// How the manifest identifies the dead rows of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TombstoneFile {
    /// The generation that wrote it; part of the name.
    pub(super) generation: Generation,
    pub(super) count: u32,
    pub(super) seal: Seal,
}

impl Tombstones {
    pub(super) fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Adds a row; returns whether it was new.
    pub(super) fn insert(&mut self, row: u32) -> bool {
        let word = row as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = !self.contains(row);
        self.words[word] |= 1 << (row % 64);
        self.count += u32::from(new);
        new
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

impl TombstoneFile {
    /// Name of the file, relative to the index.
    pub(super) fn name(segment: u64, generation: Generation) -> String {
        format!("{}/{segment:08}.{:016}.dead", names::SEGMENTS, generation.0)
    }

    /// Writes the dead rows of a segment as of `generation`, durable except for the directory entry.
    pub(super) fn write(
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        segment: u64,
        generation: Generation,
        tombstones: &Tombstones,
    ) -> Result<Self> {
        let identity = Identity { kind: Kind::Dead, store_id, segment };
        let path = dir.join(Self::name(segment, generation));
        let mut file = SealedWriter::create(backend, &path, identity)?;
        file.begin(BITMAP)?;
        file.write(bytemuck::cast_slice(&tombstones.words))?;
        Ok(Self { generation, count: tombstones.count, seal: file.finish()? })
    }

    /// Reads them back and checks that their number matches the manifest, and that all are below `rows`;
    /// `damaged` as in [`SealedFile::open`].
    pub(super) fn read(
        self,
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        segment: u64,
        rows: u32,
        damaged: bool,
    ) -> Result<Arc<Tombstones>> {
        let name = Self::name(segment, self.generation);
        let identity = Identity { kind: Kind::Dead, store_id, segment };
        let file = SealedFile::open(backend, &dir.join(&name), name, identity, self.seal, damaged)?;
        let section = file.section(BITMAP);
        let words = ((section.end - section.start) / 8) as usize;
        let words: &[u64] = file.elements(section, 0..words)?;
        let tombstones =
            Tombstones { words: words.to_vec(), count: words.iter().map(|word| word.count_ones()).sum() };
        let highest = words.iter().rposition(|word| *word != 0);
        let beyond = highest
            .is_some_and(|at| at as u64 * 64 + 63 - u64::from(words[at].leading_zeros()) >= rows.into());
        if tombstones.count != self.count || beyond {
            let (expected, found) = (self.count.into(), tombstones.count.into());
            return Err(file.corrupt(Damage::Disagreement {
                what: "the number of dead rows",
                expected,
                found,
            }));
        }
        Ok(Arc::new(tombstones))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        disk::FileSystem,
        store::{StoreError, layout::STORE_ID_BYTES},
    };

    #[test]
    fn rows_come_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(names::SEGMENTS)).unwrap();
        let id = StoreId([1; STORE_ID_BYTES]);
        for rows in [vec![], vec![0], vec![63, 64, 64, 3], (0..1000).step_by(3).collect()] {
            let mut tombstones = Tombstones::default();
            for &row in &rows {
                let known = tombstones.contains(row);
                assert_eq!(tombstones.insert(row), !known);
                assert!(tombstones.contains(row));
            }
            let different: std::collections::BTreeSet<u32> = rows.iter().copied().collect();
            assert_eq!(tombstones.count() as usize, different.len());
            let file =
                TombstoneFile::write(&FileSystem, dir.path(), id, 4, Generation(9), &tombstones).unwrap();
            let read = file.read(&FileSystem, dir.path(), id, 4, 1000, false).unwrap();
            assert_eq!(*read, tombstones);
            assert!((0..1000).all(|row| read.contains(row) == rows.contains(&row)));
            let fewer = rows.iter().max().copied().unwrap_or(0);
            if fewer > 0 {
                let refused = file.read(&FileSystem, dir.path(), id, 4, fewer, false);
                assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
            }
        }
    }
}
