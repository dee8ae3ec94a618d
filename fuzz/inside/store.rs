//! The decoders of this module for the fuzz targets; not part of the public interface.
//!
//! Each function asserts the guarantees of a decoder: no panic, and accepted input is what the encoder
//! writes. Random bytes never pass a checksum, so each input is also tried with the checksums corrected,
//! which lets the fuzzer reach the checks behind them.

#![allow(clippy::expect_used, reason = "a failure is what the fuzzer looks for")]

mod directory;

use std::{collections::BTreeMap, fs};

pub use directory::directory;

use crate::store::{
    Durability, Put, Store, StoreConfig, StoreOptions, WriteBatch, header,
    layout::{STORE_ID_BYTES, manifest as head, names, segment::*},
    log::{self, Log, LogPlace, Room},
    manifest::Manifest,
    payload::{self, Encoded},
    rows::{RowSource, Rows},
    sealed::{SealedFolder, SealedName, SealedWriter},
    segment::{Segment, SegmentFiles},
};
use crate::{
    codes::{self, StoredCodes},
    disk::FileSystem,
    document::Document,
    ids::{Generation, LeafId, ModelHash},
};

/// `MANIFEST`: the bytes unchanged, and with magic, counts and checksums corrected.
pub fn manifest(bytes: &[u8]) {
    check_manifest(bytes);
    if bytes.len() < head::HEAD_BYTES {
        return;
    }
    let (head, entries) = bytes.split_at(head::HEAD_BYTES);
    let entries = &entries[..entries.len() / head::ENTRY_BYTES * head::ENTRY_BYTES];
    let mut head: head::ManifestHead = bytemuck::pod_read_unaligned(head);
    head.segments = (entries.len() / head::ENTRY_BYTES) as u32;
    head.entries_crc = crc32fast::hash(entries);
    let file = [bytemuck::bytes_of(&header::sign(head, head::MAGIC)), entries].concat();
    check_manifest(&file);
}

fn check_manifest(file: &[u8]) {
    if let Ok(manifest) = Manifest::decode(file) {
        // Fields without meaning, if no row is dead, are written as zeros.
        assert_eq!(Manifest::decode(&manifest.encode()).ok(), Some(manifest));
    }
}

/// A commit in its log encoding: the decoded commit is encoded to the same bytes.
pub fn commit(bytes: &[u8]) {
    for passages in [false, true] {
        if let Some(batch) = log::decode(bytes, passages) {
            assert_eq!(log::encode(&batch, passages), bytes);
        }
    }
}

/// A log with `bytes` after a sound header and a whole commit, which must be found whatever follows.
pub fn log(bytes: &[u8]) {
    let place = LogPlace { store_id: [0; STORE_ID_BYTES], base: Generation(1) };
    let Ok(dir) = tempfile::tempdir() else { return };
    if fs::create_dir(dir.path().join(names::LOG)).is_err() {
        return;
    }
    let path = dir.path().join(log::name(place.base));
    let read = |expected: u64| {
        let mut commits = 0;
        let mut count = |frame: log::Frame, _: &[u8]| {
            commits += u64::from(!frame.is_behind);
            Ok(())
        };
        let found = log::scan(&FileSystem, dir.path(), place, &mut count);
        if let Ok(found) = found {
            assert!(found.commits == commits && commits >= expected && found.end <= found.len.max(40));
        } else {
            assert_eq!(expected, 0, "a log with a sound beginning is read");
        }
    };
    if fs::write(&path, bytes).is_err() {
        return;
    }
    read(0);
    let Ok(mut written) = Log::create(&FileSystem, dir.path(), &log::name(place.base), place) else { return };
    let batch = WriteBatch { puts: Vec::new(), deletes: vec!["id".to_owned()] };
    let config = StoreConfig {
        dim: 2,
        branching_factor: 2,
        height: 1,
        similarity: 0,
        model_hash: ModelHash([0; 32]),
        terms: 1,
        passages: None,
        expires: None,
    };
    let Ok(checked) = batch.check(&config) else { return };
    if written.append(&log::encode(&checked, false), Room::Ordinary).is_err() {
        return;
    }
    let end = written.bytes() as usize;
    drop(written);
    let Ok(mut whole) = fs::read(&path) else { return };
    whole.truncate(end);
    whole.extend_from_slice(bytes);
    if fs::write(&path, whole).is_ok() {
        read(1);
    }
}

/// A segment with whole files and arbitrary sections: cut from `bytes` at `cuts`.
pub fn segment(bytes: &[u8], cuts: &[u16], rows: u16) {
    const DIM: u32 = 2;
    let Ok(dir) = tempfile::tempdir() else { return };
    if fs::create_dir(dir.path().join(names::SEGMENTS)).is_err() {
        return;
    }
    let mut rest = bytes;
    let has_passages = cuts.len() % 2 == 1;
    let mut cuts = cuts.iter();
    let mut section = || {
        let at = usize::from(*cuts.next().unwrap_or(&0)).min(rest.len());
        let (now, later) = rest.split_at(at);
        rest = later;
        now
    };
    let folder = SealedFolder { backend: &FileSystem, dir: dir.path(), store_id: [1; STORE_ID_BYTES] };
    let write = |name: SealedName, sections: &[(u32, Vec<u8>)]| {
        let mut file = SealedWriter::create(folder, name)?;
        for (name, bytes) in sections {
            file.begin(*name)?;
            file.write(bytes)?;
        }
        file.finish()
    };
    let rows = u32::from(rows % 64);
    let mut matrix = vec![(ROWS, vec![0; (rows * DIM * 2) as usize])];
    let mut sections: Vec<(u32, Vec<u8>)> =
        [IDS, PAYLOADS, METADATA, LEAVES, LEAF_ENDS].map(|name| (name, section().to_vec())).into();
    // With the lengths that opening checks, so that later checks are reached.
    let leaves = sections[3].1.len() / 4 * 4;
    sections[4].1.resize(leaves, 0);
    for (name, width) in [(ID_ENDS, 8), (ID_ORDER, 4), (PAYLOAD_ENDS, 8), (METADATA_ENDS, 8), (CREATED_AT, 8)]
    {
        let mut numbers = section().to_vec();
        numbers.resize(rows as usize * width, 0);
        sections.push((name, numbers));
    }
    // Some have passages, and then fewer ids.
    if has_passages {
        for (name, width) in [(HEADS, 4), (SPANS, 8), (NEXT, 4)] {
            let mut numbers = section().to_vec();
            numbers.resize(rows as usize * width, 0);
            sections.push((name, numbers));
        }
        if let Some((_, order)) = sections.iter_mut().find(|(name, _)| *name == ID_ORDER) {
            order.truncate(rows as usize / 2 * 4);
        }
    }
    let mut places = section().to_vec();
    places.resize(2 * leaves, 0);
    let (blocks, dim) = ((rows as usize).div_ceil(codes::BLOCK_ROWS) + rows as usize % 4, DIM as usize);
    matrix.push((CODE_PLACES, places));
    for (name, length) in [
        (CODES, blocks * codes::block_bytes(dim)),
        (MEANS, 3 * dim * 2),
        (SUPPLEMENTS, rows as usize * codes::supplement_bytes(dim)),
    ] {
        matrix.push((name, vec![0x3c; length]));
    }
    let [vectors, documents] = SegmentFiles::names_of(1);
    let (vectors, documents) = (write(vectors, &matrix), write(documents, &sections));
    let (Ok(vectors), Ok(documents)) = (vectors, documents) else { return };
    let files = SegmentFiles { number: 1, rows, vectors, documents };
    let Ok(segment) = Segment::open(folder, DIM, files, false) else { return };
    for row in 0..rows {
        if let Ok(Some(passage)) = segment.passage(row) {
            assert!(passage.head < rows && passage.next < rows);
        }
        let _ = (segment.head(row), segment.document(row), segment.leaf_of(row), segment.created_at(row));
        if row < segment.documents() {
            let _ = segment.by_id(row);
        }
        if let Ok(id) = segment.id(row) {
            let _ = segment.find(id);
        }
    }
    for (first, end) in [(0, rows), (rows / 3, rows / 2)] {
        for near in [0, 3] {
            let mut found = Vec::new();
            if let Ok(true) = segment.put_codes(first..end, LeafId(near), &mut |codes| found.push(codes)) {
                assert_eq!(found.iter().map(|codes| codes.rows).sum::<usize>(), (end - first) as usize);
                let blocks = |codes: &StoredCodes<'_>| (codes.first + codes.rows).div_ceil(codes::BLOCK_ROWS);
                let bytes = |codes: &StoredCodes<'_>| blocks(codes) * codes::block_bytes(dim);
                assert!(
                    found.iter().all(|codes| codes.blocks.len() == bytes(codes) && codes.mean.len() == dim)
                );
            }
        }
    }
    for leaf in 0..32 {
        if let Ok(own) = segment.leaf(LeafId(leaf)) {
            assert!(own.end <= rows);
            let _ = segment.matrix(own);
        }
    }
}

/// The payload of a document: an accepted one that may be stored is returned unchanged.
pub fn payload(bytes: &[u8], metadata: &[u8]) {
    let Some(document) = payload::decode("an id".to_owned(), bytes, metadata) else {
        return;
    };
    if let Ok(Encoded { payload, metadata }) = payload::encode(&document) {
        assert_eq!(payload::decode("an id".to_owned(), &payload, &metadata), Some(document));
    }
}

/// A caller's configuration: an accepted one survives its manifest.
pub fn config(dim: u32, branching_factor: u32, height: u32, similarity: u8) {
    let config = StoreConfig {
        dim,
        branching_factor,
        height,
        similarity,
        model_hash: ModelHash([7; 32]),
        terms: 1,
        passages: None,
        expires: None,
    };
    let manifest = Manifest::empty(&config);
    let accepted = config.check().is_ok();
    let read = Manifest::decode(&manifest.encode()).ok();
    assert_eq!(read, accepted.then_some(manifest));
}

/// A step of [`operations`].
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Stores a document under one of 16 ids, with this many characters of text, in one of 16 leaves.
    Put {
        id: u8,
        length: u16,
        leaf: u8,
    },
    Delete {
        id: u8,
    },
    Flush,
    Compact,
    /// Recomputes posting lists, with each document in the leaf of its length.
    Rebuild,
    Reopen,
    /// Continues with a snapshot.
    Snapshot,
    /// Refreshes the reader, or opens it.
    Refresh,
}

impl Operation {
    /// Every five bytes are one step.
    fn read(bytes: &[u8; 5]) -> Self {
        let [kind, id, length, more, leaf] = *bytes;
        match kind % 16 {
            0..7 => Self::Put { id, length: u16::from_le_bytes([length, more]) % 5000, leaf: leaf % 16 },
            7..9 => Self::Delete { id },
            9..11 => Self::Flush,
            11 => Self::Compact,
            12 => Self::Rebuild,
            13 => Self::Reopen,
            14 => Self::Snapshot,
            _ => Self::Refresh,
        }
    }
}

/// Operations on a store compared with a map: after each, the store has the contents of the map, and a reader
/// those of the last flush at its refresh.
pub fn operations(bytes: &[u8]) {
    const DIM: usize = 2;
    let config = StoreConfig {
        dim: DIM as u32,
        branching_factor: 16,
        height: 1,
        similarity: 0,
        model_hash: ModelHash([0; 32]),
        terms: 1,
        passages: None,
        expires: None,
    };
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let Ok(parent) = tempfile::tempdir() else { return };
    let mut dir = parent.path().join("0");
    let mut store = Store::create(&dir, &config, options).expect("a new directory");
    let mut map: BTreeMap<String, (u16, LeafId)> = BTreeMap::new();
    let mut flushed = map.clone();
    let mut reader: Option<Store> = None;
    let operations = bytes.as_chunks::<5>().0.iter().take(64).map(Operation::read);
    for (number, operation) in operations.enumerate() {
        match operation {
            Operation::Put { id, length, leaf } => {
                let id = format!("id{}", id % 16);
                let leaf = LeafId(leaf.into());
                let embedding = vec![half::f16::from_f32(f32::from(length % 2048)), half::f16::ONE];
                let document = Document::new(&id, "", "x".repeat(length.into()));
                let put = Put::whole(document, embedding, leaf);
                store.commit(WriteBatch { puts: vec![put], deletes: vec![] }).expect("a put");
                map.insert(id, (length, leaf));
            }
            Operation::Delete { id } => {
                let id = format!("id{}", id % 16);
                let deleted = store.commit(WriteBatch { puts: vec![], deletes: vec![id.clone()] });
                assert_eq!(deleted.expect("a delete").deleted, usize::from(map.remove(&id).is_some()));
            }
            Operation::Flush => store.flush().expect("a flush"),
            Operation::Compact => store.compact(&mut || Ok(())).expect("a compaction"),
            Operation::Rebuild => {
                let leaf = |row: &[half::f16]| LeafId(row[0].to_f32() as u32 % 16);
                store
                    .rebuild_postings(&|rows| rows.chunks_exact(DIM).map(leaf).collect(), &mut || Ok(()))
                    .expect("new lists");
                map.values_mut().for_each(|(length, leaf)| *leaf = LeafId(u32::from(*length % 2048 % 16)));
            }
            Operation::Reopen => {
                drop(store);
                store = Store::open(&dir, options).expect("a store that was closed");
            }
            Operation::Snapshot => {
                let target = parent.path().join((number + 1).to_string());
                store.snapshot(&target).expect("a snapshot");
                drop(store);
                (dir, reader) = (target, None);
                store = Store::open(&dir, options).expect("a snapshot");
            }
            Operation::Refresh => match &reader {
                Some(reader) => drop(reader.refresh().expect("a refresh")),
                None => reader = Some(Store::open_read_only(&dir).expect("a store")),
            },
        }
        let seals =
            !matches!(operation, Operation::Put { .. } | Operation::Delete { .. } | Operation::Refresh);
        if seals {
            flushed = map.clone();
        }
        check_map(&store, &map);
        if let (Some(reader), Operation::Refresh) = (&reader, operation) {
            check_map(reader, &flushed);
        }
    }
    assert!(store.verify().expect("a check").is_sound());
}

fn check_map(store: &Store, map: &BTreeMap<String, (u16, LeafId)>) {
    let view = store.read();
    assert_eq!(view.live(), map.len());
    let mut lists: BTreeMap<LeafId, usize> = BTreeMap::new();
    for (id, (length, leaf)) in map {
        let row = view.row_of(id).expect("a read").expect("a document");
        assert_eq!(view.document(row).expect("a document").text.len(), usize::from(*length));
        assert_eq!(view.leaf_of(row).expect("a leaf"), *leaf);
        *lists.entry(*leaf).or_default() += 1;
    }
    for leaf in (0..16).map(LeafId) {
        assert_eq!(view.leaf(leaf).expect("a leaf").len(), lists.get(&leaf).copied().unwrap_or(0));
    }
}
