//! Every number that is on disk: names, magics, versions, widths and offsets.
//!
//! `docs/format.md` explains them; the tests read written files back at these offsets.

use std::ops::Range;

use crate::ids::{LeafId, Row};

/// The format this crate writes. Independent of the crate's version.
pub(super) const FORMAT_VERSION: u32 = 1;
/// The oldest format this crate still opens.
pub(super) const OLDEST_READABLE_VERSION: u32 = 1;

/// Names inside the directory of an index.
pub(super) mod names {
    pub(in crate::store) const MANIFEST: &str = "MANIFEST";
    /// The manifest before it is published; its presence marks a create under way.
    pub(in crate::store) const MANIFEST_NEW: &str = "MANIFEST.new";
    pub(in crate::store) const LOCK: &str = "LOCK";
    pub(in crate::store) const DOCUMENTS: &str = "documents";
    pub(in crate::store) const VECTORS: &str = "vectors.f16";
    pub(in crate::store) const FLUSHED: &str = "FLUSHED";
    /// sled's own names inside [`DOCUMENTS`].
    pub(in crate::store) const SLED_LOG: &str = "db";
    pub(in crate::store) const SLED_CONFIG: &str = "conf";
}

/// Width of a magic; the first byte is no text and the line ends show a text-mode copy.
pub(super) const MAGIC_BYTES: usize = 8;
/// Width of every CRC-32 (IEEE, as in gzip).
pub(super) const CRC_BYTES: usize = 4;
/// Width of the store id that ties the files of one index together.
pub(super) const STORE_ID_BYTES: usize = 16;
/// Width of the hash of the model bundle.
pub(super) const MODEL_HASH_BYTES: usize = 32;
/// The only element type so far: IEEE 754 binary16.
pub(super) const DTYPE_F16: u8 = 1;
/// Width of one element.
pub(super) const ELEMENT_BYTES: usize = 2;

const fn after(field: &Range<usize>, width: usize) -> Range<usize> {
    field.end..field.end + width
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
    pub(in crate::store) const AT_PAD: Range<usize> = after(&AT_SIMILARITY, 2);
    pub(in crate::store) const AT_BRANCHING: Range<usize> = after(&AT_PAD, 4);
    pub(in crate::store) const AT_HEIGHT: Range<usize> = after(&AT_BRANCHING, 4);
    pub(in crate::store) const AT_LEAVES_PER_DOCUMENT: Range<usize> = after(&AT_HEIGHT, 4);
    pub(in crate::store) const AT_MODEL_HASH: Range<usize> = after(&AT_LEAVES_PER_DOCUMENT, MODEL_HASH_BYTES);
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_MODEL_HASH, STORE_ID_BYTES);
    pub(in crate::store) const AT_RESERVED: Range<usize> = after(&AT_STORE_ID, 44);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_RESERVED, CRC_BYTES);
    /// Whole file. Every later version keeps this size, the magic, the version and the
    /// place of the checksum, so that "newer" and "damaged" stay distinguishable.
    pub(in crate::store) const BYTES: usize = AT_CRC.end;
}

/// Fields of the header of `vectors.f16`, and where the rows are.
pub(super) mod vectors {
    use super::*;

    pub(in crate::store) const MAGIC: [u8; MAGIC_BYTES] = *b"\x8aehv\r\n\x1a\n";
    pub(in crate::store) const AT_MAGIC: Range<usize> = 0..MAGIC_BYTES;
    pub(in crate::store) const AT_VERSION: Range<usize> = after(&AT_MAGIC, 4);
    pub(in crate::store) const AT_DIM: Range<usize> = after(&AT_VERSION, 4);
    pub(in crate::store) const AT_DTYPE: Range<usize> = after(&AT_DIM, 1);
    pub(in crate::store) const AT_PAD: Range<usize> = after(&AT_DTYPE, 7);
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_PAD, STORE_ID_BYTES);
    pub(in crate::store) const AT_RESERVED: Range<usize> =
        after(&AT_STORE_ID, HEADER_BYTES - CRC_BYTES - AT_STORE_ID.end);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_RESERVED, CRC_BYTES);
    /// One page, so that rows keep the alignment of the mapping.
    pub(in crate::store) const HEADER_BYTES: usize = 4096;

    /// Rows that one checksum covers.
    pub(in crate::store) const BLOCK_ROWS: u32 = 256;
    /// The file grows by its own size, but by no less and no more than these.
    pub(in crate::store) const GROW_AT_LEAST_BYTES: u64 = 1 << 20;
    pub(in crate::store) const GROW_AT_MOST_BYTES: u64 = 64 << 20;
}

/// Slots of `FLUSHED`.
pub(super) mod flushed {
    use super::*;

    pub(in crate::store) const AT_GENERATION: Range<usize> = 0..8;
    pub(in crate::store) const AT_STORE_ID: Range<usize> = after(&AT_GENERATION, STORE_ID_BYTES);
    pub(in crate::store) const AT_CRC: Range<usize> = after(&AT_STORE_ID, CRC_BYTES);
    pub(in crate::store) const SLOT_BYTES: usize = AT_CRC.end;
    pub(in crate::store) const SLOTS: u64 = 2;
    /// Far enough apart that no sector and no page holds parts of both.
    pub(in crate::store) const SLOT_STRIDE: u64 = 4096;
    /// Whole file.
    pub(in crate::store) const BYTES: usize = SLOT_STRIDE as usize + SLOT_BYTES;
}

/// Limits of what may be stored.
pub(super) mod limits {
    /// Longest id in bytes of UTF-8; sled keeps keys in its nodes.
    pub(in crate::store) const ID_BYTES: usize = 512;
    /// Longest payload: title, text and metadata in JSON.
    pub(in crate::store) const PAYLOAD_BYTES: usize = 64 << 20;
    /// Deepest metadata: half of what the JSON parser follows when it reads back.
    pub(in crate::store) const METADATA_DEPTH: usize = 64;
    /// Largest value in sled. A leaf node holds up to 20 entries, and a node above
    /// 128 KiB would go to a separate file that sled never syncs.
    pub(in crate::store) const VALUE_BYTES: usize = 4096;
    /// Bytes of payload in one chunk.
    pub(in crate::store) const CHUNK_BYTES: usize = 3584;
    /// Rows in one posting block: 2 KiB, rewritten by an insert into its leaf.
    pub(in crate::store) const POSTING_BLOCK_ROWS: usize = 512;
    /// Most leaves a document may be in; keeps its record under [`VALUE_BYTES`].
    pub(in crate::store) const LEAVES_PER_DOCUMENT: u32 = 512;
    /// Largest dimension of an embedding.
    pub(in crate::store) const DIM: u32 = 65_536;
    /// Most leaves of a tree: a leaf is a u32.
    pub(in crate::store) const LEAVES: u64 = 1 << 32;
}

/// Keys of the one sled tree: a prefix byte, then big-endian numbers or the id.
pub(super) mod keys {
    use super::*;

    pub(in crate::store) const COMMIT: u8 = b'C';
    pub(in crate::store) const DOCUMENT: u8 = b'd';
    pub(in crate::store) const POSTINGS: u8 = b'p';
    pub(in crate::store) const ROW: u8 = b'r';
    pub(in crate::store) const TEXT: u8 = b't';
    pub(in crate::store) const VECTOR_BLOCK: u8 = b'v';

    /// The key of the commit record.
    pub(in crate::store) const COMMIT_KEY: [u8; 1] = [COMMIT];

    pub(in crate::store) fn document(id: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + id.len());
        key.push(DOCUMENT);
        key.extend_from_slice(id.as_bytes());
        key
    }

    pub(in crate::store) fn row(row: Row) -> [u8; 5] {
        one(ROW, row.to_key())
    }

    pub(in crate::store) fn vector_block(block: u32) -> [u8; 5] {
        one(VECTOR_BLOCK, block.to_be_bytes())
    }

    pub(in crate::store) fn postings(leaf: LeafId, block: u32) -> [u8; 9] {
        two(POSTINGS, leaf.to_key(), block)
    }

    pub(in crate::store) fn text(row: Row, chunk: u32) -> [u8; 9] {
        two(TEXT, row.to_key(), chunk)
    }

    /// The one number of a row or vector-block key; `None` for any other width.
    pub(in crate::store) fn parse_one(key: &[u8]) -> Option<[u8; 4]> {
        key.get(1..)?.try_into().ok()
    }

    /// The two numbers of a posting or text key; `None` for any other width.
    pub(in crate::store) fn parse_two(key: &[u8]) -> Option<([u8; 4], u32)> {
        let rest: [u8; 8] = key.get(1..)?.try_into().ok()?;
        let [a, b, c, d, block @ ..] = rest;
        Some(([a, b, c, d], u32::from_be_bytes(block)))
    }

    fn one(prefix: u8, number: [u8; 4]) -> [u8; 5] {
        let [a, b, c, d] = number;
        [prefix, a, b, c, d]
    }

    fn two(prefix: u8, first: [u8; 4], second: u32) -> [u8; 9] {
        let [a, b, c, d] = first;
        let [e, f, g, h] = second.to_be_bytes();
        [prefix, a, b, c, d, e, f, g, h]
    }
}

const _: () = {
    assert!(manifest::BYTES == 128);
    assert!(vectors::AT_CRC.end == vectors::HEADER_BYTES);
    assert!(limits::CHUNK_BYTES <= limits::VALUE_BYTES);
    assert!(limits::POSTING_BLOCK_ROWS * Row::BYTES + CRC_BYTES <= limits::VALUE_BYTES);
    // The widest node sled can build stays inline: 20 entries of the longest key and value.
    assert!(20 * (limits::VALUE_BYTES + limits::ID_BYTES + 32) < 128 * 1024);
};
