//! Dot products of rows with packed rows: the kernel of clustering and of the encoder.
//!
//! One side is packed into [`Panels`] once and kept; the other is read in place. Every product is one chain
//! of additions along the dimensions, so its value depends on neither the tiling nor the number of threads.

/// Functions whose body is compiled for every instruction set `S` and selected at run time.
///
/// Not closures, which `pulp` also accepts: they are not always inlined and then miss the instruction set.
macro_rules! dispatched {
    ($($(#[$attribute:meta])* fn $name:ident<$S:ident>($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attribute])*
        pub(crate) fn $name($($argument: $type),*) {
            struct Call<T>(T);
            impl pulp::WithSimd for Call<($($type,)*)> {
                type Output = ();
                #[inline(always)]
                fn with_simd<$S: pulp::Simd>(self, _: $S) {
                    let Self(($($argument,)*)) = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Call(($($argument,)*)));
        }
    )*};
}
pub(crate) use dispatched;

#[expect(unsafe_code, reason = "loads without checks, in the innermost loop")]
mod block;
pub(crate) mod bytes;
mod memory;

pub(crate) use block::{BLOCK_ROWS, Block, NO_BIAS, NO_PRODUCTS, PAD, PANEL, put};

use memory::SetMemory;
use pulp::Arch;
use rayon::prelude::*;

/// The usual name of the instructions of products in f32.
pub(crate) fn instructions() -> &'static str {
    match Arch::new() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(_) => "AVX-512",
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => "AVX2",
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => "NEON",
        _ => "none",
    }
}

/// A set of rows packed for products with many others.
#[derive(Debug)]
pub(crate) struct Panels {
    /// `[panel, dim, PANEL]`: the values of `PANEL` rows in one dimension are adjacent; the last panel is
    /// padded with zeros.
    values: SetMemory<f32>,
    /// Number of packed rows.
    pub rows: usize,
    /// Values in a row.
    pub dim: usize,
}

impl Panels {
    /// [`Panels::pack_together`] for one set.
    #[cfg(any(feature = "eval", test))]
    pub fn pack(rows: &[f32], dim: usize) -> Self {
        let [panels] = Self::pack_together([(rows, dim)]);
        panels
    }

    /// Packs sets of rows (`[n, dim]` f32, row-major) that are read one after another into adjacent memory,
    /// in parallel; the result is as large as the rows.
    ///
    /// # Panics
    /// If a set is ragged or `dim` is 0.
    pub fn pack_together<const N: usize>(sets: [(&[f32], usize); N]) -> [Self; N] {
        let size = |&(rows, dim): &(&[f32], usize)| count(rows, dim).div_ceil(PANEL) * dim * PANEL;
        let filled = SetMemory::side_by_side(sets, size, |(rows, dim), values| {
            values
                .par_chunks_mut(dim * PANEL)
                .zip(rows.par_chunks(dim * PANEL))
                .for_each(|(panel, rows)| interleave(rows, dim, dim, panel));
            (count(rows, dim), dim)
        });
        filled.map(|(values, (rows, dim))| Self { values, rows, dim })
    }

    /// The panels, each with the number of its first row and of its rows.
    pub fn panels(&self) -> impl Iterator<Item = Panel<'_>> {
        let size = self.dim * PANEL;
        let values = self.values.values();
        (0..self.rows).step_by(PANEL).map(move |first| {
            let (values, rest) = values[first * self.dim..].split_at(size);
            Panel {
                first,
                rows: PANEL.min(self.rows - first),
                values,
                next: rest.get(..size).unwrap_or_default(),
            }
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
    /// The values of the next panel, if there is one.
    next: &'a [f32],
}

impl<'a> Panel<'a> {
    /// Memory for the blocks of a pass over this panel to prefetch: parts of the next panel, or of `after` in
    /// the last one.
    pub fn next(&self, after: &'a [f32], blocks: usize) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let next = if self.next.is_empty() { after } else { self.next };
        next.chunks(next.len().div_ceil(blocks).max(1)).chain(std::iter::repeat(&[][..]))
    }
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

/// Writes up to [`PANEL`] rows, at a distance of `stride` values, into a panel (`[dim, PANEL]`).
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
