//! What readers see: one generation, in memory.

use half::f16;

use super::{
    documents::Database,
    error::{Damage, Result, StoreError},
    layout::{keys, names},
    manifest::StoreConfig,
    mmap::Mapping,
    postings::LeafTable,
    records::{self, CommitRecord},
    vectors::{self, Tail},
};
use crate::ids::{Generation, LeafId, Row};

/// One published generation. The writer replaces its parts under the write lock only.
pub(super) struct State {
    pub(super) generation: Generation,
    pub(super) rows: u32,
    pub(super) documents: u32,
    pub(super) dim: usize,
    pub(super) mapping: Mapping,
    pub(super) leaves: LeafTable,
    pub(super) live: LiveRows,
}

/// Which rows belong to a live document; follows from the posting lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LiveRows {
    words: Vec<u64>,
}

impl LiveRows {
    pub(super) fn contains(&self, row: Row) -> bool {
        self.words.get(row.index() / 64).is_some_and(|word| word >> (row.index() % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, row: Row) {
        let word = row.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (row.index() % 64);
    }

    pub(super) fn remove(&mut self, row: Row) {
        if let Some(word) = self.words.get_mut(row.index() / 64) {
            *word &= !(1 << (row.index() % 64));
        }
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl State {
    /// Builds the state of the last commit from disk and checks what is cheap to check:
    /// the last block of rows, every posting block, and the counts.
    pub(super) fn load(
        config: &StoreConfig,
        record: CommitRecord,
        database: &Database,
        mapping: Mapping,
    ) -> Result<Self> {
        let mut leaves = LeafTable::default();
        let mut live = LiveRows::default();
        for entry in database.scan(keys::POSTINGS, std::ops::Bound::Included(vec![keys::POSTINGS])) {
            let (key, value) = entry?;
            let (leaf, rows) = read_posting_block(config, record.rows, &mut leaves, &key, &value)
                .map_err(|detail| StoreError::corrupt(names::DOCUMENTS, detail))?;
            debug_assert!(u64::from(leaf.0) < config.leaves());
            rows.into_iter().for_each(|row| live.insert(row));
        }
        if live.count() != u64::from(record.documents) {
            return Err(StoreError::corrupt(
                names::DOCUMENTS,
                Damage::Disagreement {
                    what: "the number of rows in posting lists",
                    expected: record.documents.into(),
                    found: live.count(),
                },
            ));
        }
        let state = Self {
            generation: record.generation,
            rows: record.rows,
            documents: record.documents,
            dim: config.dim as usize,
            mapping,
            leaves,
            live,
        };
        state.check_last_block(record, database)?;
        Ok(state)
    }

    /// Committed rows, `[rows, dim]`, those of dead documents included.
    pub(super) fn matrix(&self) -> &[f16] {
        // Never shorter: a state is published together with a mapping that covers its rows.
        self.mapping.elements(self.rows as usize * self.dim).unwrap_or_default()
    }

    fn check_last_block(&self, record: CommitRecord, database: &Database) -> Result<()> {
        let tail = Tail { rows: record.rows, crc: record.tail_crc };
        if self.matrix().len() != self.rows as usize * self.dim {
            let what = "the mapped length";
            let (expected, found) = (self.rows.into(), self.matrix().len() as u64);
            let detail = Damage::Disagreement { what, expected, found };
            return Err(StoreError::corrupt(names::VECTORS, detail));
        }
        let Some(last_row) = self.rows.checked_sub(1) else {
            return Ok(());
        };
        let block = last_row / super::layout::vectors::BLOCK_ROWS;
        let expected = if block < tail.full_blocks() {
            let key = keys::vector_block(block);
            let value = database.get(&key)?;
            value.and_then(|value| records::decode_block_crc(&key, &value)).ok_or_else(|| {
                let (what, number) = ("the checksum of vector block", block.into());
                StoreError::corrupt(names::DOCUMENTS, Damage::Undecodable { what, number })
            })?
        } else {
            tail.crc
        };
        if crc32fast::hash(vectors::block_bytes(self.matrix(), self.dim, block)) != expected {
            let detail = Damage::Checksum { what: "block", number: block.into() };
            return Err(StoreError::corrupt(names::VECTORS, detail));
        }
        Ok(())
    }
}

/// Adds one stored posting block to `table`.
pub(super) fn read_posting_block(
    config: &StoreConfig,
    committed_rows: u32,
    table: &mut LeafTable,
    key: &[u8],
    value: &[u8],
) -> Result<(LeafId, Vec<Row>), Damage> {
    let Some((leaf, block)) = keys::parse_two(key) else {
        return Err(Damage::Stray { prefix: keys::POSTINGS, number: 0 });
    };
    let leaf = LeafId::from_key(leaf);
    let number = u64::from(leaf.0);
    if number >= config.leaves() {
        return Err(Damage::Stray { prefix: keys::POSTINGS, number });
    }
    let undecodable = || Damage::Undecodable { what: "a posting block of leaf", number };
    let rows = records::decode_postings(key, value).ok_or_else(undecodable)?;
    if let Some(row) = rows.last().filter(|row| row.0 >= committed_rows) {
        return Err(Damage::Field { field: "the row of a posting", found: row.0.into() });
    }
    table.push_block(leaf, block, &rows).ok_or_else(undecodable)?;
    Ok((leaf, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_rows_are_a_set() {
        let mut live = LiveRows::default();
        for row in [0, 63, 64, 1000] {
            assert!(!live.contains(Row(row)));
            live.insert(Row(row));
            assert!(live.contains(Row(row)));
        }
        live.remove(Row(64));
        live.remove(Row(1 << 30));
        assert!(!live.contains(Row(64)));
        assert_eq!(live.count(), 3);
    }
}
