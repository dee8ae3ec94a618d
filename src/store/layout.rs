//! The on-disk format: headers, magics and widths.
//!
//! `docs/format.md` explains them; the tests check written files at its offsets. Structures are copied to and
//! from files as they are in memory: the target is little-endian, as `disk::Mapping` requires anyway.

use bytemuck::{Pod, Zeroable};

pub(super) use crate::disk::names;

/// The format that this crate writes and reads. Independent of the crate's version.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Width of a magic; its first byte is not text, and its line ends reveal a text-mode copy.
pub(super) const MAGIC_BYTES: usize = 8;
/// Width of every CRC-32 (IEEE, as in gzip).
pub(super) const CRC_BYTES: usize = 4;
/// Width of the store id that ties the files of one index together.
pub(super) const STORE_ID_BYTES: usize = 16;
/// The only element type so far: IEEE 754 binary16.
pub(super) const DTYPE_F16: u8 = 1;

/// `MANIFEST`.
pub(super) mod manifest {
    use super::*;

    pub const MAGIC: [u8; MAGIC_BYTES] = *b"\x89ehi\r\n\x1a\n";

    /// The head, which is followed by the entries of the segments. All later versions keep this size, the
    /// magic, the version and the position of the checksum, so that "newer" and "damaged" stay
    /// distinguishable.
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    pub struct ManifestHead {
        pub magic: [u8; MAGIC_BYTES],
        pub version: u32,
        pub dim: u32,
        pub dtype: u8,
        pub similarity: u8,
        /// The kind of terms; 0 if rows have no posting lists of terms.
        pub terms: u8,
        pub pad: u8,
        pub branching_factor: u32,
        pub height: u32,
        pub unused: [u8; 4],
        pub model_hash: [u8; 32],
        pub store_id: [u8; STORE_ID_BYTES],
        pub generation: u64,
        pub next_segment: u64,
        pub segments: u32,
        /// Bytes of the name of the field by which documents expire, after the entries; 0 if they do not.
        pub expires_len: u32,
        /// Of all that follows the head.
        pub entries_crc: u32,
        /// Tokens of a passage, and the overlap of two; both 0 if a document is one row.
        pub passage_tokens: u32,
        pub overlap: u32,
        pub reserved: [u8; 8],
        pub crc: u32,
    }
    pub const HEAD_BYTES: usize = size_of::<ManifestHead>();

    /// The entry of one segment.
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    pub struct ManifestEntry {
        pub number: u64,
        pub rows: u32,
        pub dead: u32,
        pub vectors_len: u64,
        pub vectors_crc: u32,
        pub documents_crc: u32,
        pub documents_len: u64,
        pub dead_generation: u64,
        pub dead_len: u64,
        pub dead_crc: u32,
        pub reserved: [u8; 4],
    }
    pub const ENTRY_BYTES: usize = size_of::<ManifestEntry>();
}

/// Sealed files: the header, the fixed-width end, and an entry of the directory before the end.
pub(super) mod sealed {
    use super::*;

    pub const MAGIC: [u8; MAGIC_BYTES] = *b"\x8behs\r\n\x1a\n";

    /// One page of memory, so that the first section is aligned to it.
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    pub struct SealedHeader {
        pub magic: [u8; MAGIC_BYTES],
        pub version: u32,
        pub kind: u8,
        pub pad: [u8; 3],
        pub store_id: [u8; STORE_ID_BYTES],
        pub segment: u64,
        pub reserved: [u8; 4052],
        pub crc: u32,
    }
    pub const HEADER_BYTES: usize = size_of::<SealedHeader>();

    /// Bytes covered by one checksum.
    pub const PAGE_BYTES: u64 = 64 << 10;
    /// Sections begin at multiples of this: a cache line.
    pub const ALIGNMENT: usize = 64;

    /// A named part of a sealed file.
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, packed)]
    pub struct Section {
        pub name: u32,
        pub offset: u64,
        pub len: u64,
    }
    pub const SECTION_BYTES: usize = size_of::<Section>();
    /// More than any file has.
    pub const MOST_SECTIONS: u32 = 64;
    /// Upper bound of the names of sections.
    pub const SECTION_NAMES: usize = 81;

    pub const TAIL_MAGIC: [u8; MAGIC_BYTES] = *b"ehs-end\n";
    /// The fixed-width end of a sealed file, which locates the rest.
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, packed)]
    pub struct Tail {
        /// The offset of the page checksums: the end of the sections.
        pub body_bytes: u64,
        pub sections: u32,
        /// Checksum of page checksums and directory.
        pub directory_crc: u32,
        pub magic: [u8; MAGIC_BYTES],
        pub crc: u32,
    }
    pub const TAIL_BYTES: usize = size_of::<Tail>();
}

/// The only section of a `.dead` file: a bitmap from the lowest row of the first u64 to the last dead row.
pub(super) mod tombstones {
    pub const BITMAP: u32 = 48;
}

/// Names of the sections of a segment's files. `ENDS` hold the end offsets of the entries of the section
/// before; the first entry begins at 0.
pub(super) mod segment {
    /// `N.vectors`: `[rows, dim]` f16.
    pub const ROWS: u32 = 1;
    // All sections of codes exist or none.
    /// `N.vectors`: the codes of the rows in blocks of 16, `[blocks, 64 ceil(dim / 32) + 192]` u8.
    pub const CODES: u32 = 2;
    /// For each leaf the place of its first code, and the number of its mean, `[leaves, 2]` u32.
    pub const CODE_PLACES: u32 = 3;
    /// The directions of the means, `[1 + n, dim]` f16; the shared mean of all other rows comes first.
    pub const MEANS: u32 = 4;
    /// The supplements of the codes, `[rows, 24 ceil(dim / 64) + 12]` u8.
    pub const SUPPLEMENTS: u32 = 5;

    /// Concatenated ids, UTF-8; ends u64.
    pub const IDS: u32 = 16;
    pub const ID_ENDS: u32 = 17;
    /// Rows in the byte order of their ids, u32.
    pub const ID_ORDER: u32 = 18;
    /// Title and text in JSON; ends u64.
    pub const PAYLOADS: u32 = 19;
    pub const PAYLOAD_ENDS: u32 = 20;
    /// Metadata in JSON, empty if there is none; ends u64.
    pub const METADATA: u32 = 21;
    pub const METADATA_ENDS: u32 = 22;
    /// The generation in which each row's document was inserted, u64.
    pub const CREATED_AT: u32 = 23;
    /// If documents expire: the times at which they do, ascending, in milliseconds since 1970, i64; and the
    /// representative row of each, u32.
    pub const EXPIRY_TIMES: u32 = 24;
    pub const EXPIRY_ROWS: u32 = 25;
    /// The leaves that occur, ascending, u32; ends of the rows of each leaf, u32.
    pub const LEAVES: u32 = 32;
    pub const LEAF_ENDS: u32 = 33;
    // All of these exist if documents have passages; otherwise they are empty.
    /// The row of the first passage of each row's document, u32. Only that row has the id, payload, metadata
    /// and terms.
    pub const HEADS: u32 = 38;
    /// The first byte and the end of each row's passage in the text, `[rows, 2]` u32.
    pub const SPANS: u32 = 39;
    /// The row of the next passage of each row's document, u32; its own for the last.
    pub const NEXT: u32 = 40;

    /// The sections whose numbers lead to others: without one of them, no document can be read.
    pub const STRUCTURE: [u32; 11] = [
        IDS,
        ID_ENDS,
        ID_ORDER,
        PAYLOAD_ENDS,
        METADATA_ENDS,
        CREATED_AT,
        LEAVES,
        LEAF_ENDS,
        HEADS,
        SPANS,
        NEXT,
    ];

    // All of these exist or none.
    /// The terms that occur, ascending, u32; for each the number of rows that contain it, u32, and the end of
    /// its postings, u64.
    pub const TERMS: u32 = 64;
    pub const TERM_ROWS: u32 = 65;
    pub const TERM_ENDS: u32 = 66;
    /// Postings of all terms in order, as packed by `lexical`.
    pub const POSTINGS: u32 = 67;
    /// Occurrences of all terms in each row, u32, and in all rows, one u64.
    pub const LENGTHS: u32 = 68;
    pub const TOTAL_LENGTH: u32 = 69;
    /// The lists of the values of metadata, as built by `filter`, in this order; section after section.
    pub const FIELD_LISTS: [u32; crate::filter::SECTIONS] = [72, 73, 74, 75, 76, 77, 78, 79, 80];
}

/// A log: its header, and the header of a frame.
pub(super) mod log {
    use super::*;

    pub const MAGIC: [u8; MAGIC_BYTES] = *b"\x8aehl\r\n\x1a\n";

    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C, packed)]
    pub struct LogHeader {
        pub magic: [u8; MAGIC_BYTES],
        pub version: u32,
        pub store_id: [u8; STORE_ID_BYTES],
        /// The generation that precedes the log.
        pub base: u64,
        pub crc: u32,
    }
    pub const HEADER_BYTES: usize = size_of::<LogHeader>();

    /// Frames, and the commits in them, begin at multiples of this.
    pub const ALIGNMENT: u64 = 8;
    /// `ehfr` on disk.
    pub const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"ehfr");
    /// The only kind of frame so far.
    pub const COMMIT: u8 = 1;

    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    pub struct FrameHeader {
        pub magic: u32,
        pub kind: u8,
        pub reserved: [u8; 3],
        /// Length of the commit in bytes.
        pub len: u32,
        /// Identifies the boot of the operating system that wrote it; 0 if unknown.
        pub boot: u32,
        /// The generation that the commit creates.
        pub generation: u64,
        /// The offset up to which the file was known to be durable when the frame was written.
        pub synced: u64,
        /// Checksum of the commit.
        pub payload_crc: u32,
        pub crc: u32,
    }
    pub const FRAME_BYTES: usize = size_of::<FrameHeader>();

    /// A log grows in steps of this size.
    pub const CHUNK_BYTES: u64 = 256 << 10;
    /// Longest commit in a log; a longer one is sealed at once.
    pub const MOST_COMMIT_BYTES: u64 = 128 << 20;
    /// Longest log: memtables are sealed long before.
    pub const MOST_BYTES: u64 = 1 << 30;
}

/// Limits on stored data.
pub(super) mod limits {
    /// Longest id in bytes of UTF-8.
    pub const ID_BYTES: usize = 512;
    /// Largest payload: title, text and metadata in JSON.
    pub const PAYLOAD_BYTES: usize = 64 << 20;
    /// Deepest metadata: half of what the JSON parser accepts.
    pub const METADATA_DEPTH: usize = 64;
    /// Longest name of the field by which documents expire, in bytes.
    pub const EXPIRES_BYTES: usize = 512;
    /// Largest dimension of an embedding.
    pub const DIM: u32 = 65_536;
    /// Most leaves of a tree: a leaf is a u32.
    pub const LEAVES: u64 = 1 << 32;
}

const _: () = {
    assert!(manifest::HEAD_BYTES == 128 && manifest::ENTRY_BYTES == 64);
    // A multiple of the section alignment, so that rows stay aligned.
    assert!(sealed::HEADER_BYTES == 4096 && sealed::HEADER_BYTES.is_multiple_of(sealed::ALIGNMENT));
    assert!(sealed::SECTION_NAMES > segment::TOTAL_LENGTH as usize);
    assert!(log::HEADER_BYTES == 40 && log::FRAME_BYTES == 40);
    assert!((log::HEADER_BYTES as u64).is_multiple_of(log::ALIGNMENT));
    assert!((log::FRAME_BYTES as u64).is_multiple_of(log::ALIGNMENT));
};
