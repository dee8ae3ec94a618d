//! Dot products of all pairs of two sets of rows, and the nearest of one set, in parallel.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::product::{BLOCK_ROWS, Block, NO_BIAS, NO_PRODUCTS, PANEL, count};

pub(crate) use crate::product::Panels;

/// Streamed rows per task; together with one panel they fit the second-level cache.
const TASK_ROWS: usize = 128;

/// The most similar packed row for each streamed row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Nearest {
    /// Position of the packed row, the lowest among equals; 0 if every product is NaN.
    pub assignments: Vec<u32>,
    /// Its dot product; negative infinity if every product is NaN.
    pub similarities: Vec<f32>,
}

/// The most similar of `centroids` for each of `rows`, by dot product.
///
/// # Shapes
/// `rows` `[n, dim]`, `centroids` `[k, dim]`, f32, row-major; k at least 1.
///
/// # Panics
/// If a shape is ragged, `dim` is 0 or `centroids` is empty.
pub(crate) fn nearest(rows: &[f32], centroids: &[f32], dim: usize) -> Nearest {
    Panels::pack(centroids, dim).nearest(rows)
}

impl Panels {
    /// The most similar packed row for each of `rows` (`[n, dim]` f32), in parallel.
    ///
    /// # Panics
    /// If `rows` is ragged or there are no packed rows.
    pub fn nearest(&self, rows: &[f32]) -> Nearest {
        assert!(self.rows > 0, "nothing to be near to");
        let n = count(rows, self.dim);
        let mut assignments = vec![0; n];
        let mut similarities = vec![f32::NEG_INFINITY; n];
        let arch = Arch::new();
        assignments
            .par_chunks_mut(TASK_ROWS)
            .zip(similarities.par_chunks_mut(TASK_ROWS))
            .zip(rows.par_chunks(TASK_ROWS * self.dim))
            .for_each(|((assignments, similarities), rows)| {
                let sink = BestSink { assignments, similarities };
                arch.dispatch(BlockProduct { panels: self, rows, sink });
            });
        Nearest { assignments, similarities }
    }

    /// The dot product of each of `queries` with every packed row, in parallel over
    /// blocks of queries.
    ///
    /// # Shapes
    /// `queries` `[q, dim]`, `out` `[q, n]`, f32, row-major.
    ///
    /// # Panics
    /// If `queries` is ragged or `out` has another size.
    pub fn dot_products(&self, queries: &[f32], out: &mut [f32]) {
        let (n, dim, packed) = (count(queries, self.dim), self.dim, self.rows);
        assert_eq!(out.len(), n * packed, "out must be [queries, rows]");
        if out.is_empty() {
            return;
        }
        // Even a small block of queries is split among all threads.
        let block = n.div_ceil(rayon::current_num_threads()).clamp(1, TASK_ROWS);
        let arch = Arch::new();
        out.par_chunks_mut(block * packed).zip(queries.par_chunks(block * dim)).for_each(|(out, rows)| {
            let sink = CopySink { out, width: packed };
            arch.dispatch(BlockProduct { panels: self, rows, sink });
        });
    }
}

/// Receives the products of a block.
trait Sink {
    /// The products of streamed row `row` of the block with the packed rows starting at `first`.
    fn put(&mut self, row: usize, first: usize, products: &[f32]);
}

struct BestSink<'a> {
    assignments: &'a mut [u32],
    similarities: &'a mut [f32],
}

impl Sink for BestSink<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, products: &[f32]) {
        let best = &mut self.similarities[row];
        for (column, &product) in (first as u32..).zip(products) {
            if product > *best {
                *best = product;
                self.assignments[row] = column;
            }
        }
    }
}

struct CopySink<'a> {
    out: &'a mut [f32],
    width: usize,
}

impl Sink for CopySink<'_> {
    #[inline(always)]
    fn put(&mut self, row: usize, first: usize, products: &[f32]) {
        self.out[row * self.width + first..][..products.len()].copy_from_slice(products);
    }
}

/// The products of one block of streamed rows with all packed rows.
struct BlockProduct<'a, K> {
    panels: &'a Panels,
    rows: &'a [f32],
    sink: K,
}

impl<K: Sink> WithSimd for BlockProduct<'_, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { panels, rows, mut sink } = self;
        let dim = panels.dim;
        let mut products = NO_PRODUCTS;
        for panel in panels.panels() {
            let blocks = rows.chunks(dim * BLOCK_ROWS).zip((0..).step_by(BLOCK_ROWS));
            let next = panel.next(&[], rows.len().div_ceil(dim * BLOCK_ROWS));
            for ((rows, first_row), next) in blocks.zip(next) {
                let count = rows.len() / dim;
                simd.vectorize(Block {
                    rows,
                    stride: dim,
                    count,
                    dim,
                    panel: panel.values,
                    panel_stride: PANEL,
                    columns: panel.rows,
                    next,
                    bias: NO_BIAS,
                    products: &mut products,
                });
                for (row, products) in (first_row..).zip(&products).take(count) {
                    sink.put(row, panel.first, &products[..panel.rows]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
