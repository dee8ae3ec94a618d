//! Documents with their leaves found anew.

use std::ops::Range;

use half::f16;

use super::{
    batch::check_leaves,
    error::Result,
    manifest::StoreConfig,
    part::Part,
    segment::{Passage, RowSource},
    terms::{Lexer, TermLists},
};
use crate::ids::{Generation, LeafId};

/// Rows routed at once.
const ROWS: u32 = 4096;

/// The leaves of embeddings `[rows, dim]` f16, as many lists as rows.
pub(crate) type Route<'a> = &'a dyn Fn(&[f16]) -> Vec<Vec<LeafId>>;

/// A part whose posting lists are not believed.
pub(super) struct Rerouted<'a> {
    part: &'a Part,
    leaves: Vec<LeafId>,
    /// Where those of each row end.
    ends: Vec<u64>,
}

impl<'a> Rerouted<'a> {
    pub(super) fn new(part: &'a Part, config: &StoreConfig, route: Route<'_>) -> Result<Self> {
        let mut rerouted = Self { part, leaves: Vec::new(), ends: Vec::with_capacity(part.rows() as usize) };
        for start in (0..part.rows()).step_by(ROWS as usize) {
            let rows = start..(start + ROWS).min(part.rows());
            for (row, leaves) in rows.clone().zip(route(part.matrix(rows)?)) {
                if part.is_live(row) {
                    check_leaves(part.id(row)?, &leaves, config)?;
                }
                rerouted.leaves.extend(leaves);
                rerouted.ends.push(rerouted.leaves.len() as u64);
            }
        }
        Ok(rerouted)
    }

    fn span(&self, row: u32) -> Range<usize> {
        let row = row as usize;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[row] as usize
    }
}

impl RowSource for Rerouted<'_> {
    fn leaves(&self, row: u32) -> Result<Vec<LeafId>> {
        Ok(self.leaves[self.span(row)].to_vec())
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        self.part.embedding(row)
    }

    fn id(&self, row: u32) -> Result<&str> {
        self.part.id(row)
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        self.part.payload(row)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        self.part.metadata(row)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        self.part.created_at(row)
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        self.part.passage(row)
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        self.part.term_lists(rows, lexer)
    }
}
