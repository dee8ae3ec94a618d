//! Codes for one query: upper bounds on the scores of many rows, then tighter bounds on the remaining ones,
//! then the embeddings of the few that can be hits.

use std::collections::VecDeque;

use half::f16;

use super::candidates::RowCandidates;
use super::damage::scan_failed;
use crate::codes::{
    BLOCK_ROWS, CODE_WIDTH, CodeScan, CodedQuery, Near, Rotation, StoredCodes, split_supplement,
};
use crate::error::Result;
use crate::ids::Row;
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};
use crate::scan::{Kernel, Scanner, TopK};
use crate::store::View;

/// Shortest run of rows whose codes are read: a block of codes costs as much as a few embeddings.
const FEWEST_CODED: usize = 4;
/// Number of candidates collected before a rerank: the minimum, and the number for each hit. They come from
/// the most probable leaves, whose best rows are nearly the best of all, so few rows of other leaves become
/// candidates.
const FEWEST_CANDIDATES: usize = 64;
const CANDIDATES_PER_HIT: usize = 16;
/// As [`CODE_WIDTH`], for bounds with a row's supplement.
const TIGHT_WIDTH: f32 = 3.2;
/// Number of candidates per hit whose bounds are tightened first, until a k-th best score exists to compare
/// bounds with; the embeddings of the best of these, one per hit, are read.
const FIRST_PER_HIT: usize = 4;
/// Most bytes of codes that are prefetched, a part of the nearest cache.
const BYTES_AHEAD: usize = 16 << 10;
/// Most candidates that memory is reserved for in advance.
const MOST_RESERVED: usize = 512;
/// Candidates between two comparisons with the k-th best score.
const ROWS_PER_ROUND: usize = 32;

/// The sign of an f32.
const SIGN: u32 = 1 << 31;

/// A row that can be a hit according to its code.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    row: Row,
    /// The product of the query with the code's signs.
    signs: f32,
    /// The query relative to the mean of the row.
    near: Near,
}

/// The position of a waiting row and an upper bound on its score, packed into one integer. Integers order by
/// falling bound, then by rising position, and are sorted much faster than pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(u64);

impl Candidate {
    /// NaN counts as infinity.
    #[inline(always)]
    fn new(bound: f32, place: u32) -> Self {
        // Makes both zeros equal.
        let bits = if bound.is_nan() { f32::INFINITY.to_bits() } else { (bound + 0.0).to_bits() };
        // Maps scores to unsigned integers in the same order: flips the sign, and all other bits if it is
        // set.
        let rising = bits ^ (((bits as i32 >> 31) as u32) | SIGN);
        Self(u64::from(!rising) << 32 | u64::from(place))
    }

    fn place(self) -> u32 {
        self.0 as u32
    }

    /// Whether the score may be as high as `threshold`.
    fn reaches(self, threshold: f32) -> bool {
        self <= Self::new(threshold, u32::MAX)
    }
}

/// Candidates with codes relative to one mean.
pub(super) struct CodedRows<'a> {
    rows: &'a RowCandidates<'a>,
    /// The first of them, counted from the first of these rows.
    first: usize,
    codes: StoredCodes<'a>,
}

impl CodedRows<'_> {
    /// The candidates in a block, one bit for each place; they may include dead rows.
    fn selected(&self, block: usize) -> u32 {
        // The rows before the block, or the places before the first row.
        let (before, skipped) = match block {
            0 => (0, self.codes.first),
            _ => (block * BLOCK_ROWS - self.codes.first, 0),
        };
        let count = (BLOCK_ROWS - skipped).min(self.codes.rows - before);
        (self.rows.selected(self.first + before) & ((1 << count) - 1)) << skipped
    }

    /// What is read of them first, as far as that is known.
    fn first_bytes(&self) -> &[u8] {
        let blocks = self.codes.blocks;
        if self.rows.are_all() { &blocks[..blocks.len().min(BYTES_AHEAD)] } else { &[] }
    }

    /// The row at a place that has one.
    fn row(&self, block: usize, place: usize) -> Row {
        let at = self.first + block * BLOCK_ROWS + place - self.codes.first;
        Row(self.rows.run().first_row().0 + at as u32)
    }
}

/// Candidates of one query with upper bounds on their scores.
pub(super) struct CodeFilter<'a> {
    rotation: &'a Rotation,
    /// Created on first use.
    query: Option<CodedQuery>,
    /// Includes dead rows.
    waiting: Vec<Waiting>,
    /// The waiting rows, by their bounds.
    candidates: Vec<Candidate>,
    /// The mean that the query was compared with last: all small leaves of a segment share one mean.
    last: Option<(*const [f16], Near)>,
    /// A minimum score that a row needs in addition to being among the best here.
    floor: f32,
}

impl<'a> CodeFilter<'a> {
    /// For a search with `documents` candidates.
    pub fn new(rotation: &'a Rotation, documents: usize) -> Self {
        let most = documents.min(MOST_RESERVED);
        Self {
            rotation,
            query: None,
            waiting: Vec::with_capacity(most),
            candidates: Vec::with_capacity(most),
            last: None,
            floor: f32::NEG_INFINITY,
        }
    }

    /// Compares bounds with the current k-th best score of `top` from the start.
    pub fn above(self, top: &TopK) -> Self {
        Self { floor: threshold(top), ..self }
    }

    /// Adds the codes of rows; returns whether they have any, and are enough for codes to pay.
    ///
    /// # Errors
    /// Damage of the pages that hold them.
    pub fn put_codes<'r>(rows: &'r RowCandidates<'_>, out: &mut Vec<CodedRows<'r>>) -> Result<bool> {
        let run = rows.run();
        if run.len() < FEWEST_CODED {
            return Ok(false);
        }
        let mut first = 0;
        Ok(run.put_codes(&mut |codes| {
            out.push(CodedRows { rows, first, codes });
            first += codes.rows;
        })?)
    }

    /// Scores rows into `top`: by their embeddings those whose bounds reach the k-th best score. Returns the
    /// number of embeddings read.
    ///
    /// # Errors
    /// Damage of the data read.
    pub fn score(
        &mut self,
        coded: &[CodedRows<'_>],
        view: &View,
        scanner: &Scanner<'_>,
        top: &mut TopK,
    ) -> Result<usize> {
        let mut read = 0;
        let mut next = coded.iter();
        prefetch_first(next.next().map_or(&[], |first| first.codes.mean), usize::MAX);
        for own in coded {
            self.add(own, next.next(), scanner, top);
            if self.is_full(top.k()) {
                read += self.rerank(view, scanner, top)?;
            }
        }
        Ok(read + self.rerank(view, scanner, top)?)
    }

    /// Adds the rows whose bounds reach the k-th best score, and prefetches those after them.
    fn add(&mut self, own: &CodedRows<'_>, next: Option<&CodedRows<'_>>, scanner: &Scanner<'_>, top: &TopK) {
        let query = self.query.get_or_insert_with(|| CodedQuery::new(self.rotation, scanner.query));
        let mean = own.codes.mean;
        let near = match self.last {
            Some((last, near)) if std::ptr::eq(mean, last) => near,
            _ => query.near(scanner.score(mean)),
        };
        self.last = Some((std::ptr::from_ref(mean), near));
        prefetch_first(next.map_or(&[], |next| next.codes.mean), usize::MAX);
        let mut next = next.map_or(&[][..], CodedRows::first_bytes);
        let (width, threshold) = (CODE_WIDTH, threshold(top).max(self.floor));
        let (waiting, candidates) = (&mut self.waiting, &mut self.candidates);
        let bytes = query.block_bytes();
        let end = own.codes.blocks.len() / bytes;
        let mut start = 0;
        while start < end {
            // Blocks without candidates are left out.
            let is_wanted = |block: &usize| own.selected(*block) != 0;
            start = (start..end).find(is_wanted).unwrap_or(end);
            let stop = (start..end).find(|block| !is_wanted(block)).unwrap_or(end);
            let blocks = &own.codes.blocks[start * bytes..stop * bytes];
            let next = std::mem::take(&mut next);
            let scan = CodeScan { query, blocks, near, width, threshold, next };
            scanner.kernel.scan_codes(scan, &mut |found| {
                let block = start + found.block;
                let mut reach = found.reach & own.selected(block);
                while reach != 0 {
                    let place = reach.trailing_zeros() as usize;
                    candidates.push(Candidate::new(found.bounds[place], waiting.len() as u32));
                    let (row, signs) = (own.row(block, place), query.product(found.sums[place]));
                    waiting.push(Waiting { row, signs, near });
                    reach &= reach - 1;
                }
            });
            start = stop;
        }
    }

    /// Whether there are enough candidates for a rerank.
    fn is_full(&self, k: usize) -> bool {
        self.candidates.len() >= FEWEST_CANDIDATES.max(CANDIDATES_PER_HIT.saturating_mul(k))
    }

    /// Scores candidates by their embeddings, in order of falling bounds, if their tight bounds also reach
    /// the k-th best score, until no bound reaches it. Returns the number of embeddings read.
    fn rerank(&mut self, view: &View, scanner: &Scanner<'_>, top: &mut TopK) -> Result<usize> {
        let Self { query, waiting, candidates, floor, .. } = self;
        let Some(query) = query else { return Ok(0) };
        let mut survivors = Survivors {
            query,
            waiting,
            view,
            tight: Vec::with_capacity(2 * ROWS_PER_ROUND),
            records: VecDeque::with_capacity(2 * ROWS_PER_ROUND),
            embeddings: Vec::with_capacity(ROWS_PER_ROUND),
        };
        let needed = |top: &TopK| threshold(top).max(*floor);
        let mut read = 0;
        let first = FIRST_PER_HIT.saturating_mul(top.k());
        if needed(top) == f32::NEG_INFINITY && first < candidates.len() {
            candidates.select_nth_unstable(first);
            survivors.fetch(&candidates[..first])?;
            survivors.tighten(&candidates[..first], scanner.kernel);
            read += survivors.score(top.k(), f32::NEG_INFINITY, scanner, top)?;
            read += survivors.score(usize::MAX, needed(top), scanner, top)?;
            survivors.tight.clear();
            candidates.drain(..first);
        }
        let reached = needed(top);
        candidates.retain(|candidate| candidate.reaches(reached));
        candidates.sort_unstable();
        let mut rounds = candidates.chunks(ROWS_PER_ROUND).peekable();
        survivors.fetch(rounds.peek().copied().unwrap_or_default())?;
        while let Some(round) = rounds.next() {
            survivors.fetch(rounds.peek().copied().unwrap_or_default())?;
            // The threshold only rises.
            let reached = needed(top);
            let within = round.partition_point(|candidate| candidate.reaches(reached));
            survivors.tighten(&round[..within], scanner.kernel);
            read += survivors.score(usize::MAX, reached, scanner, top)?;
            survivors.tight.clear();
            if within < round.len() {
                break;
            }
        }
        candidates.clear();
        waiting.clear();
        Ok(read)
    }
}

/// Rows that can be hits by their codes, and those that still can by their supplements.
struct Survivors<'a> {
    query: &'a CodedQuery,
    waiting: &'a [Waiting],
    view: &'a View,
    /// With tight bounds.
    tight: Vec<Candidate>,
    /// Prefetched supplements of candidates.
    records: VecDeque<Option<&'a [u8]>>,
    embeddings: Vec<(Row, &'a [f16])>,
}

impl Survivors<'_> {
    /// Prefetches the supplements of candidates for [`Self::tighten`].
    fn fetch(&mut self, candidates: &[Candidate]) -> Result<()> {
        for candidate in candidates {
            let record = self.view.supplement(self.waiting[candidate.place() as usize].row)?;
            prefetch_first(record.unwrap_or_default(), usize::MAX);
            self.records.push_back(record);
        }
        Ok(())
    }

    /// Adds candidates, the next prefetched ones, with bounds tightened by their supplements; dead rows are
    /// dropped. A candidate without a supplement keeps its bound.
    fn tighten(&mut self, candidates: &[Candidate], kernel: Kernel) {
        for &candidate in candidates {
            let Waiting { row, signs, near } = self.waiting[candidate.place() as usize];
            let record = self.records.pop_front().flatten();
            if !self.view.is_live(row) {
                continue;
            }
            self.tight.push(record.map_or(candidate, |record| {
                let (bits, numbers) = split_supplement(record);
                let (query, levels) = (self.query, kernel.code_levels(self.query, bits));
                let bound = query.tight_bound(signs, levels, near, TIGHT_WIDTH, numbers);
                Candidate::new(bound, candidate.place())
            }));
        }
    }

    /// Scores by their embeddings at most `most` rows, the best by tight bounds, if they reach a threshold;
    /// the others stay. Returns the number of embeddings read.
    fn score(&mut self, most: usize, threshold: f32, scanner: &Scanner<'_>, top: &mut TopK) -> Result<usize> {
        self.tight.sort_unstable();
        let count = self.tight.partition_point(|candidate| candidate.reaches(threshold)).min(most);
        self.embeddings.clear();
        for candidate in self.tight.drain(..count) {
            let row = self.waiting[candidate.place() as usize].row;
            let embedding = self.view.embedding(row)?;
            prefetch_first(embedding, embedding.len());
            self.embeddings.push((row, embedding));
        }
        scanner.scan(self.embeddings.iter().copied(), top).map_err(scan_failed)?;
        Ok(count)
    }
}

/// Prefetches the first of some values.
fn prefetch_first<T>(values: &[T], most: usize) {
    let values = &values[..values.len().min(most)];
    values.chunks(CACHE_LINE_BYTES / size_of::<T>()).for_each(|line| prefetch(line.as_ptr()));
}

/// The k-th best score; negative infinity while there are fewer. A sum that overflows is NaN, and is ignored.
fn threshold(top: &TopK) -> f32 {
    top.threshold().filter(|threshold| !threshold.is_nan()).unwrap_or(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::ids::{LeafId, ModelHash};
    use crate::scan::Similarity;
    use crate::store::{Put, Store, StoreConfig, StoreOptions, WriteBatch};

    #[test]
    fn codes_find_the_best_rows() {
        const DIM: usize = 70;
        const K: usize = 3;
        let dir = tempfile::tempdir().unwrap();
        let config = StoreConfig {
            dim: DIM as u32,
            branching_factor: 4,
            height: 2,
            similarity: Similarity::DotProduct.code(),
            model_hash: ModelHash([3; 32]),
            terms: 0,
            passages: None,
            expires: None,
        };
        let store = Store::create(dir.path(), &config, StoreOptions::default()).unwrap();
        let put = |n: u32| {
            let embedding = (0..DIM as u32).map(|i| f16::from_f32(((i * 7 + n * 13) % 29) as f32 - 14.5));
            // One leaf has most of the rows, and so its own mean.
            let leaf = LeafId(if n.is_multiple_of(5) { n % 16 } else { 7 });
            Put::whole(Document::new(format!("d{n:03}"), "", "text"), embedding.collect(), leaf)
        };
        store.commit(WriteBatch { puts: (0..100).map(put).collect(), deletes: Vec::new() }).unwrap();
        store.flush().unwrap();
        let view = store.read();
        let rotation = Rotation::new(DIM);
        let (mut same, mut read, queries) = (0, 0, 40);
        for n in 0..queries {
            let query: Vec<f32> = (0..DIM).map(|i| ((i * i + n * 31) % 23) as f32 - 11.0).collect();
            let scanner = Scanner::new(Similarity::DotProduct, &query).unwrap();
            let (mut exact, mut top) = (TopK::new(K), TopK::new(K));
            let all: Vec<RowCandidates<'_>> = view.parts().into_iter().map(RowCandidates::all).collect();
            let mut coded = Vec::new();
            for rows in &all {
                let mut embeddings = Vec::new();
                rows.push_to(&mut embeddings).unwrap();
                scanner.scan(embeddings, &mut exact).unwrap();
                assert!(CodeFilter::put_codes(rows, &mut coded).unwrap());
            }
            read += CodeFilter::new(&rotation, 100).score(&coded, &view, &scanner, &mut top).unwrap();
            let scores = |top: TopK| top.into_sorted().into_iter().map(|(score, _)| score).collect();
            let (exact, found): (Vec<f32>, Vec<f32>) = (scores(exact), scores(top));
            same += usize::from(exact == found);
        }
        assert!(same * 20 >= queries * 19, "{same} of {queries}");
        // In few dimensions, bounds are wide.
        assert!(read * 2 < queries * view.rows(), "{read}");
    }

    #[test]
    fn rows_wait_in_the_order_of_their_bounds() {
        let bounds = [f32::INFINITY, 3.5, 1.0, 1e-30, 0.0, -1e-30, -2.0, f32::NEG_INFINITY];
        for (i, &high) in bounds.iter().enumerate() {
            let row = Candidate::new(high, 7);
            assert_eq!(row.place(), 7);
            assert!(row < Candidate::new(high, 8) && row.reaches(high));
            for &low in &bounds[i + 1..] {
                assert!(row < Candidate::new(low, 3), "{high} {low}");
                assert!(row.reaches(low) && !Candidate::new(low, 3).reaches(high), "{high} {low}");
            }
        }
        assert_eq!(Candidate::new(-0.0, 1), Candidate::new(0.0, 1));
        assert_eq!(Candidate::new(f32::NAN, u32::MAX), Candidate::new(f32::INFINITY, u32::MAX));
    }
}
