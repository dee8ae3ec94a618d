//! Dot products of all pairs of two sets of rows, tile by tile.
//!
//! One side is packed into [`Panels`] once and kept; the other streams past it. Every
//! product is one chain of additions along the dimensions, so its value depends on
//! neither the tiling nor the number of threads.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::array;

/// Packed rows side by side in a panel: whole tiles for vectors of 1, 4, 8 and 16 values.
const PANEL: usize = TILE_VECTORS * 16;

/// Vectors of packed rows in a tile.
const TILE_VECTORS: usize = 3;

/// Streamed rows per task; with one panel they stay in the second-level cache.
const BLOCK_ROWS: usize = 128;

/// A set of rows packed for products with many others.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    /// `[panel, dim, PANEL]`: the value of `PANEL` rows in one dimension lie together;
    /// the last panel is padded with zeros.
    values: Vec<f32>,
    rows: usize,
    dim: usize,
}

/// The most similar packed row for each streamed row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Nearest {
    /// Position of the packed row, the lowest among equals; 0 where every product is NaN.
    pub assignments: Vec<u32>,
    /// Its dot product; negative infinity where every product is NaN.
    pub similarities: Vec<f32>,
}

/// The most similar of `centroids` for each of `rows`, by dot product.
///
/// # Shapes
/// `rows` `[n, dim]`, `centroids` `[k, dim]`, f32, row-major; k at least 1.
///
/// # Panics
/// If a shape is ragged, `dim` is 0 or there is no centroid.
pub(crate) fn nearest(rows: &[f32], centroids: &[f32], dim: usize) -> Nearest {
    Panels::pack(centroids, dim).nearest(rows)
}

/// The dot product of every query with every row.
///
/// Packs a copy of `rows`; use [`Panels`] to do that once for many blocks of queries.
///
/// # Shapes
/// `queries` `[q, dim]`, `rows` `[n, dim]`, `out` `[q, n]`, f32, row-major.
///
/// # Panics
/// If a shape is ragged or `dim` is 0.
#[cfg(test)]
pub(crate) fn dot_products(queries: &[f32], rows: &[f32], dim: usize, out: &mut [f32]) {
    Panels::pack(rows, dim).dot_products(queries, out);
}

impl Panels {
    /// Packs `rows` (`[n, dim]` f32, row-major), in parallel; as large as the rows themselves.
    ///
    /// # Panics
    /// If `rows` is ragged or `dim` is 0.
    pub fn pack(rows: &[f32], dim: usize) -> Self {
        let n = count(rows, dim);
        let mut values = vec![0.0; n.div_ceil(PANEL) * dim * PANEL];
        values
            .par_chunks_mut(dim * PANEL)
            .zip(rows.par_chunks(dim * PANEL))
            .for_each(|(panel, rows)| interleave(rows, dim, PANEL, panel));
        Self { values, rows: n, dim }
    }

    /// Values in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of packed rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The most similar packed row for each of `rows` (`[n, dim]` f32), in parallel.
    ///
    /// # Panics
    /// If `rows` is ragged or nothing is packed.
    pub fn nearest(&self, rows: &[f32]) -> Nearest {
        assert!(self.rows > 0, "nothing to be near to");
        let n = count(rows, self.dim);
        let mut assignments = vec![0; n];
        let mut similarities = vec![f32::NEG_INFINITY; n];
        let arch = Arch::new();
        assignments
            .par_chunks_mut(BLOCK_ROWS)
            .zip(similarities.par_chunks_mut(BLOCK_ROWS))
            .zip(rows.par_chunks(BLOCK_ROWS * self.dim))
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
        let n = count(queries, self.dim);
        assert_eq!(out.len(), n * self.rows, "out must be [queries, rows]");
        if out.is_empty() {
            return;
        }
        // A small block of queries is still shared among all threads.
        let block = n.div_ceil(rayon::current_num_threads()).clamp(1, BLOCK_ROWS);
        let arch = Arch::new();
        out.par_chunks_mut(block * self.rows).zip(queries.par_chunks(block * self.dim)).for_each(
            |(out, rows)| {
                let sink = CopySink { out, width: self.rows };
                arch.dispatch(BlockProduct { panels: self, rows, sink });
            },
        );
    }
}

fn count(rows: &[f32], dim: usize) -> usize {
    assert!(dim > 0, "rows need at least one dimension");
    assert!(rows.len().is_multiple_of(dim), "{} values are no rows of {dim}", rows.len());
    rows.len() / dim
}

/// Writes up to `width` rows into `out` (`[dim, width]`), dimension by dimension.
#[inline(always)]
fn interleave(rows: &[f32], dim: usize, width: usize, out: &mut [f32]) {
    for (column, row) in rows.chunks_exact(dim).enumerate() {
        for (values, &value) in out.chunks_exact_mut(width).zip(row) {
            values[column] = value;
        }
    }
}

/// Where the products of a block go.
trait Sink {
    /// The products of streamed row `row` of the block with the packed rows from `first` on.
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
        // The sums of a tile, one row of packed vectors and one streamed value fill
        // the registers.
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, 8>(simd);
        } else {
            self.run::<S, 4>(simd);
        }
    }
}

impl<K: Sink> BlockProduct<'_, K> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(mut self, simd: S) {
        let Panels { values, rows: packed_rows, dim } = self.panels;
        let rows = count(self.rows, *dim);
        let mut strips = vec![0.0; rows.div_ceil(ROWS) * dim * ROWS];
        for (strip, rows) in strips.chunks_exact_mut(dim * ROWS).zip(self.rows.chunks(dim * ROWS)) {
            interleave(rows, *dim, ROWS, strip);
        }

        let mut products = [[0.0; PANEL]; ROWS];
        for (panel, first) in values.chunks_exact(dim * PANEL).zip((0..).step_by(PANEL)) {
            let used = PANEL.min(packed_rows - first);
            for (strip, first_row) in strips.chunks_exact(dim * ROWS).zip((0..).step_by(ROWS)) {
                for column in (0..used).step_by(TILE_VECTORS * S::F32_LANES) {
                    match (used - column).div_ceil(S::F32_LANES) {
                        1 => tile::<S, ROWS, 1>(simd, strip, panel, column, &mut products),
                        2 => tile::<S, ROWS, 2>(simd, strip, panel, column, &mut products),
                        _ => tile::<S, ROWS, TILE_VECTORS>(simd, strip, panel, column, &mut products),
                    }
                }
                for (row, products) in (first_row..rows).zip(&products) {
                    self.sink.put(row, first, &products[..used]);
                }
            }
        }
    }
}

/// The products of a strip of `ROWS` rows with `VECTORS` vectors of packed rows from `column` on.
#[inline(always)]
fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    strip: &[f32],
    panel: &[f32],
    column: usize,
    products: &mut [[f32; PANEL]; ROWS],
) {
    let columns = column..column + VECTORS * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    let (strip, _) = strip.as_chunks::<ROWS>();
    let (panel, _) = panel.as_chunks::<PANEL>();
    for (values, packed) in strip.iter().zip(panel) {
        let (packed, _) = S::as_simd_f32s(&packed[columns.clone()]);
        let packed: [S::f32s; VECTORS] = array::from_fn(|i| packed[i]);
        for (sums, &value) in sums.iter_mut().zip(values) {
            let value = simd.splat_f32s(value);
            for (sum, &packed) in sums.iter_mut().zip(&packed) {
                *sum = simd.mul_add_e_f32s(value, packed, *sum);
            }
        }
    }
    for (products, sums) in products.iter_mut().zip(&sums) {
        let (out, _) = S::as_mut_simd_f32s(&mut products[columns.clone()]);
        out.copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests;
