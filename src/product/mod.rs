//! Dot products of rows with packed rows: the kernel beneath clustering and the encoder.
//!
//! One side is packed into [`Panels`] once and kept; the other is read as it lies. Every product is one
//! chain of additions along the dimensions, so its value depends on neither the tiling nor the number of threads.

#[expect(unsafe_code, reason = "loads without checks, in the innermost loop")]
mod block;
pub(crate) mod bytes;

pub(crate) use block::{BLOCK_ROWS, Block, NO_BIAS, NO_PRODUCTS, PAD, PANEL, put};

use rayon::prelude::*;

use crate::prefetch::CACHE_LINE_BYTES;

/// A set of rows packed for products with many others.
#[derive(Debug)]
pub(crate) struct Panels {
    /// From `start` on `[panel, dim, PANEL]`: the value of `PANEL` rows in one dimension lie together;
    /// the last panel is padded with zeros.
    values: Vec<f32>,
    /// Where a cache line begins, so that no vector lies in two.
    start: usize,
    rows: usize,
    dim: usize,
}

impl Panels {
    /// Packs `rows` (`[n, dim]` f32, row-major), in parallel; as large as the rows themselves.
    ///
    /// # Panics
    /// If `rows` is ragged or `dim` is 0.
    pub fn pack(rows: &[f32], dim: usize) -> Self {
        let n = count(rows, dim);
        let (mut values, start) = lines(n.div_ceil(PANEL) * dim * PANEL);
        values[start..]
            .par_chunks_mut(dim * PANEL)
            .zip(rows.par_chunks(dim * PANEL))
            .for_each(|(panel, rows)| interleave(rows, dim, dim, panel));
        Self { values, start, rows: n, dim }
    }

    /// Values in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of packed rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The panels with the number of their first row and of their rows.
    pub fn panels(&self) -> impl Iterator<Item = Panel<'_>> {
        let panels = self.values[self.start..].chunks_exact(self.dim * PANEL);
        panels.zip((0..self.rows).step_by(PANEL)).map(|(values, first)| Panel {
            first,
            rows: PANEL.min(self.rows - first),
            values,
        })
    }
}

/// Up to [`PANEL`] packed rows, `[dim, PANEL]`.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// Number of the first.
    pub first: usize,
    pub rows: usize,
    pub values: &'a [f32],
}

/// Room for `count` zeros, and where in it a cache line begins.
fn lines<T: Clone + Default>(count: usize) -> (Vec<T>, usize) {
    let spare = CACHE_LINE_BYTES / size_of::<T>();
    let values = vec![T::default(); count + spare];
    let start = values.as_ptr().align_offset(CACHE_LINE_BYTES).min(spare);
    (values, start)
}

/// Number of rows of width `dim`.
///
/// # Panics
/// If `rows` is ragged or `dim` is 0.
pub(crate) fn count(rows: &[f32], dim: usize) -> usize {
    assert!(dim > 0, "rows need at least one dimension");
    assert!(rows.len().is_multiple_of(dim), "{} values are no rows of {dim}", rows.len());
    rows.len() / dim
}

/// Writes up to [`PANEL`] rows, `stride` values from one to the next, into a panel (`[dim, PANEL]`).
#[inline(always)]
pub(crate) fn interleave(rows: &[f32], stride: usize, dim: usize, panel: &mut [f32]) {
    for (column, row) in rows.chunks(stride).take(PANEL).enumerate() {
        for (values, &value) in panel.chunks_exact_mut(PANEL).zip(&row[..dim]) {
            values[column] = value;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
