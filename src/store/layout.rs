//! All constants of the on-disk format: magics, versions, widths and offsets.
//!
//! `docs/format.md` explains them; the tests check written files at these offsets.

use std::ops::Range;

pub(super) use crate::disk::names;

/// The format that this crate writes and reads. Independent of the crate's version.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Width of a magic; its first byte is not text, and its line ends reveal a text-mode copy.
pub(super) const MAGIC_BYTES: usize = 8;
/// Width of every CRC-32 (IEEE, as in gzip).
pub(super) const CRC_BYTES: usize = 4;
/// Width of the store id that ties the files of one index together.
pub(super) const STORE_ID_BYTES: usize = 16;
/// Width of the hash of the model bundle.
pub(super) const MODEL_HASH_BYTES: usize = 32;
/// The only element type so far: IEEE 754 binary16.
pub(super) const DTYPE_F16: u8 = 1;

const fn after(field: &Range<usize>, width: usize) -> Range<usize> {
    field.end..field.end + width
}

/// Reads a little-endian number at an offset that the caller knows to be in range.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// As [`u32_at`].
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// Fields of `MANIFEST`.
pub(super) mod manifest {
    use super::*;

    pub(in crate::store) const MAGIC: [u8; MAGIC_BYTES] = *b"\x89ehi\r\n\x1a\n";
    pub(in crate::store) const AT_MAGIC: Range<usize> = 0..MAGIC_BYTES;
    pub(in crate::store) const AT_VERSION: Range<usize> = after(&AT_MAGIC, 4);
    pub(in crate::store) const AT_DIM: Range<usize> = after(&AT_VERSION, 4);
    pub(in crate::store) const AT_DTYPE: Range<usize> = after(&AT_DIM, 1);
    pub(in crate::store) const AT_SIMILARITY: Range<usize> = after(&AT_DTYPE, 1);
    /// The kind of terms; 0 if rows have no posting lists of terms.
    pub(in crate::store) const AT_LEXICAL: Range<usize> = after(&AT_SIMILARITY, 1);
    pub(in crate::store) const AT_PAD: Range<usize> = after(&AT_LEXICAL, 1);
    pub(in crate::store) const AT_BRANCHING: Range<usize> = after(&AT_PAD, 4);
    pub(in crate::store) const AT_HEIGHT: Range<usize> = after(&AT_BRANCHING, 4);
    pub(in crate::store) const AT_UNUSED: Range<usize> = after(&AT_HEIGHT, 4);
    pub(in crate::store) const AT_MODEL_HASH: Range<usize> = after(&AT_UNUSED, MODEL_HASH_BYTES);
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_MODEL_HASH, STORE_ID_BYTES);
    pub(in crate::store) const AT_GENERATION: Range<usize> = after(&AT_STORE_ID, 8);
    pub(in crate::store) const AT_NEXT_SEGMENT: Range<usize> = after(&AT_GENERATION, 8);
    pub(in crate::store) const AT_SEGMENTS: Range<usize> = after(&AT_NEXT_SEGMENT, 4);
    pub(in crate::store) const AT_ZEROS: Range<usize> = after(&AT_SEGMENTS, 4);
    pub(in crate::store) const AT_ENTRIES_CRC: Range<usize> = after(&AT_ZEROS, CRC_BYTES);
    /// Tokens of a passage, and the overlap of two; both 0 if a document is one row.
    pub(in crate::store) const AT_PASSAGE_TOKENS: Range<usize> = after(&AT_ENTRIES_CRC, 4);
    pub(in crate::store) const AT_OVERLAP: Range<usize> = after(&AT_PASSAGE_TOKENS, 4);
    pub(in crate::store) const AT_RESERVED: Range<usize> = after(&AT_OVERLAP, 8);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_RESERVED, CRC_BYTES);
    /// The head, which is followed by the entries of the segments. All later versions keep this size, the
    /// magic, the version and the position of the checksum, so that "newer" and "damaged" stay
    /// distinguishable.
    pub(in crate::store) const HEAD_BYTES: usize = AT_CRC.end;

    pub(in crate::store) const AT_NUMBER: Range<usize> = 0..8;
    pub(in crate::store) const AT_ROWS: Range<usize> = after(&AT_NUMBER, 4);
    pub(in crate::store) const AT_DEAD: Range<usize> = after(&AT_ROWS, 4);
    pub(in crate::store) const AT_VECTORS_LEN: Range<usize> = after(&AT_DEAD, 8);
    pub(in crate::store) const AT_VECTORS_CRC: Range<usize> = after(&AT_VECTORS_LEN, CRC_BYTES);
    pub(in crate::store) const AT_DOCUMENTS_CRC: Range<usize> = after(&AT_VECTORS_CRC, CRC_BYTES);
    pub(in crate::store) const AT_DOCUMENTS_LEN: Range<usize> = after(&AT_DOCUMENTS_CRC, 8);
    pub(in crate::store) const AT_DEAD_GENERATION: Range<usize> = after(&AT_DOCUMENTS_LEN, 8);
    pub(in crate::store) const AT_DEAD_LEN: Range<usize> = after(&AT_DEAD_GENERATION, 8);
    pub(in crate::store) const AT_DEAD_CRC: Range<usize> = after(&AT_DEAD_LEN, CRC_BYTES);
    pub(in crate::store) const AT_ENTRY_RESERVED: Range<usize> = after(&AT_DEAD_CRC, 4);
    /// The entry of one segment.
    pub(in crate::store) const ENTRY_BYTES: usize = AT_ENTRY_RESERVED.end;
}

/// Sealed files: the header, the fixed-width end, and an entry of the directory before the end.
pub(super) mod sealed {
    use super::*;

    pub(in crate::store) const MAGIC: [u8; MAGIC_BYTES] = *b"\x8behs\r\n\x1a\n";
    pub(in crate::store) const AT_MAGIC: Range<usize> = 0..MAGIC_BYTES;
    pub(in crate::store) const AT_VERSION: Range<usize> = after(&AT_MAGIC, 4);
    pub(in crate::store) const AT_KIND: Range<usize> = after(&AT_VERSION, 1);
    pub(in crate::store) const AT_PAD: Range<usize> = after(&AT_KIND, 3);
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_PAD, STORE_ID_BYTES);
    pub(in crate::store) const AT_SEGMENT: Range<usize> = after(&AT_STORE_ID, 8);
    pub(in crate::store) const AT_RESERVED: Range<usize> =
        after(&AT_SEGMENT, HEADER_BYTES - CRC_BYTES - AT_SEGMENT.end);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_RESERVED, CRC_BYTES);
    /// One page of memory, so that the first section is aligned to it.
    pub(in crate::store) const HEADER_BYTES: usize = 4096;

    /// Bytes covered by one checksum.
    pub(in crate::store) const PAGE_BYTES: u64 = 64 << 10;
    /// Sections begin at multiples of this: a cache line.
    pub(in crate::store) const ALIGNMENT: usize = 64;

    pub(in crate::store) const AT_SECTION_NAME: Range<usize> = 0..4;
    pub(in crate::store) const AT_SECTION_OFFSET: Range<usize> = after(&AT_SECTION_NAME, 8);
    pub(in crate::store) const AT_SECTION_LEN: Range<usize> = after(&AT_SECTION_OFFSET, 8);
    pub(in crate::store) const SECTION_BYTES: usize = AT_SECTION_LEN.end;
    /// More than any file has.
    pub(in crate::store) const MOST_SECTIONS: u32 = 64;
    /// Upper bound of the names of sections.
    pub(in crate::store) const SECTION_NAMES: usize = 70;

    pub(in crate::store) const TAIL_MAGIC: [u8; MAGIC_BYTES] = *b"ehs-end\n";
    pub(in crate::store) const AT_BODY_BYTES: Range<usize> = 0..8;
    pub(in crate::store) const AT_SECTIONS: Range<usize> = after(&AT_BODY_BYTES, 4);
    pub(in crate::store) const AT_DIRECTORY_CRC: Range<usize> = after(&AT_SECTIONS, CRC_BYTES);
    pub(in crate::store) const AT_TAIL_MAGIC: Range<usize> = after(&AT_DIRECTORY_CRC, MAGIC_BYTES);
    pub(in crate::store) const AT_TAIL_CRC: Range<usize> = after(&AT_TAIL_MAGIC, CRC_BYTES);
    pub(in crate::store) const TAIL_BYTES: usize = AT_TAIL_CRC.end;
}

/// The only section of a `.dead` file: a bitmap from the lowest row of the first u64 to the last dead row.
pub(super) mod tombstones {
    pub(in crate::store) const BITMAP: u32 = 48;
}

/// Names of the sections of a segment's files. `ENDS` hold the end offsets of the entries of the section
/// before; the first entry begins at 0.
pub(super) mod segment {
    /// `N.vectors`: `[rows, dim]` f16.
    pub(in crate::store) const ROWS: u32 = 1;
    // All sections of codes exist or none.
    /// `N.vectors`: `[ceil(rows / 32), 32 ceil(dim / 8)]` u8, the codes of the rows, and `[rows, 2]` f32,
    /// their factors.
    pub(in crate::store) const CODES: u32 = 2;
    pub(in crate::store) const CODE_FACTORS: u32 = 3;
    /// The range of rows of each leaf with its own mean, `[n, 2]` u32, ascending.
    pub(in crate::store) const MEAN_ROWS: u32 = 4;
    /// The directions of the means, `[1 + n, dim]` f16; the shared mean of all other rows comes first.
    pub(in crate::store) const MEANS: u32 = 5;
    /// The shifts of the codes, `[rows]` f32.
    pub(in crate::store) const CODE_SHIFTS: u32 = 6;
    /// Their supplements, `[rows, 24 ceil(dim / 64) + 12]` u8.
    pub(in crate::store) const SUPPLEMENTS: u32 = 7;

    /// Concatenated ids, UTF-8; ends u64.
    pub(in crate::store) const IDS: u32 = 16;
    pub(in crate::store) const ID_ENDS: u32 = 17;
    /// Rows in the byte order of their ids, u32.
    pub(in crate::store) const ID_ORDER: u32 = 18;
    /// Title and text in JSON; ends u64.
    pub(in crate::store) const PAYLOADS: u32 = 19;
    pub(in crate::store) const PAYLOAD_ENDS: u32 = 20;
    /// Metadata in JSON, empty if there is none; ends u64.
    pub(in crate::store) const METADATA: u32 = 21;
    pub(in crate::store) const METADATA_ENDS: u32 = 22;
    /// The generation in which each row's document was inserted, u64.
    pub(in crate::store) const CREATED_AT: u32 = 23;
    /// The leaves that occur, ascending, u32; ends of the rows of each leaf, u32.
    pub(in crate::store) const LEAVES: u32 = 32;
    pub(in crate::store) const LEAF_ENDS: u32 = 33;
    // All of these exist if documents have passages; otherwise they are empty.
    /// The row of the first passage of each row's document, u32. Only that row has the id, payload, metadata
    /// and terms.
    pub(in crate::store) const HEADS: u32 = 38;
    /// The first byte and the end of each row's passage in the text, `[rows, 2]` u32.
    pub(in crate::store) const SPANS: u32 = 39;
    /// The row of the next passage of each row's document, u32; its own for the last.
    pub(in crate::store) const NEXT: u32 = 40;

    // All of these exist or none.
    /// The terms that occur, ascending, u32; for each the number of rows that contain it, u32, and the end of
    /// its postings, u64.
    pub(in crate::store) const TERMS: u32 = 64;
    pub(in crate::store) const TERM_ROWS: u32 = 65;
    pub(in crate::store) const TERM_ENDS: u32 = 66;
    /// Postings of all terms in order, as packed by `lexical`.
    pub(in crate::store) const POSTINGS: u32 = 67;
    /// Occurrences of all terms in each row, u32, and in all rows, one u64.
    pub(in crate::store) const LENGTHS: u32 = 68;
    pub(in crate::store) const TOTAL_LENGTH: u32 = 69;
}

/// Fields of a log: its header, and the header of a frame.
pub(super) mod log {
    use super::*;

    pub(in crate::store) const MAGIC: [u8; MAGIC_BYTES] = *b"\x8aehl\r\n\x1a\n";
    pub(in crate::store) const AT_MAGIC: Range<usize> = 0..MAGIC_BYTES;
    pub(in crate::store) const AT_VERSION: Range<usize> = after(&AT_MAGIC, 4);
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_VERSION, STORE_ID_BYTES);
    pub(in crate::store) const AT_BASE: Range<usize> = after(&AT_STORE_ID, 8);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_BASE, CRC_BYTES);
    pub(in crate::store) const HEADER_BYTES: usize = AT_CRC.end;

    /// Frames, and the commits in them, begin at multiples of this.
    pub(in crate::store) const ALIGNMENT: u64 = 8;
    /// `ehfr` on disk.
    pub(in crate::store) const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"ehfr");
    /// The only kind of frame so far.
    pub(in crate::store) const COMMIT: u8 = 1;
    pub(in crate::store) const AT_FRAME_MAGIC: Range<usize> = 0..4;
    pub(in crate::store) const AT_KIND: Range<usize> = after(&AT_FRAME_MAGIC, 1);
    pub(in crate::store) const AT_RESERVED: Range<usize> = after(&AT_KIND, 3);
    pub(in crate::store) const AT_LEN: Range<usize> = after(&AT_RESERVED, 4);
    pub(in crate::store) const AT_BOOT: Range<usize> = after(&AT_LEN, 4);
    pub(in crate::store) const AT_GENERATION: Range<usize> = after(&AT_BOOT, 8);
    pub(in crate::store) const AT_SYNCED: Range<usize> = after(&AT_GENERATION, 8);
    pub(in crate::store) const AT_PAYLOAD_CRC: Range<usize> = after(&AT_SYNCED, CRC_BYTES);
    pub(in crate::store) const AT_FRAME_CRC: Range<usize> = after(&AT_PAYLOAD_CRC, CRC_BYTES);
    pub(in crate::store) const FRAME_BYTES: usize = AT_FRAME_CRC.end;

    /// A log grows in steps of this size.
    pub(in crate::store) const CHUNK_BYTES: u64 = 256 << 10;
    /// Longest commit in a log; a longer one is sealed at once.
    pub(in crate::store) const MOST_COMMIT_BYTES: u64 = 128 << 20;
    /// Longest log: memtables are sealed long before.
    pub(in crate::store) const MOST_BYTES: u64 = 1 << 30;
}

/// Limits on stored data.
pub(super) mod limits {
    /// Longest id in bytes of UTF-8.
    pub(in crate::store) const ID_BYTES: usize = 512;
    /// Largest payload: title, text and metadata in JSON.
    pub(in crate::store) const PAYLOAD_BYTES: usize = 64 << 20;
    /// Deepest metadata: half of what the JSON parser accepts.
    pub(in crate::store) const METADATA_DEPTH: usize = 64;
    /// Largest dimension of an embedding.
    pub(in crate::store) const DIM: u32 = 65_536;
    /// Most leaves of a tree: a leaf is a u32.
    pub(in crate::store) const LEAVES: u64 = 1 << 32;
}

const _: () = {
    assert!(manifest::HEAD_BYTES == 128 && manifest::ENTRY_BYTES == 64);
    assert!(sealed::SECTION_NAMES > segment::TOTAL_LENGTH as usize);
    assert!(log::HEADER_BYTES == 40 && log::FRAME_BYTES == 40);
    assert!((log::HEADER_BYTES as u64).is_multiple_of(log::ALIGNMENT));
    assert!((log::FRAME_BYTES as u64).is_multiple_of(log::ALIGNMENT));
};
