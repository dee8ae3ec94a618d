//! Documents with an embedding and without text: no change of model encodes the empty text for them.

use std::fs;

use crate::program::{ehi, text};
use crate::support::{Shape, WIDTH, base_model, bundle, document, documents};
use ehi::learn::{LearnOptions, TuneOptions};
use ehi::train::TrainConfig;
use ehi::{Bundle, Document, Error, Index, InputError, Judgment, RepairOptions, SearchRequest, no_progress};
use tempfile::TempDir;

const SHAPE: Shape = Shape { height: 1 };
const WITH_TEXT: usize = 60;
const WITHOUT: usize = 12;

fn vector(seed: usize) -> Vec<f32> {
    (0..WIDTH).map(|i| (((i * 7 + seed * 13) % 31) as f32 - 15.0) / 15.0).collect()
}

fn name(number: usize) -> String {
    format!("v{number:02}")
}

/// An index with another encoder than the trained bundles.
fn filled() -> (TempDir, Index) {
    let dir = TempDir::new().unwrap();
    let untrained = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("index"), &untrained).unwrap();
    index.insert_batch(documents(WITH_TEXT)).unwrap();
    (dir, index)
}

fn give(index: &Index, numbers: std::ops::Range<usize>, seed: impl Fn(usize) -> usize) {
    let given = numbers.clone().map(|n| (Document::new(name(n), "", ""), vector(seed(n))));
    let summary = index.insert_vectors(given).unwrap();
    assert_eq!(summary.inserted + summary.replaced, numbers.len());
}

/// Each embedding finds the document that it was given for.
fn assert_found(index: &Index, numbers: std::ops::Range<usize>, seed: impl Fn(usize) -> usize) {
    for number in numbers {
        let found = index.search_with(&vector(seed(number)), &SearchRequest::dense().exact().k(1)).unwrap();
        let hit = &found.hits[0];
        assert!(hit.id == name(number) && hit.score > 0.999, "{number}: {} {}", hit.id, hit.score);
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(refused: ehi::Result<T>, expected: usize) {
    match refused {
        Err(Error::Input(InputError::WithoutText { documents, ids })) => {
            assert_eq!(documents, expected);
            assert_eq!(ids.len(), expected.min(5));
            assert_eq!(ids[0], name(0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_to_another_encoder_is_refused_with_their_number() {
    let (dir, index) = filled();
    give(&index, 0..WITHOUT, |n| n);
    let before = index.bundle().hash();
    assert_refused(index.reencode(&bundle(SHAPE)), WITHOUT);
    // Also before anything is trained.
    let questions = (0..200).map(|n| Judgment::new(format!("{} {n}", document(n % 60).text), name(0), 1));
    index.record_all(questions).unwrap();
    let mut config = TrainConfig::default();
    config.encoder.trainable_layers = 1;
    assert_refused(index.learn(&LearnOptions { config, ..LearnOptions::default() }), WITHOUT);
    assert_eq!(index.bundle().hash(), before);
    assert_found(&index, 0..WITHOUT, |n| n);
    assert!(index.verify().unwrap().is_sound());
    assert_eq!(fs::read_dir(dir.path().join("index/models")).unwrap().count(), 1);

    let message = index.reencode(&bundle(SHAPE)).unwrap_err().to_string();
    assert!(message.contains("12 documents") && message.contains("\"v00\", \"v01\""), "{message}");
    // With a text they can be encoded.
    let texts = (0..WITHOUT).map(|n| Document::new(name(n), "", document(n).text));
    index.insert_batch(texts).unwrap();
    assert_eq!(index.reencode(&bundle(SHAPE)).unwrap().encoded, WITH_TEXT + WITHOUT);
}

#[test]
fn a_tree_of_the_same_encoder_takes_their_embeddings_over() {
    let (_dir, index) = filled();
    give(&index, 0..WITHOUT, |n| n);
    let options = TuneOptions { always: true, passes: Some(1), ..TuneOptions::default() };
    assert!(index.tune(&options).unwrap().change.is_some());
    assert_found(&index, 0..WITHOUT, |n| n);
    // Given since the change, and given again: where the text is the same, only the embedding differs.
    give(&index, WITHOUT..WITHOUT + 3, |n| n);
    give(&index, 0..3, |n| n + 20);
    let seed = |n: usize| if n < 3 { n + 20 } else { n };
    assert_found(&index, 0..WITHOUT + 3, seed);
    assert_eq!(index.rollback().unwrap().routed, 6);
    assert_found(&index, 0..WITHOUT + 3, seed);
    index.drop_previous_model().unwrap();
    assert_found(&index, 0..WITHOUT + 3, seed);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_rollback_to_another_encoder_is_refused_as_long_as_there_are_any() {
    let (_dir, index) = filled();
    index.reencode(&bundle(SHAPE)).unwrap();
    give(&index, 0..1, |n| n);
    assert_refused(index.rollback(), 1);
    assert_eq!(index.bundle().hash(), bundle(SHAPE).hash());
    assert_found(&index, 0..1, |n| n);
    index.delete(&name(0)).unwrap();
    index.rollback().unwrap();
    assert_eq!(index.len(), WITH_TEXT);
}

#[test]
fn an_export_says_how_many_an_insert_will_refuse() {
    let (dir, index) = filled();
    let path = index.path().to_owned();
    drop(index);
    let said = ehi(["export", "--index", text(&path)]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    give(&Index::open(&path).unwrap(), 0..WITHOUT, |n| n);
    let said = ehi(["export", "--index", text(&path)]);
    assert!(said.err.contains("(documents 12)") && said.err.contains("ehi snapshot"), "{}", said.err);
    let lines = dir.path().join("lines.jsonl");
    fs::write(&lines, said.ok()).unwrap();
    let other = dir.path().join("other");
    ehi(["create", "--index", text(&other), "--model", text(base_model())]).ok();
    let said = ehi(["insert", "--index", text(&other), text(&lines)]);
    assert!(said.err.contains("12 of 72 documents refused, 60 stored"), "{}", said.err);
    // A snapshot has them.
    let copy = dir.path().join("copy");
    ehi(["snapshot", "--index", text(&path), text(&copy)]).ok();
    assert_found(&Index::open(&copy).unwrap(), 0..WITHOUT, |n| n);
}

#[test]
fn a_repair_keeps_those_whose_embedding_is_damaged_and_says_so() {
    let (_dir, index) = filled();
    give(&index, 0..WITHOUT, |n| n);
    index.compact().unwrap();
    let path = index.path().to_owned();
    drop(index);
    let segments = fs::read_dir(path.join("models/1/segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut vectors = segments.filter(|path| path.extension().is_some_and(|kind| kind == "vectors"));
    let vectors = vectors.next().unwrap();
    let mut bytes = fs::read(&vectors).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&vectors, bytes).unwrap();
    // All embeddings are on one page.
    let mut report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert_eq!((report.lost, report.recovered, report.recomputed), (0, 72, 60), "{report:?}");
    report.lost_embedding_ids.sort();
    assert_eq!(report.lost_embedding_ids, (0..WITHOUT).map(name).collect::<Vec<_>>());
    let index = Index::open(&path).unwrap();
    assert_eq!(index.len(), WITH_TEXT + 12);
    give(&index, 0..WITHOUT, |n| n);
    assert_found(&index, 0..WITHOUT, |n| n);
    assert!(index.verify().unwrap().is_sound());
}
