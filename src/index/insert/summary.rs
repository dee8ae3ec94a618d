//! What a batch of inserts did.

use serde::Serialize;

use super::group::Fate;
use crate::document::Document;
use crate::ids::Generation;
use crate::index::ingest::CutTexts;
use crate::input::InputError;
use crate::serialize::as_text;
use crate::store::Committed;

/// What became of one document of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InsertStatus {
    /// Stored under a new id.
    Inserted,
    /// Stored in place of one of the same id.
    Replaced,
    /// Not stored: a later one of the batch has the same id.
    Superseded,
    /// Not stored: [`InsertSummary::refused`] says why.
    Refused,
}

/// A document of a batch that cannot be stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RefusedDocument {
    /// Its place in the batch, from 0.
    pub position: usize,
    /// Its id.
    pub id: String,
    /// Why.
    #[serde(serialize_with = "as_text")]
    pub error: InputError,
}

/// What a batch of inserts did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InsertSummary {
    /// Documents stored under a new id.
    pub inserted: usize,
    /// Documents stored in place of one of the same id.
    pub replaced: usize,
    /// Documents of the batch that a later one with the same id took the place of.
    pub superseded: usize,
    /// Documents that cannot be stored, in the order given.
    pub refused: Vec<RefusedDocument>,
    /// Of each document in the order given.
    pub statuses: Vec<InsertStatus>,
    /// Passages stored, in an index with passages.
    pub passages: usize,
    /// Which texts the encoder did not read whole; none where the embeddings were given, or where each
    /// document has its passages.
    pub cut: CutTexts,
    /// The generation that readers see now.
    pub generation: Generation,
}

impl InsertSummary {
    pub(super) fn new(generation: Generation) -> Self {
        let (refused, statuses) = (Vec::new(), Vec::new());
        let cut = CutTexts::default();
        let [inserted, replaced, superseded, passages] = [0; 4];
        Self { inserted, replaced, superseded, refused, statuses, passages, cut, generation }
    }

    /// Notes why a document is not stored; its status comes with its group.
    pub(super) fn refuse(&mut self, position: usize, document: &Document, error: InputError) {
        self.refused.push(RefusedDocument { position, id: document.id.clone(), error });
    }

    /// Counts a group: of each of its documents what was to be done with it, and of those to be stored what
    /// the commit did.
    pub(super) fn add(&mut self, fates: &[Fate], committed: &Committed) {
        let mut replaced = committed.replaced.iter();
        for fate in fates {
            let status = match fate {
                Fate::Refused => InsertStatus::Refused,
                Fate::Superseded => InsertStatus::Superseded,
                Fate::Stored if replaced.next() == Some(&true) => InsertStatus::Replaced,
                Fate::Stored => InsertStatus::Inserted,
            };
            match status {
                InsertStatus::Inserted => self.inserted += 1,
                InsertStatus::Replaced => self.replaced += 1,
                InsertStatus::Superseded => self.superseded += 1,
                InsertStatus::Refused => {}
            }
            self.statuses.push(status);
        }
        self.generation = committed.generation;
    }
}
