//! The result of a batch of inserts.

use serde::Serialize;

use crate::document::Document;
use crate::ids::Generation;
use crate::index::ingest::CutTexts;
use crate::input::InputError;
use crate::serialize::as_text;
use crate::store::Committed;

/// The outcome for one document of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InsertStatus {
    /// Stored under a new id.
    Inserted,
    /// Stored, replacing a document with the same id.
    Replaced,
    /// Not stored: a later document of the batch has the same id.
    Superseded,
    /// Not stored: [`InsertSummary::refused`] says why.
    Refused,
    /// Not stored: it is past its time ([`IndexBuilder::expires`](crate::IndexBuilder::expires)). A document
    /// with the same id is deleted.
    Expired,
}

/// A document of a batch that cannot be stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RefusedDocument {
    /// Its position in the batch, from 0.
    pub position: usize,
    /// Its id.
    pub id: String,
    /// The reason.
    #[serde(serialize_with = "as_text")]
    pub error: InputError,
}

/// The result of a batch of inserts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertSummary {
    /// Documents stored under a new id.
    pub inserted: usize,
    /// Documents that replaced one with the same id.
    pub replaced: usize,
    /// Documents superseded by a later one of the batch with the same id.
    pub superseded: usize,
    /// Documents that are past their time.
    pub expired: usize,
    /// Stored documents that will expire.
    pub expiring: usize,
    /// Documents that cannot be stored, in the order given.
    pub refused: Vec<RefusedDocument>,
    /// The status of each document, in the order given.
    pub statuses: Vec<InsertStatus>,
    /// Passages stored, in an index with passages.
    pub passages: usize,
    /// Embeddings that were in the cache ([`IndexBuilder::embedding_cache`](crate::IndexBuilder)).
    pub cached: usize,
    /// Texts that the encoder did not read completely; empty if the embeddings were given, or each document
    /// has its passages.
    pub cut: CutTexts,
    /// The generation that readers see now.
    pub generation: Generation,
}

impl InsertSummary {
    pub(super) fn new(generation: Generation) -> Self {
        let (refused, statuses) = (Vec::new(), Vec::new());
        let cut = CutTexts::default();
        let [inserted, replaced, superseded, expired, expiring, passages, cached] = [0; 7];
        Self {
            inserted,
            replaced,
            superseded,
            expired,
            expiring,
            refused,
            statuses,
            passages,
            cached,
            cut,
            generation,
        }
    }

    /// Records why a document is not stored; its status is added with its group.
    pub(super) fn refuse(&mut self, position: usize, document: &Document, error: InputError) {
        self.refused.push(RefusedDocument { position, id: document.id.clone(), error });
    }

    /// Adds a group: the fate of each of its documents, and the commit's result for the stored ones.
    pub(super) fn add(&mut self, fates: &[Option<InsertStatus>], committed: &Committed) {
        let mut replaced = committed.replaced.iter();
        for fate in fates {
            let status = fate.unwrap_or_else(|| match replaced.next() {
                Some(true) => InsertStatus::Replaced,
                _ => InsertStatus::Inserted,
            });
            match status {
                InsertStatus::Inserted => self.inserted += 1,
                InsertStatus::Replaced => self.replaced += 1,
                InsertStatus::Superseded => self.superseded += 1,
                InsertStatus::Expired => self.expired += 1,
                InsertStatus::Refused => {}
            }
            self.statuses.push(status);
        }
        self.expiring += committed.expiring;
        self.generation = committed.generation;
    }
}
