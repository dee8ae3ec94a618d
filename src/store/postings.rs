//! Posting lists: leaf to rows, in memory and in blocks on disk.

use std::collections::{BTreeSet, HashMap};

use super::layout::limits::POSTING_BLOCK_ROWS;
use crate::ids::{LeafId, Row};

/// The rows of one leaf, ascending, and how they are cut into blocks.
///
/// A new row is always the largest, so it joins the last block; a removal shortens the
/// block it is in. Thus a change rewrites the blocks it touches and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PostingList {
    rows: Vec<Row>,
    blocks: Vec<Block>,
}

/// Consecutive rows of a list, stored under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// Ascending along the list; gaps where a block became empty.
    number: u32,
    rows: usize,
}

impl PostingList {
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Number of blocks on disk.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block read from disk; `None` where it does not continue the list.
    pub(super) fn push_block(&mut self, number: u32, rows: &[Row]) -> Option<()> {
        let continues = self.blocks.last().is_none_or(|last| last.number < number)
            && rows.first() > self.rows.last()
            && number < u32::MAX;
        if !continues {
            return None;
        }
        self.rows.extend_from_slice(rows);
        self.blocks.push(Block { number, rows: rows.len() });
        Some(())
    }

    /// Adds a row larger than all others and marks its block as changed.
    fn push(&mut self, row: Row, changed: &mut BTreeSet<u32>) {
        debug_assert!(self.rows.last() < Some(&row));
        self.rows.push(row);
        let number = match self.blocks.last_mut() {
            Some(last) if last.rows < POSTING_BLOCK_ROWS => {
                last.rows += 1;
                last.number
            }
            last => {
                let number = last.map_or(0, |last| last.number + 1);
                self.blocks.push(Block { number, rows: 1 });
                number
            }
        };
        changed.insert(number);
    }

    /// Removes a row and marks its block as changed; `false` where it is not in the list.
    fn remove(&mut self, row: Row, changed: &mut BTreeSet<u32>) -> bool {
        let Ok(at) = self.rows.binary_search(&row) else {
            return false;
        };
        self.rows.remove(at);
        let mut end = 0;
        for (position, block) in self.blocks.iter_mut().enumerate() {
            end += block.rows;
            if at < end {
                changed.insert(block.number);
                block.rows -= 1;
                if block.rows == 0 {
                    self.blocks.remove(position);
                }
                break;
            }
        }
        true
    }

    /// The rows of a block; empty where there is none of that number.
    fn block(&self, number: u32) -> &[Row] {
        let mut start = 0;
        for block in &self.blocks {
            if block.number == number {
                return &self.rows[start..start + block.rows];
            }
            start += block.rows;
        }
        &[]
    }
}

/// All posting lists that are not empty.
#[derive(Debug, Default)]
pub(super) struct LeafTable {
    lists: HashMap<LeafId, PostingList>,
}

impl LeafTable {
    pub(super) fn rows(&self, leaf: LeafId) -> &[Row] {
        self.lists.get(&leaf).map_or(&[], PostingList::rows)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LeafId, &PostingList)> {
        self.lists.iter().map(|(leaf, list)| (*leaf, list))
    }

    /// Adds a block read from disk; `None` where it does not continue the leaf's list.
    pub(super) fn push_block(&mut self, leaf: LeafId, number: u32, rows: &[Row]) -> Option<()> {
        self.lists.entry(leaf).or_default().push_block(number, rows)
    }

    /// Puts the edited lists in place of those they were made from.
    pub(super) fn publish(&mut self, edit: LeafEdit) {
        for (leaf, (list, _)) in edit.lists {
            if list.rows.is_empty() {
                self.lists.remove(&leaf);
            } else {
                self.lists.insert(leaf, list);
            }
        }
    }
}

/// Changed copies of the posting lists that a batch touches.
#[derive(Debug, Default)]
pub(super) struct LeafEdit {
    lists: HashMap<LeafId, (PostingList, BTreeSet<u32>)>,
}

impl LeafEdit {
    fn list(&mut self, table: &LeafTable, leaf: LeafId) -> &mut (PostingList, BTreeSet<u32>) {
        self.lists
            .entry(leaf)
            .or_insert_with(|| (table.lists.get(&leaf).cloned().unwrap_or_default(), BTreeSet::new()))
    }

    /// Adds a row larger than all rows of `leaf`.
    pub(super) fn push(&mut self, table: &LeafTable, leaf: LeafId, row: Row) {
        let (list, changed) = self.list(table, leaf);
        list.push(row, changed);
    }

    /// Removes a row; `false` where `leaf` does not have it.
    pub(super) fn remove(&mut self, table: &LeafTable, leaf: LeafId, row: Row) -> bool {
        let (list, changed) = self.list(table, leaf);
        list.remove(row, changed)
    }

    /// Every block to write; one without rows is to be removed.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (LeafId, u32, &[Row])> {
        self.lists.iter().flat_map(|(leaf, (list, changed))| {
            changed.iter().map(move |number| (*leaf, *number, list.block(*number)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LEAF: LeafId = LeafId(4);

    /// Applies an edit to the blocks as they would be on disk.
    fn store(disk: &mut BTreeMap<u32, Vec<Row>>, edit: &LeafEdit) {
        for (_, number, rows) in edit.blocks() {
            if rows.is_empty() {
                disk.remove(&number);
            } else {
                disk.insert(number, rows.to_vec());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn blocks_on_disk_always_rebuild_the_list(
            steps in prop::collection::vec((0usize..700, prop::collection::vec(any::<prop::sample::Index>(), 0..300)), 1..8),
        ) {
            let (mut table, mut disk) = (LeafTable::default(), BTreeMap::new());
            let (mut model, mut next) = (BTreeSet::new(), 0);
            for (adds, removes) in steps {
                let mut edit = LeafEdit::default();
                for pick in removes {
                    if !model.is_empty() {
                        let row = *model.iter().nth(pick.index(model.len())).unwrap();
                        model.remove(&row);
                        prop_assert!(edit.remove(&table, LEAF, row));
                        prop_assert!(!edit.remove(&table, LEAF, row));
                    }
                }
                for _ in 0..adds {
                    edit.push(&table, LEAF, Row(next));
                    model.insert(Row(next));
                    next += 1;
                }
                store(&mut disk, &edit);
                table.publish(edit);
                let mut rebuilt = LeafTable::default();
                for (number, rows) in &disk {
                    prop_assert!(rows.len() <= POSTING_BLOCK_ROWS);
                    rebuilt.push_block(LEAF, *number, rows).unwrap();
                }
                prop_assert_eq!(&rebuilt.lists, &table.lists);
                prop_assert!(table.rows(LEAF).iter().eq(&model));
            }
        }
    }

    #[test]
    fn one_insert_writes_one_block() {
        let mut table = LeafTable::default();
        let mut edit = LeafEdit::default();
        for row in 0..POSTING_BLOCK_ROWS as u32 * 3 {
            edit.push(&table, LEAF, Row(row));
        }
        assert_eq!(edit.blocks().count(), 3);
        table.publish(edit);
        let mut edit = LeafEdit::default();
        edit.push(&table, LEAF, Row(9999));
        assert!(edit.blocks().eq([(LEAF, 3, &[Row(9999)][..])]));
    }

    #[test]
    fn blocks_out_of_order_are_refused() {
        let mut table = LeafTable::default();
        table.push_block(LEAF, 2, &[Row(5), Row(6)]).unwrap();
        assert!(table.push_block(LEAF, 2, &[Row(7)]).is_none());
        assert!(table.push_block(LEAF, 3, &[Row(6)]).is_none());
        assert!(table.push_block(LEAF, 3, &[Row(7)]).is_some());
    }
}
