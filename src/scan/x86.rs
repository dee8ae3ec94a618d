//! AVX2 and AVX-512 vectors. Intrinsics only: the loop is in `lanes.rs`.

use super::lanes::{self, Lanes, Term};
use crate::codes::{self, BLOCK_ROWS, BlockSums, CHUNK_BYTES, CHUNK_TABLES, CodeScan, Likely};
use half::f16;
use std::arch::x86_64::*;

/// Proof that the processor has AVX2, F16C and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the processor has AVX-512F, and AVX2, F16C and FMA with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512 {
    pub(super) avx2: Avx2,
    vbmi: Option<Vbmi>,
}

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

    pub(super) fn scan_codes(self, scan: CodeScan<'_>, found: &mut impl FnMut(&Likely)) {
        #[target_feature(enable = "avx2,f16c,fma")]
        fn with_features(avx2: Avx2, scan: CodeScan<'_>, found: &mut impl FnMut(&Likely)) {
            scan.run(avx2, found);
        }
        // SAFETY: an `Avx2` exists only where `detect` found these features.
        unsafe { with_features(self, scan, found) }
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

/// With shuffles: a table is a part of a vector, and the bits of a group select one of its bytes for each
/// row.
impl BlockSums for Avx2 {
    #[inline(always)]
    fn sums(self, tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS] {
        // SAFETY: `self` proves AVX2.
        unsafe { shuffled_sums(tables, bits) }
    }
}

/// Chunks of bits whose sums fit into 16 bits.
const CHUNKS_PER_ROUND: usize = u16::MAX as usize / (2 * CHUNK_TABLES / BLOCK_ROWS * u8::MAX as usize);

#[inline]
#[target_feature(enable = "avx2")]
fn shuffled_sums(tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS] {
    const HALF: usize = CHUNK_BYTES / 2;
    // From the bytes of a row to those of a group, in each half of a vector.
    let by_group =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let nibble = _mm256_set1_epi8(15);
    let mut sums = [0; BLOCK_ROWS];
    let rounds = tables.chunks(2 * CHUNK_TABLES * CHUNKS_PER_ROUND);
    for (tables, bits) in rounds.zip(bits.chunks(CHUNK_BYTES * CHUNKS_PER_ROUND)) {
        // Of all bytes in pairs, and of the upper ones.
        let (mut all, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (tables, bits) in tables.chunks_exact(2 * CHUNK_TABLES).zip(bits.chunks_exact(CHUNK_BYTES)) {
            // SAFETY: a chunk has 64 bytes, and its tables have 128; any alignment will do.
            let load = |from: &[u8], at: usize| unsafe { _mm256_loadu_si256(from.as_ptr().add(at).cast()) };
            let (first, last) = (load(bits, 0), load(bits, HALF));
            let (first, last) = (_mm256_shuffle_epi8(first, by_group), _mm256_shuffle_epi8(last, by_group));
            let pairs = [_mm256_unpacklo_epi32(first, last), _mm256_unpackhi_epi32(first, last)];
            for (pair, at) in pairs.into_iter().zip([0, HALF]) {
                // Two groups of all rows, and in the upper halves of the bytes two others.
                let pair = _mm256_permutevar8x32_epi32(pair, in_order);
                let low = _mm256_and_si256(pair, nibble);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(pair), nibble);
                let low = _mm256_shuffle_epi8(load(tables, at), low);
                let high = _mm256_shuffle_epi8(load(tables, CHUNK_TABLES + at), high);
                for found in [low, high] {
                    all = _mm256_add_epi16(all, found);
                    odd = _mm256_add_epi16(odd, _mm256_srli_epi16::<8>(found));
                }
            }
        }
        // Without the upper bytes, and modulo 2^16, which the sum of the lower ones fits.
        let even = _mm256_sub_epi16(all, _mm256_slli_epi16::<8>(odd));
        let halves = |x| _mm_add_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        let (even, odd) = (halves(even), halves(odd));
        let rows = [_mm_unpacklo_epi16(even, odd), _mm_unpackhi_epi16(even, odd)];
        for (rows, sums) in rows.into_iter().zip(sums.chunks_exact_mut(8)) {
            // SAFETY: the slice has 32 bytes, and any alignment will do.
            unsafe {
                let before = _mm256_loadu_si256(sums.as_ptr().cast());
                let sum = _mm256_add_epi32(before, _mm256_cvtepu16_epi32(rows));
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum);
            }
        }
    }
    sums
}

/// Proof that the processor has AVX-512F, -BW, -VBMI and -VNNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vbmi(());

/// With permutations: four tables are a vector, from which each byte selects one, and the bytes of a row are
/// added in one instruction.
impl BlockSums for Vbmi {
    #[inline(always)]
    fn sums(self, tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS] {
        // SAFETY: `self` proves these features.
        unsafe { permuted_sums(tables, bits) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn permuted_sums(tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS] {
    /// `a & b | c`
    const AND_OR: i32 = 0b1110_1010;
    let (nibble, ones) = (_mm512_set1_epi8(15), _mm512_set1_epi8(1));
    // The first entry of the table for each of a row's bytes.
    let table = _mm512_set1_epi32(i32::from_le_bytes([0, 16, 32, 48]));
    let mut sums = [_mm512_setzero_si512(); 2];
    for (tables, bits) in tables.chunks_exact(2 * CHUNK_TABLES).zip(bits.chunks_exact(CHUNK_BYTES)) {
        // SAFETY: a chunk has 64 bytes, and its tables have 128; any alignment will do.
        let load = |from: &[u8], at: usize| unsafe { _mm512_loadu_si512(from.as_ptr().add(at).cast()) };
        let bits = load(bits, 0);
        for (at, bits) in [bits, _mm512_srli_epi16::<4>(bits)].into_iter().enumerate() {
            let entries = _mm512_ternarylogic_epi32::<AND_OR>(bits, nibble, table);
            let found = _mm512_permutexvar_epi8(entries, load(tables, at * CHUNK_TABLES));
            sums[at] = _mm512_dpbusd_epi32(sums[at], found, ones);
        }
    }
    let mut out = [0; BLOCK_ROWS];
    // SAFETY: the array has 64 bytes, and any alignment will do.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_add_epi32(sums[0], sums[1])) };
    out
}

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let vbmi = is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vnni");
        let avx2 = Avx2::detect().filter(|_| is_x86_feature_detected!("avx512f"))?;
        Some(Self { avx2, vbmi: vbmi.then_some(Vbmi(())) })
    }

    pub(super) fn instructions(self) -> &'static str {
        if self.vbmi.is_some() { "AVX-512 with VBMI" } else { "AVX-512" }
    }

    pub(super) fn scan_codes(self, scan: CodeScan<'_>, found: &mut impl FnMut(&Likely)) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
        fn with_features(vbmi: Vbmi, scan: CodeScan<'_>, found: &mut impl FnMut(&Likely)) {
            scan.run(vbmi, found);
        }
        match self.vbmi {
            // SAFETY: a `Vbmi` exists only where `detect` found these features.
            Some(vbmi) => unsafe { with_features(vbmi, scan, found) },
            None => self.avx2.scan_codes(scan, found),
        }
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
