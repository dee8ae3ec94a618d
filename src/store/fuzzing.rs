//! The decoders of this module for the fuzz targets; not part of the public interface.
//!
//! Each function asserts what a decoder promises: no panic, and what it accepts is what the
//! encoder writes. Random bytes never pass a checksum, so each input is also tried with the
//! checksums put right, which lets the fuzzer reach the checks behind them.

use std::fs;

use super::{
    io::FileSystem,
    journal,
    layout::{STORE_ID_BYTES, journal::PREFIX_BYTES, manifest as head, names, segment::*},
    manifest::{Manifest, StoreConfig, StoreId},
    payload::{self, Encoded},
    sealed::{Identity, Kind, SealedWriter},
    segment::{Segment, SegmentFiles},
};
use crate::ids::LeafId;

/// `MANIFEST`: the bytes as they are, and with magic, counts and checksums put right.
pub fn manifest(bytes: &[u8]) {
    check_manifest(bytes);
    if bytes.len() < head::HEAD_BYTES {
        return;
    }
    let mut file = bytes.to_vec();
    let entries = (file.len() - head::HEAD_BYTES) / head::ENTRY_BYTES;
    file.truncate(head::HEAD_BYTES + entries * head::ENTRY_BYTES);
    file[head::AT_MAGIC].copy_from_slice(&head::MAGIC);
    file[head::AT_SEGMENTS].copy_from_slice(&(entries as u32).to_le_bytes());
    let crc = crc32fast::hash(&file[head::HEAD_BYTES..]);
    file[head::AT_ENTRIES_CRC].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&file[..head::AT_CRC.start]);
    file[head::AT_CRC].copy_from_slice(&crc.to_le_bytes());
    check_manifest(&file);
}

fn check_manifest(file: &[u8]) {
    if let Ok(manifest) = Manifest::decode(file) {
        // Fields that mean nothing where no row is dead are written as zeros.
        assert_eq!(Manifest::decode(&manifest.encode()).ok(), Some(manifest));
    }
}

/// A commit in the journal: the bytes as they are, and with length and checksum put right.
pub fn commit(bytes: &[u8]) {
    let _ = journal::decode(bytes);
    let mut framed = vec![0; PREFIX_BYTES];
    framed.extend_from_slice(bytes);
    let (len, crc) = (framed.len() as u64, crc32fast::hash(bytes));
    framed[..8].copy_from_slice(&len.to_le_bytes());
    framed[8..PREFIX_BYTES].copy_from_slice(&crc.to_le_bytes());
    if let Some(batch) = journal::decode(&framed) {
        assert_eq!(journal::encode(&batch), framed);
    }
}

/// A segment whose files are whole and whose sections hold anything: cut from `bytes` as `cuts` say.
pub fn segment(bytes: &[u8], cuts: &[u16], rows: u16) {
    const DIM: u32 = 2;
    let Ok(dir) = tempfile::tempdir() else { return };
    let store_id = StoreId([1; STORE_ID_BYTES]);
    if fs::create_dir(dir.path().join(names::SEGMENTS)).is_err() {
        return;
    }
    let mut rest = bytes;
    let mut cuts = cuts.iter();
    let mut section = || {
        let at = usize::from(*cuts.next().unwrap_or(&0)).min(rest.len());
        let (now, later) = rest.split_at(at);
        rest = later;
        now
    };
    let write = |name: String, kind, sections: &[(u32, Vec<u8>)]| {
        let mut file = SealedWriter::create(
            &FileSystem,
            &dir.path().join(name),
            Identity { kind, store_id, segment: 1 },
        )?;
        for (name, bytes) in sections {
            file.begin(*name)?;
            file.write(bytes)?;
        }
        file.finish()
    };
    let rows = u32::from(rows % 64);
    let matrix = vec![(ROWS, vec![0; (rows * DIM * 2) as usize])];
    let mut sections: Vec<(u32, Vec<u8>)> =
        [IDS, PAYLOADS, METADATA, LEAVES, LEAF_ENDS, FURTHER, FURTHER_ENDS, ROW_LEAVES, ROW_LEAF_ENDS]
            .into_iter()
            .map(|name| (name, section().to_vec()))
            .collect();
    // Of the lengths that opening asks for, so that what is behind is reached.
    let leaves = sections[3].1.len() / 4 * 4;
    [4, 6].into_iter().for_each(|ends| sections[ends].1.resize(leaves, 0));
    for (name, width) in [(ID_ENDS, 8), (ID_ORDER, 4), (PAYLOAD_ENDS, 8), (METADATA_ENDS, 8), (BORN, 8)] {
        let mut numbers = section().to_vec();
        numbers.resize(rows as usize * width, 0);
        sections.push((name, numbers));
    }
    let (vectors, documents) = (
        write(SegmentFiles::vectors_name(1), Kind::Vectors, &matrix),
        write(SegmentFiles::documents_name(1), Kind::Documents, &sections),
    );
    let (Ok(vectors), Ok(documents)) = (vectors, documents) else { return };
    let files = SegmentFiles { number: 1, rows, vectors, documents };
    let Ok(segment) = Segment::open(&FileSystem, dir.path(), store_id, DIM, files) else { return };
    for row in 0..rows {
        let _ = (segment.document(row), segment.leaves_of(row), segment.born(row), segment.by_id(row));
        if let Ok(id) = segment.id(row) {
            let _ = segment.find(id);
        }
    }
    for leaf in 0..32 {
        if let Ok((own, further)) = segment.leaf(LeafId(leaf)) {
            assert!(own.end <= rows && further.iter().all(|row| *row < rows));
            let _ = segment.matrix(own);
        }
    }
}

/// The payload of a document: what is accepted and may be stored comes back unchanged.
pub fn payload(bytes: &[u8], metadata: &[u8]) {
    let Some(document) = payload::decode("an id".to_owned(), bytes, metadata) else {
        return;
    };
    if let Ok(Encoded { payload, metadata }) = payload::encode(&document) {
        assert_eq!(payload::decode("an id".to_owned(), &payload, &metadata), Some(document));
    }
}

/// A configuration as a caller may give it: one that is accepted survives its manifest.
pub fn config(dim: u32, branching_factor: u32, height: u32, leaves_per_document: u32, similarity: u8) {
    let config =
        StoreConfig { dim, branching_factor, height, leaves_per_document, similarity, model_hash: [7; 32] };
    let manifest = Manifest::empty(&config);
    let accepted = config.check().is_ok();
    let read = Manifest::decode(&manifest.encode()).ok();
    assert_eq!(read, accepted.then_some(manifest));
}
