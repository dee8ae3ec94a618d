//! Values of the sled tree. Each ends in a checksum over its key and itself, so that
//! neither a flipped bit nor a value under another's key gives a different answer.
//!
//! Decoders return `None` for anything else than what the encoder writes.

use super::layout::{CRC_BYTES, keys, limits};
use crate::ids::{Generation, LeafId, Row};

/// The state that a generation consists of; written by every commit, decides over all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitRecord {
    pub(super) generation: Generation,
    /// Rows of the vector file that exist; what lies behind them is garbage.
    pub(super) rows: u32,
    /// Live documents.
    pub(super) documents: u32,
    /// Checksum of the rows behind the last full block.
    pub(super) tail_crc: u32,
}

impl CommitRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend_from_slice(&self.generation.0.to_le_bytes());
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&self.documents.to_le_bytes());
        bytes.extend_from_slice(&self.tail_crc.to_le_bytes());
        seal(&keys::COMMIT_KEY, bytes)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let mut fields = Fields(unseal(&keys::COMMIT_KEY, value)?);
        let record = Self {
            generation: Generation(u64::from_le_bytes(fields.take()?)),
            rows: fields.u32()?,
            documents: fields.u32()?,
            tail_crc: fields.u32()?,
        };
        fields.end()?;
        (record.documents <= record.rows).then_some(record)
    }
}

/// Where a live document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentRecord {
    pub(super) row: Row,
    pub(super) payload_bytes: u32,
    pub(super) payload_crc: u32,
    /// As given by the caller: not sorted, no leaf twice.
    pub(super) leaves: Vec<LeafId>,
}

impl DocumentRecord {
    /// Number of chunks of the payload; derived, so that it cannot disagree.
    pub(super) fn chunks(&self) -> u32 {
        self.payload_bytes.div_ceil(limits::CHUNK_BYTES as u32)
    }

    pub(super) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20 + 4 * self.leaves.len());
        bytes.extend_from_slice(&self.row.0.to_le_bytes());
        bytes.extend_from_slice(&self.payload_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.chunks().to_le_bytes());
        bytes.extend_from_slice(&self.payload_crc.to_le_bytes());
        for leaf in &self.leaves {
            bytes.extend_from_slice(&leaf.0.to_le_bytes());
        }
        seal(key, bytes)
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let mut fields = Fields(unseal(key, value)?);
        let row = Row(fields.u32()?);
        let payload_bytes = fields.u32()?;
        let chunks = fields.u32()?;
        let payload_crc = fields.u32()?;
        let leaves: Vec<LeafId> = fields.rest()?.map(LeafId).collect();
        let record = Self { row, payload_bytes, payload_crc, leaves };
        let mut distinct = record.leaves.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let sound = !record.leaves.is_empty()
            && record.leaves.len() <= limits::LEAVES_PER_DOCUMENT as usize
            && distinct.len() == record.leaves.len()
            && record.chunks() == chunks
            && payload_bytes as usize <= limits::PAYLOAD_BYTES;
        sound.then_some(record)
    }
}

/// Part of the posting list of a leaf: rows, ascending.
pub(super) fn encode_postings(key: &[u8], rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((rows.len() + 1) * 4);
    for row in rows {
        bytes.extend_from_slice(&row.0.to_le_bytes());
    }
    seal(key, bytes)
}

/// Inverse of [`encode_postings`].
pub(super) fn decode_postings(key: &[u8], value: &[u8]) -> Option<Vec<Row>> {
    let rows: Vec<Row> = Fields(unseal(key, value)?).rest()?.map(Row).collect();
    let sound =
        !rows.is_empty() && rows.len() <= limits::POSTING_BLOCK_ROWS && rows.is_sorted_by(|a, b| a < b);
    sound.then_some(rows)
}

/// The id of the live document of a row.
pub(super) fn encode_id(key: &[u8], id: &str) -> Vec<u8> {
    seal(key, id.as_bytes().to_vec())
}

/// Inverse of [`encode_id`].
pub(super) fn decode_id(key: &[u8], value: &[u8]) -> Option<String> {
    let id = unseal(key, value)?;
    if !(1..=limits::ID_BYTES).contains(&id.len()) {
        return None;
    }
    String::from_utf8(id.to_vec()).ok()
}

/// The checksum of a full block of rows.
pub(super) fn encode_block_crc(key: &[u8], crc: u32) -> Vec<u8> {
    seal(key, crc.to_le_bytes().to_vec())
}

/// Inverse of [`encode_block_crc`].
pub(super) fn decode_block_crc(key: &[u8], value: &[u8]) -> Option<u32> {
    let mut fields = Fields(unseal(key, value)?);
    let crc = fields.u32()?;
    fields.end()?;
    Some(crc)
}

fn crc(key: &[u8], bytes: &[u8]) -> [u8; CRC_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

fn seal(key: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc(key, &bytes);
    bytes.extend_from_slice(&crc);
    debug_assert!(bytes.len() <= limits::VALUE_BYTES);
    bytes
}

fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, stored) = value.split_last_chunk::<CRC_BYTES>()?;
    (crc(key, bytes) == *stored).then_some(bytes)
}

/// Little-endian fields, read one after another.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// All that is left, as numbers; `None` where it is no whole count of them.
    fn rest(self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let (numbers, odd) = self.0.as_chunks::<4>();
        odd.is_empty().then(|| numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)))
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Round trip, every flipped bit, every truncation, one byte too many, another key.
    fn check<T: PartialEq + Debug>(
        value: Vec<u8>,
        expected: T,
        key: &[u8],
        decode: impl Fn(&[u8], &[u8]) -> Option<T>,
    ) {
        assert_eq!(decode(key, &value), Some(expected));
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(key, &flipped), None, "bit {bit}");
        }
        for len in 0..value.len() {
            assert_eq!(decode(key, &value[..len]), None, "{len} bytes");
        }
        let mut longer = value.clone();
        longer.push(0);
        assert_eq!(decode(key, &longer), None);
        if key != keys::COMMIT_KEY {
            let mut other = key.to_vec();
            *other.last_mut().unwrap() ^= 1;
            assert_eq!(decode(&other, &value), None);
        }
    }

    #[test]
    fn commit_record() {
        let record = CommitRecord {
            generation: Generation(1 << 40),
            rows: 300,
            documents: 299,
            tail_crc: 0xDEAD_BEEF,
        };
        assert_eq!(record.encode().len(), 24);
        check(record.encode(), record, &keys::COMMIT_KEY, |_, value| CommitRecord::decode(value));
        let impossible = CommitRecord { documents: 301, ..record };
        assert_eq!(CommitRecord::decode(&impossible.encode()), None);
    }

    #[test]
    fn document_record() {
        let key = keys::document("an id");
        for leaves in [vec![LeafId(9)], vec![LeafId(u32::MAX), LeafId(0), LeafId(7)]] {
            let record = DocumentRecord { row: Row(5), payload_bytes: 3585, payload_crc: 77, leaves };
            assert_eq!(record.chunks(), 2);
            check(record.encode(&key), record, &key, DocumentRecord::decode);
        }
        let nowhere = DocumentRecord { row: Row(5), payload_bytes: 1, payload_crc: 0, leaves: vec![] };
        assert_eq!(DocumentRecord::decode(&key, &nowhere.encode(&key)), None);
    }

    #[test]
    fn the_largest_values_stay_under_the_limit() {
        let leaves = (0..limits::LEAVES_PER_DOCUMENT).map(LeafId).collect();
        let record = DocumentRecord { row: Row(0), payload_bytes: 0, payload_crc: 0, leaves };
        assert!(record.encode(&keys::document("a")).len() <= limits::VALUE_BYTES);
    }

    #[test]
    fn postings() {
        let key = keys::postings(LeafId(3), 1);
        let rows = vec![Row(1), Row(2), Row(70_000)];
        check(encode_postings(&key, &rows), rows, &key, decode_postings);
        for bad in [vec![], vec![Row(2), Row(1)], vec![Row(1), Row(1)]] {
            assert_eq!(decode_postings(&key, &encode_postings(&key, &bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn ids_and_block_checksums() {
        let key = keys::row(Row(3));
        check(encode_id(&key, "é"), "é".to_owned(), &key, decode_id);
        assert_eq!(decode_id(&key, &encode_id(&key, "")), None);
        assert_eq!(decode_id(&key, &seal(&key, vec![0xff])), None);
        let key = keys::vector_block(3);
        check(encode_block_crc(&key, 5), 5, &key, decode_block_crc);
    }
}
