//! AVX-512 VNNI, AVX-VNNI and AVX2.

use std::arch::x86_64::*;
use std::array;

use super::super::BLOCK_ROWS;
use super::{GROUP, PANEL};
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};

/// How many groups the prefetch of a panel runs ahead.
const GROUPS_AHEAD: usize = 16;

/// Proof that the processor has AVX-512F, -BW and -VNNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Vnni(());

/// Proof that the processor has AVX-VNNI, the same instructions without AVX-512, and AVX2 with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AvxVnni(Avx2);

/// Proof that the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Vectors of 32-bit lanes, each with the sum of one packed row.
trait Lanes: Copy {
    type Vector: Copy;
    /// Lanes of a vector.
    const WIDTH: usize;
    /// Maximum number of rows of a tile: all sums must fit the registers.
    const ROWS: usize;
    /// Fills all lanes with the same group of a row.
    fn splat(self, group: [u8; GROUP]) -> Self::Vector;
    /// A group of each of [`Self::WIDTH`] packed rows.
    ///
    /// # Safety
    /// There must be `GROUP * WIDTH` bytes.
    unsafe fn load(self, packed: *const i8) -> Self::Vector;
    /// Adds in each lane four products of an unsigned and a signed byte, without overflow.
    fn add_products(self, sum: Self::Vector, row: Self::Vector, packed: Self::Vector) -> Self::Vector;
    /// # Panics
    /// If `out` is shorter than [`Self::WIDTH`].
    fn store(self, sum: Self::Vector, out: &mut [i32]);
}

impl Avx512Vnni {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni");
        found.then_some(Self(()))
    }

    pub(super) fn products(self, rows: &[u8], stride: usize, panel: &[i8], products: &mut [[i32; PANEL]]) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn with_features(
            lanes: Avx512Vnni,
            rows: &[u8],
            stride: usize,
            panel: &[i8],
            out: &mut [[i32; PANEL]],
        ) {
            block::<Avx512Vnni, 3>(lanes, rows, stride, panel, out);
        }
        // SAFETY: an `Avx512Vnni` exists only where `detect` found these features.
        unsafe { with_features(self, rows, stride, panel, products) }
    }
}

impl AvxVnni {
    pub(super) fn detect() -> Option<Self> {
        Avx2::detect().filter(|_| is_x86_feature_detected!("avxvnni")).map(Self)
    }

    pub(super) fn products(self, rows: &[u8], stride: usize, panel: &[i8], products: &mut [[i32; PANEL]]) {
        #[target_feature(enable = "avx2,avxvnni")]
        fn with_features(lanes: AvxVnni, rows: &[u8], stride: usize, panel: &[i8], out: &mut [[i32; PANEL]]) {
            block::<AvxVnni, 2>(lanes, rows, stride, panel, out);
        }
        // SAFETY: an `AvxVnni` exists only where `detect` found these features.
        unsafe { with_features(self, rows, stride, panel, products) }
    }
}

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    pub(super) fn products(self, rows: &[u8], stride: usize, panel: &[i8], products: &mut [[i32; PANEL]]) {
        #[target_feature(enable = "avx2")]
        fn with_features(lanes: Avx2, rows: &[u8], stride: usize, panel: &[i8], out: &mut [[i32; PANEL]]) {
            block::<Avx2, 2>(lanes, rows, stride, panel, out);
        }
        // SAFETY: an `Avx2` exists only where `detect` found this feature.
        unsafe { with_features(self, rows, stride, panel, products) }
    }
}

/// Shapes: those of [`super::scalar::products`].
#[inline(always)]
fn block<L: Lanes, const VECTORS: usize>(
    lanes: L,
    rows: &[u8],
    stride: usize,
    panel: &[i8],
    products: &mut [[i32; PANEL]],
) {
    const { assert!(PANEL.is_multiple_of(VECTORS * L::WIDTH)) };
    let groups = stride / GROUP;
    let count = products.len();
    assert!(count <= BLOCK_ROWS && rows.len() == count * stride, "a row is cut off");
    assert!(panel.len() == groups * PANEL * GROUP, "a panel is cut off");
    let blocks = count.div_ceil(L::ROWS);
    for block in 0..blocks {
        let (first, end) = (count * block / blocks, count * (block + 1) / blocks);
        let (rows, products) = (&rows[first * stride..end * stride], &mut products[first..end]);
        for column in (0..PANEL).step_by(VECTORS * L::WIDTH) {
            match end - first {
                1 => tile::<L, 1, VECTORS>(lanes, rows, stride, panel, column, products),
                2 => tile::<L, 2, VECTORS>(lanes, rows, stride, panel, column, products),
                3 => tile::<L, 3, VECTORS>(lanes, rows, stride, panel, column, products),
                4 => tile::<L, 4, VECTORS>(lanes, rows, stride, panel, column, products),
                5 if L::ROWS > 4 => tile::<L, 5, VECTORS>(lanes, rows, stride, panel, column, products),
                6 if L::ROWS > 4 => tile::<L, 6, VECTORS>(lanes, rows, stride, panel, column, products),
                7 if L::ROWS > 4 => tile::<L, 7, VECTORS>(lanes, rows, stride, panel, column, products),
                _ => tile::<L, 8, VECTORS>(lanes, rows, stride, panel, column, products),
            }
        }
    }
}

#[inline(always)]
fn tile<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    lanes: L,
    rows: &[u8],
    stride: usize,
    panel: &[i8],
    column: usize,
    products: &mut [[i32; PANEL]],
) {
    let groups = stride / GROUP;
    assert!(rows.len() >= ROWS * stride && products.len() >= ROWS);
    assert!(panel.len() >= groups * PANEL * GROUP && column + VECTORS * L::WIDTH <= PANEL);
    let mut sums = [[lanes.splat([0; GROUP]); VECTORS]; ROWS];
    let mut packed = panel[column * GROUP..].as_ptr();
    for group in 0..groups {
        for line in 0..(VECTORS * L::WIDTH * GROUP).div_ceil(CACHE_LINE_BYTES) {
            prefetch(packed.wrapping_add(GROUPS_AHEAD * PANEL * GROUP + line * CACHE_LINE_BYTES));
        }
        // SAFETY: `group < groups`, and the vectors end with the panel's columns at most, as asserted above.
        let vectors: [L::Vector; VECTORS] =
            array::from_fn(|vector| unsafe { lanes.load(packed.add(vector * L::WIDTH * GROUP)) });
        for (row, sums) in sums.iter_mut().enumerate() {
            let place = row * stride + group * GROUP;
            // SAFETY: `row < ROWS` and `group < groups`, so that it ends within the rows, as asserted above.
            let values = unsafe { rows.as_ptr().add(place).cast::<[u8; GROUP]>().read() };
            let values = lanes.splat(values);
            for (sum, &vector) in sums.iter_mut().zip(&vectors) {
                *sum = lanes.add_products(*sum, values, vector);
            }
        }
        packed = packed.wrapping_add(PANEL * GROUP);
    }
    for (products, sums) in products.iter_mut().zip(&sums) {
        for (out, &sum) in products[column..].chunks_mut(L::WIDTH).zip(sums) {
            lanes.store(sum, out);
        }
    }
}

impl Lanes for Avx512Vnni {
    type Vector = __m512i;
    const WIDTH: usize = 16;
    const ROWS: usize = BLOCK_ROWS;

    #[inline(always)]
    fn splat(self, group: [u8; GROUP]) -> __m512i {
        // SAFETY: an `Avx512Vnni` exists only where the processor has its features; the same applies below.
        unsafe { _mm512_set1_epi32(i32::from_le_bytes(group)) }
    }

    #[inline(always)]
    unsafe fn load(self, packed: *const i8) -> __m512i {
        // SAFETY: as above, and the caller's promise.
        unsafe { _mm512_loadu_si512(packed.cast()) }
    }

    #[inline(always)]
    fn add_products(self, sum: __m512i, row: __m512i, packed: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(sum, row, packed) }
    }

    #[inline(always)]
    fn store(self, sum: __m512i, out: &mut [i32]) {
        let out = &mut out[..Self::WIDTH];
        // SAFETY: as above, and there is room for a vector.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sum) }
    }
}

impl Lanes for AvxVnni {
    type Vector = __m256i;
    const WIDTH: usize = Avx2::WIDTH;
    const ROWS: usize = Avx2::ROWS;

    #[inline(always)]
    fn splat(self, group: [u8; GROUP]) -> __m256i {
        self.0.splat(group)
    }

    #[inline(always)]
    unsafe fn load(self, packed: *const i8) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { self.0.load(packed) }
    }

    #[inline(always)]
    fn add_products(self, sum: __m256i, row: __m256i, packed: __m256i) -> __m256i {
        // SAFETY: an `AvxVnni` exists only where the processor has its features.
        unsafe { _mm256_dpbusd_avx_epi32(sum, row, packed) }
    }

    #[inline(always)]
    fn store(self, sum: __m256i, out: &mut [i32]) {
        self.0.store(sum, out);
    }
}

impl Lanes for Avx2 {
    type Vector = __m256i;
    const WIDTH: usize = 8;
    const ROWS: usize = 4;

    #[inline(always)]
    fn splat(self, group: [u8; GROUP]) -> __m256i {
        // SAFETY: an `Avx2` exists only where the processor has it; the same applies below.
        unsafe { _mm256_set1_epi32(i32::from_le_bytes(group)) }
    }

    #[inline(always)]
    unsafe fn load(self, packed: *const i8) -> __m256i {
        // SAFETY: as above, and the caller's promise.
        unsafe { _mm256_loadu_si256(packed.cast()) }
    }

    /// In 16 bits, with even and odd bytes separately: the instruction for bytes saturates.
    #[inline(always)]
    fn add_products(self, sum: __m256i, row: __m256i, packed: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let row_even = _mm256_and_si256(row, _mm256_set1_epi16(255));
            let row_odd = _mm256_srli_epi16::<8>(row);
            let packed_even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(packed));
            let packed_odd = _mm256_srai_epi16::<8>(packed);
            let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(row_even, packed_even));
            _mm256_add_epi32(sum, _mm256_madd_epi16(row_odd, packed_odd))
        }
    }

    #[inline(always)]
    fn store(self, sum: __m256i, out: &mut [i32]) {
        let out = &mut out[..Self::WIDTH];
        // SAFETY: as above, and there is room for a vector.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sum) }
    }
}
