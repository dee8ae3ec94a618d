//! Unsealed documents: parts in memory, arranged like segments.
//!
//! Each commit creates one. A part never changes; adjacent parts of similar size are merged as new ones
//! arrive, so that their number stays small whatever the size of the commits, and each document is moved a
//! logarithmic number of times.

use std::{
    collections::HashMap,
    convert::Infallible,
    ops::Range,
    sync::{Arc, OnceLock},
};

use half::f16;

use super::{
    batch::{CheckedPut, PutRow},
    config::StoreConfig,
    error::{Damage, Result, StoreError},
    expiry::{Expiries, Time},
    layout::names,
    leaves::{LeafLists, arrange},
    rows::{Passage, RowSource, Rows, chain},
    terms::{Lexer, TableLists, TermLists, TermTable, Terms},
};
use crate::{
    ids::{Generation, LeafId},
    lexical::List,
};

/// A row in memory.
#[derive(Clone, Debug)]
struct MemoryRow {
    /// Shared with the parts that this one was merged from.
    put: Arc<CheckedPut>,
    created_at: Generation,
    /// Its position among the document's rows.
    place: usize,
    /// The row of the document's first passage, and that of the next one; its own for the last.
    head: u32,
    next: u32,
}

/// Documents in the order of their leaves, with adjacent embeddings.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    dim: usize,
    rows: Vec<MemoryRow>,
    /// Whether rows are passages.
    has_passages: bool,
    /// `[rows, dim]` f16.
    matrix: Vec<f16>,
    lists: LeafLists,
    by_id: HashMap<Arc<str>, u32>,
    expiries: Expiries,
    /// Posting lists of terms, built on first use.
    terms: OnceLock<TermTable>,
    bytes: usize,
}

impl Memtable {
    /// A part with these documents; ids must be unique.
    pub(super) fn new(
        config: &StoreConfig,
        documents: impl IntoIterator<Item = (Arc<CheckedPut>, Generation)>,
    ) -> Self {
        let (dim, has_passages) = (config.dim as usize, config.passages.is_some());
        let (mut given, mut bytes) = (Vec::new(), 0);
        // Initially the number of its document.
        for (number, (put, created_at)) in (0..).zip(documents) {
            bytes += put.bytes();
            given.extend((0..put.rows.len()).map(|place| {
                let put = Arc::clone(&put);
                MemoryRow { put, created_at, place, head: number, next: 0 }
            }));
        }
        let Ok((order, lists)) = arrange(given.iter().map(|row| Ok::<_, Infallible>(row.own().leaf)));
        let mut rows: Vec<MemoryRow> = order.into_iter().map(|row| given[row as usize].clone()).collect();
        if has_passages {
            let (heads, next) = chain(rows.iter().map(|row| (row.head, row.place)));
            let links = heads.into_iter().zip(next);
            rows.iter_mut().zip(links).for_each(|(row, link)| (row.head, row.next) = link);
        } else {
            (0..).zip(&mut rows).for_each(|(at, row)| (row.head, row.next) = (at, at));
        }
        let matrix = Vec::with_capacity(rows.len() * dim);
        let mut part = Self { dim, has_passages, matrix, bytes, lists, ..Self::default() };
        for (row, document) in (0..).zip(&rows) {
            part.matrix.extend_from_slice(&document.own().embedding);
            if document.head == row {
                part.by_id.insert(Arc::clone(&document.put.id), row);
            }
        }
        if let Some(field) = &config.expires {
            let heads = (0..).zip(&rows).filter(|(at, row)| row.head == *at);
            part.expiries = heads.filter_map(|(at, row)| Some((row.put.expires(field)?, at))).collect();
        }
        part.rows = rows;
        part
    }

    /// The documents of these rows, which must be all rows of each of them.
    pub(super) fn documents_of(
        &self,
        rows: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = (Arc<CheckedPut>, Generation)> {
        let heads = rows.map(|at| (at, &self.rows[at as usize])).filter(|(at, row)| row.head == *at);
        heads.map(|(_, row)| (Arc::clone(&row.put), row.created_at))
    }

    /// The posting lists of terms.
    fn terms(&self, lexer: &dyn Lexer) -> Result<&TermTable> {
        if let Some(table) = self.terms.get() {
            return Ok(table);
        }
        let none = Terms::default();
        let rows = (0..).zip(&self.rows).map(|(at, row)| match row.head == at {
            true => row.put.terms(lexer),
            false => Ok(&none),
        });
        let rows = rows.collect::<Result<Vec<&Terms>>>()?;
        Ok(self.terms.get_or_init(|| TermTable::new(rows.into_iter())))
    }

    /// Approximate memory use of the documents and their embeddings.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first rows of documents in the byte order of their ids, from the id after `after` on.
    pub(super) fn in_id_order(&self, after: Option<&str>) -> Vec<u32> {
        let mut found: Vec<(&str, u32)> = self.by_id.iter().map(|(id, &row)| (&**id, row)).collect();
        found.retain(|(id, _)| after.is_none_or(|after| *id > after));
        found.sort_unstable();
        found.into_iter().map(|(_, row)| row).collect()
    }

    fn row(&self, row: u32) -> Result<&MemoryRow> {
        self.rows.get(row as usize).ok_or_else(|| missing("a row in memory"))
    }
}

impl MemoryRow {
    /// The input of the row. It exists: positions match the rows.
    fn own(&self) -> &PutRow {
        &self.put.rows[self.place]
    }
}

impl RowSource for Memtable {
    fn leaf_of(&self, row: u32) -> Result<LeafId> {
        Ok(self.row(row)?.own().leaf)
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        Ok(&self.row(row)?.own().embedding)
    }

    fn id(&self, row: u32) -> Result<&str> {
        Ok(&self.row(row)?.put.id)
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        Ok(&self.row(row)?.put.payload)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        Ok(&self.row(row)?.put.metadata)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        Ok(self.row(row)?.created_at)
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        let found = self.row(row)?;
        let (head, next, span) = (found.head, found.next, found.own().span);
        Ok(self.has_passages.then_some(Passage { head, next, span }))
    }

    fn term_lists(&self, _rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        Ok(vec![Box::new(TableLists { table: self.terms(lexer)?, rows: None })])
    }
}

impl Rows for Memtable {
    fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    fn documents(&self) -> u32 {
        self.by_id.len() as u32
    }

    fn name(&self) -> &str {
        names::LOG
    }

    fn head(&self, row: u32) -> Result<u32> {
        Ok(self.row(row)?.head)
    }

    fn expiries(&self) -> Result<(&[Time], &[u32])> {
        Ok((&self.expiries.times, &self.expiries.rows))
    }

    fn matrix(&self, rows: Range<u32>) -> Result<&[f16]> {
        let elements = rows.start as usize * self.dim..rows.end as usize * self.dim;
        self.matrix.get(elements).ok_or_else(|| missing("a row in memory"))
    }

    fn find(&self, id: &str) -> Result<Option<u32>> {
        Ok(self.by_id.get(id).copied())
    }

    fn all_leaves(&self) -> Result<&[u32]> {
        Ok(&self.lists.leaves)
    }

    fn leaf(&self, leaf: LeafId) -> Result<Range<u32>> {
        Ok(self.lists.rows(leaf))
    }

    fn is_lexical(&self) -> bool {
        true
    }

    fn term_list(&self, term: u32, lexer: &dyn Lexer) -> Result<List<'_>> {
        Ok(self.terms(lexer)?.list(term))
    }

    fn term_counts(&self, lexer: &dyn Lexer, tell: &mut dyn FnMut(u32, u64)) -> Result<()> {
        self.terms(lexer)?.counts(tell);
        Ok(())
    }

    fn lengths(&self, lexer: &dyn Lexer) -> Result<&[u32]> {
        Ok(&self.terms(lexer)?.lengths)
    }

    fn total_length(&self, lexer: &dyn Lexer) -> Result<u64> {
        Ok(self.lengths(lexer)?.iter().map(|&length| u64::from(length)).sum())
    }
}

/// Would be a defect of the store, not of a file; still an error.
fn missing(what: &'static str) -> StoreError {
    StoreError::corrupt(names::LOG, Damage::Missing { what })
}
