//! The dead rows of a part: deleted, or replaced by a later one.

use super::{
    error::{Damage, Result},
    layout::tombstones::*,
    sealed::{Seal, SealedFile, SealedFolder, SealedKind, SealedName, SealedWriter},
};
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

    /// One bit for each row up to the last dead one.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

impl TombstoneFile {
    /// The file, given the number of its segment.
    pub(super) fn name(&self, segment: u64) -> SealedName {
        SealedName { segment, kind: SealedKind::Dead(self.generation) }
    }

    /// Writes the dead rows of a segment as of `generation`, durable except for the directory entry.
    pub(super) fn write(
        folder: SealedFolder<'_>,
        segment: u64,
        generation: Generation,
        tombstones: &Tombstones,
    ) -> Result<Self> {
        let name = SealedName { segment, kind: SealedKind::Dead(generation) };
        let mut file = SealedWriter::create(folder, name)?;
        file.section(BITMAP, &tombstones.words)?;
        Ok(Self { generation, count: tombstones.count, seal: file.finish()? })
    }

    /// Reads them back and checks that their number matches the manifest, and that all are below `rows`;
    /// `damaged` as in [`SealedFile::open`].
    pub(super) fn read(
        &self,
        folder: SealedFolder<'_>,
        segment: u64,
        rows: u32,
        damaged: bool,
    ) -> Result<Tombstones> {
        let file = SealedFile::open(folder, self.name(segment), self.seal, damaged)?;
        let words: &[u64] = file.all(BITMAP)?;
        let tombstones =
            Tombstones { words: words.to_vec(), count: words.iter().map(|word| word.count_ones()).sum() };
        let highest = words.iter().rposition(|word| *word != 0);
        let beyond = highest
            .is_some_and(|at| at as u64 * 64 + 63 - u64::from(words[at].leading_zeros()) >= rows.into());
        if tombstones.count != self.count || beyond {
            let (expected, found) = (self.count.into(), tombstones.count.into());
            let what = "the number of dead rows";
            return Err(file.corrupt(Damage::Disagreement { what, expected, found }));
        }
        Ok(tombstones)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        disk::FileSystem,
        store::{StoreError, layout::names},
    };

    #[test]
    fn rows_come_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(names::SEGMENTS)).unwrap();
        let folder = SealedFolder { backend: &FileSystem, dir: dir.path(), store_id: [1; 16] };
        for rows in [vec![], vec![0], vec![63, 64, 64, 3], (0..1000).step_by(3).collect()] {
            let mut tombstones = Tombstones::default();
            for &row in &rows {
                let known = tombstones.contains(row);
                assert_eq!(tombstones.insert(row), !known);
                assert!(tombstones.contains(row));
            }
            let different: std::collections::BTreeSet<u32> = rows.iter().copied().collect();
            assert_eq!(tombstones.count() as usize, different.len());
            let file = TombstoneFile::write(folder, 4, Generation(9), &tombstones).unwrap();
            let read = file.read(folder, 4, 1000, false).unwrap();
            assert_eq!(read, tombstones);
            assert!((0..1000).all(|row| read.contains(row) == rows.contains(&row)));
            let fewer = rows.iter().max().copied().unwrap_or(0);
            if fewer > 0 {
                let refused = file.read(folder, 4, fewer, false);
                assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
            }
        }
    }
}
