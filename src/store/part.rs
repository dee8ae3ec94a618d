//! The parts of a generation: segments on disk and fresh documents in memory, with one interface.

use std::{
    collections::BTreeMap,
    ops::{Deref, Range},
    sync::Arc,
};

use super::{
    error::{Damage, Result, StoreError},
    expiry::{NEVER, Time},
    memtable::Memtable,
    rows::{Rows, head_bits},
    segment::Segment,
    tombstones::{TombstoneFile, Tombstones},
};
use crate::{filter::bits, ids::LeafId};

/// The storage of a part's rows.
#[derive(Clone)]
pub(super) enum PartRows {
    Sealed(Arc<Segment>),
    Memtable(Arc<Memtable>),
}

/// A part as seen by one generation.
#[derive(Clone)]
pub(super) struct VersionPart {
    pub(super) place: PartRows,
    pub(super) tombstones: Arc<Tombstones>,
    /// The file of dead rows that the manifest names; it may have fewer of them.
    pub(super) on_disk: Option<TombstoneFile>,
    /// Number of documents whose rows are dead.
    dead_documents: u32,
    /// Number of documents past their time, as far as that was asked.
    expired: usize,
    /// Number of its first row among the rows of the generation.
    pub(super) base: u32,
    /// Number of its rows, dead ones included.
    rows: u32,
}

impl Deref for VersionPart {
    type Target = dyn Rows;

    fn deref(&self) -> &(dyn Rows + 'static) {
        match &self.place {
            PartRows::Sealed(segment) => &**segment,
            PartRows::Memtable(memtable) => &**memtable,
        }
    }
}

impl VersionPart {
    /// # Errors
    ///
    /// Damage of the mapping of rows to documents, if documents have passages, and of the times of expiry.
    pub(super) fn sealed(
        segment: Arc<Segment>,
        tombstones: Arc<Tombstones>,
        on_disk: Option<TombstoneFile>,
    ) -> Result<Self> {
        let mut dead_documents = tombstones.count();
        if segment.documents() != segment.rows() {
            dead_documents = 0;
            for row in (0..segment.rows()).filter(|row| tombstones.contains(*row)) {
                dead_documents += u32::from(segment.head(row)? == row);
            }
        }
        segment.expiries()?;
        let rows = segment.rows();
        let place = PartRows::Sealed(segment);
        Ok(Self { place, tombstones, on_disk, dead_documents, expired: 0, base: 0, rows })
    }

    pub(super) fn memtable(memtable: Memtable) -> Self {
        let (rows, place) = (memtable.rows(), PartRows::Memtable(Arc::new(memtable)));
        let tombstones = Arc::default();
        Self { place, tombstones, on_disk: None, dead_documents: 0, expired: 0, base: 0, rows }
    }

    /// The representative rows of documents, also of dead ones, in the byte order of their ids, from the id
    /// after `after` on.
    pub(super) fn in_id_order(
        &self,
        after: Option<&str>,
    ) -> Result<Box<dyn Iterator<Item = Result<u32>> + '_>> {
        Ok(match &self.place {
            PartRows::Sealed(segment) => {
                let first = after.map_or(Ok(0), |id| segment.first_after(id))?;
                Box::new((first..segment.documents()).map(|place| segment.by_id(place)))
            }
            PartRows::Memtable(memtable) => Box::new(memtable.in_id_order(after).into_iter().map(Ok)),
        })
    }

    /// The segment; `None` for documents in memory.
    pub(super) fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.place {
            PartRows::Sealed(segment) => Some(segment),
            PartRows::Memtable(_) => None,
        }
    }

    /// Live rows.
    pub(super) fn live(&self) -> u32 {
        self.rows - self.tombstones.count()
    }

    /// Live documents.
    pub(super) fn live_documents(&self) -> u32 {
        self.documents().saturating_sub(self.dead_documents)
    }

    /// Whether rows are passages, so that several may belong to one document.
    pub(super) fn has_several(&self) -> bool {
        self.documents() != self.rows()
    }

    /// The rows of a document, given by its representative row, in the order of its text.
    pub(super) fn rows_of(&self, head: u32) -> Result<Vec<u32>> {
        let (mut rows, mut at) = (vec![head], head);
        while let Some(passage) = self.passage(at)? {
            if passage.head != head || rows.len() > self.rows() as usize {
                let detail = Damage::Undecodable { what: "the passages of row", number: head.into() };
                return Err(StoreError::corrupt(self.name().to_owned(), detail));
            }
            if passage.next == at {
                break;
            }
            at = passage.next;
            rows.push(at);
        }
        Ok(rows)
    }

    pub(super) fn is_live(&self, row: u32) -> bool {
        row < self.rows && !self.tombstones.contains(row)
    }

    /// The live rows, ascending.
    pub(super) fn live_rows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.rows).filter(|row| !self.tombstones.contains(*row))
    }

    /// The live rows that represent their documents, one bit per row.
    ///
    /// # Errors
    ///
    /// Damage of the mapping of rows to documents.
    pub(super) fn live_heads(&self) -> Result<Vec<u64>> {
        let mut heads = match &self.place {
            _ if !self.has_several() => bits::all(self.rows as usize),
            PartRows::Sealed(segment) => segment.head_bits()?.to_vec(),
            PartRows::Memtable(memtable) => head_bits(&**memtable)?,
        };
        bits::zip(&mut heads, self.tombstones.words(), |own, dead| own & !dead);
        Ok(heads)
    }

    /// Number of live rows in a range.
    pub(super) fn live_in(&self, rows: Range<u32>) -> usize {
        match self.tombstones.count() {
            0 => rows.len(),
            _ => rows.filter(|row| self.is_live(*row)).count(),
        }
    }

    /// Adds the number of live rows of each leaf that has any.
    pub(super) fn add_leaf_sizes(&self, sizes: &mut BTreeMap<LeafId, usize>) -> Result<()> {
        for &leaf in self.all_leaves()? {
            let live = self.live_in(self.leaf(LeafId(leaf))?);
            if live > 0 {
                *sizes.entry(LeafId(leaf)).or_insert(0) += live;
            }
        }
        Ok(())
    }

    /// The live row with an id.
    pub(super) fn find(&self, id: &str) -> Result<Option<u32>> {
        Ok((**self).find(id)?.filter(|row| !self.tombstones.contains(*row)))
    }

    /// When the next document expires.
    pub(super) fn next_expiry(&self) -> Time {
        // Checked when the part was made.
        let times = self.expiries().map(|(times, _)| times).unwrap_or_default();
        times.get(self.expired).copied().unwrap_or(NEVER)
    }

    /// Number of documents past their time, also of those that were dead before.
    pub(super) fn expired(&self) -> usize {
        self.expired
    }

    /// Marks the documents that expire until `now` as dead.
    pub(super) fn expire(&mut self, now: Time) {
        let part = self.clone();
        let Ok((times, rows)) = part.expiries() else { return };
        let end = times.partition_point(|time| *time <= now).max(self.expired);
        let all = self.rows;
        for &row in rows[self.expired..end].iter().filter(|row| **row < all) {
            if let Err(error) = self.mark_deleted(row) {
                tracing::warn!(part = self.name(), row, %error, "an expired document cannot be marked");
            }
        }
        self.expired = end;
    }

    /// Marks one more document as dead, given by its representative row.
    pub(super) fn mark_deleted(&mut self, head: u32) -> Result<()> {
        let rows = if self.has_several() { self.rows_of(head)? } else { vec![head] };
        let tombstones = Arc::make_mut(&mut self.tombstones);
        if tombstones.insert(head) {
            self.dead_documents += 1;
        }
        rows.into_iter().for_each(|row| {
            tombstones.insert(row);
        });
        Ok(())
    }
}
