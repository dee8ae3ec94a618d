//! The rows that a search may score: those that pass its filter, each once.

use half::f16;

use super::filter::RowFilter;
use crate::codes::BLOCK_ROWS;
use crate::error::Result;
use crate::filter::bits;
use crate::ids::Row;
use crate::store::Run;

/// Consecutive rows, some of which are candidates.
pub(super) struct RowCandidates<'a> {
    run: Run<'a>,
    /// One bit per row, starting with the first; `None` if all live rows are candidates.
    mask: Option<Box<[u64]>>,
}

impl<'a> RowCandidates<'a> {
    /// All live rows of a run.
    pub fn all(run: Run<'a>) -> Self {
        Self { run, mask: None }
    }

    /// The live rows of a part that pass the filter, in pieces of at most `rows` rows, a multiple of 64.
    pub fn pieces(part: Run<'a>, bits: Option<&[u64]>, rows: usize) -> impl Iterator<Item = Self> {
        let pieces = (0..part.len()).step_by(rows);
        pieces.filter_map(move |first| {
            let end = (first + rows).min(part.len());
            let mask = bits.map(|bits| &bits[first / 64..end.div_ceil(64)]);
            if mask.is_some_and(|mask| mask.iter().all(|word| *word == 0)) {
                return None;
            }
            Some(Self { run: part.slice(first..end), mask: mask.map(Box::from) })
        })
    }

    /// Whether all live rows are candidates.
    pub fn are_all(&self) -> bool {
        self.mask.is_none()
    }

    pub fn run(&self) -> &Run<'a> {
        &self.run
    }

    /// Number of live candidates.
    pub fn len(&self) -> usize {
        let Some(mask) = &self.mask else { return self.run.live() };
        self.run.live_among(mask)
    }

    /// The candidates among the rows of a block of codes from `first` on, one bit per row; they may include
    /// dead rows.
    pub fn selected(&self, first: usize) -> u32 {
        const { assert!(BLOCK_ROWS <= u32::BITS as usize) };
        let Some(mask) = &self.mask else { return u32::MAX };
        let word = |place: usize| mask.get(place).copied().unwrap_or(0);
        let both = u128::from(word(first / 64)) | u128::from(word(first / 64 + 1)) << 64;
        (both >> (first % 64)) as u32
    }

    /// The live candidates.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let passes = |at: usize| self.mask.as_ref().is_none_or(|mask| bits::has(mask, at));
        let live = (0..self.run.len()).filter(move |&at| passes(at) && self.run.is_live(at));
        live.map(|at| Row(self.run.first_row().0 + at as u32))
    }

    /// The rows with their embeddings, if all of them are live candidates.
    ///
    /// # Errors
    /// Damage of the pages that the rows are on.
    pub fn embeddings(&self) -> Result<Option<impl Iterator<Item = (Row, &'a [f16])> + use<'a>>> {
        let all = self.mask.is_none() && self.run.live() == self.run.len();
        Ok(all.then(|| self.run.embeddings()).transpose()?)
    }

    /// Adds the live candidates with their embeddings, `[dim]` f16 each.
    ///
    /// # Errors
    /// Damage of the pages that the rows are on.
    pub fn push_to(&self, out: &mut Vec<(Row, &'a [f16])>) -> Result<()> {
        let Some(mask) = &self.mask else { return Ok(self.run.push_to(out)?) };
        for at in bits::rows(mask).map(|at| at as usize) {
            self.run.slice(at..at + 1).push_to(out)?;
        }
        Ok(())
    }
}

/// Selects the candidates of one search from runs of rows.
pub(super) struct Selector<'a> {
    pub filter: Option<RowFilter<'a>>,
}

impl<'a> Selector<'a> {
    /// Adds the candidates among these runs; returns how many live rows they are.
    ///
    /// # Errors
    /// Damage of the data that the filter reads.
    pub fn select(
        &mut self,
        runs: impl Iterator<Item = Run<'a>>,
        out: &mut Vec<RowCandidates<'a>>,
    ) -> Result<usize> {
        let mut found = 0;
        for run in runs {
            let Some(filter) = &mut self.filter else {
                found += run.live();
                out.push(RowCandidates::all(run));
                continue;
            };
            let candidates = match run.len() {
                // Without a bit set for one row.
                1 if !filter.passes(run.first_row())? => continue,
                1 => RowCandidates::all(run),
                _ => RowCandidates { mask: Some(filter.mask(&run)?.into_boxed_slice()), run },
            };
            let own = candidates.len();
            if own > 0 {
                found += own;
                out.push(candidates);
            }
        }
        Ok(found)
    }

    /// Number of documents whose id and metadata were evaluated.
    pub fn checked(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.checked)
    }
}
