//! Codes for one query: upper bounds on the scores of many rows, then the embeddings of the few that may be
//! hits.

use super::candidates::Candidates;
use super::damage::scan_failed;
use crate::codes::{BLOCK_ROWS, CodedQuery, FACTORS, Rotation};
use crate::error::Result;
use crate::ids::Row;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::scan::{Scanner, TopK};
use crate::store::View;

/// Shortest run of rows whose codes are read: a block of codes costs as much as a few embeddings.
const FEWEST_CODED: usize = 4;
/// Documents for each hit, below which preparing the query for codes costs more than it saves.
const PLAIN_PER_HIT: usize = 32;
/// How many standard deviations, about, a score may lie above its estimate before a hit can be missed.
const CODE_WIDTH: f32 = 2.2;
/// Candidates that are collected before a rerank, unless `k` is large. They are from the most probable
/// leaves, whose best rows are nearly the best of all, so that few rows of the other leaves become
/// candidates.
const MOST_CANDIDATES: usize = 1024;
/// Embeddings for each hit that are read first, while there is no k-th best score to compare bounds with.
const FIRST_PER_HIT: usize = 2;
/// Embeddings read between two comparisons with the k-th best score.
const ROWS_PER_ROUND: usize = 32;
/// Embeddings of the next round that are prefetched while a round is scored.
const ROWS_PREFETCHED: usize = 4;

/// The sign of an f32.
const SIGN: u32 = 1 << 31;

/// A row and the upper bound of its score, as one integer. Its order is that of falling bounds, then of
/// rising rows. Integers are sorted much faster than pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(u64);

impl Candidate {
    /// NaN counts as infinity.
    #[inline(always)]
    fn new(bound: f32, row: Row) -> Self {
        // Both zeros become one.
        let bits = if bound.is_nan() { f32::INFINITY.to_bits() } else { (bound + 0.0).to_bits() };
        // Unsigned integers in the order of the scores: the sign is flipped, and all other bits where it is
        // set.
        let rising = bits ^ (((bits as i32 >> 31) as u32) | SIGN);
        Self(u64::from(!rising) << 32 | u64::from(row.0))
    }

    fn row(self) -> Row {
        Row(self.0 as u32)
    }

    /// Whether the score may be as high as `threshold`.
    fn reaches(self, threshold: f32) -> bool {
        self <= Self::new(threshold, Row(u32::MAX))
    }
}

/// Candidates of one query with the upper bounds of their scores.
pub(super) struct CodeFilter<'a> {
    rotation: &'a Rotation,
    /// Made when it is first needed.
    query: Option<CodedQuery>,
    /// Dead ones included.
    candidates: Vec<Candidate>,
    /// A score that a row needs in addition to being among the best here.
    floor: f32,
}

impl<'a> CodeFilter<'a> {
    pub fn new(rotation: &'a Rotation) -> Self {
        Self { rotation, query: None, candidates: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// Compares bounds with the k-th best score of `top`, as of now, from the start.
    pub fn above(self, top: &TopK) -> Self {
        Self { floor: threshold(top), ..self }
    }

    /// Adds the rows of a run whose bounds reach the k-th best score. Returns false, and adds nothing, where
    /// the run has no codes or is too short, or where the search has scored so few documents that codes do
    /// not pay.
    pub fn add(
        &mut self,
        rows: &Candidates<'_>,
        documents: usize,
        scanner: &Scanner<'_>,
        top: &TopK,
    ) -> Result<bool> {
        let run = rows.run();
        if run.len() < FEWEST_CODED || documents < PLAIN_PER_HIT.saturating_mul(top.k()) {
            return Ok(false);
        }
        let Some((codes, factors)) = run.codes()? else { return Ok(false) };
        let query =
            self.query.get_or_insert_with(|| CodedQuery::new(self.rotation, scanner.query(), CODE_WIDTH));
        let threshold = threshold(top).max(self.floor);
        let (mut factors, _) = factors.as_chunks::<FACTORS>();
        let (first, mut at, mut place) = (run.first_row(), 0, run.first_place());
        let block_bytes = query.tables.len();
        let mut bounds = [0.0; BLOCK_ROWS];
        for (block, rest) in codes.chunks_exact(block_bytes).zip((block_bytes..).step_by(block_bytes)) {
            let own = factors.len().min(BLOCK_ROWS - place);
            let selected = rows.block(at);
            if selected != 0 {
                prefetch_first(codes.get(rest..).unwrap_or_default(), block_bytes);
                let sums = scanner.kernel().code_sums(query, block);
                let reach = query.upper_bounds(&sums[place..], factors, threshold, &mut bounds);
                let mut reach = reach & selected;
                while reach != 0 {
                    let next = reach.trailing_zeros();
                    let row = Row(first.0 + at as u32 + next);
                    self.candidates.push(Candidate::new(bounds[next as usize], row));
                    reach &= reach - 1;
                }
            }
            factors = &factors[own..];
            (at, place) = (at + own, 0);
        }
        Ok(true)
    }

    /// Prefetches what [`Self::add`] will read of a run first.
    pub fn prefetch(&self, rows: &Candidates<'_>) -> Result<()> {
        if let (Some(query), Some((codes, factors))) = (&self.query, rows.run().codes()?) {
            prefetch_first(codes, query.tables.len());
            prefetch_first(factors, BLOCK_ROWS * FACTORS);
        }
        Ok(())
    }

    /// Whether there are so many candidates that a rerank is due.
    pub fn is_full(&self, k: usize) -> bool {
        self.candidates.len() >= MOST_CANDIDATES.max(PLAIN_PER_HIT.saturating_mul(k))
    }

    /// Scores the candidates by their embeddings, in the order of falling bounds, until no bound reaches the
    /// k-th best score. Returns how many embeddings were read.
    pub fn rerank(&mut self, view: &View, scanner: &Scanner<'_>, top: &mut TopK) -> Result<usize> {
        let mut read = 0;
        let mut embeddings = Vec::new();
        let mut score = |candidates: &[Candidate], top: &mut TopK| -> Result<()> {
            embeddings.clear();
            for row in candidates.iter().map(|candidate| candidate.row()) {
                if view.is_live(row) {
                    embeddings.push((row, view.embedding(row)?));
                }
            }
            read += embeddings.len();
            scanner.scan(embeddings.iter().copied(), top).map(drop).map_err(scan_failed)?;
            Ok(())
        };
        let floor = self.floor;
        let needed = |top: &TopK| threshold(top).max(floor);
        let first = FIRST_PER_HIT.saturating_mul(top.k());
        if needed(top) == f32::NEG_INFINITY && first < self.candidates.len() {
            self.candidates.select_nth_unstable(first);
            score(&self.candidates[..first], top)?;
            self.candidates.drain(..first);
        }
        let threshold = needed(top);
        self.candidates.retain(|candidate| candidate.reaches(threshold));
        self.candidates.sort_unstable();
        let mut rounds = self.candidates.chunks(ROWS_PER_ROUND).peekable();
        while let Some(round) = rounds.next() {
            let next = rounds.peek().into_iter().flat_map(|next| next.iter().take(ROWS_PREFETCHED));
            for row in next.map(|candidate| candidate.row()).filter(|row| view.is_live(*row)) {
                let embedding = view.embedding(row)?;
                prefetch_first(embedding, embedding.len());
            }
            // It only rises.
            let threshold = needed(top);
            let within = round.partition_point(|candidate| candidate.reaches(threshold));
            score(&round[..within], top)?;
            if within < round.len() {
                break;
            }
        }
        self.candidates.clear();
        Ok(read)
    }
}

/// Prefetches the first of some values.
fn prefetch_first<T>(values: &[T], most: usize) {
    let values = &values[..values.len().min(most)];
    values.chunks(CACHE_LINE_BYTES / size_of::<T>()).for_each(|line| prefetch(line.as_ptr()));
}

/// The k-th best score; negative infinity while there are fewer. A sum that overflows is NaN, and counts as
/// none.
fn threshold(top: &TopK) -> f32 {
    top.threshold().filter(|threshold| !threshold.is_nan()).unwrap_or(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_in_the_order_of_their_bounds() {
        let bounds = [f32::INFINITY, 3.5, 1.0, 1e-30, 0.0, -1e-30, -2.0, f32::NEG_INFINITY];
        for (i, &high) in bounds.iter().enumerate() {
            let row = Candidate::new(high, Row(7));
            assert_eq!(row.row(), Row(7));
            assert!(row < Candidate::new(high, Row(8)) && row.reaches(high));
            for &low in &bounds[i + 1..] {
                assert!(row < Candidate::new(low, Row(3)), "{high} {low}");
                assert!(row.reaches(low) && !Candidate::new(low, Row(3)).reaches(high), "{high} {low}");
            }
        }
        assert_eq!(Candidate::new(-0.0, Row(1)), Candidate::new(0.0, Row(1)));
        assert_eq!(Candidate::new(f32::NAN, Row(u32::MAX)), Candidate::new(f32::INFINITY, Row(u32::MAX)));
    }
}
