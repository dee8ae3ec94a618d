use std::{collections::BTreeMap, fs};

use half::f16;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    disk::FileSystem,
    document::Document,
    ids::{Generation, LeafId},
    store::{
        Result, StoreError,
        layout::{STORE_ID_BYTES, names},
        payload,
        rows::{Member, Passage, RowSource, Rows},
        sealed::SealedFolder,
        terms::{Lexer, TermLists},
    },
};

const DIM: usize = 3;

/// A source in memory.
#[derive(Clone, Debug)]
struct Given {
    document: Document,
    stored: payload::Encoded,
    embedding: [f16; DIM],
    leaf: LeafId,
    passage: Option<Passage>,
}

impl RowSource for Vec<Given> {
    fn leaf_of(&self, row: u32) -> Result<LeafId> {
        Ok(self[row as usize].leaf)
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        Ok(&self[row as usize].embedding)
    }

    fn id(&self, row: u32) -> Result<&str> {
        Ok(&self[row as usize].document.id)
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        Ok(&self[row as usize].stored.payload)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        Ok(&self[row as usize].stored.metadata)
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        Ok(self[row as usize].passage)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        Ok(Generation(u64::from(row) + 100))
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        joined::made_from_texts(self, rows, lexer)
    }
}

fn given(place: usize, leaf: u32) -> Given {
    let document = Document::new(format!("id-{}", place * 7919 % 1000), "a title", format!("text {place}"));
    let document =
        if place.is_multiple_of(3) { document.with_metadata(json!({ "place": place })) } else { document };
    let embedding = [place as f32, -1.0, place as f32 / 3.0].map(f16::from_f32);
    let stored = payload::encode(&document).unwrap();
    Given { document, stored, embedding, leaf: LeafId(leaf), passage: None }
}

fn folder(dir: &TempDir) -> SealedFolder<'_> {
    SealedFolder { backend: &FileSystem, dir: dir.path(), store_id: [5; STORE_ID_BYTES] }
}

fn write(dir: &TempDir, sources: &[Vec<Given>]) -> SegmentFiles {
    fs::create_dir_all(dir.path().join(names::SEGMENTS)).unwrap();
    let members = (0..)
        .zip(sources)
        .flat_map(|(source, rows)| (0..rows.len() as u32).map(move |row| Member { source, row }))
        .collect();
    let sources: Vec<&dyn RowSource> = sources.iter().map(|source| source as &dyn RowSource).collect();
    build(
        folder(dir),
        NewSegment { number: 9, codes: None, lexer: None, expires: None, leaf: &|_| None },
        &sources,
        members,
        &mut || Ok(()),
    )
    .unwrap()
}

fn open(dir: &TempDir, files: SegmentFiles) -> Result<Segment> {
    Segment::open(folder(dir), DIM as u32, files, false)
}

/// The origin of each row, by its id.
fn members(sources: &[Vec<Given>], segment: &Segment) -> Vec<Member> {
    let mut places = BTreeMap::new();
    for (source, rows) in (0..).zip(sources) {
        for (row, given) in (0..).zip(rows) {
            places.insert(given.document.id.as_str(), Member { source, row });
        }
    }
    (0..segment.rows()).map(|row| places[segment.id(row).unwrap()]).collect()
}

/// Compares all contents of a segment with its sources.
fn check(sources: &[Vec<Given>], segment: &Segment) {
    let members = members(sources, segment);
    let all: Vec<&Given> = sources.iter().flatten().collect();
    assert_eq!(segment.rows() as usize, all.len());
    assert!(segment.check_bytes().all(|page| page.is_ok()));
    let mut lists: BTreeMap<LeafId, Vec<u32>> = BTreeMap::new();
    let mut last = None;
    for (row, member) in (0..).zip(&members) {
        let own = &sources[member.source as usize][member.row as usize];
        assert_eq!(segment.id(row).unwrap(), own.document.id);
        assert_eq!(segment.document(row).unwrap(), own.document);
        assert_eq!(segment.matrix(row..row + 1).unwrap(), own.embedding);
        assert_eq!(segment.leaf_of(row).unwrap(), own.leaf);
        assert_eq!(segment.created_at(row).unwrap(), Generation(u64::from(member.row) + 100));
        assert_eq!(segment.find(&own.document.id).unwrap(), Some(row));
        // Rows of one leaf, in the given order.
        let order = (own.leaf, member.source, member.row);
        assert!(last < Some(order));
        last = Some(order);
        lists.entry(own.leaf).or_default().push(row);
    }
    assert_eq!(segment.all_leaves().unwrap(), lists.keys().map(|leaf| leaf.0).collect::<Vec<_>>());
    for (leaf, rows) in &lists {
        assert_eq!(segment.leaf(*leaf).unwrap().collect::<Vec<_>>(), *rows, "{leaf:?}");
    }
    assert_eq!(segment.leaf(LeafId(4_000_000)).unwrap(), 0..0);
    let mut ids: Vec<&str> = all.iter().map(|own| own.document.id.as_str()).collect();
    ids.sort_unstable();
    for (place, id) in (0..).zip(&ids) {
        assert_eq!(segment.id(segment.by_id(place).unwrap()).unwrap(), *id);
        assert_eq!(segment.first_from(id).unwrap(), place);
    }
    for id in ["", "id-", "zzz", "id-1x"] {
        assert_eq!(segment.find(id).unwrap(), None, "{id:?}");
    }
}

#[test]
fn segments_hold_what_was_put_in() {
    for sources in [
        vec![],
        vec![vec![given(1, 7)]],
        vec![(0..300).map(|n| given(n, n as u32 * 31 % 11)).collect()],
        vec![
            (0..40).map(|n| given(n, n as u32 % 5)).collect(),
            (40..90).map(|n| given(n, 9 - n as u32 % 3)).collect(),
        ],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let files = write(&dir, &sources);
        check(&sources, &open(&dir, files).unwrap());
    }
}

#[test]
fn an_answer_to_cancel_ends_the_build() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(names::SEGMENTS)).unwrap();
    let source: Vec<Given> = (0..10).map(|n| given(n, 1)).collect();
    let members = (0..10).map(|row| Member { source: 0, row }).collect();
    let mut left = 4;
    let mut tick = || {
        left -= 1;
        if left == 0 { Err(StoreError::Poisoned) } else { Ok(()) }
    };
    let built = build(
        folder(&dir),
        NewSegment { number: 9, codes: None, lexer: None, expires: None, leaf: &|_| None },
        &[&source],
        members,
        &mut tick,
    );
    assert!(matches!(built, Err(StoreError::Poisoned)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A damaged segment answers as a sound one does, or reports the damage; it never panics.
    #[test]
    fn damage_is_an_error_or_changes_nothing(
        rows in 1usize..120,
        flips in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let sources = vec![(0..rows).map(|n| given(n, n as u32 % 7)).collect::<Vec<_>>()];
        let files = write(&dir, &sources);
        let members = members(&sources, &open(&dir, files).unwrap());
        for (vectors, place, bit) in flips {
            let path = dir.path().join(files.names()[usize::from(!vectors)].to_string());
            let mut bytes = fs::read(&path).unwrap();
            let at = place.index(bytes.len());
            bytes[at] ^= 1 << bit;
            fs::write(&path, bytes).unwrap();
        }
        let Ok(segment) = open(&dir, files) else { return Ok(()) };
        for (row, member) in (0..).zip(&members) {
            let own = &sources[0][member.row as usize];
            if let Ok(document) = segment.document(row) {
                prop_assert_eq!(&document, &own.document);
            }
            if let Ok(embedding) = segment.matrix(row..row + 1) {
                prop_assert_eq!(embedding, own.embedding);
            }
            if let Ok(leaf) = segment.leaf_of(row) {
                prop_assert_eq!(leaf, own.leaf);
            }
            if let Ok(found) = segment.find(&own.document.id) {
                prop_assert_eq!(found, Some(row));
            }
        }
    }
}
