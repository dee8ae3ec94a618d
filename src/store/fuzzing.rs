//! The decoders of this module for the fuzz targets; not part of the public interface.
//!
//! Each function asserts what a decoder promises: no panic, and what it accepts is what the
//! encoder writes. Random bytes never pass a checksum, so each input is also tried with the
//! checksum put right, which lets the fuzzer reach the checks behind it.

use super::{
    layout::{CRC_BYTES, STORE_ID_BYTES, keys, limits, manifest},
    manifest::{Manifest, StoreConfig, StoreId},
    payload,
    postings::LeafTable,
    records::{self, CommitRecord, DocumentRecord},
    state::read_posting_block,
};
use crate::ids::{LeafId, Row};

/// `MANIFEST`: the bytes, cut or filled with zeros to its length.
pub fn manifest(bytes: &[u8]) {
    let mut file = [0; manifest::BYTES];
    let len = bytes.len().min(file.len());
    file[..len].copy_from_slice(&bytes[..len]);
    check_manifest(&file);
    file[manifest::AT_MAGIC].copy_from_slice(&manifest::MAGIC);
    let crc = crc32fast::hash(&file[..manifest::AT_CRC.start]);
    file[manifest::AT_CRC].copy_from_slice(&crc.to_le_bytes());
    check_manifest(&file);
}

fn check_manifest(file: &[u8; manifest::BYTES]) {
    if let Ok(manifest) = Manifest::decode(file) {
        assert_eq!(manifest.encode(), *file);
    }
}

/// The value of the commit record.
pub fn commit_record(value: &[u8]) {
    for value in with_checksum(&keys::COMMIT_KEY, value) {
        if let Some(record) = CommitRecord::decode(&value) {
            assert_eq!(record.encode(), value);
        }
    }
}

/// The value of a document record.
pub fn document_record(value: &[u8]) {
    let key = keys::document("an id");
    for value in with_checksum(&key, value) {
        if let Some(record) = DocumentRecord::decode(&key, &value) {
            assert_eq!(record.encode(&key), value);
        }
    }
}

/// The value of a posting block, alone and as a part of a leaf's list.
pub fn posting_block(value: &[u8]) {
    let key = keys::postings(LeafId(3), 1);
    let config = StoreConfig {
        dim: 8,
        branching_factor: 4,
        height: 1,
        leaves_per_document: 1,
        similarity: 1,
        model_hash: [0; 32],
    };
    let rows_committed = 1 << 20;
    for value in with_checksum(&key, value) {
        let rows = records::decode_postings(&key, &value);
        if let Some(rows) = &rows {
            assert_eq!(records::encode_postings(&key, rows), value);
        }
        let mut table = LeafTable::default();
        if let Ok((leaf, read)) = read_posting_block(&config, rows_committed, &mut table, &key, &value) {
            assert_eq!(Some(&read), rows.as_ref());
            assert_eq!(table.rows(leaf), read);
            assert!(read.iter().all(|row| row.0 < rows_committed));
        }
    }
}

/// The values that name a row's document and a block's checksum.
pub fn small_records(value: &[u8]) {
    let key = keys::row(Row(3));
    for value in with_checksum(&key, value) {
        if let Some(id) = records::decode_id(&key, &value) {
            assert_eq!(records::encode_id(&key, &id), value);
        }
    }
    let key = keys::vector_block(3);
    for value in with_checksum(&key, value) {
        if let Some(crc) = records::decode_block_crc(&key, &value) {
            assert_eq!(records::encode_block_crc(&key, crc), value);
        }
    }
}

/// The payload of a document: what is accepted and may be stored comes back unchanged.
pub fn payload(bytes: &[u8]) {
    let Some(document) = payload::decode("an id".to_owned(), bytes) else {
        return;
    };
    if let Ok(written) = payload::encode(&document) {
        assert_eq!(payload::decode("an id".to_owned(), &written), Some(document));
    }
}

/// A configuration as a caller may give it: one that is accepted survives its manifest.
pub fn config(dim: u32, branching_factor: u32, height: u32, leaves_per_document: u32, similarity: u8) {
    let config =
        StoreConfig { dim, branching_factor, height, leaves_per_document, similarity, model_hash: [7; 32] };
    let manifest = Manifest { config, store_id: StoreId([5; STORE_ID_BYTES]) };
    let accepted = manifest.config.check().is_ok();
    let read = Manifest::decode(&manifest.encode()).ok();
    assert_eq!(read, accepted.then_some(manifest));
}

/// The value as it is, and with a right checksum behind it where that may be stored.
fn with_checksum(key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    let sealed = [value, &hasher.finalize().to_le_bytes()[..]].concat();
    // The encoder never writes more; a longer value cannot be encoded again.
    let mut values = vec![value.to_vec(), sealed];
    values.retain(|value| value.len() <= limits::VALUE_BYTES && value.len() >= CRC_BYTES);
    values
}
