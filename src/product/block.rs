//! The innermost loops: a few rows with one panel.

use std::array;

use pulp::{Simd, WithSimd};

use crate::prefetch::{CACHE_LINE_BYTES, prefetch_for_later};

/// Packed rows per panel: whole tiles for vectors of 1, 4, 8 and 16 values.
pub(crate) const PANEL: usize = TILE_VECTORS * 16;

/// The columns of a panel are padded to a multiple of this.
pub(crate) const PAD: usize = 16;

/// For products without a bias.
pub(crate) const NO_BIAS: &[f32; PANEL] = &[0.0; PANEL];

/// Initial value for the products of a block.
pub(crate) const NO_PRODUCTS: Products = [[0.0; PANEL]; BLOCK_ROWS];

/// Vectors of packed rows in a tile.
const TILE_VECTORS: usize = 3;

/// Maximum number of rows of a [`Block`]: with three vectors each, their sums fill 24 of 32 registers.
pub(crate) const BLOCK_ROWS: usize = 8;

const VALUES_PER_LINE: usize = CACHE_LINE_BYTES / size_of::<f32>();

/// `[rows, columns]`
pub(crate) type Products = [[f32; PANEL]; BLOCK_ROWS];

/// Copies the first products of a row, as many as fit into `out`.
#[inline(always)]
pub(crate) fn put(products: &[f32; PANEL], out: &mut [f32]) {
    let (own, _) = products.as_chunks::<PAD>();
    // A copy of variable length is a call, and these are many and short.
    match out.as_chunks_mut::<PAD>() {
        (out @ [_, _, _], []) => (out[0], out[1], out[2]) = (own[0], own[1], own[2]),
        (out @ [_, _], []) => (out[0], out[1]) = (own[0], own[1]),
        _ => out.copy_from_slice(&products[..out.len()]),
    }
}

/// The products of up to [`BLOCK_ROWS`] rows with up to [`PANEL`] packed rows.
pub(crate) struct Block<'a> {
    /// The rows, at a distance of `stride` values.
    pub rows: &'a [f32],
    pub stride: usize,
    pub count: usize,
    pub dim: usize,
    /// `[dim, panel_stride]`; each dimension has `columns` values, rounded up to [`PAD`].
    pub panel: &'a [f32],
    pub panel_stride: usize,
    pub columns: usize,
    /// The memory to read next, prefetched: with few rows the loop is memory-bound, and the processor
    /// predicts no further than a page.
    pub next: &'a [f32],
    /// Added to each row's products.
    pub bias: &'a [f32; PANEL],
    /// Overwritten, up to the number of rows and columns.
    pub products: &'a mut Products,
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, stride, count, dim, panel, panel_stride, columns, next, bias, products } = self;
        let most = most_rows::<S>();
        let blocks = count.div_ceil(most);
        let tiles = blocks * columns.div_ceil(TILE_VECTORS * S::F32_LANES);
        let mut shares = next.chunks(next.len().div_ceil(tiles).max(1));
        for block in 0..blocks {
            // Rows are split evenly, so that no block has too few concurrent sums.
            let (first, end) = (count * block / blocks, count * (block + 1) / blocks);
            let (rows, products) = (&rows[first * stride..], &mut products[first..]);
            for column in (0..columns).step_by(TILE_VECTORS * S::F32_LANES) {
                let vectors = (columns - column).div_ceil(S::F32_LANES);
                let next = shares.next().unwrap_or_default();
                let tile = Tile { rows, stride, dim, panel, panel_stride, next, bias, column };
                match end - first {
                    1 => tile.rows::<S, 1>(simd, vectors, products),
                    2 => tile.rows::<S, 2>(simd, vectors, products),
                    3 => tile.rows::<S, 3>(simd, vectors, products),
                    4 => tile.rows::<S, 4>(simd, vectors, products),
                    5 if most > 4 => tile.rows::<S, 5>(simd, vectors, products),
                    6 if most > 4 => tile.rows::<S, 6>(simd, vectors, products),
                    7 if most > 4 => tile.rows::<S, 7>(simd, vectors, products),
                    _ if most > 4 => tile.rows::<S, 8>(simd, vectors, products),
                    _ => unreachable!("no more rows than registers"),
                }
            }
        }
    }
}

/// The number of rows whose sums, with three vectors of packed rows and one value, fit the registers.
#[inline(always)]
const fn most_rows<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { BLOCK_ROWS } else { 4 }
}

#[derive(Clone, Copy)]
struct Tile<'a> {
    rows: &'a [f32],
    stride: usize,
    dim: usize,
    panel: &'a [f32],
    panel_stride: usize,
    next: &'a [f32],
    bias: &'a [f32; PANEL],
    column: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn rows<S: Simd, const ROWS: usize>(self, simd: S, vectors: usize, products: &mut [[f32; PANEL]]) {
        match vectors {
            1 => self.products::<S, ROWS, 1>(simd, products),
            2 => self.products::<S, ROWS, 2>(simd, products),
            _ => self.products::<S, ROWS, TILE_VECTORS>(simd, products),
        }
    }

    #[inline(always)]
    fn products<S: Simd, const ROWS: usize, const VECTORS: usize>(
        self,
        simd: S,
        products: &mut [[f32; PANEL]],
    ) {
        let Self { rows, stride, dim, panel, panel_stride, next, bias, column } = self;
        let columns = column..column + VECTORS * S::F32_LANES;
        assert!(dim > 0 && rows.len() >= (ROWS - 1) * stride + dim, "a row is cut off");
        assert!(panel.len() >= (dim - 1) * panel_stride + columns.end, "a panel is cut off");
        let (bias, _) = S::as_simd_f32s(&bias[columns.clone()]);
        let bias: [S::f32s; VECTORS] = array::from_fn(|vector| bias[vector]);
        let mut sums = [bias; ROWS];
        let mut packed = panel[column..].as_ptr();
        // Prefetching data that is already cached costs next to nothing.
        let (mut ahead, step) = match next {
            [] => (packed, 0),
            next => (next.as_ptr(), next.len().div_ceil(dim)),
        };
        for i in 0..dim {
            for line in 0..(VECTORS * S::F32_LANES).div_ceil(VALUES_PER_LINE) {
                prefetch_for_later(ahead.wrapping_add(line * VALUES_PER_LINE));
            }
            ahead = ahead.wrapping_add(step);
            // A bounds check in this loop keeps sums out of registers and reduces the speed to a third.
            // SAFETY: `i < dim`, `row < ROWS` and `vector < VECTORS`, so that both lie in their slices as
            // asserted above.
            let vectors: [S::f32s; VECTORS] =
                array::from_fn(|vector| unsafe { packed.cast::<S::f32s>().add(vector).read_unaligned() });
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let value = simd.splat_f32s(unsafe { *rows.get_unchecked(row * stride + i) });
                for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                    *sum = simd.mul_add_e_f32s(value, vector, *sum);
                }
            }
            packed = packed.wrapping_add(panel_stride);
        }
        for (products, sums) in products.iter_mut().zip(&sums) {
            let (out, _) = S::as_mut_simd_f32s(&mut products[columns.clone()]);
            out.copy_from_slice(sums);
        }
    }
}
