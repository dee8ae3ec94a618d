//! The parts of a generation: segments on disk and fresh documents in memory, read alike.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use half::f16;

use super::{
    error::{Damage, Result, StoreError},
    layout::names,
    memtable::Memtable,
    segment::{Passage, Segment, Source},
    terms::{self, Lexer, TermLists},
    tombstones::Tombstones,
};
use crate::{
    codes::StoredCodes,
    document::Document,
    ids::{Generation, LeafId},
    lexical::List,
};

/// Where the rows of a part are.
#[derive(Clone)]
pub(super) enum Place {
    Sealed(Arc<Segment>),
    Memtable(Arc<Memtable>),
}

/// A part as one generation has it.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) place: Place,
    pub(super) tombstones: Arc<Tombstones>,
    /// Documents whose rows are dead.
    dead_documents: u32,
    /// Number of its first row among the rows of the generation.
    pub(super) base: u32,
}

impl Part {
    /// # Errors
    ///
    /// Damage of what says which rows are a document's, where documents have passages.
    pub(super) fn sealed(segment: Arc<Segment>, tombstones: Arc<Tombstones>) -> Result<Self> {
        let mut dead_documents = tombstones.count();
        if segment.documents() != segment.rows() {
            dead_documents = 0;
            for row in (0..segment.rows()).filter(|row| tombstones.contains(*row)) {
                dead_documents += u32::from(segment.head(row)? == row);
            }
        }
        Ok(Self { place: Place::Sealed(segment), tombstones, dead_documents, base: 0 })
    }

    pub(super) fn memtable(memtable: Memtable) -> Self {
        let place = Place::Memtable(Arc::new(memtable));
        Self { place, tombstones: Arc::default(), dead_documents: 0, base: 0 }
    }

    /// Rows, dead ones included.
    pub(super) fn rows(&self) -> u32 {
        match &self.place {
            Place::Sealed(segment) => segment.rows(),
            Place::Memtable(memtable) => memtable.rows(),
        }
    }

    /// Live rows.
    pub(super) fn live(&self) -> u32 {
        self.rows() - self.tombstones.count()
    }

    /// Documents, dead ones included.
    pub(super) fn documents(&self) -> u32 {
        match &self.place {
            Place::Sealed(segment) => segment.documents(),
            Place::Memtable(memtable) => memtable.documents(),
        }
    }

    /// Live documents.
    pub(super) fn live_documents(&self) -> u32 {
        self.documents().saturating_sub(self.dead_documents)
    }

    /// Whether rows are passages, several of which may be of one document.
    pub(super) fn has_several(&self) -> bool {
        self.documents() != self.rows()
    }

    /// The row that stands for a row's document.
    pub(super) fn head(&self, row: u32) -> Result<u32> {
        match &self.place {
            Place::Sealed(segment) => segment.head(row),
            Place::Memtable(memtable) => Ok(memtable.passage(row)?.map_or(row, |passage| passage.head)),
        }
    }

    /// The rows of a document, given by the row that stands for it, in the order of its text.
    pub(super) fn rows_of(&self, head: u32) -> Result<Vec<u32>> {
        let (mut rows, mut at) = (vec![head], head);
        while let Some(passage) = self.source().passage(at)? {
            if passage.head != head || rows.len() > self.rows() as usize {
                let detail = Damage::Undecodable { what: "the passages of row", number: head.into() };
                return Err(StoreError::corrupt(self.name(), detail));
            }
            if passage.next == at {
                break;
            }
            at = passage.next;
            rows.push(at);
        }
        Ok(rows)
    }

    /// What errors call it.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match &self.place {
            Place::Sealed(segment) => segment.name().to_owned().into(),
            Place::Memtable(_) => names::LOG.into(),
        }
    }

    pub(super) fn is_live(&self, row: u32) -> bool {
        row < self.rows() && !self.tombstones.contains(row)
    }

    /// The live rows, ascending.
    pub(super) fn live_rows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.rows()).filter(|row| !self.tombstones.contains(*row))
    }

    /// Embeddings of consecutive rows, `[rows, dim]` f16, dead ones included.
    pub(super) fn matrix(&self, rows: Range<u32>) -> Result<&[f16]> {
        match &self.place {
            Place::Sealed(segment) => segment.matrix(rows),
            Place::Memtable(memtable) => memtable
                .matrix(rows)
                .ok_or_else(|| StoreError::corrupt(names::LOG, Damage::Missing { what: "a row in memory" })),
        }
    }

    /// Codes of consecutive rows, as [`Segment::codes`]; rows in memory have none.
    pub(super) fn codes(&self, rows: Range<u32>) -> Result<Option<StoredCodes<'_>>> {
        match &self.place {
            Place::Sealed(segment) => segment.codes(rows),
            Place::Memtable(_) => Ok(None),
        }
    }

    /// The supplement of a row's code, as [`Segment::supplement`]; rows in memory have none.
    pub(super) fn supplement(&self, row: u32) -> Result<Option<&[u8]>> {
        match &self.place {
            Place::Sealed(segment) => segment.supplement(row),
            Place::Memtable(_) => Ok(None),
        }
    }

    /// The rows that hold a term, dead ones included.
    pub(super) fn term_list(&self, term: u32, lexer: &dyn Lexer) -> Result<List<'_>> {
        match &self.place {
            Place::Sealed(segment) => segment.term_list(term),
            Place::Memtable(memtable) => Ok(List::Plain(memtable.terms(lexer)?.list(term))),
        }
    }

    /// Adds to how many documents, dead ones included, hold each term.
    pub(super) fn add_term_counts(&self, lexer: &dyn Lexer, out: &mut BTreeMap<u32, u64>) -> Result<()> {
        let mut add = |term: u32, rows: u64| *out.entry(term).or_insert(0) += rows;
        match &self.place {
            Place::Sealed(segment) => segment.term_counts(&mut add)?,
            Place::Memtable(memtable) => memtable.terms(lexer)?.counts(&mut add),
        }
        Ok(())
    }

    /// Occurrences of all terms in each row, dead ones included.
    pub(super) fn lengths(&self, lexer: &dyn Lexer) -> Result<&[u32]> {
        match &self.place {
            Place::Sealed(segment) => segment.lengths(),
            Place::Memtable(memtable) => Ok(memtable.terms(lexer)?.lengths()),
        }
    }

    /// The sum of [`Self::lengths`].
    pub(super) fn total_length(&self, lexer: &dyn Lexer) -> Result<u64> {
        match &self.place {
            Place::Sealed(segment) => segment.total_length(),
            Place::Memtable(_) => Ok(self.lengths(lexer)?.iter().map(|&length| u64::from(length)).sum()),
        }
    }

    /// Whether rows have posting lists of terms. Those in memory get theirs when they are asked for.
    pub(super) fn is_lexical(&self) -> bool {
        match &self.place {
            Place::Sealed(segment) => segment.is_lexical(),
            Place::Memtable(_) => true,
        }
    }

    /// The rows of a leaf, dead ones included: those that lie side by side, and those elsewhere.
    pub(super) fn leaf(&self, leaf: LeafId) -> Result<(Range<u32>, &[u32])> {
        match &self.place {
            Place::Sealed(segment) => segment.leaf(leaf),
            Place::Memtable(memtable) => Ok(memtable.leaf(leaf)),
        }
    }

    /// Number of live ones among consecutive rows.
    pub(super) fn live_in(&self, rows: Range<u32>) -> usize {
        match self.tombstones.count() {
            0 => rows.len(),
            _ => rows.filter(|row| self.is_live(*row)).count(),
        }
    }

    /// Adds the number of live rows of each leaf that has any.
    pub(super) fn add_leaf_sizes(&self, sizes: &mut BTreeMap<LeafId, usize>) -> Result<()> {
        let leaves = match &self.place {
            Place::Sealed(segment) => Cow::Borrowed(segment.leaves()?),
            Place::Memtable(memtable) => Cow::Owned(memtable.all_leaves()),
        };
        for &leaf in &*leaves {
            let (own, secondary) = self.leaf(LeafId(leaf))?;
            let live = self.live_in(own) + secondary.iter().filter(|row| self.is_live(**row)).count();
            if live > 0 {
                *sizes.entry(LeafId(leaf)).or_insert(0) += live;
            }
        }
        Ok(())
    }

    /// The live row of an id.
    pub(super) fn find(&self, id: &str) -> Result<Option<u32>> {
        let row = match &self.place {
            Place::Sealed(segment) => segment.find(id)?,
            Place::Memtable(memtable) => memtable.find(id),
        };
        Ok(row.filter(|row| !self.tombstones.contains(*row)))
    }

    /// The document that a row stands for.
    pub(super) fn document(&self, row: u32) -> Result<Document> {
        match &self.place {
            Place::Sealed(segment) => segment.document(row),
            Place::Memtable(memtable) => memtable.document(row),
        }
    }

    /// What a segment is built from.
    pub(super) fn source(&self) -> &dyn Source {
        match &self.place {
            Place::Sealed(segment) => &**segment,
            Place::Memtable(memtable) => &**memtable,
        }
    }

    /// This part with one more document dead, given by the row that stands for it.
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

impl Source for Segment {
    fn leaves(&self, row: u32) -> Result<Vec<LeafId>> {
        self.leaves_of(row)
    }

    fn embedding(&self, row: u32) -> Result<Cow<'_, [f16]>> {
        Ok(Cow::Borrowed(self.matrix(row..row + 1)?))
    }

    fn id(&self, row: u32) -> Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(Segment::id(self, row)?))
    }

    fn payload(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(Segment::payload(self, row)?))
    }

    fn metadata(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(Segment::metadata(self, row)?))
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        Segment::created_at(self, row)
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        Segment::passage(self, row)
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        if self.is_lexical() {
            match self.check_terms(false) {
                Ok(_) => return Ok(vec![Box::new(self)]),
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, "posting lists of terms are made again from the texts");
                }
                Err(error) => return Err(error),
            }
        }
        terms::made_from_texts(self, rows, lexer)
    }
}
