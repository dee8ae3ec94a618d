//! One bit for each dimension of an embedding, and how far a score estimated from them may be off.
//!
//! The scheme is that of RaBitQ (Gao and Long, SIGMOD 2024) without centroids: a row `o` is turned by a fixed rotation
//! P, the signs of the turned row are its code, and two numbers say how the code is to be read. With `x` the signs over
//! `sqrt(D)`, `r = P o / |o|` and `c = <x, r>`, the estimate `|o| <x, P q> / c` of `<o, q>` is unbiased, and off by at
//! most `e |o| |q| sqrt(1 - c^2) / (c sqrt(D - 1))`, but for a share of rows that falls quickly with `e`.
//!
//! What a code means is part of the format on disk: see `docs/format.md`.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Rounds of the rotation: enough that turned rows look random, whatever the embeddings.
const ROUNDS: usize = 4;
/// Seed of the rotation's signs. Part of the format.
const SEED: u64 = 0x6568_6920_636f_6465;
/// Bits of a word of a code.
const WORD_BITS: usize = u64::BITS as usize;

/// Numbers beside each code.
pub(crate) const FACTORS: usize = 2;
/// Narrowest embedding that has codes: below it they would save little.
pub(crate) const FEWEST_DIMENSIONS: usize = 64;

/// Words of a code.
pub(crate) fn words(dim: usize) -> usize {
    dim.div_ceil(WORD_BITS)
}

/// The fixed rotation of embeddings of one width.
///
/// Each round flips signs at random, then applies a Walsh-Hadamard transform of the largest power of two that fits to
/// the first elements in even rounds and to the last ones in odd rounds, and then, where that power is not the width,
/// turns each element of the first half with its partner in the second half by 45 degrees.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    dim: usize,
    /// `[ROUNDS, dim]`, 1 or -1.
    signs: Vec<f32>,
}

impl Rotation {
    pub fn new(dim: usize) -> Self {
        // SplitMix64.
        let mut state = SEED;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let signs = (0..ROUNDS * dim).map(|_| if next() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        Self { dim, signs }
    }

    /// Turns a row in place; keeps its norm up to rounding.
    pub fn apply(&self, row: &mut [f32]) {
        let dim = self.dim;
        assert_eq!(row.len(), dim, "the width of the rotation");
        if dim == 0 {
            return;
        }
        let power = 1 << dim.ilog2();
        for (round, signs) in self.signs.chunks_exact(dim).enumerate() {
            row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            let part = if round % 2 == 0 { &mut row[..power] } else { &mut row[dim - power..] };
            hadamard(part);
            if power < dim {
                let (low, high) = row.split_at_mut(dim / 2);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (
                        (*a + *b) * std::f32::consts::FRAC_1_SQRT_2,
                        (*a - *b) * std::f32::consts::FRAC_1_SQRT_2,
                    );
                }
            }
        }
    }
}

/// The orthonormal Walsh-Hadamard transform of a power of two of elements.
fn hadamard(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (values.len() as f32).sqrt();
    values.iter_mut().for_each(|x| *x *= scale);
}

/// Makes codes of rows.
#[derive(Debug)]
pub(crate) struct CodeMaker {
    rotation: Rotation,
    turned: Vec<f32>,
}

impl CodeMaker {
    pub fn new(dim: usize) -> Self {
        Self { rotation: Rotation::new(dim), turned: vec![0.0; dim] }
    }

    /// The factors of a row, and its code into `code`: bit `i % 64` of word `i / 64` says whether turned element `i` is
    /// positive; bits beyond the width are 0.
    ///
    /// The factors are what `<signs, P q>` is multiplied by, and what the error is for `|q| = 1` and `e = 1`.
    ///
    /// # Shapes
    /// `row` `[dim]` f16, finite; `code` `[words]`.
    pub fn encode(&mut self, row: &[f16], code: &mut [u64]) -> [f32; FACTORS] {
        row.convert_to_f32_slice(&mut self.turned);
        self.rotation.apply(&mut self.turned);
        code.fill(0);
        let (mut squares, mut magnitude) = (0f64, 0f64);
        for (i, &x) in self.turned.iter().enumerate() {
            squares += f64::from(x) * f64::from(x);
            magnitude += f64::from(x.abs());
            code[i / WORD_BITS] |= u64::from(x > 0.0) << (i % WORD_BITS);
        }
        if magnitude == 0.0 {
            return [0.0; FACTORS];
        }
        // c = <x, r> = magnitude / (sqrt(D) |o|), so |o| / (c sqrt(D)) is the first.
        let (dim, norm) = (row.len() as f64, squares.sqrt());
        let cosine = (magnitude / (dim.sqrt() * norm)).min(1.0);
        let error = norm * (1.0 - cosine * cosine).sqrt() / (cosine * (dim - 1.0).max(1.0).sqrt());
        [(squares / magnitude) as f32, error as f32]
    }
}

/// Bits to which a turned query is rounded.
pub(crate) const QUERY_BITS: usize = 4;

/// A query as codes are compared with it.
#[derive(Clone, Debug)]
pub(crate) struct CodedQuery {
    /// Bits of the rounded query, `[words, QUERY_BITS]`, the lowest first.
    pub planes: Vec<[u64; QUERY_BITS]>,
    /// A rounded element `u` stands for `low + step u`.
    pub low: f32,
    pub step: f32,
    /// Sum of the turned query's elements.
    pub sum: f32,
    /// What the error of a row is multiplied by, and what is added for the first factor: the rounding.
    pub error: f32,
    pub rounding: f32,
}

impl CodedQuery {
    /// Prepares a query; `width` is e, the width of the error in standard deviations, about.
    ///
    /// # Shapes
    /// `query` `[dim]` f32.
    pub fn new(rotation: &Rotation, query: &[f32], width: f32) -> Self {
        let mut turned = query.to_vec();
        rotation.apply(&mut turned);
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        let (mut sum, mut squares) = (0.0, 0.0);
        for &x in &turned {
            (low, high) = (low.min(x), high.max(x));
            sum += x;
            squares += x * x;
        }
        let levels = ((1 << QUERY_BITS) - 1) as f32;
        let step = ((high - low) / levels).max(f32::MIN_POSITIVE);
        let mut planes = vec![[0; QUERY_BITS]; words(turned.len())];
        for (i, &x) in turned.iter().enumerate() {
            let rounded = ((x - low) / step).round().clamp(0.0, levels) as u64;
            for (bit, plane) in planes[i / WORD_BITS].iter_mut().enumerate() {
                *plane |= (rounded >> bit & 1) << (i % WORD_BITS);
            }
        }
        // The rounding of each element is uniform in a step.
        let rounding = width * step * (turned.len() as f32 / 12.0).sqrt();
        Self { planes, low, step, sum, error: width * squares.sqrt(), rounding }
    }

    /// [`Self::upper_bound`] of each row.
    ///
    /// # Shapes
    /// `codes` `[rows, words]`, `factors` `[rows, 2]`, `bounds` `[rows]`.
    #[inline(always)]
    pub fn upper_bounds(&self, codes: &[u64], factors: &[f32], bounds: &mut [f32]) {
        let rows = codes.chunks_exact(self.planes.len()).zip(factors.chunks_exact(FACTORS));
        for ((code, factors), bound) in rows.zip(bounds) {
            *bound = self.upper_bound(code, factors);
        }
    }

    /// The highest score that a row is likely to have: estimate and error.
    #[inline(always)]
    pub fn upper_bound(&self, code: &[u64], factors: &[f32]) -> f32 {
        let (mut ones, mut weighted) = (0u32, 0u32);
        for (word, planes) in code.iter().zip(&self.planes) {
            ones += word.count_ones();
            for (bit, plane) in planes.iter().enumerate() {
                weighted += (word & plane).count_ones() << bit;
            }
        }
        // Of the signs 2 b - 1 with the turned query.
        let product = 2.0 * (self.low * ones as f32 + self.step * weighted as f32) - self.sum;
        factors[0] * (product + self.rounding) + factors[1] * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn unit(dim: usize, random: &mut ChaCha8Rng) -> Vec<f32> {
        let row: Vec<f32> = (0..dim).map(|_| random.random_range(-1.0..1.0)).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.into_iter().map(|x| x / norm).collect()
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn the_rotation_keeps_products_and_spreads() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for dim in [1, 2, 3, 7, 64, 100, 384, 768, 1000] {
            let rotation = Rotation::new(dim);
            let (a, b) = (unit(dim, &mut random), unit(dim, &mut random));
            let (mut c, mut d) = (a.clone(), b.clone());
            rotation.apply(&mut c);
            rotation.apply(&mut d);
            assert!((dot(&a, &b) - dot(&c, &d)).abs() < 1e-5, "{dim}");
            // One element is spread over all of them.
            let mut one = vec![0.0; dim];
            one[dim / 3] = 1.0;
            rotation.apply(&mut one);
            let highest = one.iter().fold(0f32, |a, b| a.max(b.abs()));
            assert!(dim < 64 || highest < 5.0 / (dim as f32).sqrt(), "{dim}: {highest}");
        }
    }

    /// Codes on disk must stay readable: the rotation is part of the format.
    #[test]
    fn the_rotation_never_changes() {
        let mut row: Vec<f32> = (0..96).map(|i| (i % 13) as f32 - 6.0).collect();
        Rotation::new(96).apply(&mut row);
        let mut code = [0; 2];
        let halves: Vec<f16> = (0..96).map(|i| f16::from_f32((i % 13) as f32 - 6.0)).collect();
        CodeMaker::new(96).encode(&halves, &mut code);
        for (i, x) in row.iter().enumerate() {
            assert_eq!(code[i / 64] >> (i % 64) & 1 == 1, *x > 0.0, "{i}");
        }
        assert_eq!(code, PINNED, "{code:#x?}");
    }

    const PINNED: [u64; 2] = [0xe031_bc2e_8267_2c3e, 0x7faf_6c80];

    #[test]
    fn scores_lie_below_the_bound_but_for_few() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for dim in [64, 100, 384, 768] {
            let mut maker = CodeMaker::new(dim);
            let rotation = Rotation::new(dim);
            let (mut above, mut slack, mut rows) = (0, 0.0, 0);
            for _ in 0..20 {
                let query = unit(dim, &mut random);
                let coded = CodedQuery::new(&rotation, &query, 2.0);
                for _ in 0..100 {
                    let other = unit(dim, &mut random);
                    // Anywhere from far away to near.
                    let near = random.random_range(0.0..1.0);
                    let row: Vec<f16> = query
                        .iter()
                        .zip(&other)
                        .map(|(q, o)| f16::from_f32(near * q + (1.0 - near) * o))
                        .collect();
                    let mut code = vec![0; words(dim)];
                    let factors = maker.encode(&row, &mut code);
                    let exact = row.iter().zip(&query).map(|(x, q)| x.to_f64() * f64::from(*q)).sum::<f64>();
                    let bound = f64::from(coded.upper_bound(&code, &factors));
                    above += usize::from(exact > bound);
                    slack += bound - exact;
                    rows += 1;
                }
            }
            assert!(above * 20 < rows, "{dim}: {above} of {rows}");
            assert!(slack / f64::from(rows as u32) < 6.0 / (dim as f64).sqrt(), "{dim}: {slack}");
        }
    }

    #[test]
    fn a_row_of_zeros_has_a_code() {
        let mut code = [7; 2];
        assert_eq!(CodeMaker::new(65).encode(&[f16::ZERO; 65], &mut code), [0.0; 2]);
        assert_eq!(code, [0; 2]);
        let coded = CodedQuery::new(&Rotation::new(65), &[0.5; 65], 2.0);
        assert_eq!(coded.upper_bound(&code, &[0.0; 2]), 0.0);
    }
}
