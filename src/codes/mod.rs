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

mod block;
mod make;
mod query;
mod rotation;
mod supplement;
#[cfg(test)]
mod tests;

use half::f16;

pub(crate) use block::{BLOCK_ROWS, Block, block_bytes};
#[cfg(target_arch = "x86_64")]
pub(crate) use block::{CHUNK_BYTES, CHUNK_TABLES};
pub(crate) use make::{CodeMaker, MeanMaker};
#[cfg(target_arch = "x86_64")]
pub(crate) use query::BlockSums;
pub(crate) use query::{CodeScan, CodedQuery, Likely, Near, TableSums};
pub(crate) use rotation::Rotation;
#[cfg(target_arch = "x86_64")]
pub(crate) use supplement::{UNIT, UNIT_BYTES};
pub(crate) use supplement::{record_bytes as supplement_bytes, split as split_supplement};

/// Dimensions whose bits are read together: four bits select one of the 16 bytes of a shuffle.
const GROUP: usize = 4;
/// Elements processed together.
const LANES: usize = 16;
/// Entries of a table of sums: one for each value of a group.
pub(crate) const TABLE: usize = 1 << GROUP;

/// By how many standard deviations, roughly, a score must exceed the estimate of its code for a row to be
/// missed.
pub(crate) const CODE_WIDTH: f32 = 2.9;
/// Narrowest embeddings with codes: for narrower ones, they would save little.
pub(crate) const FEWEST_DIMENSIONS: usize = 64;
/// Fewest rows of a leaf in a segment for a mean of their own: with fewer rows, it takes more space than it
/// saves in reading. The rows of all smaller leaves share one.
pub(crate) const FEWEST_FOR_MEAN: usize = 32;
/// Fewest rows of a leaf whose codes begin a block of their own, so that few blocks are read for the leaf;
/// the rows of smaller leaves share blocks.
pub(crate) const FEWEST_FOR_BLOCK: usize = 8;

/// The stored codes of consecutive rows that are relative to one mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCodes<'a> {
    /// `[blocks, block_bytes]`, the blocks that contain all rows.
    pub blocks: &'a [u8],
    /// The position of the first row in the first block.
    pub first: usize,
    /// Number of rows.
    pub rows: usize,
    /// The direction of the mean, `[dim]`.
    pub mean: &'a [f16],
}
