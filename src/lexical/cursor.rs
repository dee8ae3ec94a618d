//! A position in a posting list, with bounds on what lies ahead.

use super::bm25::{self, Norms};
use super::list::EncodedList;
use super::{BLOCK, END, Posting, Undecodable};

/// A posting list, in bytes or in memory.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// From a sealed file.
    Encoded(EncodedList<'a>),
    /// Of rows in memory; ascending.
    Plain(&'a [Posting]),
}

impl List<'_> {
    /// Number of postings.
    pub fn len(&self) -> usize {
        match self {
            Self::Encoded(list) => list.len(),
            Self::Plain(postings) => postings.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Data shared by the cursors of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowNorms<'a> {
    /// By row.
    pub lengths: &'a [u32],
    pub norms: &'a Norms,
    /// A lower bound on `lengths`.
    pub shortest: u32,
}

impl<'a> RowNorms<'a> {
    /// The part for these lists: the shortest length is computed only if a plain list needs it.
    pub fn new<'l>(lengths: &'a [u32], norms: &'a Norms, mut lists: impl Iterator<Item = List<'l>>) -> Self {
        let plain = lists.any(|list| matches!(list, List::Plain([_, ..])));
        let shortest = if plain { lengths.iter().copied().min() } else { None };
        Self { lengths, norms, shortest: shortest.unwrap_or(0) }
    }

    #[inline(always)]
    pub fn norm(&self, row: u32) -> f32 {
        self.norms.of(self.lengths.get(row as usize).copied().unwrap_or(0))
    }
}

/// A forward-only position in a list.
///
/// The list is treated as blocks of 128 postings; the last block has the remainder. The rows of the current
/// block are decoded, its counts on first use.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    list: List<'a>,
    part: RowNorms<'a>,
    weight: f32,
    /// Number of blocks of the list.
    blocks: usize,
    /// The block in `rows`; equals `blocks` after the last one.
    block: usize,
    place: usize,
    /// [`END`] after the last posting.
    row: u32,
    /// Padded with [`END`].
    rows: [u32; BLOCK],
    counts: [u32; BLOCK],
    counted: bool,
    /// A block at or ahead of `block`, for bounds.
    shallow: usize,
    /// The block whose bound was requested last, and the bound.
    bounded: (usize, f32),
    /// The postings after the whole blocks of an encoded list.
    rest: ([u32; BLOCK], [u32; BLOCK]),
    rest_last: u32,
    rest_ratio: f32,
}

impl<'a> Cursor<'a> {
    /// At the first posting of a list of the part with these lengths; `weight` is used for the bounds.
    ///
    /// # Errors
    /// [`Undecodable`], here and in every method that moves: also if a row is outside the part.
    #[cfg(test)]
    pub fn open(
        list: List<'a>,
        weight: f32,
        lengths: &'a [u32],
        norms: &'a Norms,
    ) -> Result<Self, Undecodable> {
        Self::new(list, weight, RowNorms::new(lengths, norms, [list].into_iter()))
    }

    pub(super) fn new(list: List<'a>, weight: f32, part: RowNorms<'a>) -> Result<Self, Undecodable> {
        let mut cursor = Self {
            list,
            part,
            weight: bm25::usable(weight),
            blocks: list.len().div_ceil(BLOCK),
            block: 0,
            place: 0,
            row: END,
            rows: [END; BLOCK],
            counts: [0; BLOCK],
            counted: true,
            shallow: 0,
            bounded: (usize::MAX, 0.0),
            rest: ([END; BLOCK], [1; BLOCK]),
            rest_last: 0,
            rest_ratio: f32::INFINITY,
        };
        if let List::Encoded(list) = list {
            let mut place = 0;
            list.rest(|posting| {
                (cursor.rest.0[place], cursor.rest.1[place]) = (posting.row, posting.count);
                cursor.rest_last = posting.row;
                cursor.rest_ratio = cursor.rest_ratio.min(part.norm(posting.row) / posting.count as f32);
                place += 1;
            })?;
        }
        cursor.load(0)?;
        Ok(cursor)
    }

    /// The current row; [`END`] after the last posting.
    #[inline(always)]
    pub fn row(&self) -> u32 {
        self.row
    }

    /// How often the current row contains the term; meaningless after the last posting.
    #[inline(always)]
    pub fn count(&mut self) -> u32 {
        self.read_counts();
        self.counts[self.place]
    }

    /// The score of the term in the current row.
    #[inline(always)]
    pub(super) fn score(&mut self) -> f32 {
        let count = self.count();
        bm25::score(self.weight, count, self.part.norm(self.row))
    }

    /// Moves to the next posting.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<(), Undecodable> {
        self.place += 1;
        match self.rows.get(self.place) {
            Some(&row) if row != END => self.row = row,
            _ => self.load(self.block + 1)?,
        }
        Ok(())
    }

    /// Moves to the first posting from here whose row is at least `row`; blocks in between are not decoded.
    #[inline(always)]
    pub fn seek(&mut self, row: u32) -> Result<(), Undecodable> {
        if row <= self.row {
            return Ok(());
        }
        if self.block < self.blocks && row > self.last(self.block) {
            let block = self.block_of(self.block + 1, row);
            self.load(block)?;
            if self.row >= row {
                return Ok(());
            }
        }
        self.place = below(&self.rows, row);
        // The last row of a block is at least `row` here, so one exists.
        self.row = self.rows.get(self.place).copied().unwrap_or(END);
        Ok(())
    }

    /// The last row of the block that may contain `row`; moves ahead for bounds without decoding. [`END`] if
    /// no posting is left.
    pub fn block_last_row(&mut self, row: u32) -> u32 {
        self.shallow = self.block_of(self.shallow.max(self.block), row);
        if self.shallow < self.blocks { self.last(self.shallow) } else { END }
    }

    /// Upper bound on scores in the block found by [`Self::block_last_row`]; 0 if there is none.
    #[inline(always)]
    pub fn block_bound(&mut self) -> f32 {
        if self.shallow >= self.blocks {
            return 0.0;
        }
        if self.bounded.0 != self.shallow {
            self.bounded = (self.shallow, bm25::saturate(self.weight, self.ratio(self.shallow)));
        }
        self.bounded.1
    }

    /// Upper bound on the score of this row, which must not be below the current one; not useful for a row in
    /// the decoded block.
    #[inline(always)]
    pub(super) fn bound_at(&mut self, row: u32) -> f32 {
        if self.block < self.blocks && row <= self.last(self.block) {
            return self.weight;
        }
        self.block_last_row(row);
        self.block_bound()
    }

    /// Upper bound on scores in this range of rows; 0 if it has no postings. `start` never decreases from
    /// call to call.
    pub(super) fn bound_within(&mut self, start: u32, end: u32) -> Result<f32, Undecodable> {
        let last = self.block_last_row(start);
        if last >= end {
            // If a block spans the window, it is worth checking whether any row is in it.
            self.seek(start)?;
            if self.row >= end {
                return Ok(0.0);
            }
        }
        let mut least = f32::INFINITY;
        for block in self.shallow..self.blocks {
            least = least.min(self.ratio(block));
            if self.last(block).saturating_add(1) >= end {
                break;
            }
        }
        Ok(bm25::saturate(self.weight, least))
    }

    /// Upper bound on the number of postings in rows below `end`, from the rows whose bounds were last
    /// requested.
    pub(super) fn at_most_within(&self, end: u32) -> usize {
        (self.block_of(self.shallow, end.saturating_sub(1)) + 1 - self.shallow) * BLOCK
    }

    /// Upper bound on all scores of the list; examines every block's bounds.
    #[cfg(test)]
    pub fn max_bound(&self) -> f32 {
        let least = (0..self.blocks).fold(f32::INFINITY, |least, block| least.min(self.ratio(block)));
        bm25::saturate(self.weight, least)
    }

    /// Number of postings of the list.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Passes the remaining postings in rows below `end` to `take`, block by block, as rows and scores;
    /// leaves out blocks that `skip` rejects by their bounds.
    #[inline(always)]
    pub(super) fn take_until(
        &mut self,
        end: u32,
        skip: impl Fn(f32) -> bool,
        mut take: impl FnMut(&[u32], &[f32]),
    ) -> Result<(), Undecodable> {
        let mut scores = [0.0; BLOCK];
        while self.row < end {
            let last = self.last(self.block);
            if skip(bm25::saturate(self.weight, self.ratio(self.block))) {
                // The part of the block after `end` may be needed later.
                self.seek(end.min(last + 1))?;
                continue;
            }
            self.read_counts();
            let to = if last < end { BLOCK } else { below(&self.rows, end) };
            let to = to.min(self.block_len());
            let rows = self.rows.get(self.place..to).unwrap_or(&[]);
            let counts = self.counts.get(self.place..to).unwrap_or(&[]);
            let scores = &mut scores[..rows.len()];
            for (norm, &row) in scores.iter_mut().zip(rows) {
                *norm = self.part.norm(row);
            }
            for (score, &count) in scores.iter_mut().zip(counts) {
                *score = bm25::score(self.weight, count, *score);
            }
            take(rows, scores);
            if last < end {
                self.load(self.block + 1)?;
            } else {
                self.place = to;
                self.row = self.rows.get(to).copied().unwrap_or(END);
            }
        }
        Ok(())
    }

    /// The first block at or after `first` that may contain a row.
    fn block_of(&self, first: usize, row: u32) -> usize {
        let (mut low, mut step) = (first, 1);
        while low < self.blocks && self.last(low) < row {
            // All blocks up to `low` end before the row.
            let next = low.saturating_add(step);
            if next >= self.blocks || self.last(next) >= row {
                let (mut from, mut to) = (low + 1, next.min(self.blocks));
                while from < to {
                    let middle = from + (to - from) / 2;
                    if self.last(middle) < row { from = middle + 1 } else { to = middle }
                }
                return from;
            }
            (low, step) = (next, step * 2);
        }
        low
    }

    fn block_len(&self) -> usize {
        self.list.len().saturating_sub(self.block * BLOCK).min(BLOCK)
    }

    /// The last row of an existing block.
    #[inline(always)]
    fn last(&self, block: usize) -> u32 {
        match self.list {
            List::Encoded(list) if block < list.whole() => list.last(block),
            List::Encoded(_) => self.rest_last,
            List::Plain(postings) => postings[(block * BLOCK + BLOCK - 1).min(postings.len() - 1)].row,
        }
    }

    /// Lower bound on the ratio of norm and count in an existing block.
    #[inline(always)]
    fn ratio(&self, block: usize) -> f32 {
        match self.list {
            List::Encoded(list) if block < list.whole() => self.part.norms.least_ratio(list.pairs(block)),
            List::Encoded(_) => self.rest_ratio,
            List::Plain(postings) => {
                let block = postings[block * BLOCK..].iter().take(BLOCK);
                let count = block.map(|posting| posting.count).max().unwrap_or(1);
                self.part.norms.of(self.part.shortest) / count as f32
            }
        }
    }

    /// Moves to the start of a block.
    fn load(&mut self, block: usize) -> Result<(), Undecodable> {
        (self.block, self.place) = (block, 0);
        if block >= self.blocks {
            (self.block, self.row) = (self.blocks, END);
            return Ok(());
        }
        match self.list {
            List::Encoded(list) if block < list.whole() => {
                list.rows(block, &mut self.rows)?;
                self.counted = false;
            }
            List::Encoded(_) => {
                (self.rows, self.counts) = self.rest;
                self.counted = true;
            }
            List::Plain(postings) => {
                self.rows = [END; BLOCK];
                let block = postings[block * BLOCK..].iter().take(BLOCK);
                for ((row, count), posting) in self.rows.iter_mut().zip(&mut self.counts).zip(block) {
                    (*row, *count) = (posting.row, posting.count);
                }
                self.counted = true;
            }
        }
        self.row = self.rows[0];
        if self.last(block) as usize >= self.part.lengths.len() {
            return Err(Undecodable);
        }
        Ok(())
    }

    #[inline(always)]
    fn read_counts(&mut self) {
        if !self.counted {
            if let List::Encoded(list) = self.list {
                list.counts(self.block, &mut self.counts);
            }
            self.counted = true;
        }
    }
}

/// The number of ascending rows below `row`, without branches.
#[inline(always)]
fn below(rows: &[u32; BLOCK], row: u32) -> usize {
    let mut low = 0;
    for step in [64, 32, 16, 8, 4, 2, 1] {
        low += if rows[(low + step - 1) & (BLOCK - 1)] < row { step } else { 0 };
    }
    low + usize::from(rows[low & (BLOCK - 1)] < row)
}
