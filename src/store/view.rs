//! Reading one generation.

use std::{ops::Bound, sync::RwLockReadGuard};

use half::f16;

use super::{
    Store,
    error::{Damage, Result, StoreError},
    layout::{keys, names},
    payload,
    records::{self, DocumentRecord},
    state::State,
};
use crate::{
    document::Document,
    ids::{Generation, LeafId, Row},
};

/// One generation of the store, unchanged for as long as the view lives.
///
/// A commit waits for open views before it becomes visible, so keep a view for one query,
/// not for a session. A thread must neither commit nor take a second view while it
/// holds one: either can wait for itself.
pub struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) state: RwLockReadGuard<'a, State>,
}

impl View<'_> {
    /// The generation that this view shows.
    pub fn generation(&self) -> Generation {
        self.state.generation
    }

    /// Number of live documents.
    pub fn live(&self) -> usize {
        self.state.documents as usize
    }

    /// Number of rows, those of deleted and replaced documents included.
    pub fn rows(&self) -> usize {
        self.state.rows as usize
    }

    /// Whether a row belongs to a live document. Constant time, from memory.
    pub fn is_live(&self, row: Row) -> bool {
        self.state.live.contains(row)
    }

    /// The embeddings, `[rows, dim]` f16, row-major, as mapped from the file.
    ///
    /// Rows of deleted and replaced documents are still in it; see [`Self::is_live`].
    pub fn row_matrix(&self) -> &[f16] {
        self.state.matrix()
    }

    /// The live rows of a leaf, ascending; empty for a leaf without any.
    pub fn postings(&self, leaf: LeafId) -> &[Row] {
        self.state.leaves.rows(leaf)
    }

    /// The id of the live document of a row.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRow`] where no live document has it, and failures of reading.
    pub fn id(&self, row: Row) -> Result<String> {
        self.store.health.check_reads()?;
        if !self.is_live(row) {
            return Err(StoreError::NoSuchRow { row });
        }
        let key = keys::row(row);
        let Some(value) = self.store.database.get(&key)? else {
            return Err(corrupt(Damage::Missing { what: "the id of a live row" }));
        };
        let undecodable = Damage::Undecodable { what: "the id of row", number: row.0.into() };
        records::decode_id(&key, &value).ok_or_else(|| corrupt(undecodable))
    }

    /// The live document of a row, read from disk and checked against its checksum.
    ///
    /// # Errors
    ///
    /// As [`Self::id`].
    pub fn document(&self, row: Row) -> Result<Document> {
        let id = self.id(row)?;
        match self.record(&id)? {
            Some(record) if record.row == row => self.load(id, &record),
            _ => Err(corrupt(Damage::Disagreement {
                what: "the row of a document",
                expected: row.0.into(),
                found: 0,
            })),
        }
    }

    /// The row of a document, `None` where no live document has the id.
    pub fn row_of(&self, id: &str) -> Result<Option<Row>> {
        Ok(self.record(id)?.map(|record| record.row))
    }

    /// The leaves that a document was put in, in the order given; `None` where no live
    /// document has the id.
    pub fn leaves_of(&self, id: &str) -> Result<Option<Vec<LeafId>>> {
        Ok(self.record(id)?.map(|record| record.leaves))
    }

    /// Whether a live document has the id.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.record(id)?.is_some())
    }

    /// Up to `limit` documents in the byte order of their ids, from the first one behind
    /// `after`. The last id of a page is the `after` of the next one, in the same view
    /// or a later one.
    pub fn documents_from(&self, after: Option<&str>, limit: usize) -> Result<Vec<Document>> {
        self.store.health.check_reads()?;
        let start = match after {
            Some(id) => Bound::Excluded(keys::document(id)),
            None => Bound::Included(vec![keys::DOCUMENT]),
        };
        let entries = self.store.database.scan(keys::DOCUMENT, start).take(limit);
        entries
            .map(|entry| {
                let (key, value) = entry?;
                let (id, record) = decode_document(&key, &value).map_err(corrupt)?;
                self.load(id, &record)
            })
            .collect()
    }

    pub(super) fn record(&self, id: &str) -> Result<Option<DocumentRecord>> {
        self.store.health.check_reads()?;
        find_record(self.store, id)
    }

    /// Reads a document's payload and checks it.
    pub(super) fn load(&self, id: String, record: &DocumentRecord) -> Result<Document> {
        let number = u64::from(record.row.0);
        let mut bytes = Vec::with_capacity(record.payload_bytes as usize);
        for chunk in 0..record.chunks() {
            let Some(value) = self.store.database.get(&keys::text(record.row, chunk))? else {
                return Err(corrupt(Damage::Missing { what: "a chunk of a document" }));
            };
            bytes.extend_from_slice(&value);
        }
        if bytes.len() != record.payload_bytes as usize || crc32fast::hash(&bytes) != record.payload_crc {
            return Err(corrupt(Damage::Checksum { what: "the document of row", number }));
        }
        payload::decode(id, &bytes)
            .ok_or_else(|| corrupt(Damage::Undecodable { what: "the document of row", number }))
    }
}

/// The record of a live document as the database has it, whatever the health of the handle.
pub(super) fn find_record(store: &Store, id: &str) -> Result<Option<DocumentRecord>> {
    let key = keys::document(id);
    let Some(value) = store.database.get(&key)? else {
        return Ok(None);
    };
    let (_, record) = decode_document(&key, &value).map_err(corrupt)?;
    Ok(Some(record))
}

pub(super) fn decode_document(key: &[u8], value: &[u8]) -> Result<(String, DocumentRecord), Damage> {
    let undecodable = || Damage::Undecodable { what: "the record of a document", number: 0 };
    let id = key.get(1..).and_then(|id| String::from_utf8(id.to_vec()).ok());
    let id = id.ok_or_else(undecodable)?;
    let record = DocumentRecord::decode(key, value).ok_or_else(undecodable)?;
    Ok((id, record))
}

fn corrupt(detail: Damage) -> StoreError {
    StoreError::corrupt(names::DOCUMENTS, detail)
}
