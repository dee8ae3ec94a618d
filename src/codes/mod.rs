//! Codes of rows, and the error of scores estimated from them: one bit per dimension, and a supplement of
//! three more bits for rows whose first bits do not decide whether they can be hits.
//!
//! The scheme is that of RaBitQ (Gao and Long, SIGMOD 2024; with several bits: Gao et al., SIGMOD 2025),
//! relative to the mean of a leaf's rows in a segment. The component of a row `o` along the mean's direction
//! `m` is stored as a number, `b = <o, m>`. The rest, turned by a fixed rotation P, is `t = P (o - b m)`; it
//! is stored as a nearby vector `v` of few levels, with factors for reading it. With `q'` the query less its
//! component along `m`, `f = |t|^2 / <v, t>` and `c` the cosine of `v` and `t`, the estimate `b <m, q> + f
//! <v, P q'>` of `<o, q>` is unbiased, and off by at most `e |t| |q'| sqrt(1 - c^2) / (c sqrt(D - 1))`,
//! except for a share of rows that falls quickly with `e`. Leaves near a query have means near it, so both
//! `t` and `q'` are short where it matters. `<v, P m>` is known when the code is made: so a query is turned
//! once, and costs one product per mean.
//!
//! With one bit, `v` has the signs of `t`. With the supplement, it has the midpoints of the 16 intervals of a
//! grid of equal steps, of which the outermost are open: the sign tells the side of 0, three bits the
//! distance. The step minimises the mean square error for a normal distribution of the variance `|t|^2 / D`
//! (Max, IRE Transactions on Information Theory 1960). Since steps are equal, `<v, P q>` is four times the
//! product with the signs plus the product with the three bits, so a row's signs are not read again.
//!
//! The meaning of a code is part of the format on disk: see `docs/format.md`.

mod make;
mod means;
mod query;
mod rotation;
mod supplement;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use make::Made;
pub(crate) use make::{CodeMaker, MeanMaker};
pub(crate) use means::Means;
pub(crate) use query::{CodedQuery, CodedRows, Near};
pub(crate) use rotation::Rotation;
pub(crate) use supplement::{UNIT, UNIT_BYTES, record_bytes as supplement_bytes, split as split_supplement};

/// Dimensions whose bits are read together: four bits select one of the 16 bytes of a shuffle.
const GROUP: usize = 4;
/// Elements processed together.
const LANES: usize = 16;
/// Entries of a table of sums: one for each value of a group.
pub(crate) const TABLE: usize = 1 << GROUP;

/// Rows whose codes are stored together.
///
/// In a block, the 16 bytes starting at `16 g` hold group g, dimensions `4 g` to `4 g + 3`, of all its rows:
/// row p has the low half of byte `p % 16` if p is below 16, otherwise the high half, with the lowest
/// dimension in the lowest bit.
pub(crate) const BLOCK_ROWS: usize = 32;
/// Factors of a code: for the estimate, and for its error.
pub(crate) const FACTORS: usize = 2;
/// By how many standard deviations, roughly, a score must exceed the estimate of its code for a row to be
/// missed.
pub(crate) const CODE_WIDTH: f32 = 2.9;
/// Narrowest embeddings with codes: for narrower ones, they would save little.
pub(crate) const FEWEST_DIMENSIONS: usize = 64;
/// Fewest rows of a leaf in a segment for a mean of their own: with fewer rows, it takes more space than it
/// saves in reading. The rows of all smaller leaves share one.
pub(crate) const FEWEST_FOR_MEAN: usize = 32;

/// The stored codes of consecutive rows.
#[derive(Clone, Debug)]
pub(crate) struct StoredCodes<'a> {
    /// `[blocks, block_bytes]`, the blocks that contain all rows.
    pub blocks: &'a [u8],
    /// `[rows]`.
    pub factors: &'a [[f32; FACTORS]],
    /// `[rows]`.
    pub shifts: &'a [f32],
    pub means: Means<'a>,
}

/// Groups of a code: an even number; the last ones may exceed the width and have no bits.
fn groups(dim: usize) -> usize {
    dim.div_ceil(2 * GROUP) * 2
}

/// The position of a row's four bits in 16 bytes: the byte, and the shift.
fn nibble(place: usize) -> (usize, usize) {
    (place % TABLE, place / TABLE * GROUP)
}

/// Bytes of a block of codes.
pub(crate) fn block_bytes(dim: usize) -> usize {
    groups(dim) * TABLE
}
