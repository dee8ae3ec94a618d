//! Codes of rows, and how far a score estimated from them may be off: one bit for each dimension, and a
//! supplement of three more for rows whose bits leave it open whether they can be hits.
//!
//! The scheme is that of RaBitQ (Gao and Long, SIGMOD 2024; of several bits: Gao et al., SIGMOD 2025), beside
//! the mean of a segment's rows of a leaf. Of a row `o` the part along the mean's direction `m` is kept as a
//! number, `b = <o, m>`. The rest, turned by a fixed rotation P, is `t = P (o - b m)`; what is stored of it
//! is a vector `v` of few levels near it, and numbers that say how it is to be read. With `q'` what a query
//! is beside `m`, `f = |t|^2 / <v, t>` and `c` the cosine of `v` and `t`, the estimate `b <m, q> + f <v, P
//! q'>` of `<o, q>` is unbiased, and off by at most `e |t| |q'| sqrt(1 - c^2) / (c sqrt(D - 1))`, but for a
//! share of rows that falls quickly with `e`. Leaves that a query is near to have means near to it, and so
//! both `t` and `q'` are short where it counts. `<v, P m>` is known when the code is made: so a query is
//! turned once, and costs one product a mean.
//!
//! Of one bit `v` has the signs of `t`. With the supplement it has the middles of the 16 intervals of a grid
//! of equal steps, the outermost open: the sign says on which side of 0, three bits how far along. The step
//! is the one that errs least, in the mean square, for a normal distribution of the variance `|t|^2 / D`
//! (Max, IRE Transactions on Information Theory 1960). Since steps are equal, `<v, P q>` is four times that
//! of the signs and that of the three bits, and nobody gathers a row's signs again.
//!
//! What a code means is part of the format on disk: see `docs/format.md`.

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
/// Numbers that a code is multiplied by: for the estimate, and for its error.
pub(crate) const FACTORS: usize = 2;
/// Narrowest embedding that has codes: below it they would save little.
pub(crate) const FEWEST_DIMENSIONS: usize = 64;
/// Fewest rows of a leaf in a segment that have a mean of their own: for fewer it takes more room than it
/// spares reading. The rows of all smaller leaves share one.
pub(crate) const FEWEST_FOR_MEAN: usize = 32;

/// The codes of consecutive rows where they are stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredCodes<'a> {
    /// `[blocks, block_bytes]`, the blocks that hold those of all rows.
    pub blocks: &'a [u8],
    /// `[rows]`.
    pub factors: &'a [[f32; FACTORS]],
    /// `[rows]`.
    pub shifts: &'a [f32],
    pub means: Means<'a>,
}

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
