//! Scores candidates: by their codes first, if that saves reading embeddings.

use half::f16;
use rayon::prelude::*;

use super::candidates::RowCandidates;
use super::codes::CodeFilter;
use super::damage::scan_failed;
use crate::codes::Rotation;
use crate::error::Result;
use crate::ids::Row;
use crate::scan::{Scanner, TopK};
use crate::store::View;

/// Rows that a thread scores at a time.
pub(super) const ROWS_PER_TASK: usize = 1024;
/// The same if codes say which embeddings to read, which is faster.
const CODED_ROWS_PER_TASK: usize = 4 * ROWS_PER_TASK;
/// Documents per hit below which preparing the query for codes costs more than it saves.
const PLAIN_PER_HIT: usize = 32;
/// Shortest run that is scored by itself: shorter ones are collected, which costs less than beginning anew.
const FEWEST_AT_ONCE: usize = 64;

/// Scores the rows of one view for one query.
pub(super) struct Scorer<'a> {
    pub view: &'a View,
    pub scanner: &'a Scanner<'a>,
    /// The rotation for codes, if they may rule rows out.
    pub rotation: Option<&'a Rotation>,
    /// The number of candidates: if there are few, codes do not pay.
    pub documents: usize,
}

impl<'a> Scorer<'a> {
    /// Codes, if they may rule rows out and enough rows are candidates for that to pay.
    fn codes(&self, k: usize) -> Option<CodeFilter<'a>> {
        let rotation = self.rotation.filter(|_| self.documents >= PLAIN_PER_HIT.saturating_mul(k))?;
        Some(CodeFilter::new(rotation, self.documents))
    }

    /// Scores candidates into `top`, and returns the number of embeddings read.
    ///
    /// # Errors
    /// Damage of the data read.
    pub fn score(&self, rows: &[RowCandidates<'a>], top: &mut TopK) -> Result<usize> {
        self.score_with(self.codes(top.k()), rows, top)
    }

    /// As [`Self::score`], on the threads of the current rayon pool. Without codes, the result is the same.
    pub fn score_on_pool(&self, rows: &[RowCandidates<'a>], top: &mut TopK) -> Result<usize> {
        let mut first = 0;
        let task = match self.rotation {
            None => ROWS_PER_TASK,
            Some(_) => {
                // The bounds of the other rows are compared with the best rows of the most probable leaves.
                let mut count = 0;
                let in_first = rows.iter().take_while(|rows| {
                    count += rows.run().len();
                    count <= ROWS_PER_TASK
                });
                first = in_first.count().max(1).min(rows.len());
                CODED_ROWS_PER_TASK
            }
        };
        let (first, rest) = rows.split_at(first);
        let read = self.score(first, top)?;

        let mut count = 0;
        let in_one_task = |rows: &RowCandidates<'_>, _: &RowCandidates<'_>| {
            count = if count < task { count + rows.run().len() } else { rows.run().len() };
            count < task
        };
        let tasks: Vec<&[RowCandidates<'a>]> = rest.chunk_by(in_one_task).collect();
        let part = |rows: &&[RowCandidates<'a>]| -> Result<(TopK, usize)> {
            let mut own = top.fork();
            let codes = self.codes(top.k()).map(|codes| codes.above(top));
            let read = self.score_with(codes, rows, &mut own)?;
            Ok((own, read))
        };
        let parts = tasks.par_iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().fold(read, |read, (own, more)| {
            top.merge(own);
            read + more
        }))
    }

    fn score_with(
        &self,
        mut codes: Option<CodeFilter<'_>>,
        rows: &[RowCandidates<'a>],
        top: &mut TopK,
    ) -> Result<usize> {
        let mut read = 0;
        let mut plain: Vec<(Row, &[f16])> = Vec::new();
        let mut coded = Vec::with_capacity(if codes.is_some() { rows.len() } else { 0 });
        for own in rows {
            if codes.is_some() && CodeFilter::put_codes(own, &mut coded)? {
                continue;
            }
            if own.run().len() >= FEWEST_AT_ONCE
                && let Some(rows) = own.embeddings()?
            {
                read += self.scanner.scan(rows, top).map_err(scan_failed)?;
                continue;
            }
            own.push_to(&mut plain)?;
            if plain.len() >= ROWS_PER_TASK {
                read += plain.len();
                self.scanner.scan(plain.drain(..), top).map_err(scan_failed)?;
            }
        }
        read += plain.len();
        self.scanner.scan(plain, top).map_err(scan_failed)?;
        // Last, since the bounds of codes are compared with the best scores.
        if let Some(codes) = &mut codes {
            read += codes.score(&coded, self.view, self.scanner, top)?;
        }
        Ok(read)
    }
}
