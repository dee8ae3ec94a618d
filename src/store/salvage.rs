//! The readable rows of a damaged segment.

use half::f16;

use super::{
    batch::{Put, PutRow},
    error::Result,
    segment::{Passage, RowSource, Rows, Segment},
    terms::{self, Lexer, TermLists},
};
use crate::{
    document::Document,
    ids::{Generation, LeafId},
};

/// A readable document of a damaged segment.
pub(super) struct ReadableDocument {
    /// Its representative row in the segment.
    pub(super) head: u32,
    pub(super) id: String,
    /// Its rows in the order of its text, if they could be read with their embeddings and leaves.
    pub(super) rows: Option<Vec<u32>>,
}

/// A segment as a source of its readable documents.
pub(super) struct Salvaged {
    segment: Segment,
    rows: Vec<SalvagedRow>,
    /// The first row of each document.
    heads: Vec<u32>,
    /// The segment's representative rows of documents whose rows must be rebuilt.
    incomplete: Vec<u32>,
}

struct SalvagedRow {
    /// The document's representative row in the segment.
    old_head: u32,
    /// Its representative row here.
    head: u32,
    from: From,
}

enum From {
    Segment(u32),
    /// Rebuilt.
    Put(PutRow),
}

impl Salvaged {
    pub(super) fn new(segment: Segment, found: Vec<ReadableDocument>) -> Self {
        let mut own = Self { segment, rows: Vec::new(), heads: Vec::new(), incomplete: Vec::new() };
        for ReadableDocument { head: old_head, rows, .. } in found {
            match rows {
                Some(rows) => own.add(old_head, rows.into_iter().map(From::Segment)),
                None => own.incomplete.push(old_head),
            }
        }
        own
    }

    fn add(&mut self, old_head: u32, rows: impl Iterator<Item = From>) {
        let head = self.rows.len() as u32;
        self.heads.push(head);
        self.rows.extend(rows.map(|from| SalvagedRow { old_head, head, from }));
    }

    /// The documents whose rows must be rebuilt, by their representative rows in the segment.
    pub(super) fn incomplete(&self) -> &[u32] {
        &self.incomplete
    }

    /// Adds a document with rebuilt rows.
    pub(super) fn complete(&mut self, old_head: u32, put: Put) {
        self.add(old_head, put.rows.into_iter().map(From::Put));
    }

    /// The rows here of each document.
    pub(super) fn documents(&self) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let ends = self.heads.iter().skip(1).copied().chain([self.rows.len() as u32]);
        self.heads.iter().zip(ends).map(|(&head, end)| head..end)
    }

    /// The document of a representative row of the segment.
    pub(super) fn document(&self, old_head: u32) -> Result<Document> {
        self.segment.document(old_head)
    }

    /// The embedding of a row of the segment.
    pub(super) fn embedding_of(&self, row: u32) -> Result<Vec<f16>> {
        Ok(self.segment.matrix(row..row + 1)?.to_vec())
    }

    fn row(&self, row: u32) -> &SalvagedRow {
        &self.rows[row as usize]
    }
}

impl RowSource for Salvaged {
    fn leaf_of(&self, row: u32) -> Result<LeafId> {
        match &self.row(row).from {
            From::Put(put) => Ok(put.leaf),
            From::Segment(row) => self.segment.leaf_of(*row),
        }
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        match &self.row(row).from {
            From::Put(put) => Ok(&put.embedding),
            From::Segment(row) => self.segment.embedding(*row),
        }
    }

    fn id(&self, row: u32) -> Result<&str> {
        self.segment.id(self.row(row).old_head)
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        let SalvagedRow { head, from, .. } = self.row(row);
        Ok(match from {
            // The order determines which passage is next.
            From::Put(put) => Some(Passage { head: *head, next: row, span: put.span }),
            From::Segment(old) => {
                self.segment.passage(*old)?.map(|passage| Passage { head: *head, next: row, ..passage })
            }
        })
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        self.segment.payload(self.row(row).old_head)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        self.segment.metadata(self.row(row).old_head)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        // It only orders documents by age; nothing depends on it.
        Ok(self.segment.created_at(self.row(row).old_head).unwrap_or(Generation(0)))
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        // From the texts: lists of a damaged segment are not trusted.
        terms::made_from_texts(self, rows, lexer)
    }
}
