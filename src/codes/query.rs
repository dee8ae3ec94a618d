//! Compares a query with codes.

use pulp::{Arch, Simd, WithSimd};

use super::block::{BLOCK_ROWS, Block, CHUNK_BYTES, CHUNK_TABLES, ROW_BYTES, bytes_of_groups, groups};
use super::supplement::{self, HIGHEST, UNIT};
use super::{GROUP, LANES, Rotation, TABLE};
use crate::prefetch::{CACHE_LINE_BYTES, prefetch};

/// Width of the error caused by rounded tables, in standard deviations. It is added to a much larger error.
const ROUNDING_WIDTH: f32 = 2.0;
/// The minimum of `|q'|` squared, as a share of the query's: directions are rounded, too.
const LEAST_REST: f32 = 1e-4;
/// The approximate mean square of levels around the middle one.
const LEVELS_SQUARE: f32 = 6.0;
/// The value of a sign in levels of the supplement.
const LEVELS_PER_SIGN: f32 = (HIGHEST as f32 + 1.0) / 2.0;

/// The nearest integer from 0 to 255. Without a cast, which compilers do not vectorise: added to 2^23, a
/// number has its integer part in its lowest bits.
#[inline(always)]
fn nearest_byte(x: f32) -> u8 {
    (x.clamp(0.0, 255.0) + 8_388_608.0).to_bits() as u8
}

/// The same from -127 to 127: at 1.5 times 2^23, the lowest bits are those of a signed number.
#[inline(always)]
fn nearest_signed(x: f32) -> i8 {
    (x.clamp(-127.0, 127.0) + 12_582_912.0).to_bits() as i8
}

/// A query prepared for comparison with codes: what each value of each group adds to `<signs, P q>`, rounded
/// to a byte.
#[derive(Clone, Debug)]
pub(crate) struct CodedQuery {
    /// `[dim, padded with zeros to a multiple of UNIT]`, turned; an element `u` represents `fine_step u`.
    pub fine: Vec<i8>,
    fine_step: f32,
    /// The product with the middle level in all dimensions.
    middle: f32,
    /// `[groups, TABLE]`; an entry `u` represents `step u` plus the minimum of its group.
    pub tables: Vec<u8>,
    step: f32,
    /// The sum of the minima of all groups.
    base: f32,
    squares: f32,
    /// The standard deviations of the rounding errors: of the tables in the product with the signs, and of
    /// both in the product with all bits.
    rounding: f32,
    fine_rounding: f32,
}

/// A query relative to a mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    /// Its product with the mean.
    pub along: f32,
    /// `|q'|`, the length of the rest of the query.
    pub rest: f32,
}

/// Blocks of codes relative to one mean, to be compared with a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeScan<'a> {
    pub query: &'a CodedQuery,
    /// `[blocks, block_bytes]`
    pub blocks: &'a [u8],
    pub near: Near,
    /// e, the width of errors in standard deviations, approximately.
    pub width: f32,
    /// The score that a row must be able to have.
    pub threshold: f32,
    /// What is read next, prefetched in the meantime.
    pub next: &'a [u8],
}

/// The rows of a block that can have a score of the threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likely {
    /// The number of the block.
    pub block: usize,
    /// A bit for each place, lowest first, that is set unless the bound is below the threshold, so also if it
    /// cannot be compared. A place without a row has some bit.
    pub reach: u32,
    /// The highest likely scores.
    pub bounds: [f32; BLOCK_ROWS],
    /// From [`BlockSums::sums`].
    pub sums: [u32; BLOCK_ROWS],
}

/// Adds up what the bits of a block select from a query's tables. Its method must be `#[inline(always)]`, so
/// that it is compiled with the features of its caller.
pub(crate) trait BlockSums: Copy {
    /// # Shapes
    /// `tables` `[chunks, 2 CHUNK_TABLES]`, `bits` `[chunks, CHUNK_BYTES]`.
    fn sums(self, tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS];
}

/// The definition of these sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSums;

impl BlockSums for TableSums {
    #[inline(always)]
    fn sums(self, tables: &[u8], bits: &[u8]) -> [u32; BLOCK_ROWS] {
        let mut sums = [0; BLOCK_ROWS];
        for (bits, tables) in bits.chunks_exact(CHUNK_BYTES).zip(tables.chunks_exact(2 * CHUNK_TABLES)) {
            let (low, high) = tables.split_at(CHUNK_TABLES);
            for (sum, bytes) in sums.iter_mut().zip(bits.chunks_exact(ROW_BYTES)) {
                let tables = low.chunks_exact(TABLE).zip(high.chunks_exact(TABLE));
                let found = tables.zip(bytes).map(|((low, high), byte)| {
                    u32::from(low[usize::from(byte & 15)]) + u32::from(high[usize::from(byte >> 4)])
                });
                *sum += found.sum::<u32>();
            }
        }
        sums
    }
}

impl CodeScan<'_> {
    /// Passes the blocks with rows that can have a score of the threshold to `found`.
    #[inline(always)]
    pub fn run(self, kernel: impl BlockSums, found: &mut impl FnMut(&Likely)) {
        let Self { query, blocks, near, width, threshold, next } = self;
        let (base, error) = (query.base + ROUNDING_WIDTH * query.rounding, width * near.rest);
        let blocks = blocks.chunks_exact(query.block_bytes());
        let mut ahead = next.chunks(CACHE_LINE_BYTES);
        let lines = ahead.len().div_ceil(blocks.len().max(1));
        for (number, bytes) in blocks.enumerate() {
            ahead.by_ref().take(lines).for_each(|line| prefetch(line.as_ptr()));
            let Block { bits, numbers } = Block::new(bytes);
            let sums = kernel.sums(&query.tables, bits);
            let bounds: [f32; BLOCK_ROWS] = std::array::from_fn(|place| {
                let product = base + query.step * sums[place] as f32;
                near.along * numbers.shifts[place]
                    + numbers.factors[place] * product
                    + numbers.errors[place] * error
            });
            let reaches = bounds.map(|bound| u8::from((bound >= threshold) | bound.is_nan()));
            // As one number, which compilers make of a vector faster than a bit for each row.
            if u128::from_ne_bytes(reaches) != 0 {
                let reach =
                    reaches.iter().zip(0..).fold(0, |all, (&one, place)| all | u32::from(one) << place);
                found(&Likely { block: number, reach, bounds, sums });
            }
        }
    }
}

impl CodedQuery {
    /// Prepares a query.
    ///
    /// # Shapes
    /// `query` `[dim]` f32.
    pub fn new(rotation: &Rotation, query: &[f32]) -> Self {
        let mut turned = Vec::with_capacity(query.len().next_multiple_of(UNIT));
        turned.extend_from_slice(query);
        rotation.apply(&mut turned);
        turned.resize(query.len().next_multiple_of(UNIT), 0.0);
        Arch::new().dispatch(Prepare { turned: &turned, dim: query.len() })
    }

    /// Prepares a query that is turned, and padded with zeros.
    #[inline(always)]
    fn prepare(turned: &[f32], dim: usize) -> Self {
        let groups = groups(dim);
        let (mut squares, mut highest) = ([0.0; LANES], [0f32; LANES]);
        for values in turned.as_chunks::<LANES>().0 {
            squares.iter_mut().zip(values).for_each(|(sum, x)| *sum += x * x);
            highest.iter_mut().zip(values).for_each(|(most, x)| *most = most.max(x.abs()));
        }
        let (squares, highest) = (squares.iter().sum(), highest.into_iter().fold(0f32, f32::max));
        let fine_step = (highest / f32::from(i8::MAX)).max(f32::MIN_POSITIVE);
        let fine_steps = 1.0 / fine_step;
        let fine: Vec<i8> = turned.iter().map(|x| nearest_signed(x * fine_steps)).collect();
        let middle = f32::from(HIGHEST) / 2.0 * fine.iter().map(|x| i32::from(*x)).sum::<i32>() as f32;
        let (in_groups, _) = turned[..groups * GROUP].as_chunks::<GROUP>();
        // The range of a group: from all signs against the query to all signs with it.
        let least = |group: &[f32; GROUP]| -group.iter().map(|x| x.abs()).sum::<f32>();
        let (mut spread, mut base) = (0f32, 0.0);
        for least in in_groups.iter().map(least) {
            (spread, base) = (spread.max(-2.0 * least), base + least);
        }
        let step = (spread / f32::from(u8::MAX)).max(f32::MIN_POSITIVE);
        let steps = 1.0 / step;
        let mut tables = vec![0; groups * TABLE];
        for (table, group) in tables.as_chunks_mut::<TABLE>().0.iter_mut().zip(in_groups) {
            let mut sums = [-group.iter().sum::<f32>() - least(group); TABLE];
            for (bit, x) in group.iter().enumerate().rev() {
                // For all values at once, which compilers vectorise.
                let with_sign = |value: usize| if value >> bit & 1 == 1 { 2.0 * x } else { 0.0 };
                sums.iter_mut().enumerate().for_each(|(value, sum)| *sum += with_sign(value));
            }
            table.iter_mut().zip(sums).for_each(|(entry, sum)| *entry = nearest_byte(sum * steps));
        }
        // The rounding error of each table is uniform within a step.
        let rounding = step * (groups as f32 / 12.0).sqrt();
        let signs = LEVELS_PER_SIGN * rounding;
        let fine_rounding =
            (signs * signs + fine_step * fine_step * dim as f32 * LEVELS_SQUARE / 12.0).sqrt();
        Self { fine, fine_step, middle, fine_rounding, tables, step, base, squares, rounding }
    }

    /// Bytes of a block of codes of this width.
    #[inline(always)]
    pub fn block_bytes(&self) -> usize {
        bytes_of_groups(self.tables.len() / TABLE)
    }

    /// The product of a row's signs with the query, from its sum.
    #[inline(always)]
    pub fn product(&self, sum: u32) -> f32 {
        self.base + self.step * sum as f32
    }

    /// The query relative to a mean, given its product with that mean.
    pub fn near(&self, along: f32) -> Near {
        Near { along, rest: (self.squares - along * along).max(LEAST_REST * self.squares).sqrt() }
    }

    /// The product of the query with the levels of a supplement, in its own units.
    ///
    /// # Shapes
    /// `bits` are those of a supplement of this width.
    pub fn levels(&self, bits: &[u8]) -> i32 {
        supplement::product(&self.fine, bits)
    }

    /// As the bound from the sum, but with the row's supplement, which makes the error much smaller; `width`
    /// is e.
    ///
    /// # Shapes
    /// `product` from [`Self::product`], `levels` from [`Self::levels`]; `numbers` of the supplement.
    pub fn tight_bound(&self, product: f32, levels: i32, near: Near, width: f32, numbers: [f32; 3]) -> f32 {
        let [factor, error, shift] = numbers;
        let levels = self.fine_step * (levels as f32 - self.middle);
        let estimate = near.along * shift + factor * (LEVELS_PER_SIGN * product + levels);
        // Two independent errors.
        let (own, rounded) = (error * near.rest, factor * self.fine_rounding);
        estimate + width * (own * own + rounded * rounded).sqrt()
    }
}

struct Prepare<'a> {
    turned: &'a [f32],
    dim: usize,
}

impl WithSimd for Prepare<'_> {
    type Output = CodedQuery;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> CodedQuery {
        CodedQuery::prepare(self.turned, self.dim)
    }
}
