//! What made the embeddings of an index.

use std::fs;

use ehi::model::{EncoderPrecision, EncoderSettings};
use ehi::store::EncodedBy;
use ehi::{Bundle, Document, Index, IndexBuilder, Question, RepairOptions, SearchRequest, no_progress};
use serde_json::json;

use crate::program::{Flow, text};
use crate::support::{DOCUMENTS, Shape, WIDTH, base_model, bundle, document, documents, filled, id, in_f32};

const SHAPE: Shape = Shape { height: 2 };
const OTHER: Shape = Shape { height: 1 };

fn encoded_by(index: &Index) -> Vec<EncodedBy> {
    index.stats().unwrap().encoded_by
}

fn int8(path: &std::path::Path) -> Index {
    Index::builder().encoder_precision(EncoderPrecision::Int8).open(path).unwrap()
}

fn scores<'q>(index: &Index, query: impl Into<Question<'q>>) -> Vec<(String, u32)> {
    let found = index.search_with(query, &SearchRequest::dense().exact().k(10)).unwrap();
    found.into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect()
}

#[test]
fn the_precisions_of_embeddings_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let index = in_f32().create(dir.path(), &bundle(SHAPE)).unwrap();
    assert_eq!(encoded_by(&index), []);
    index.insert_batch(documents(10)).unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32]);
    drop(index);
    let index = int8(dir.path());
    // Reading and deleting create no embeddings.
    index.search("cell", 3, 4).unwrap();
    index.delete("doc-0001").unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32]);
    index.insert(document(20)).unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32, EncodedBy::Int8]);
    index.insert_vectors([(Document::new("v", "", ""), vec![0.5; WIDTH])]).unwrap();
    let all = [EncodedBy::F32, EncodedBy::Int8, EncodedBy::Given];
    assert_eq!(encoded_by(&index), all);
    // A copy has the same record as its source, whether files or documents are copied.
    let copy = tempfile::tempdir().unwrap();
    index.snapshot(copy.path().join("whole")).unwrap();
    assert_eq!(encoded_by(&Index::open_read_only(copy.path().join("whole")).unwrap()), all);
    let taken = Index::create(copy.path().join("taken"), &bundle(SHAPE)).unwrap();
    taken.insert_from(&index, ["doc-0002"]).unwrap();
    assert_eq!(encoded_by(&taken), all);
}

#[test]
fn texts_are_encoded_as_those_of_the_index() {
    let narrow = Bundle::from_encoder_with(base_model(), &EncoderSettings::new().dim(64)).unwrap();
    let chosen = [Some(EncoderPrecision::F32), Some(EncoderPrecision::Int8), None];
    for precision in chosen {
        let dir = tempfile::tempdir().unwrap();
        let of = |builder: IndexBuilder| match precision {
            Some(precision) => builder.encoder_precision(precision),
            None => builder,
        };
        let index = of(Index::builder()).create(dir.path(), &bundle(SHAPE)).unwrap();
        index.insert_batch(documents(10)).unwrap();
        index.flush().unwrap();
        let (by, scores) = (encoded_by(&index), scores(&index, "cell and gene"));
        assert_eq!(by.len(), 1, "{by:?}");
        drop(index);
        let index = Index::open(dir.path()).unwrap();
        assert_eq!(self::scores(&index, "cell and gene"), scores, "{by:?}");
        assert_eq!(self::scores(&Index::open_read_only(dir.path()).unwrap(), "cell and gene"), scores);
        index.insert(document(20)).unwrap();
        assert_eq!(encoded_by(&index), by);
        index.reencode(&narrow).unwrap();
        index.insert(document(21)).unwrap();
        assert_eq!(encoded_by(&index), by);
        index.rollback().unwrap();
        assert_eq!(encoded_by(&index), by);
    }
}

/// Whatever a handle chose for itself, the others agree.
#[test]
fn the_precision_of_an_index_stays() {
    let narrow = Bundle::from_encoder_with(base_model(), &EncoderSettings::new().dim(64)).unwrap();
    let both = [(EncoderPrecision::F32, EncodedBy::F32), (EncoderPrecision::Int8, EncodedBy::Int8)];
    for [(own, by), (other, by_other)] in [both, [both[1], both[0]]] {
        let dir = tempfile::tempdir().unwrap();
        drop(Index::builder().encoder_precision(own).create(dir.path(), &bundle(SHAPE)).unwrap());
        let early = Index::open_read_only(dir.path()).unwrap();
        let index = Index::builder().encoder_precision(other).open(dir.path()).unwrap();
        index.insert(document(1)).unwrap();
        assert_eq!(encoded_by(&index), [by_other]);
        drop(index);
        let index = Index::open(dir.path()).unwrap();
        index.insert(document(2)).unwrap();
        index.flush().unwrap();
        assert_eq!(encoded_by(&index), [EncodedBy::F32, EncodedBy::Int8]);
        assert!(early.refresh().unwrap());
        assert_eq!(scores(&early, "cell and gene"), scores(&index, "cell and gene"));
        // Without a document, a change of model encodes nothing.
        index.delete_batch([1, 2].map(id)).unwrap();
        index.reencode(&narrow).unwrap();
        index.insert(document(3)).unwrap();
        assert_eq!(encoded_by(&index), [by]);
    }
}

#[test]
fn a_change_of_model_makes_embeddings_anew_and_a_rollback_brings_the_old_ones_back() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    drop(index);
    let index = int8(&dir.path().join("index"));
    let narrow = EncoderSettings::new().dim(64);
    index.reencode(&Bundle::from_encoder_with(base_model(), &narrow).unwrap()).unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::Int8]);
    // Nothing was written since, so nothing is encoded.
    index.rollback().unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32]);
    index.rollback().unwrap();
    index.insert(Document::new("new", "", "cell")).unwrap();
    index.rollback().unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32, EncodedBy::Int8]);
    // Another tree of the same encoder reuses the embeddings.
    index.reencode(&bundle(OTHER)).unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32, EncodedBy::Int8]);
}

#[test]
fn a_repair_encodes_in_the_precision_of_the_index() {
    for precision in [EncoderPrecision::F32, EncoderPrecision::Int8] {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::builder().encoder_precision(precision).create(dir.path(), &bundle(SHAPE)).unwrap();
        index.insert_batch(documents(10)).unwrap();
        index.flush().unwrap();
        let query: Vec<f32> = (0..WIDTH).map(|n| (n as f32).sin()).collect();
        let (before, by) = (scores(&index, &query), encoded_by(&index));
        drop(index);
        for file in fs::read_dir(dir.path().join("models/1/segments")).unwrap().map(Result::unwrap) {
            if file.path().extension().is_some_and(|kind| kind == "vectors") {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let report = Index::repair(dir.path(), &RepairOptions::default(), &mut no_progress).unwrap();
        assert_eq!((report.recomputed, report.lost), (10, 0), "{precision}");
        let index = Index::open(dir.path()).unwrap();
        assert_eq!(scores(&index, &query), before, "{precision}");
        assert_eq!(encoded_by(&index), by);
    }
}

/// A record that is missing, or damaged.
#[test]
fn what_was_not_recorded_is_unknown() {
    let (dir, index) = filled(SHAPE, 10);
    let record = dir.path().join("index/models/1/MEASURED");
    assert_eq!(encoded_by(&index), [EncodedBy::F32]);
    index.flush().unwrap();
    for damage in [None, Some(""), Some("00000000\n[\"f32\"]"), Some("[]")] {
        match damage {
            None => fs::remove_file(&record).unwrap(),
            Some(content) => fs::write(&record, content).unwrap(),
        }
        let reader = Index::open_read_only(index.path()).unwrap();
        assert_eq!(encoded_by(&reader), [EncodedBy::Unknown], "{damage:?}");
        assert!(reader.verify().unwrap().is_sound(), "{damage:?}");
    }
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    index.insert(document(20)).unwrap();
    assert_eq!(encoded_by(&index), [EncodedBy::F32, EncodedBy::Unknown]);
}

/// Scores of the same text differed by up to 0.0095 between documents inserted in f32 and in int8, without
/// any notice.
#[test]
fn the_program_shows_precisions_and_says_when_they_are_mixed() {
    let flow = Flow::with(&["--encoder-precision", "int8"]);
    let insert = |place: usize, precision: &str| {
        let line = json!({ "_id": format!("doc-{place}"), "text": document(place).text }).to_string();
        let file = flow.path("document.jsonl");
        fs::write(&file, line).unwrap();
        let ran = flow.run("insert", &["--encoder-precision", precision, text(&file)]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.err.contains("two precisions")
    };
    assert_eq!(flow.run("stats", &["--json"]).json()["encoded_by"], json!([]));
    assert!(!insert(1, "int8") && !insert(2, "int8"));
    assert_eq!(flow.run("stats", &["--json"]).json()["encoded_by"], json!(["int8"]));
    let stats = flow.run("stats", &[]).ok();
    assert!(stats.contains("encoded by     int8\n"), "{stats}");
    // Reported when it happens, and shown from then on.
    assert!(insert(3, "f32") && !insert(4, "int8"));
    let stats = flow.run("stats", &[]).ok();
    assert!(stats.contains("encoded by     f32, int8; scores of the same text differ"), "{stats}");
}
