//! The readable rows of a damaged segment.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use half::f16;

use super::{
    batch::Put,
    error::Result,
    segment::{Segment, Source},
    terms::{self, Lexer, TermLists},
};
use crate::{
    document::Document,
    ids::{Generation, LeafId},
};

/// Documents that could be read, with their rows.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Id, and whether embedding and leaves could be read as well.
    rows: BTreeMap<u32, (String, bool)>,
}

impl Found {
    pub(super) fn add(&mut self, row: u32, id: String, whole: bool) {
        self.rows.insert(row, (id, whole));
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Takes out documents by their ids; says how many.
    pub(super) fn remove(&mut self, out: impl Fn(&str) -> bool) -> usize {
        let before = self.rows.len();
        self.rows.retain(|_, (id, _)| !out(id));
        before - self.rows.len()
    }

    /// Rows whose embedding or leaves have to be made anew.
    pub(super) fn incomplete(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().filter(|(_, (_, whole))| !whole).map(|(row, _)| *row)
    }
}

/// A segment as a source of what is left of it.
pub(super) struct Salvaged {
    segment: Segment,
    rows: Vec<u32>,
    anew: HashMap<u32, (Vec<f16>, Vec<LeafId>)>,
}

impl Salvaged {
    pub(super) fn new(segment: Segment, found: &Found) -> Self {
        Self { segment, rows: found.rows.keys().copied().collect(), anew: HashMap::new() }
    }

    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    pub(super) fn document(&self, row: u32) -> Result<Document> {
        self.segment.document(row)
    }

    /// Puts what was made anew in place of what could not be read.
    pub(super) fn replace(&mut self, row: u32, put: Put) {
        self.anew.insert(row, (put.embedding, put.leaves));
    }
}

impl Source for Salvaged {
    fn leaves(&self, row: u32) -> Result<Vec<LeafId>> {
        match self.anew.get(&row) {
            Some((_, leaves)) => Ok(leaves.clone()),
            None => self.segment.leaves_of(row),
        }
    }

    fn embedding(&self, row: u32) -> Result<Cow<'_, [f16]>> {
        match self.anew.get(&row) {
            Some((embedding, _)) => Ok(Cow::Borrowed(embedding)),
            None => Ok(Cow::Borrowed(self.segment.matrix(row..row + 1)?)),
        }
    }

    fn id(&self, row: u32) -> Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(self.segment.id(row)?))
    }

    fn payload(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.segment.payload(row)?))
    }

    fn metadata(&self, row: u32) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.segment.metadata(row)?))
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        // It orders documents by age and nothing rests on it.
        Ok(self.segment.created_at(row).unwrap_or(Generation(0)))
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        // From the texts: lists of a damaged segment are not believed.
        terms::made_from_texts(self, rows, lexer)
    }
}
