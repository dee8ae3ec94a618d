//! The one loop that every fast kernel runs, over vectors of any width.

use half::f16;

use super::BLOCK_ROWS;
use crate::prefetch::{CACHE_LINE_BYTES, predicts_next_page, prefetch};

/// Widest vector of any kernel, in values.
const MAX_WIDTH: usize = 16;

/// Independent sums per row, enough to hide the latency of an addition.
const UNROLL: usize = 4;

/// How far ahead rows that lie elsewhere are prefetched, in rows.
const PREFETCH_ROWS: usize = 4;

/// How far ahead consecutive rows are prefetched, if at all, in values.
const PREFETCH_VALUES: usize = 3 << 10;

/// Vector arithmetic of one instruction set.
///
/// A value proves that the processor has the instructions. Every method must be `#[inline(always)]`, so that
/// it is compiled with the features of its caller.
pub(super) trait Lanes: Copy {
    type Vector: Copy;
    /// Values per vector: at most [`MAX_WIDTH`].
    const WIDTH: usize;

    /// Loads `WIDTH` values; panics if `values` has fewer.
    fn load(self, values: &[f32]) -> Self::Vector;
    /// Loads and widens `WIDTH` values; panics if `values` has fewer.
    fn widen(self, values: &[f16]) -> Self::Vector;
    /// `a * b + sum`, rounded once.
    fn multiply_add(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// `|a - b| + sum`.
    fn distance_add(self, a: Self::Vector, b: Self::Vector, sum: Self::Vector) -> Self::Vector;
    /// The sum of the values of one vector.
    fn total(self, vector: Self::Vector) -> f32;
}

/// What a pair of values adds to its row's sum; 0 for a pair of zeros.
pub(super) trait Term {
    fn scalar(row: f32, query: f32) -> f32;
    fn add<L: Lanes>(lanes: L, row: L::Vector, query: L::Vector, sum: L::Vector) -> L::Vector;
}

/// Terms of the dot product.
pub(super) struct Product;

impl Term for Product {
    #[inline(always)]
    fn scalar(row: f32, query: f32) -> f32 {
        row * query
    }

    #[inline(always)]
    fn add<L: Lanes>(lanes: L, row: L::Vector, query: L::Vector, sum: L::Vector) -> L::Vector {
        lanes.multiply_add(row, query, sum)
    }
}

/// Terms of the L1 distance.
pub(super) struct AbsoluteDifference;

impl Term for AbsoluteDifference {
    #[inline(always)]
    fn scalar(row: f32, query: f32) -> f32 {
        (row - query).abs()
    }

    #[inline(always)]
    fn add<L: Lanes>(lanes: L, row: L::Vector, query: L::Vector, sum: L::Vector) -> L::Vector {
        lanes.distance_add(row, query, sum)
    }
}

/// Prefetches a row, or as many values so far behind it.
#[inline(always)]
fn prefetch_row(row: &[f16], behind: usize) {
    let lines = row.chunks(CACHE_LINE_BYTES / size_of::<f16>());
    lines.for_each(|line| prefetch(line.as_ptr().wrapping_add(behind)));
}

/// The sum of the terms of each row with `query`.
#[inline(always)]
pub(super) fn sums<L: Lanes, T: Term>(lanes: L, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
    let apart = |pair: &[&[f16]]| pair[0].as_ptr_range().end != pair[1].as_ptr();
    let start = &rows[..rows.len().min(PREFETCH_ROWS)];
    start.windows(2).filter(|pair| apart(pair)).for_each(|pair| prefetch_row(pair[1], 0));
    // Behind a whole block, the rows may go on.
    let go_on = if rows.len() >= BLOCK_ROWS { usize::MAX } else { rows.len() };
    let consecutive_until = match predicts_next_page() {
        true => 0,
        false => go_on.saturating_sub(PREFETCH_VALUES.div_ceil(query.len().max(1))),
    };
    for (i, (row, out)) in rows.iter().zip(sums).enumerate() {
        // Most processors predict consecutive rows, and explicit prefetches slow that down; for rows
        // elsewhere, they double the speed.
        if let Some(pair) = rows.get(i + PREFETCH_ROWS - 1..=i + PREFETCH_ROWS)
            && apart(pair)
        {
            prefetch_row(pair[1], 0);
        } else if i < consecutive_until {
            prefetch_row(row, PREFETCH_VALUES);
        }
        *out = sum::<L, T>(lanes, query, row);
    }
}

#[inline(always)]
fn sum<L: Lanes, T: Term>(lanes: L, query: &[f32], row: &[f16]) -> f32 {
    let width = L::WIDTH;
    let mut partial = [lanes.load(&[0.0; MAX_WIDTH]); UNROLL];

    let mut row_chunks = row.chunks_exact(UNROLL * width);
    let mut query_chunks = query.chunks_exact(UNROLL * width);
    for (x, y) in row_chunks.by_ref().zip(query_chunks.by_ref()) {
        for (i, sum) in partial.iter_mut().enumerate() {
            let at = i * width..(i + 1) * width;
            *sum = T::add(lanes, lanes.widen(&x[at.clone()]), lanes.load(&y[at]), *sum);
        }
    }

    let mut row_chunks = row_chunks.remainder().chunks_exact(width);
    let mut query_chunks = query_chunks.remainder().chunks_exact(width);
    for (x, y) in row_chunks.by_ref().zip(query_chunks.by_ref()) {
        partial[0] = T::add(lanes, lanes.widen(x), lanes.load(y), partial[0]);
    }

    let (x, y) = (row_chunks.remainder(), query_chunks.remainder());
    if !x.is_empty() {
        // A pair of zeros adds nothing, so a padded vector gives the same result as a short one.
        let mut padded_row = [f16::ZERO; MAX_WIDTH];
        let mut padded_query = [0.0; MAX_WIDTH];
        padded_row[..x.len()].copy_from_slice(x);
        padded_query[..y.len()].copy_from_slice(y);
        partial[1] = T::add(lanes, lanes.widen(&padded_row), lanes.load(&padded_query), partial[1]);
    }

    let [a, b, c, d] = partial;
    // Multiplied by 1, which is exact.
    let add = |a, b| lanes.multiply_add(a, lanes.load(&[1.0; MAX_WIDTH]), b);
    lanes.total(add(add(a, b), add(c, d)))
}
