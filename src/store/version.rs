//! A generation, and how the next one is made from it.

use std::sync::Arc;

use super::{
    batch::{CheckedBatch, CheckedPut, Committed},
    config::StoreConfig,
    error::{Result, StoreError},
    expiry::{NEVER, Time},
    memtable::Memtable,
    part::{PartRows, VersionPart},
};
use crate::ids::{Generation, Row};

/// The contents of a view. Never changed once published: readers keep the one they have.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) generation: Generation,
    /// In row order: the segments, then the memtables, oldest first.
    pub(super) parts: Vec<VersionPart>,
    /// Rows of all parts, dead ones included.
    pub(super) rows: u32,
    /// Live documents.
    pub(super) live: u32,
    /// Rows of live documents.
    pub(super) live_rows: u32,
    /// When the next document expires.
    pub(super) next_expiry: Time,
}

impl Version {
    /// A generation of these parts.
    pub(super) fn new(generation: Generation, mut parts: Vec<VersionPart>) -> Result<Self> {
        let (mut rows, mut live, mut live_rows, mut next_expiry) = (0u32, 0, 0, NEVER);
        for part in &mut parts {
            part.base = rows;
            live += part.live_documents();
            live_rows += part.live();
            next_expiry = next_expiry.min(part.next_expiry());
            let too_many = StoreError::TooManyRows { used: rows, wanted: part.rows() as usize };
            rows = rows.checked_add(part.rows()).ok_or(too_many)?;
        }
        Ok(Self { generation, parts, rows, live, live_rows, next_expiry })
    }

    /// This generation as it is at a time: documents that expire by then are dead.
    pub(super) fn at(&self, now: Time) -> Self {
        let mut parts = self.parts.clone();
        parts.iter_mut().for_each(|part| part.expire(now));
        Self::new(self.generation, parts).unwrap_or_else(|_| self.clone())
    }

    /// The part that contains a row, and the row in it.
    pub(super) fn locate(&self, row: Row) -> Option<(&VersionPart, u32)> {
        let part = self.parts.partition_point(|part| part.base <= row.0).checked_sub(1)?;
        let part = &self.parts[part];
        let local = row.0 - part.base;
        (local < part.rows()).then_some((part, local))
    }

    /// The part with an id's live document, by its position among the parts, and the row in it.
    pub(super) fn find(&self, id: &str) -> Result<Option<(usize, u32)>> {
        // Newest first: recently inserted documents are requested most.
        for (place, part) in self.parts.iter().enumerate().rev() {
            if let Some(row) = part.find(id)? {
                return Ok(Some((place, row)));
            }
        }
        Ok(None)
    }

    /// Live documents of the memtables.
    pub(super) fn memtable_documents(&self) -> u64 {
        self.memtables().map(|(part, _)| u64::from(part.live_documents())).sum()
    }

    /// Approximate memory use of the memtables.
    pub(super) fn memtable_bytes(&self) -> usize {
        self.memtables().map(|(_, memtable)| memtable.bytes()).sum()
    }

    fn memtables(&self) -> impl Iterator<Item = (&VersionPart, &Memtable)> {
        self.parts.iter().filter_map(|part| match &part.place {
            PartRows::Memtable(memtable) => Some((part, &**memtable)),
            PartRows::Sealed(_) => None,
        })
    }

    /// The next generation, or this one if the batch changes nothing, and the result of the batch.
    pub(super) fn apply(&self, config: &StoreConfig, batch: &CheckedBatch) -> Result<(Self, Committed)> {
        let mut parts = self.parts.clone();
        let expires =
            |put: &&Arc<CheckedPut>| config.expires.as_ref().is_some_and(|own| put.expires(own).is_some());
        let expiring = batch.puts.iter().filter(expires).count();
        let mut done = Committed { generation: self.generation, replaced: Vec::new(), expiring, deleted: 0 };
        for id in &batch.deletes {
            if let Some((place, row)) = self.find(id)? {
                parts[place].mark_deleted(row)?;
                done.deleted += 1;
            }
        }
        for put in &batch.puts {
            match self.find(&put.id)? {
                Some((place, row)) => {
                    parts[place].mark_deleted(row)?;
                    done.replaced.push(true);
                }
                None => done.replaced.push(false),
            }
        }
        if done.replaced.is_empty() && done.deleted == 0 {
            return Ok((self.clone(), done));
        }
        done.generation = self.generation.next();
        if !batch.puts.is_empty() {
            let puts = batch.puts.iter().map(|put| (Arc::clone(put), done.generation));
            parts.push(VersionPart::memtable(Memtable::new(config, puts)));
            join_memtables(config, &mut parts);
        }
        Ok((Self::new(done.generation, parts)?, done))
    }
}

/// Merges the newest memtable with the one before it while the older one is not much larger.
fn join_memtables(config: &StoreConfig, parts: &mut Vec<VersionPart>) {
    while let [.., older, newer] = parts.as_slice()
        && let (PartRows::Memtable(first), PartRows::Memtable(second)) = (&older.place, &newer.place)
        && older.live() < 2 * newer.rows()
    {
        let documents = first.documents_of(older.live_rows());
        let documents = documents.chain(second.documents_of(newer.live_rows()));
        let joined = Memtable::new(config, documents);
        parts.truncate(parts.len() - 2);
        parts.push(VersionPart::memtable(joined));
    }
}
