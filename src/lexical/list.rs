//! Posting lists in encoded form.
//!
//! Little-endian. A list of `n` postings, with n stored elsewhere, has one skip entry of 16 bytes for each
//! whole block of 128, then the blocks, then the other postings:
//!
//! | Skip entry | |
//! |---|---|
//! | 0 | last row of the block, u32 |
//! | 4 | end of its bytes, u32, from the end of the skip table |
//! | 8 | bits of a row, u8, at most 32 |
//! | 9 | bits of a count, u8, at most 32 |
//! | 10 | three pairs of bytes that bound its scores, see `bound.rs`; the first has a count |
//!
//! A block has its rows, each as the difference to the previous one, then its counts less 1, both packed by
//! `BitPacker4x`: 16 bytes per bit. The row before the first one is 0. The other postings are pairs of LEB128
//! numbers of at most 5 bytes: the difference to the previous row, and the count.

use super::{BLOCK, END, Posting, Undecodable, bound};
use bitpacking::{BitPacker, BitPacker4x};

const SKIP_BYTES: usize = 16;
/// Bytes of a block for each bit of a number.
const BIT_BYTES: usize = BLOCK / 8;

/// Appends the bytes of a list.
///
/// `length` returns the length of a row's text, for the bounds. The blocks of a list must be smaller than 4
/// GiB, which always holds for 500 million postings.
///
/// # Shapes
/// `postings` in ascending order of rows.
pub fn encode(postings: &[Posting], length: impl Fn(u32) -> u32, out: &mut Vec<u8>) {
    let (blocks, rest) = postings.as_chunks::<BLOCK>();
    let table = out.len();
    out.resize(table + blocks.len() * SKIP_BYTES, 0);
    let start = out.len();
    let packer = BitPacker4x::new();
    let mut packed = [0; 4 * BLOCK];
    let mut before = 0;
    for (place, block) in blocks.iter().enumerate() {
        let rows = block.map(|posting| posting.row);
        let counts = block.map(|posting| posting.count.saturating_sub(1));
        let bits = [packer.num_bits_sorted(before, &rows), packer.num_bits(&counts)];
        let bytes = packer.compress_sorted(before, &rows, &mut packed, bits[0]);
        out.extend_from_slice(&packed[..bytes]);
        let bytes = packer.compress(&counts, &mut packed, bits[1]);
        out.extend_from_slice(&packed[..bytes]);
        before = rows[BLOCK - 1];
        let pairs = bound::pairs(block.iter().map(|posting| (posting.count, length(posting.row))));
        let end = (out.len() - start) as u32;
        let entry = &mut out[table + place * SKIP_BYTES..][..SKIP_BYTES];
        entry[..4].copy_from_slice(&before.to_le_bytes());
        entry[4..8].copy_from_slice(&end.to_le_bytes());
        entry[8..10].copy_from_slice(&bits);
        entry[10..].copy_from_slice(pairs.as_flattened());
    }
    for posting in rest {
        write_number(posting.row - before, out);
        write_number(posting.count, out);
        before = posting.row;
    }
}

/// An encoded list of `n` postings.
#[derive(Clone, Copy, Debug)]
pub struct EncodedList<'a> {
    postings: usize,
    skips: &'a [[u8; SKIP_BYTES]],
    blocks: &'a [u8],
    rest: &'a [u8],
}

impl<'a> EncodedList<'a> {
    /// Reads the skip table; the blocks and the rest are read on demand.
    ///
    /// # Errors
    /// [`Undecodable`] if the length does not fit, rows in the table do not ascend, or widths are impossible.
    pub fn new(bytes: &'a [u8], n: usize) -> Result<Self, Undecodable> {
        let table = (n / BLOCK).checked_mul(SKIP_BYTES).ok_or(Undecodable)?;
        let (table, packed) = bytes.split_at_checked(table).ok_or(Undecodable)?;
        let (skips, _) = table.as_chunks::<SKIP_BYTES>();
        let (mut before, mut end) = (None, 0);
        let mut sound = true;
        for skip in skips {
            let skip = Skip::read(skip);
            sound &= skip.bits[0] <= 32 && skip.bits[1] <= 32 && skip.pairs[0][0] > 0;
            sound &= before < Some(skip.last) && skip.last < END;
            end += skip.bytes() as u64;
            sound &= end == u64::from(skip.end);
            before = Some(skip.last);
        }
        let (blocks, rest) = packed.split_at_checked(end as usize).ok_or(Undecodable)?;
        // A posting has at least two bytes.
        if !sound || rest.len() / 2 < n % BLOCK || (n.is_multiple_of(BLOCK) && !rest.is_empty()) {
            return Err(Undecodable);
        }
        Ok(Self { postings: n, skips, blocks, rest })
    }

    /// Number of postings.
    pub fn len(&self) -> usize {
        self.postings
    }

    /// Number of whole blocks.
    pub(super) fn whole(&self) -> usize {
        self.skips.len()
    }

    /// The last row of a whole block.
    #[inline(always)]
    pub(super) fn last(&self, block: usize) -> u32 {
        Skip::read(&self.skips[block]).last
    }

    /// The pairs that bound a whole block.
    #[inline(always)]
    pub(super) fn pairs(&self, block: usize) -> [[u8; 2]; bound::PAIRS] {
        Skip::read(&self.skips[block]).pairs
    }

    /// The last row before a block.
    fn before(&self, block: usize) -> Option<u32> {
        block.checked_sub(1).map(|before| self.last(before))
    }

    /// Reads the rows of a whole block.
    ///
    /// # Errors
    /// [`Undecodable`] if rows do not ascend to the one in the skip table.
    pub(super) fn rows(&self, block: usize, rows: &mut [u32; BLOCK]) -> Result<(), Undecodable> {
        let skip = Skip::read(&self.skips[block]);
        let start = (skip.end as usize).saturating_sub(skip.bytes());
        let bytes = &self.blocks[start..];
        let before = self.before(block);
        BitPacker4x::new().decompress_sorted(before.unwrap_or(0), bytes, rows, skip.bits[0]);
        let mut ascend = before < Some(rows[0]) && rows[BLOCK - 1] == skip.last;
        for i in 1..BLOCK {
            ascend &= rows[i - 1] < rows[i];
        }
        if ascend { Ok(()) } else { Err(Undecodable) }
    }

    /// Reads the counts of a whole block.
    pub(super) fn counts(&self, block: usize, counts: &mut [u32; BLOCK]) {
        let skip = Skip::read(&self.skips[block]);
        let start = (skip.end as usize).saturating_sub(usize::from(skip.bits[1]) * BIT_BYTES);
        BitPacker4x::new().decompress(&self.blocks[start..], counts, skip.bits[1]);
        counts.iter_mut().for_each(|count| *count = count.saturating_add(1));
    }

    /// Passes each posting after the whole blocks to `take`.
    ///
    /// # Errors
    /// [`Undecodable`] for malformed numbers, rows that do not ascend, counts of 0, and excess bytes.
    pub(super) fn rest(&self, mut take: impl FnMut(Posting)) -> Result<(), Undecodable> {
        let mut bytes = self.rest;
        let mut before = self.before(self.whole());
        for _ in 0..self.postings % BLOCK {
            let row = before.unwrap_or(0).checked_add(read_number(&mut bytes)?).ok_or(Undecodable)?;
            let count = read_number(&mut bytes)?;
            if before >= Some(row) || row == END || count == 0 {
                return Err(Undecodable);
            }
            before = Some(row);
            take(Posting { row, count });
        }
        if bytes.is_empty() { Ok(()) } else { Err(Undecodable) }
    }

    /// Appends all postings to `out`, which may contain some of them after an error.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub fn decode_all(&self, out: &mut Vec<Posting>) -> Result<(), Undecodable> {
        out.reserve(self.postings);
        let (mut rows, mut counts) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..self.whole() {
            self.rows(block, &mut rows)?;
            self.counts(block, &mut counts);
            out.extend(rows.iter().zip(&counts).map(|(&row, &count)| Posting { row, count }));
        }
        self.rest(|posting| out.push(posting))
    }
}

/// A skip entry.
struct Skip {
    last: u32,
    end: u32,
    bits: [u8; 2],
    pairs: [[u8; 2]; bound::PAIRS],
}

impl Skip {
    #[inline(always)]
    fn read(bytes: &[u8; SKIP_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, rows, counts, pairs @ ..] = *bytes;
        let [p, q, r, s, t, u] = pairs;
        Self {
            last: u32::from_le_bytes([a, b, c, d]),
            end: u32::from_le_bytes([e, f, g, h]),
            bits: [rows, counts],
            pairs: [[p, q], [r, s], [t, u]],
        }
    }

    fn bytes(&self) -> usize {
        (usize::from(self.bits[0]) + usize::from(self.bits[1])) * BIT_BYTES
    }
}

fn write_number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Result<u32, Undecodable> {
    let mut number = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first().ok_or(Undecodable)?;
        *bytes = rest;
        let part = u32::from(byte & 0x7f);
        if shift == 28 && part > 0xf {
            return Err(Undecodable);
        }
        number |= part << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Undecodable)
}
