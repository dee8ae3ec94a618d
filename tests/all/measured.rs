//! Measurements of a model, in a file next to its store: they belong to that model and no other.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{DOCUMENTS, Shape, bundle, document, documents, filled, id};
use ehi::learn::TuneOptions;
use ehi::train::{DistilOptions, QueryEncoderChoice};
use ehi::{Index, Judgment, LearnedFusion, QueryEncoder, RepairOptions, SearchRequest, no_progress};
use serde_json::Value;
use tempfile::TempDir;

const SHAPE: Shape = Shape { height: 1 };
const QUESTIONS: [&str; 5] = ["tree leaf", "gene protein 31", "what 40", "text word", "search 7 index"];

fn distil(index: &Index, seed: u64) {
    index.distil(&DistilOptions { passes: 2, seed, ..DistilOptions::default() }).unwrap().unwrap();
}

/// Judgments of `count` questions, each answered by a document.
fn pairs(count: usize) -> Vec<Judgment> {
    let question = |n: usize| format!("{} {n}", document(n % DOCUMENTS).text);
    (0..count).map(|n| Judgment::new(question(n), id(n % DOCUMENTS), 1)).collect()
}

fn fuse(index: &Index, questions: usize) -> LearnedFusion {
    index.fuse(&pairs(questions)).unwrap().fusion.unwrap()
}

fn tune(index: &Index) {
    let options = TuneOptions { always: true, passes: Some(1), ..TuneOptions::default() };
    assert!(index.tune(&options).unwrap().change.is_some());
}

/// The best ten of each question by either encoder, with their scores.
fn answers(index: &Index) -> Vec<Vec<(String, u32)>> {
    let encoders = [QueryEncoder::Fast, QueryEncoder::Full];
    let both = QUESTIONS.iter().flat_map(|question| encoders.map(|encoder| (question, encoder)));
    let answer = |(question, encoder): (&&str, QueryEncoder)| {
        let found = index.search_with(question, &SearchRequest::default().encoder(encoder).exact()).unwrap();
        found.into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect()
    };
    both.map(answer).collect()
}

fn none() -> DistilOptions {
    DistilOptions { query_encoder: QueryEncoderChoice::None, ..DistilOptions::default() }
}

#[test]
fn a_rollback_restores_what_was_measured_for_its_model() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    distil(&index, 0);
    let first = fuse(&index, 2 * DOCUMENTS + 60);
    let curve = index.calibrate(&[]).unwrap();
    assert!(first.fast.is_some());
    let before = answers(&index);

    tune(&index);
    // The same encoder, so the same weights, also for the query encoder, which was carried over.
    assert_eq!(index.fusion(), Some(first.clone()));
    index.distil(&none()).unwrap();
    let second = fuse(&index, 80);
    assert!(second != first && second.fast.is_none());
    index.rollback().unwrap();
    assert_eq!(index.fusion(), Some(first.clone()));
    assert_eq!(index.recall_curve(), Some(curve.clone()));
    assert_eq!(answers(&index), before);

    // Back again: the measurements of the other one.
    index.rollback().unwrap();
    assert_eq!((index.fusion(), index.recall_curve(), index.query_encoder()), (Some(second), None, None));
    distil(&index, 9);
    let third = fuse(&index, 2 * DOCUMENTS + 60);
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    index.rollback().unwrap();
    assert_eq!((index.fusion(), index.recall_curve()), (Some(first), Some(curve)));
    assert_eq!(answers(&index), before);
    index.rollback().unwrap();
    assert_eq!(index.fusion(), Some(third));
    assert_eq!(index.verify().unwrap().warnings, []);
}

#[test]
fn a_return_brings_nothing_that_was_measured_of_the_other_model() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    tune(&index);
    let fusion = fuse(&index, 80);
    index.rollback().unwrap();
    assert_eq!(index.fusion(), None);
    index.rollback().unwrap();
    assert_eq!(index.fusion(), Some(fusion));
}

#[test]
fn the_weight_for_a_query_encoder_is_used_with_that_one_alone() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    distil(&index, 0);
    let fusion = fuse(&index, 2 * DOCUMENTS + 60);
    distil(&index, 9);
    assert_eq!(index.fusion().unwrap().fast, None);
    // Exactly the same one again.
    distil(&index, 0);
    assert_eq!(index.fusion(), Some(fusion));
}

/// The warnings of a reader, and of a writer: those of a check, which are also given when they open it.
fn warnings(path: &Path) -> Vec<String> {
    let [reader, writer] = [Index::open_read_only(path).unwrap(), Index::open(path).unwrap()].map(|index| {
        let report = index.verify().unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!(report.warnings, index.notices());
        report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    assert_eq!(reader, writer);
    reader
}

/// A closed index with all measurements.
fn measured(count: usize) -> (TempDir, PathBuf) {
    let (dir, index) = filled(SHAPE, count);
    fuse(&index, 80);
    index.calibrate(&[]).unwrap();
    let path = dir.path().join("index");
    (dir, path)
}

#[test]
fn what_was_measured_of_another_index_is_named_and_not_used() {
    let ((_dir, path), (_other_dir, other)) = (measured(DOCUMENTS), measured(DOCUMENTS));
    assert!(warnings(&path).is_empty());
    let of = |index: &Path| index.join("models/1/MEASURED");
    let own = fs::read(of(&path)).unwrap();
    let is_used = || {
        let index = Index::open(&path).unwrap();
        [index.fusion().is_some(), index.recall_curve().is_some()]
    };
    fs::copy(of(&other), of(&path)).unwrap();
    let found = warnings(&path);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("models/1/MEASURED was not measured on this model"), "{found:?}");
    assert_eq!(is_used(), [false; 2]);

    fs::remove_file(of(&path)).unwrap();
    let found = warnings(&path);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("models/1/MEASURED is missing, so searches"), "{found:?}");

    // One that does not say what was measured.
    let text = String::from_utf8(own.clone()).unwrap();
    let content: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    let old = content["measured"].to_string();
    fs::write(of(&path), format!("{:08x}\n{old}", crc32(old.as_bytes()))).unwrap();
    assert!(warnings(&path)[0].contains("was not measured on this model"));
    // Values that cannot have been measured.
    let mut content = content;
    content["measured"]["fusion"]["fusion"]["alpha"] = 2.into();
    let bad = content.to_string();
    fs::write(of(&path), format!("{:08x}\n{bad}", crc32(bad.as_bytes()))).unwrap();
    assert!(warnings(&path)[0].contains("MEASURED is damaged"));
    fs::write(of(&path), own).unwrap();
    assert!(warnings(&path).is_empty());
    assert_eq!(is_used(), [true; 2]);
    // A copy of the index is the same collection.
    let copy = path.with_file_name("copy");
    Index::open(&path).unwrap().snapshot(&copy).unwrap();
    assert!(warnings(&copy).is_empty());
    fs::remove_file(copy.join("models/1/MEASURED")).unwrap();
    assert!(warnings(&copy)[0].contains("MEASURED is missing"));
}

#[test]
fn a_repair_settles_what_cannot_be_used() {
    let ((_dir, path), (_other_dir, other)) = (measured(DOCUMENTS), measured(DOCUMENTS));
    fs::copy(other.join("models/1/MEASURED"), path.join("models/1/MEASURED")).unwrap();
    let report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert!(!report.was_sound() && report.lost == 0);
    assert_eq!(report.unmeasured.len(), 1, "{report:?}");
    assert_eq!(report.set_aside, [path.join("damaged/1-MEASURED")]);
    assert!(
        Index::repair(&path, &RepairOptions { forget: true, ..RepairOptions::default() }, &mut no_progress)
            .unwrap()
            .was_sound()
    );
    assert!(warnings(&path).is_empty());
    assert_eq!(Index::open(&path).unwrap().len(), DOCUMENTS);

    fs::remove_file(path.join("models/1/MEASURED")).unwrap();
    assert!(warnings(&path)[0].contains("MEASURED is missing"));
    let report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert_eq!((report.unmeasured.len(), report.set_aside.len()), (1, 0), "{report:?}");
    assert!(warnings(&path).is_empty());
}

#[test]
fn a_query_encoder_of_another_encoder_is_not_used() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    distil(&index, 0);
    let path = index.path().to_owned();
    drop(index);
    let manifest = path.join("models/1/model/ehi.json");
    let sound = fs::read_to_string(&manifest).unwrap();
    let mut json: Value = serde_json::from_str(&sound).unwrap();
    let own = json["query_encoder"]["encoder"].as_str().unwrap().to_owned();
    assert_eq!(own.len(), 64);
    json["query_encoder"]["encoder"] =
        own.replace(&own[..1], if own.starts_with('0') { "1" } else { "0" }).into();
    fs::write(&manifest, json.to_string()).unwrap();
    let index = Index::open_read_only(&path).unwrap();
    assert_eq!(index.query_encoder(), None);
    assert_eq!(
        index.search_with("tree", &SearchRequest::dense()).unwrap().stats.encoder,
        Some(QueryEncoder::Full)
    );
    let report = index.verify().unwrap();
    assert!(report.problems[0].damage.to_string().contains("query encoder"), "{:?}", report.problems);
    drop(index);

    fs::write(&manifest, &sound).unwrap();
    let index = Index::open(&path).unwrap();
    assert!(index.query_encoder().is_some() && index.verify().unwrap().is_sound());
    // A tree of the same encoder keeps it.
    tune(&index);
    assert!(index.query_encoder().is_some());
    assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), documents(DOCUMENTS));
    assert!(bundle(SHAPE).query_encoder().is_some());
}

/// The CRC of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
