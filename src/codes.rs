//! One bit for each dimension of an embedding, and how far a score estimated from them may be off.
//!
//! The scheme is that of RaBitQ (Gao and Long, SIGMOD 2024) without centroids: a row `o` is turned by a fixed
//! rotation P, the signs of the turned row are its code, and two numbers say how the code is to be read. With
//! `x` the signs over `sqrt(D)`, `r = P o / |o|` and `c = <x, r>`, the estimate `|o| <x, P q> / c` of `<o,
//! q>` is unbiased, and off by at most `e |o| |q| sqrt(1 - c^2) / (c sqrt(D - 1))`, but for a share of rows
//! that falls quickly with `e`.
//!
//! What a code means is part of the format on disk: see `docs/format.md`.

use half::f16;
use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd};

/// Rounds of the rotation: enough that turned rows look random, whatever the embeddings.
const ROUNDS: usize = 4;
/// Seed of the rotation's signs. Part of the format.
const SEED: u64 = 0x6568_6920_636f_6465;
/// Dimensions whose bits are read together: four bits choose one of the 16 bytes that a shuffle can.
const GROUP: usize = 4;
/// Elements worked on together.
const LANES: usize = 16;
/// Entries of a table of sums: one for each value of a group.
pub(crate) const TABLE: usize = 1 << GROUP;

/// Rows whose codes lie together.
///
/// In a block the 16 bytes from `16 g` on hold group g, dimensions `4 g` to `4 g + 3`, of all its rows: row p
/// has the low half of byte `p % 16` where p is below 16, and else the high one, the lowest dimension in the
/// lowest bit.
pub(crate) const BLOCK_ROWS: usize = 32;
/// Numbers beside each code.
pub(crate) const FACTORS: usize = 2;
/// Narrowest embedding that has codes: below it they would save little.
pub(crate) const FEWEST_DIMENSIONS: usize = 64;

/// Groups of a code: an even number, the last ones past the width without a bit.
fn groups(dim: usize) -> usize {
    dim.div_ceil(2 * GROUP) * 2
}

/// Where in 16 bytes the row at a place has its four bits: the byte, and by how much they are shifted.
fn nibble(place: usize) -> (usize, usize) {
    (place % TABLE, place / TABLE * GROUP)
}

/// Bytes of a block of codes.
pub(crate) fn block_bytes(dim: usize) -> usize {
    groups(dim) * TABLE
}

/// The fixed rotation of embeddings of one width.
///
/// Each round flips signs at random, then applies a Walsh-Hadamard transform of the largest power of two that
/// fits to the first elements in even rounds and to the last ones in odd rounds, and then, where that power
/// is not the width, turns each element of the first half with its partner in the second half by 45 degrees.
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
        assert_eq!(row.len(), self.dim, "the width of the rotation");
        if self.dim > 0 {
            Arch::new().dispatch(Turn { rotation: self, row });
        }
    }

    #[inline(always)]
    fn turn(&self, row: &mut [f32]) {
        let dim = self.dim;
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

/// [`Rotation::turn`] for the widest instructions of the machine; each element is the same with all.
struct Turn<'a> {
    rotation: &'a Rotation,
    row: &'a mut [f32],
}

impl WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.rotation.turn(self.row);
    }
}

/// The orthonormal Walsh-Hadamard transform of a power of two of elements.
#[inline(always)]
fn hadamard(values: &mut [f32]) {
    let mut half = 1;
    let (chunks, _) = values.as_chunks_mut::<LANES>();
    if !chunks.is_empty() {
        // Inside a register, where the loop below would go element by element.
        for chunk in chunks {
            butterflies::<1>(chunk);
            butterflies::<2>(chunk);
            butterflies::<4>(chunk);
            butterflies::<8>(chunk);
        }
        half = LANES;
    }
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

/// One level of the transform, of pairs that are `HALF` apart.
#[inline(always)]
fn butterflies<const HALF: usize>(values: &mut [f32; LANES]) {
    let old = *values;
    *values = std::array::from_fn(|i| match i & HALF {
        0 => old[i] + old[i + HALF],
        _ => old[i - HALF] - old[i],
    });
}

/// The code of one row where it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCode<'a> {
    /// `[block_bytes]`, the block that the row is in.
    pub block: &'a [u8],
    /// The row's place in it.
    pub place: usize,
    pub factors: [f32; FACTORS],
}

impl StoredCode<'_> {
    /// Sets the bits of the code at a place in another block where they are 0.
    pub fn copy_to(self, place: usize, block: &mut [u8]) {
        let ((from, from_half), (to, to_half)) = (nibble(self.place), nibble(place));
        for (own, other) in self.block.chunks_exact(TABLE).zip(block.chunks_exact_mut(TABLE)) {
            other[to] |= (own[from] >> from_half & (TABLE - 1) as u8) << to_half;
        }
    }
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

    /// The factors of a row; sets the bits of its code, of the turned elements that are positive, at its
    /// place in a block where they are 0.
    ///
    /// The factors are what `<signs, P q>` is multiplied by, and what the error is for `|q| = 1` and `e = 1`.
    ///
    /// # Shapes
    /// `row` `[dim]` f16, finite; `block` `[block_bytes]`.
    pub fn encode(&mut self, row: &[f16], place: usize, block: &mut [u8]) -> [f32; FACTORS] {
        row.convert_to_f32_slice(&mut self.turned);
        self.rotation.apply(&mut self.turned);
        let (byte, half) = nibble(place);
        let (mut squares, mut magnitude) = ([0f64; LANES], [0f64; LANES]);
        for chunk in self.turned.chunks(LANES) {
            for ((square, sum), &x) in squares.iter_mut().zip(&mut magnitude).zip(chunk) {
                *square += f64::from(x) * f64::from(x);
                *sum += f64::from(x.abs());
            }
        }
        let [squares, magnitude] = [squares, magnitude].map(|lanes| lanes.iter().sum::<f64>());
        for (group, table) in self.turned.chunks(GROUP).zip(block.chunks_exact_mut(TABLE)) {
            let bits = group.iter().zip(0..).map(|(&x, bit)| u8::from(x > 0.0) << bit);
            table[byte] |= bits.sum::<u8>() << half;
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

/// The nearest whole number from 0 to 255. Without a cast, which compilers do not vectorise: added to 2^23, a
/// number has its whole part in its lowest bits.
#[inline(always)]
fn nearest_byte(x: f32) -> u8 {
    (x.clamp(0.0, 255.0) + 8_388_608.0).to_bits() as u8
}

/// A query as codes are compared with it: what each value of each group adds to `<signs, P q>`, rounded to a
/// byte.
#[derive(Clone, Debug)]
pub(crate) struct CodedQuery {
    /// `[groups, TABLE]`; an entry `u` stands for `step u` more than the least of its group.
    pub tables: Vec<u8>,
    step: f32,
    /// The least of all groups together.
    base: f32,
    /// What the error of a row is multiplied by, and what the rounding of the tables may add.
    error: f32,
    rounding: f32,
}

impl CodedQuery {
    /// Prepares a query; `width` is e, the width of the error in standard deviations, about.
    ///
    /// # Shapes
    /// `query` `[dim]` f32.
    pub fn new(rotation: &Rotation, query: &[f32], width: f32) -> Self {
        let mut turned = query.to_vec();
        rotation.apply(&mut turned);
        let squares: f32 = turned.iter().map(|x| x * x).sum();
        let groups = groups(turned.len());
        turned.resize(groups * GROUP, 0.0);
        // The spread of a group: from all its signs against the query to all with it.
        let least = |group: &[f32]| -group.iter().map(|x| x.abs()).sum::<f32>();
        let spread = turned.chunks_exact(GROUP).map(|group| -2.0 * least(group)).fold(0.0, f32::max);
        let step = (spread / f32::from(u8::MAX)).max(f32::MIN_POSITIVE);
        let steps = 1.0 / step;
        let mut tables = Vec::with_capacity(groups * TABLE);
        for group in turned.chunks_exact(GROUP) {
            let mut sums = [0f32; TABLE];
            sums[0] = -group.iter().sum::<f32>() - least(group);
            for value in 1..TABLE {
                // One more sign with the query.
                sums[value] = sums[value & (value - 1)] + 2.0 * group[value.trailing_zeros() as usize];
            }
            tables.extend(sums.map(|sum| nearest_byte(sum * steps)));
        }
        let base = turned.chunks_exact(GROUP).map(least).sum();
        // The rounding of each table is uniform in a step.
        let rounding = width * step * (groups as f32 / 12.0).sqrt();
        Self { tables, step, base, error: width * squares.sqrt(), rounding }
    }

    /// What the rows of a block add up to, by the tables.
    ///
    /// # Shapes
    /// `block` `[block_bytes]`.
    pub fn sums(&self, block: &[u8]) -> [u32; BLOCK_ROWS] {
        let mut sums = [0; BLOCK_ROWS];
        for (bytes, table) in block.chunks_exact(TABLE).zip(self.tables.chunks_exact(TABLE)) {
            let (low, high) = sums.split_at_mut(TABLE);
            for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
                *low += u32::from(table[usize::from(byte & 15)]);
                *high += u32::from(table[usize::from(byte >> 4)]);
            }
        }
        sums
    }

    /// The highest score that a row is likely to have, by its sum: estimate and error.
    #[inline(always)]
    fn upper_bound(&self, sum: u32, factors: &[f32; FACTORS]) -> f32 {
        let product = self.base + self.step * sum as f32;
        factors[0] * (product + self.rounding) + factors[1] * self.error
    }

    /// The highest scores that rows are likely to have, to `bounds`, and a bit, the lowest first, for each
    /// that is not below the threshold, as one that cannot be compared.
    ///
    /// # Shapes
    /// `sums` `[n]`, `factors` `[n or more]`, n at most [`BLOCK_ROWS`].
    pub fn upper_bounds(
        &self,
        sums: &[u32],
        factors: &[[f32; FACTORS]],
        threshold: f32,
        bounds: &mut [f32; BLOCK_ROWS],
    ) -> u32 {
        Arch::new().dispatch(UpperBounds { query: self, sums, factors, threshold, bounds })
    }
}

struct UpperBounds<'a> {
    query: &'a CodedQuery,
    sums: &'a [u32],
    factors: &'a [[f32; FACTORS]],
    threshold: f32,
    bounds: &'a mut [f32; BLOCK_ROWS],
}

impl WithSimd for UpperBounds<'_> {
    type Output = u32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u32 {
        let Self { query, sums, factors, threshold, bounds } = self;
        let own = bounds.iter_mut().zip(sums).zip(factors);
        own.for_each(|((bound, &sum), factors)| *bound = query.upper_bound(sum, factors));
        // Places beyond the rows hold what was there before.
        let rows = sums.len().min(factors.len());
        let may_be = |bound: f32| u32::from(bound >= threshold) | u32::from(bound.is_nan());
        let mask = bounds.iter().zip(0..).fold(0, |mask, (bound, place)| mask | may_be(*bound) << place);
        if rows < BLOCK_ROWS { mask & ((1 << rows) - 1) } else { mask }
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
        for dim in [1, 2, 3, 7, 64, 100, 384, 768, 1000].into_iter().take(if cfg!(miri) { 5 } else { 9 }) {
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
        let halves: Vec<f16> = (0..96).map(|i| f16::from_f32((i % 13) as f32 - 6.0)).collect();
        for place in [0, 5, 16, 31] {
            let mut block = vec![0; block_bytes(96)];
            CodeMaker::new(96).encode(&halves, place, &mut block);
            let mut code = [0u64; 2];
            for (i, x) in row.iter().enumerate() {
                let bit = block[i / 4 * 16 + place % 16] >> (place / 16 * 4 + i % 4) & 1;
                assert_eq!(bit == 1, *x > 0.0, "{i}");
                code[i / 64] |= u64::from(bit) << (i % 64);
            }
            assert_eq!(code, PINNED, "{code:#x?}");
            let set: u32 = block.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(set, code.iter().map(|word| word.count_ones()).sum::<u32>(), "no other row has a bit");
        }
    }

    const PINNED: [u64; 2] = [0xe031_bc2e_8267_2c3e, 0x7faf_6c80];

    #[test]
    fn scores_lie_below_the_bound_but_for_few() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for dim in [64, 100, 384, 768].into_iter().take(if cfg!(miri) { 1 } else { 4 }) {
            let mut maker = CodeMaker::new(dim);
            let rotation = Rotation::new(dim);
            let (mut above, mut slack, mut rows) = (0, 0.0, 0);
            for _ in 0..if cfg!(miri) { 1 } else { 20 } {
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
                    let (mut block, place) = (vec![0; block_bytes(dim)], rows % BLOCK_ROWS);
                    let factors = maker.encode(&row, place, &mut block);
                    let exact = row.iter().zip(&query).map(|(x, q)| x.to_f64() * f64::from(*q)).sum::<f64>();
                    let bound = f64::from(coded.upper_bound(coded.sums(&block)[place], &factors));
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
    fn bounds_of_a_block_are_those_of_its_rows() {
        let coded = CodedQuery::new(&Rotation::new(64), &[0.125; 64], 2.0);
        let sums: Vec<u32> = (0..BLOCK_ROWS as u32).map(|row| 900 + 37 * row).collect();
        for rows in [1, 5, 31, 32] {
            let mut factors: Vec<[f32; FACTORS]> = (0..rows).map(|row| [0.1, 0.01 * row as f32]).collect();
            let own: Vec<f32> =
                factors.iter().zip(&sums).map(|(own, &sum)| coded.upper_bound(sum, own)).collect();
            let threshold = own[rows / 2];
            // One that cannot be compared may be a hit.
            factors[0][0] = f32::NAN;
            let mut bounds = [0.0; BLOCK_ROWS];
            let mask = coded.upper_bounds(&sums, &factors, threshold, &mut bounds);
            assert!(bounds[0].is_nan() && bounds[1..rows] == own[1..]);
            let want = (1..rows).filter(|row| own[*row] >= threshold).fold(1, |mask, row| mask | 1 << row);
            assert_eq!(mask, want, "{rows}");
        }
    }

    #[test]
    fn a_row_of_zeros_has_a_code() {
        let mut block = vec![0; block_bytes(65)];
        assert_eq!(CodeMaker::new(65).encode(&[f16::ZERO; 65], 3, &mut block), [0.0; 2]);
        assert!(block.iter().all(|byte| *byte == 0));
        let coded = CodedQuery::new(&Rotation::new(65), &[0.5; 65], 2.0);
        assert_eq!(coded.upper_bound(coded.sums(&block)[3], &[0.0; 2]), 0.0);
    }
}
