//! Products of rows with packed rows in eight bits: a quarter of the memory, in integers, and so the same on
//! every processor.
//!
//! A packed row is `scale * q` with `q` from -127 to 127, the other row `offset + scale * q` with `q` from 0
//! to 255, each with its own scales. Their product is the exact product of the `q`s times the scales, plus a
//! term of the offset and the packed row's sum, which is precomputed.

mod scalar;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "intrinsics")]
mod x86;

use super::memory::SetMemory;
use super::{BLOCK_ROWS, PANEL};

/// Dimensions whose bytes are adjacent, and are summed in one instruction.
pub(crate) const GROUP: usize = 4;

/// Adding and subtracting it rounds a small f32 to an integer, which is then in its low bits.
const ROUND: f32 = 12_582_912.0;

/// Rows packed in eight bits.
#[derive(Debug)]
pub(crate) struct BytePanels {
    /// `[panel, group, PANEL, GROUP]`, padded with zeros.
    values: SetMemory<i8>,
    /// For each packed row, padded: its scale, NaN if it is not finite, and the sum of its represented
    /// values.
    scales: Vec<[f32; PANEL]>,
    sums: Vec<[f32; PANEL]>,
    /// Number of packed rows.
    pub rows: usize,
    /// Values in a row.
    pub dim: usize,
}

impl BytePanels {
    /// Packs `rows`, `[n, dim]` f32, row-major.
    pub fn pack(rows: &[f32], dim: usize) -> Self {
        let [panels] = Self::pack_together([(rows, dim)]);
        panels
    }

    /// [`BytePanels::pack`] for sets that are read one after another, in adjacent memory.
    pub fn pack_together<const N: usize>(sets: [(&[f32], usize); N]) -> [Self; N] {
        let size = |&(rows, dim): &(&[f32], usize)| super::count(rows, dim).div_ceil(PANEL) * panel_size(dim);
        let filled = SetMemory::side_by_side(sets, size, |(rows, dim), values| {
            (super::count(rows, dim), dim, fill(rows, dim, values))
        });
        filled.map(|(values, (rows, dim, (scales, sums)))| Self { values, scales, sums, rows, dim })
    }

    /// The values that a row represents.
    pub fn unpack(&self, row: usize) -> impl Iterator<Item = f32> {
        let groups = self.dim.div_ceil(GROUP);
        let (panel, column) = (row / PANEL, row % PANEL);
        let group = move |i: usize| (panel * groups + i / GROUP) * PANEL + column;
        let place = move |i: usize| group(i) * GROUP + i % GROUP;
        let (scale, values) = (self.scales[panel][column], self.values.values());
        (0..self.dim).map(move |i| scale * f32::from(values[place(i)]))
    }

    /// The panels in order.
    pub fn panels(&self) -> impl Iterator<Item = BytePanel<'_>> {
        let values = self.values.values().chunks_exact(panel_size(self.dim));
        let scales = self.scales.iter().zip(&self.sums);
        values.zip(scales).zip((0..self.rows).step_by(PANEL)).map(|((values, (scales, sums)), first)| {
            BytePanel { first, rows: PANEL.min(self.rows - first), values, scales, sums }
        })
    }
}

/// Values of a panel.
fn panel_size(dim: usize) -> usize {
    dim.next_multiple_of(GROUP) * PANEL
}

/// Scales and sums of panels.
type Numbers = (Vec<[f32; PANEL]>, Vec<[f32; PANEL]>);

/// Fills zeroed panels, `[panel, group, PANEL, GROUP]`.
fn fill(rows: &[f32], dim: usize, values: &mut [i8]) -> Numbers {
    let panels = values.len() / panel_size(dim);
    let (mut scales, mut sums) = (vec![[0.0; PANEL]; panels], vec![[0.0; PANEL]; panels]);
    for (row, own) in rows.chunks_exact(dim).enumerate() {
        let (panel, column) = (row / PANEL, row % PANEL);
        let largest = own.iter().fold(0f32, |most, x| most.max(x.abs()));
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let mut sum = 0;
        for (i, &x) in own.iter().enumerate() {
            let q = (x * inverse).round().clamp(-127.0, 127.0) as i8;
            values[panel * panel_size(dim) + (i / GROUP * PANEL + column) * GROUP + i % GROUP] = q;
            sum += i32::from(q);
        }
        let finite = own.iter().all(|x| x.is_finite());
        scales[panel][column] = if finite { scale } else { f32::NAN };
        sums[panel][column] = sum as f32;
    }
    (scales, sums)
}

/// Up to [`PANEL`] packed rows.
#[derive(Clone, Copy)]
pub(crate) struct BytePanel<'a> {
    /// Number of the first.
    pub first: usize,
    pub rows: usize,
    /// `[groups, PANEL, GROUP]`
    values: &'a [i8],
    pub scales: &'a [f32; PANEL],
    pub sums: &'a [f32; PANEL],
}

/// Rows in eight bits, quantised on demand.
#[derive(Debug, Default)]
pub(crate) struct ByteRows {
    /// `[n, stride]`, padded with zeros.
    values: Vec<u8>,
    stride: usize,
    /// For each row; the offset is NaN if the row is not finite.
    pub scales: Vec<f32>,
    pub offsets: Vec<f32>,
}

impl ByteRows {
    /// Replaces the rows with those of `x`, `[n, dim]` f32.
    pub fn quantise(&mut self, x: &[f32], dim: usize) {
        let n = super::count(x, dim);
        self.stride = dim.next_multiple_of(GROUP);
        self.values.resize(n * self.stride, 0);
        self.scales.resize(n, 0.0);
        self.offsets.resize(n, 0.0);
        quantise(x, dim, &mut self.values, self.stride, &mut self.scales, &mut self.offsets);
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.scales.len()
    }

    /// The values that a row represents, followed by padding.
    pub fn unpack(&self, row: usize) -> impl Iterator<Item = f32> {
        let (scale, offset) = (self.scales[row], self.offsets[row]);
        let values = &self.values[row * self.stride..][..self.stride];
        values.iter().map(move |&q| offset + scale * f32::from(q))
    }
}

dispatched! {
    /// Writes rows of `dim` values in eight bits, `[n, stride]`.
    fn quantise<S>(
        x: &[f32],
        dim: usize,
        values: &mut [u8],
        stride: usize,
        scales: &mut [f32],
        offsets: &mut [f32],
    ) {
        let factors = scales.iter_mut().zip(offsets);
        for ((row, values), (scale, offset)) in
            x.chunks_exact(dim).zip(values.chunks_exact_mut(stride)).zip(factors)
        {
            let (least, most, poison) = range(row);
            *scale = (most - least) / 255.0;
            // A value that is not finite must show in the result.
            *offset = least + poison;
            let inverse = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
            let (values, padding) = values.split_at_mut(dim);
            for (value, x) in values.iter_mut().zip(row) {
                *value = ((x - least) * inverse + ROUND).to_bits() as u8;
            }
            padding.fill(0);
        }
    }
}

/// Minimum and maximum, lane by lane, and NaN if a value is not finite, otherwise 0.
#[inline(always)]
fn range(row: &[f32]) -> (f32, f32, f32) {
    const LANES: usize = 16;
    let (mut least, mut most, mut poison) =
        ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES], [0f32; LANES]);
    let mut take = |values: &[f32]| {
        let lanes = least.iter_mut().zip(&mut most).zip(&mut poison);
        for (((least, most), poison), &x) in lanes.zip(values) {
            *least = if x < *least { x } else { *least };
            *most = if x > *most { x } else { *most };
            *poison += x * 0.0;
        }
    };
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    chunks.for_each(&mut take);
    take(rest);
    (
        least.into_iter().fold(f32::INFINITY, f32::min),
        most.into_iter().fold(f32::NEG_INFINITY, f32::max),
        poison.into_iter().sum(),
    )
}

/// `[rows, columns]`
pub(crate) type ByteProducts = [[i32; PANEL]; BLOCK_ROWS];

/// An implementation of products in eight bits; all have the same result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByteKernel {
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512Vnni),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(x86::AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    Scalar,
}

impl ByteKernel {
    /// All that this processor supports, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = x86::Avx512Vnni::detect()
            .map(Self::Avx512)
            .into_iter()
            .chain(x86::AvxVnni::detect().map(Self::AvxVnni))
            .chain(x86::Avx2::detect().map(Self::Avx2));
        #[cfg(not(target_arch = "x86_64"))]
        let fast = std::iter::empty();
        fast.chain([Self::Scalar])
    }

    /// The fastest one on this processor.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::Scalar)
    }

    /// The usual name of the instructions.
    pub fn instructions(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(_) => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "AVX2",
            Self::Scalar => "none",
        }
    }

    /// Whether a product is much faster than one in f32: without dedicated instructions it is not.
    pub fn is_fast(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) | Self::AvxVnni(_) => true,
            _ => false,
        }
    }

    /// The integer products of up to [`BLOCK_ROWS`] rows, starting at `first`, with those of a panel.
    pub fn products(
        self,
        rows: &ByteRows,
        first: usize,
        count: usize,
        panel: &BytePanel<'_>,
        products: &mut ByteProducts,
    ) {
        let block = &rows.values[first * rows.stride..][..count * rows.stride];
        let products = &mut products[..count];
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(kernel) => kernel.products(block, rows.stride, panel.values, products),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(kernel) => kernel.products(block, rows.stride, panel.values, products),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(kernel) => kernel.products(block, rows.stride, panel.values, products),
            Self::Scalar => scalar::products(block, rows.stride, panel.values, products),
        }
    }
}

#[cfg(test)]
mod tests;
