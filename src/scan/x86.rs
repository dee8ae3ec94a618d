//! AVX2 and AVX-512 vectors. Intrinsics only: the loop is in `lanes.rs`.

use super::lanes::{self, Lanes, Term};
use crate::codes::CodedQuery;
use half::f16;
use std::arch::x86_64::*;

/// Bytes that one prefetch brings in.
const CACHE_LINE_BYTES: usize = 64;

/// Proof that the processor has AVX2, F16C, FMA and POPCNT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512F, and AVX2, F16C and FMA with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(pub(super) Avx2);

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("popcnt"))
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

    pub(super) fn sums_of_many<T: Term>(self, queries: &[&[f32]], rows: &[&[f16]], sums: &mut [f32]) {
        #[target_feature(enable = "avx2,f16c,fma")]
        fn with_features<T: Term>(lanes: Avx2, queries: &[&[f32]], rows: &[&[f16]], sums: &mut [f32]) {
            lanes::sums_of_many::<Avx2, T>(lanes, queries, rows, sums);
        }
        // SAFETY: as above.
        unsafe { with_features::<T>(self, queries, rows, sums) }
    }
}

impl Avx2 {
    /// [`CodedQuery::upper_bound`] of each code.
    pub(super) fn upper_bounds(self, query: &CodedQuery, codes: &[u64], factors: &[f32], bounds: &mut [f32]) {
        #[target_feature(enable = "popcnt")]
        fn with_features(query: &CodedQuery, codes: &[u64], factors: &[f32], bounds: &mut [f32]) {
            query.upper_bounds(codes, factors, bounds);
        }
        // SAFETY: an `Avx2` exists only where `detect` found this feature too.
        unsafe { with_features(query, codes, factors, bounds) }
    }
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

    pub(super) fn sums_of_many<T: Term>(self, queries: &[&[f32]], rows: &[&[f16]], sums: &mut [f32]) {
        #[target_feature(enable = "avx512f,avx2,f16c,fma")]
        fn with_features<T: Term>(lanes: Avx512, queries: &[&[f32]], rows: &[&[f16]], sums: &mut [f32]) {
            lanes::sums_of_many::<Avx512, T>(lanes, queries, rows, sums);
        }
        // SAFETY: as above.
        unsafe { with_features::<T>(self, queries, rows, sums) }
    }
}

#[inline(always)]
fn prefetch(row: &[f16]) {
    for line in row.chunks(CACHE_LINE_BYTES / size_of::<f16>()) {
        // SAFETY: SSE is part of x86-64, and a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
    }
}

impl Lanes for Avx2 {
    type Vector = __m256;
    const WIDTH: usize = 8;

    #[inline(always)]
    fn zero(self) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_ps() }
    }

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
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_ps(a, b) }
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

    #[inline(always)]
    fn prefetch(self, row: &[f16]) {
        prefetch(row);
    }
}

impl Lanes for Avx512 {
    type Vector = __m512;
    const WIDTH: usize = 16;

    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_setzero_ps() }
    }

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
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512F.
        unsafe { _mm512_add_ps(a, b) }
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

    #[inline(always)]
    fn prefetch(self, row: &[f16]) {
        prefetch(row);
    }
}
