//! Codes at work for one query: bounds on the scores of many rows first, then the embeddings of the few that may be hits.

use super::search::impossible;
use crate::codes::{BLOCK_ROWS, CodedQuery, FACTORS, Rotation};
use crate::error::Result;
use crate::ids::Row;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::scan::{Scanner, TopK};
use crate::store::{Run, View};

/// Shortest run of rows whose codes are looked at: a block of codes costs as much as a few embeddings.
const FEWEST_CODED: usize = 4;
/// Documents for each hit asked for, below which preparing the query for codes costs more than they spare.
const PLAIN_PER_HIT: usize = 32;
/// How many standard deviations, about, a score may lie above its estimate before a hit can be missed.
const CODE_WIDTH: f32 = 2.2;
/// Bounds that wait for each other, unless many hits are asked for: those of the most probable leaves, whose best rows are
/// nearly the best of all, so that few of the others need wait.
const MOST_WAITING: usize = 1024;
/// Rows for each hit asked for whose embeddings are read first, where there is nothing yet to hold bounds against.
const FIRST_PER_HIT: usize = 2;
/// Embeddings read before bounds are held against the best scores again.
const ROWS_PER_ROUND: usize = 32;
/// Embeddings of the next round that are asked for while a round is scored, until its own prefetches set in.
const ROWS_EXPECTED: usize = 4;

/// The sign of an f32.
const SIGN: u32 = 1 << 31;

/// A row and the highest score that it may have as one number, by which those with the highest score come first and then
/// those with the lowest row: whole numbers are put in order much faster than pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting(u64);

impl Waiting {
    /// A bound that cannot be compared counts as one beyond all others.
    #[inline(always)]
    fn new(bound: f32, row: Row) -> Self {
        // The zeros are one.
        let bits = if bound.is_nan() { f32::INFINITY.to_bits() } else { (bound + 0.0).to_bits() };
        // As unsigned numbers in the order of the scores: the sign turned, and all else where it is set.
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

/// Rows that wait with the highest score that each may have, for one query.
pub(super) struct Coded<'a> {
    rotation: &'a Rotation,
    /// Made when it is first needed.
    query: Option<CodedQuery>,
    /// Dead ones included.
    waiting: Vec<Waiting>,
    /// The score that a row needs, whatever is best here.
    floor: f32,
}

impl<'a> Coded<'a> {
    pub fn new(rotation: &'a Rotation) -> Self {
        Self { rotation, query: None, waiting: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// With bounds that are held against the k-th best of `top`, as of now, from the start.
    pub fn beyond(self, top: &TopK) -> Self {
        Self { floor: least(top), ..self }
    }

    /// Takes those rows of a run whose bounds, by their codes, reach the best so far; not, and says so, where that would not
    /// pay, as in a search of few documents so far.
    pub fn add(
        &mut self,
        run: &Run<'_>,
        documents: usize,
        scanner: &Scanner<'_>,
        top: &TopK,
    ) -> Result<bool> {
        if run.len() < FEWEST_CODED || documents < PLAIN_PER_HIT.saturating_mul(top.k()) {
            return Ok(false);
        }
        let Some((codes, factors)) = run.codes()? else { return Ok(false) };
        let query =
            self.query.get_or_insert_with(|| CodedQuery::new(self.rotation, scanner.query(), CODE_WIDTH));
        let threshold = least(top).max(self.floor);
        let (mut factors, _) = factors.as_chunks::<FACTORS>();
        let (mut row, mut place) = (run.first_row(), run.first_place());
        let block_bytes = query.tables.len();
        let mut bounds = [0.0; BLOCK_ROWS];
        for (block, rest) in codes.chunks_exact(block_bytes).zip((block_bytes..).step_by(block_bytes)) {
            ask_for(codes.get(rest..).unwrap_or_default(), block_bytes);
            let sums = scanner.kernel().code_sums(query, block);
            let mut may_be_hits = query.upper_bounds(&sums[place..], factors, threshold, &mut bounds);
            while may_be_hits != 0 {
                let next = may_be_hits.trailing_zeros();
                self.waiting.push(Waiting::new(bounds[next as usize], Row(row.0 + next)));
                may_be_hits &= may_be_hits - 1;
            }
            let own = factors.len().min(BLOCK_ROWS - place);
            factors = &factors[own..];
            (row, place) = (Row(row.0 + own as u32), 0);
        }
        Ok(true)
    }

    /// Asks for what [`Self::add`] will read of a run first.
    pub fn expect(&self, run: &Run<'_>) -> Result<()> {
        if let (Some(query), Some((codes, factors))) = (&self.query, run.codes()?) {
            ask_for(codes, query.tables.len());
            ask_for(factors, BLOCK_ROWS * FACTORS);
        }
        Ok(())
    }

    /// Whether so many wait that they had better be settled.
    pub fn is_full(&self, k: usize) -> bool {
        self.waiting.len() >= MOST_WAITING.max(PLAIN_PER_HIT.saturating_mul(k))
    }

    /// Scores the rows that wait, those with the highest bounds first, until no bound reaches the best so far; says how
    /// many embeddings that took.
    pub fn settle(&mut self, view: &View, scanner: &Scanner<'_>, top: &mut TopK) -> Result<usize> {
        let mut read = 0;
        let mut embeddings = Vec::new();
        let mut score = |rows: &[Waiting], top: &mut TopK| -> Result<()> {
            embeddings.clear();
            for row in rows.iter().map(|waiting| waiting.row()) {
                if view.is_live(row) {
                    embeddings.push((row, view.embedding(row)?));
                }
            }
            read += embeddings.len();
            scanner.scan(embeddings.iter().copied(), top).map(drop).map_err(impossible)?;
            Ok(())
        };
        let floor = self.floor;
        let needed = |top: &TopK| least(top).max(floor);
        let first = FIRST_PER_HIT.saturating_mul(top.k());
        if needed(top) == f32::NEG_INFINITY && first < self.waiting.len() {
            self.waiting.select_nth_unstable(first);
            score(&self.waiting[..first], top)?;
            self.waiting.drain(..first);
        }
        let threshold = needed(top);
        self.waiting.retain(|waiting| waiting.reaches(threshold));
        self.waiting.sort_unstable();
        let mut rounds = self.waiting.chunks(ROWS_PER_ROUND).peekable();
        while let Some(round) = rounds.next() {
            let expected = rounds.peek().into_iter().flat_map(|next| next.iter().take(ROWS_EXPECTED));
            for row in expected.map(|waiting| waiting.row()).filter(|row| view.is_live(*row)) {
                let embedding = view.embedding(row)?;
                ask_for(embedding, embedding.len());
            }
            // It only rises.
            let threshold = needed(top);
            let within = round.partition_point(|waiting| waiting.reaches(threshold));
            score(&round[..within], top)?;
            if within < round.len() {
                break;
            }
        }
        self.waiting.clear();
        Ok(read)
    }
}

/// Has the first of some values brought near the processor.
fn ask_for<T>(values: &[T], most: usize) {
    let values = &values[..values.len().min(most)];
    values.chunks(CACHE_LINE_BYTES / size_of::<T>()).for_each(|line| prefetch(line.as_ptr()));
}

/// The score that a row needs at least; any will do while there are fewer hits than asked for. No score is a number
/// that cannot be compared, but for a sum beyond all bounds.
fn least(top: &TopK) -> f32 {
    top.threshold().filter(|threshold| !threshold.is_nan()).unwrap_or(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_in_the_order_of_their_bounds() {
        let bounds = [f32::INFINITY, 3.5, 1.0, 1e-30, 0.0, -1e-30, -2.0, f32::NEG_INFINITY];
        for (i, &high) in bounds.iter().enumerate() {
            let row = Waiting::new(high, Row(7));
            assert_eq!(row.row(), Row(7));
            assert!(row < Waiting::new(high, Row(8)) && row.reaches(high));
            for &low in &bounds[i + 1..] {
                assert!(row < Waiting::new(low, Row(3)), "{high} {low}");
                assert!(row.reaches(low) && !Waiting::new(low, Row(3)).reaches(high), "{high} {low}");
            }
        }
        assert_eq!(Waiting::new(-0.0, Row(1)), Waiting::new(0.0, Row(1)));
        assert_eq!(Waiting::new(f32::NAN, Row(u32::MAX)), Waiting::new(f32::INFINITY, Row(u32::MAX)));
    }
}
