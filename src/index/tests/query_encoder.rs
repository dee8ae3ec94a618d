//! The query encoder of a model: set, removed, damaged, copied.

use sha2::{Digest, Sha256};

use super::*;
use crate::SearchRequest;
use crate::model::{
    DistilReport, EncodeMicroseconds, HeadWeights, QueryEncoderEntry, SIGNALS, StaticWeights, hex,
};
use crate::search::QueryEncoder;

/// A different query encoder for each number.
pub(super) fn made(number: u64) -> (QueryEncoderEntry, Vec<u8>) {
    let (dim, vocabulary, width) = (bundle::WIDTH, bundle::WORDS.len(), 3);
    let values =
        |n: usize| (0..n).map(|i| ((i * 7 + number as usize * 13) % 11) as f32 / 11.0 - 0.4).collect();
    let weights = StaticWeights {
        dim,
        table: values(vocabulary * dim),
        weights: vec![1.0; vocabulary],
        seen: vec![true; vocabulary],
        head: HeadWeights {
            linear: values(dim * dim),
            bias: values(dim),
            hidden: values(width * dim),
            hidden_bias: values(width),
            output: values(dim * width),
        },
        confidence: [0.5; SIGNALS],
    };
    let bytes = weights.to_bytes().unwrap();
    let sha256 = hex(&Sha256::digest(&bytes));
    let report = DistilReport {
        texts: 1,
        questions: 0,
        passes: 1,
        seconds: 0.0,
        bytes: bytes.len() as u64,
        documents: 0,
        held_out_texts: 0,
        cosine: 0.0,
        overlap_at_10: 0.0,
        unsure: 0.0,
        held_out_questions: 0,
        full: None,
        fast: None,
        difference: None,
        tree: None,
        encode_us: EncodeMicroseconds { full: 0.0, fast: 0.0 },
        is_default: true,
        sentence: String::new(),
    };
    (
        QueryEncoderEntry {
            file: QueryEncoderEntry::file_name(&sha256),
            sha256,
            encoder: String::new(),
            unsure_below: 0.0,
            of_index: false,
            report,
        },
        bytes,
    )
}

fn with_query_encoder(bundles: &Bundles, path: &Path) -> Index {
    let index = create(unsynced(), path, &bundles.a).unwrap();
    index.insert_batch(documents(0, 5)).unwrap();
    let (entry, bytes) = made(1);
    index.set_query_encoder(&index.serving(), Some((entry, &bytes))).unwrap();
    index
}

fn encoder_of(index: &Index, encoder: Option<QueryEncoder>) -> Result<Option<QueryEncoder>> {
    let request = SearchRequest { encoder, ..SearchRequest::dense() };
    Ok(index.search_with("tree leaf", &request)?.stats.encoder)
}

#[test]
fn it_changes_no_identity_and_goes_with_copies() {
    let bundles = Bundles::new();
    let dir = tempfile::tempdir().unwrap();
    let index = with_query_encoder(&bundles, &dir.path().join("index"));
    assert_eq!(index.bundle().hash(), bundles.a.hash());
    assert!(bundles.a.query_encoder().is_none(), "the bundle that the index was made of is as before");
    assert_eq!(encoder_of(&index, None).unwrap(), Some(QueryEncoder::Fast));
    assert_eq!(encoder_of(&index, Some(QueryEncoder::Full)).unwrap(), Some(QueryEncoder::Full));

    index.flush().unwrap();
    index.snapshot(dir.path().join("copy")).unwrap();
    let copy = open(unsynced(), &dir.path().join("copy")).unwrap();
    assert_eq!(encoder_of(&copy, None).unwrap(), Some(QueryEncoder::Fast));
    assert!(copy.verify().unwrap().is_sound());

    // A reader opened earlier sees it at its next refresh.
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    let (second, bytes) = made(2);
    index.set_query_encoder(&index.serving(), Some((second.clone(), &bytes))).unwrap();
    assert_eq!(encoder_of(&reader, None).unwrap(), Some(QueryEncoder::Fast), "the old one is open");
    reader.refresh().unwrap();
    let of_reader = reader.bundle().fast().unwrap().entry().clone();
    let encoder = bundles.a.encoder_digest();
    assert_eq!(of_reader, QueryEncoderEntry { encoder, ..second });
    index.set_query_encoder(&index.serving(), None).unwrap();
    reader.refresh().unwrap();
    for index in [&index, &reader] {
        assert!(index.query_encoder().is_none());
        assert_eq!(encoder_of(index, None).unwrap(), Some(QueryEncoder::Full));
        let refused = encoder_of(index, Some(QueryEncoder::Fast));
        assert!(matches!(refused, Err(Error::Input(InputError::NoQueryEncoder))), "{refused:?}");
    }
    let model = index.bundle().path().to_owned();
    assert!(names(&model).iter().all(|name| !name.starts_with("query-")), "{:?}", names(&model));
}

#[test]
fn damage_is_told_and_searches_go_on_with_the_full_encoder() {
    let bundles = Bundles::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    drop(with_query_encoder(&bundles, &path));
    let file = path.join("models/1/model").join(made(1).0.file);
    let sound = fs::read(&file).unwrap();
    let damaged = |content: Option<&[u8]>| {
        fs::remove_file(&file).unwrap();
        content.into_iter().for_each(|content| fs::write(&file, content).unwrap());
        let index = open(unsynced(), &path).unwrap();
        assert_eq!(encoder_of(&index, None).unwrap(), Some(QueryEncoder::Full));
        let refused = encoder_of(&index, Some(QueryEncoder::Fast));
        assert!(matches!(refused, Err(Error::Model(_))), "{refused:?}");
        let report = index.verify().unwrap();
        assert!(!report.is_sound() && format!("{report:?}").contains("query encoder"), "{report:?}");
        // Another one replaces it.
        let (entry, bytes) = made(2);
        index.set_query_encoder(&index.serving(), Some((entry, &bytes))).unwrap();
        assert!(index.verify().unwrap().is_sound());
        let (entry, bytes) = made(1);
        index.set_query_encoder(&index.serving(), Some((entry, &bytes))).unwrap();
    };
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    damaged(Some(&flipped));
    damaged(Some(&sound[..sound.len() - 1]));
    damaged(Some(b""));
}

#[test]
fn a_manifest_may_name_no_other_file() {
    let bundles = Bundles::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    drop(with_query_encoder(&bundles, &path));
    let manifest = path.join("models/1/model/ehi.json");
    let sound = fs::read_to_string(&manifest).unwrap();
    let own = made(1).0.file;
    for other in ["../../../secret", "query-0000000000000000.safetensors", "model.safetensors", ""] {
        fs::write(&manifest, sound.replace(&own, other)).unwrap();
        let index = open(unsynced(), &path).unwrap();
        assert_eq!(encoder_of(&index, None).unwrap(), Some(QueryEncoder::Full), "{other}");
        assert!(!index.verify().unwrap().is_sound(), "{other}");
    }
    // A repair removes it.
    let options = crate::index::RepairOptions::default();
    let report = Index::repair_on(unsynced(), &path, &options, &mut crate::progress::no_progress).unwrap();
    assert!(report.query_encoder_removed && !report.was_sound(), "{report:?}");
    let index = open(unsynced(), &path).unwrap();
    assert!(index.verify().unwrap().is_sound() && index.query_encoder().is_none());
    drop(index);
    fs::write(&manifest, sound).unwrap();
    assert!(open(unsynced(), &path).is_ok());
}
