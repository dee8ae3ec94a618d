//! Documents that are not sealed yet: parts in memory, arranged like segments.
//!
//! Each commit makes one. A part is never changed; neighbours of similar size are joined as new ones
//! come, so that there are few of them whatever the size of the commits, and each document is
//! moved a logarithmic number of times.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    sync::{Arc, OnceLock},
};

use half::f16;

use super::{
    batch::CheckedPut,
    error::{Damage, Result, StoreError},
    layout::names,
    payload,
    segment::Source,
    terms::{Lexer, TermLists, TermTable, Terms},
};
use crate::{
    document::Document,
    ids::{Generation, LeafId},
};

/// Documents in the order of their leaves, with their embeddings side by side.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    dim: usize,
    /// In the order of the rows; shared with the parts that this one was joined from.
    documents: Vec<(Arc<CheckedPut>, Generation)>,
    /// `[rows, dim]` f16.
    matrix: Vec<f16>,
    /// The leaves that occur, ascending.
    leaves: Vec<u32>,
    /// Where the rows that lie with each leaf end.
    ends: Vec<u32>,
    /// Rows that lie with another leaf.
    secondary: HashMap<u32, Vec<u32>>,
    by_id: HashMap<Arc<str>, u32>,
    /// Posting lists of terms, made when they are first asked for.
    terms: OnceLock<TermTable>,
    bytes: usize,
}

impl Memtable {
    /// A part of these documents, no id twice.
    pub(super) fn new(dim: usize, mut documents: Vec<(Arc<CheckedPut>, Generation)>) -> Self {
        // Stable: among the documents of one leaf the order of insertion stays.
        documents.sort_by_key(|(document, _)| document.leaves.first().map_or(0, |leaf| leaf.0));
        let mut part = Self { dim, matrix: Vec::with_capacity(documents.len() * dim), ..Self::default() };
        for (row, (document, _)) in (0..).zip(&documents) {
            part.matrix.extend_from_slice(&document.embedding);
            part.by_id.insert(Arc::clone(&document.id), row);
            part.bytes += document.bytes();
            for (place, leaf) in document.leaves.iter().enumerate() {
                if place > 0 {
                    part.secondary.entry(leaf.0).or_default().push(row);
                } else {
                    if part.leaves.last() == Some(&leaf.0) {
                        part.ends.pop();
                    } else {
                        part.leaves.push(leaf.0);
                    }
                    part.ends.push(row + 1);
                }
            }
        }
        part.documents = documents;
        part
    }

    /// The documents of two parts that are not dead, in one.
    pub(super) fn joined<'a>(dim: usize, rows: impl Iterator<Item = (&'a Self, u32)>) -> Self {
        Self::new(dim, rows.map(|(part, row)| part.documents[row as usize].clone()).collect())
    }

    /// The posting lists of terms.
    pub(super) fn terms(&self, lexer: &dyn Lexer) -> Result<&TermTable> {
        if let Some(table) = self.terms.get() {
            return Ok(table);
        }
        let rows = self.documents.iter().map(|(put, _)| put.terms(lexer));
        let rows = rows.collect::<Result<Vec<&Terms>>>()?;
        Ok(self.terms.get_or_init(|| TermTable::new(rows.into_iter())))
    }

    pub(super) fn rows(&self) -> u32 {
        self.documents.len() as u32
    }

    /// Memory that the documents and their embeddings take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn matrix(&self, rows: Range<u32>) -> Option<&[f16]> {
        self.matrix.get(rows.start as usize * self.dim..rows.end as usize * self.dim)
    }

    pub(super) fn leaf(&self, leaf: LeafId) -> (Range<u32>, &[u32]) {
        let own = match self.leaves.binary_search(&leaf.0) {
            Ok(0) => 0..self.ends[0],
            Ok(place) => self.ends[place - 1]..self.ends[place],
            Err(_) => 0..0,
        };
        (own, self.secondary.get(&leaf.0).map_or(&[], Vec::as_slice))
    }

    /// The leaves that have a document here, ascending.
    pub(super) fn all_leaves(&self) -> Vec<u32> {
        let mut leaves: Vec<u32> = self.leaves.iter().chain(self.secondary.keys()).copied().collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    pub(super) fn find(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// Rows in the byte order of their ids.
    pub(super) fn in_id_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.rows()).collect();
        order.sort_unstable_by_key(|row| self.id_of(*row));
        order
    }

    /// The id of a row that there is.
    pub(super) fn id_of(&self, row: u32) -> &str {
        &self.documents[row as usize].0.id
    }

    pub(super) fn document(&self, row: u32) -> Result<Document> {
        let put = self.put(row)?;
        let document = payload::decode(put.id.to_string(), &put.payload, &put.metadata);
        document.ok_or_else(|| missing("a document that was just encoded"))
    }

    pub(super) fn put(&self, row: u32) -> Result<&CheckedPut> {
        self.documents.get(row as usize).map(|(put, _)| &**put).ok_or_else(|| missing("a row in memory"))
    }
}

impl Source for Memtable {
    fn leaves(&self, row: u32) -> Result<Vec<LeafId>> {
        Ok(self.put(row)?.leaves.clone())
    }

    fn embedding(&self, row: u32) -> Result<Cow<'_, [f16]>> {
        Ok(Cow::Borrowed(&self.put(row)?.embedding))
    }

    fn id(&self, row: u32) -> Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.put(row)?.id))
    }

    fn payload(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&self.put(row)?.payload))
    }

    fn metadata(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&self.put(row)?.metadata))
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        self.documents
            .get(row as usize)
            .map(|(_, created_at)| *created_at)
            .ok_or_else(|| missing("a row in memory"))
    }

    fn term_lists(&self, _rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        Ok(vec![Box::new(self.terms(lexer)?)])
    }
}

/// Would be a defect of the store, not of a file; an error all the same.
fn missing(what: &'static str) -> StoreError {
    StoreError::corrupt(names::LOG, Damage::Missing { what })
}
