//! AVX2 and AVX-512 vectors. Intrinsics only: the loop is in `lanes.rs`.

use super::lanes::{self, Lanes, Term};
use crate::codes::{self, BLOCK_ROWS, TABLE};
use half::f16;
use std::arch::x86_64::*;

/// Proof that the processor has AVX2, F16C and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512F, and AVX2, F16C and FMA with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(pub(super) Avx2);

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("fma"))
        .then_some(Self(()))
    }

    pub(super) fn sums<T: Term>(self, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
        #[target_feature(enable = "avx2,f16c,fma")]
        fn with_features<T: Term>(lanes: Avx2, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
            lanes::sums::<Avx2, T>(lanes, query, rows, sums);
        }
        // SAFETY: an `Avx2` exists only where `detect` found these features.
        unsafe { with_features::<T>(self, query, rows, sums) }
    }

    /// [`CodedQuery::sums`](crate::codes::CodedQuery::sums) with shuffles: a table is a vector, and the bits
    /// of a group select one of its bytes for each row.
    pub(super) fn code_sums(self, tables: &[u8], block: &[u8]) -> [u32; BLOCK_ROWS] {
        // SAFETY: an `Avx2` exists only where `detect` found this feature.
        unsafe { code_sums(tables, block) }
    }

    /// [`CodedQuery::levels`](crate::codes::CodedQuery::levels), with the levels of a unit unpacked in
    /// parallel.
    pub(super) fn code_levels(self, query: &[i8], bits: &[u8]) -> i32 {
        // SAFETY: an `Avx2` exists only where `detect` found this feature.
        unsafe { code_levels(query, bits) }
    }
}

#[target_feature(enable = "avx2")]
fn code_levels(query: &[i8], bits: &[u8]) -> i32 {
    // Each word of a unit has levels of eight dimensions in bits 0 to 2 of its bytes, of eight others in bits
    // 3 to 5, and in bits 6 and 7 a part of the seventh or the last eight; see `codes::supplement`.
    let shift_low = _mm256_setr_epi64x(0, 3, 0, 3);
    let shift_high = _mm256_setr_epi64x(0, 3, 6, 6);
    let shift_rest = _mm256_setr_epi64x(0, 0, 4, 5);
    let words = |bytes: [i8; 4]| {
        let [a, b, c, d] = bytes.map(|byte| i64::from_ne_bytes([byte as u8; 8]));
        _mm256_setr_epi64x(a, b, c, d)
    };
    let (low_mask, high_mask, rest_mask) = (words([7; 4]), words([7, 7, 3, 3]), words([0, 0, 4, 4]));
    let ones = _mm256_set1_epi16(1);
    let mut total = _mm256_setzero_si256();
    let units = bits.chunks_exact(codes::UNIT_BYTES).zip(query.chunks_exact(codes::UNIT));
    for (unit, query) in units {
        // SAFETY: the slice has 24 bytes, of which 16 and 8 are read; any alignment will do.
        let unit = unsafe {
            let first = _mm_loadu_si128(unit.as_ptr().cast());
            let last = _mm_loadl_epi64(unit.as_ptr().add(16).cast());
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), last)
        };
        // Words 0 0 1 1, 2 2 0 2 and 1 1 1 1.
        let low = _mm256_permute4x64_epi64::<0b01_01_00_00>(unit);
        let high = _mm256_permute4x64_epi64::<0b10_00_10_10>(unit);
        let rest = _mm256_permute4x64_epi64::<0b01_01_01_01>(unit);
        let low = _mm256_and_si256(_mm256_srlv_epi64(low, shift_low), low_mask);
        let high = _mm256_and_si256(_mm256_srlv_epi64(high, shift_high), high_mask);
        let rest = _mm256_and_si256(_mm256_srlv_epi64(rest, shift_rest), rest_mask);
        // SAFETY: the slice has 64 bytes, and any alignment will do.
        let (query_low, query_high) = unsafe {
            let at = query.as_ptr();
            (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(32).cast()))
        };
        // Four products of at most 7 * 128 fit 16 bits.
        let pairs = _mm256_add_epi16(
            _mm256_maddubs_epi16(low, query_low),
            _mm256_maddubs_epi16(_mm256_or_si256(high, rest), query_high),
        );
        total = _mm256_add_epi32(total, _mm256_madd_epi16(pairs, ones));
    }
    let half = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
    let pair = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32::<1>(pair)))
}

/// Pairs of groups whose sums fit into 16 bits.
const PAIRS_PER_ROUND: usize = u16::MAX as usize / (2 * u8::MAX as usize);

#[target_feature(enable = "avx2")]
fn code_sums(tables: &[u8], block: &[u8]) -> [u32; BLOCK_ROWS] {
    const PAIR: usize = 2 * TABLE;
    let mut sums = [0u32; BLOCK_ROWS];
    let nibble = _mm256_set1_epi8(15);
    let byte = _mm256_set1_epi16(255);
    for (tables, block) in tables.chunks(PAIR * PAIRS_PER_ROUND).zip(block.chunks(PAIR * PAIRS_PER_ROUND)) {
        // Of the rows with even and with odd numbers, of the first and of the second sixteen.
        let mut totals = [_mm256_setzero_si256(); 4];
        for (table, bytes) in tables.chunks_exact(PAIR).zip(block.chunks_exact(PAIR)) {
            // SAFETY: both slices have 32 bytes, and any alignment will do.
            let (table, bytes) = unsafe {
                (_mm256_loadu_si256(table.as_ptr().cast()), _mm256_loadu_si256(bytes.as_ptr().cast()))
            };
            let first = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
            let second = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
            for (found, totals) in [first, second].into_iter().zip(totals.chunks_exact_mut(2)) {
                totals[0] = _mm256_add_epi16(totals[0], _mm256_and_si256(found, byte));
                totals[1] = _mm256_add_epi16(totals[1], _mm256_srli_epi16::<8>(found));
            }
        }
        for (place, total) in totals.into_iter().enumerate() {
            // Both groups of a pair belong to the same rows.
            let pair = _mm_add_epi16(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
            let mut values = [0u16; 8];
            // SAFETY: the array has 16 bytes, and any alignment will do.
            unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), pair) };
            for (i, value) in values.into_iter().enumerate() {
                sums[place / 2 * TABLE + 2 * i + place % 2] += u32::from(value);
            }
        }
    }
    sums
}

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        Avx2::detect().filter(|_| is_x86_feature_detected!("avx512f")).map(Self)
    }

    pub(super) fn sums<T: Term>(self, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
        #[target_feature(enable = "avx512f,avx2,f16c,fma")]
        fn with_features<T: Term>(lanes: Avx512, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
            lanes::sums::<Avx512, T>(lanes, query, rows, sums);
        }
        // SAFETY: an `Avx512` exists only where `detect` found these features.
        unsafe { with_features::<T>(self, query, rows, sums) }
    }
}

impl Lanes for Avx2 {
    type Vector = __m256;
    const WIDTH: usize = 8;

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m256 {
        let values = &values[..Self::WIDTH];
        // SAFETY: `self` proves AVX2; the slice above has 8 values, and any alignment will do.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn widen(self, values: &[f16]) -> __m256 {
        let values = &values[..Self::WIDTH];
        // SAFETY: `self` proves F16C; the slice above has 8 values, and any alignment will do.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(values.as_ptr().cast())) }
    }

    #[inline(always)]
    fn multiply_add(self, a: __m256, b: __m256, sum: __m256) -> __m256 {
        // SAFETY: `self` proves FMA.
        unsafe { _mm256_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn distance_add(self, a: __m256, b: __m256, sum: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), _mm256_sub_ps(a, b)), sum) }
    }

    #[inline(always)]
    fn total(self, vector: __m256) -> f32 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let quarters = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector));
            let halves = _mm_add_ps(quarters, _mm_movehl_ps(quarters, quarters));
            _mm_cvtss_f32(_mm_add_ss(halves, _mm_movehdup_ps(halves)))
        }
    }
}

impl Lanes for Avx512 {
    type Vector = __m512;
    const WIDTH: usize = 16;

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m512 {
        let values = &values[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512F; the slice above has 16 values, and any alignment will do.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn widen(self, values: &[f16]) -> __m512 {
        let values = &values[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512F; the slice above has 16 values, and any alignment will do.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(values.as_ptr().cast())) }
    }

    #[inline(always)]
    fn multiply_add(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn distance_add(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_add_ps(_mm512_abs_ps(_mm512_sub_ps(a, b)), sum) }
    }

    #[inline(always)]
    fn total(self, vector: __m512) -> f32 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_reduce_add_ps(vector) }
    }
}
