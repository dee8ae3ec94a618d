//! The layout of a block: the bits of 16 rows, then their numbers.
//!
//! The bits are in chunks of 64 bytes, one for each eight groups of dimensions. Row p has the bytes `4 p + l`
//! of a chunk, l from 0 to 3: the low half of such a byte has the bits of group l of the eight, the high half
//! those of group `4 + l`, with the lowest dimension in the lowest bit.

use bytemuck::{Pod, Zeroable};

use super::{GROUP, TABLE};

/// Rows whose codes are stored together.
pub(crate) const BLOCK_ROWS: usize = TABLE;
/// Bytes of a row in a chunk.
pub(crate) const ROW_BYTES: usize = 4;
pub(crate) const CHUNK_BYTES: usize = ROW_BYTES * BLOCK_ROWS;
/// Bytes of the tables that the low halves of a chunk select from; the high halves select from as many more.
pub(crate) const CHUNK_TABLES: usize = ROW_BYTES * TABLE;
/// Groups in a chunk.
const CHUNK_GROUPS: usize = 2 * ROW_BYTES;

/// The numbers of a block's rows; 0 at places without a row.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Numbers {
    /// The factors of the product of the query with the mean.
    pub shifts: [f32; BLOCK_ROWS],
    /// The factors of `<signs, P q>`.
    pub factors: [f32; BLOCK_ROWS],
    /// The errors for `|q'| = 1` and `e = 1`.
    pub errors: [f32; BLOCK_ROWS],
}

/// A stored block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// `[chunks, CHUNK_BYTES]`
    pub bits: &'a [u8],
    pub numbers: Numbers,
}

impl<'a> Block<'a> {
    /// # Panics
    /// If there are fewer bytes than numbers.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (bits, numbers) = bytes.split_at(bytes.len() - size_of::<Numbers>());
        Self { bits, numbers: bytemuck::pod_read_unaligned(numbers) }
    }
}

/// Groups of a code: those of whole chunks; the last ones may exceed the width and have no bits.
pub(super) fn groups(dim: usize) -> usize {
    dim.div_ceil(GROUP * CHUNK_GROUPS) * CHUNK_GROUPS
}

/// Bytes of a block, a multiple of those of a cache line.
pub(crate) fn block_bytes(dim: usize) -> usize {
    bytes_of_groups(groups(dim))
}

#[inline(always)]
pub(super) fn bytes_of_groups(groups: usize) -> usize {
    groups / CHUNK_GROUPS * CHUNK_BYTES + size_of::<Numbers>()
}

/// Sets the bits of a row at its place in a block, where they must be 0: those of the positive elements.
///
/// # Shapes
/// `row` `[dim]`, `block` `[block_bytes]`.
pub(super) fn put_bits(row: &[f32], place: usize, block: &mut [u8]) {
    for (number, group) in row.chunks(GROUP).enumerate() {
        let (chunk, number) = (number / CHUNK_GROUPS, number % CHUNK_GROUPS);
        let (byte, is_high) = (number % ROW_BYTES, number / ROW_BYTES);
        let bits = group.iter().zip(0..).map(|(&x, bit)| u8::from(x > 0.0) << bit);
        block[chunk * CHUNK_BYTES + place * ROW_BYTES + byte] |= bits.sum::<u8>() << (is_high * GROUP);
    }
}

/// Writes the numbers of a row at its place in a block: its shift, factor and error.
pub(super) fn put_numbers(numbers: [f32; 3], place: usize, block: &mut [u8]) {
    let start = block.len() - size_of::<Numbers>();
    let (values, _) = block[start..].as_chunks_mut::<{ size_of::<f32>() }>();
    for (number, values) in numbers.into_iter().zip(values.chunks_exact_mut(BLOCK_ROWS)) {
        values[place] = number.to_le_bytes();
    }
}
