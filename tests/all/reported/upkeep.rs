//! Remains on the disk, and what a change of model or a clean-up must not lose.

use std::fs;

use crate::support::{Shape, base_model, bundle, document, documents, filled, id};
use ehi::train::DistilOptions;
use ehi::{Bundle, Document, Error, Index, InputError, SearchRequest};

const SHAPE: Shape = Shape { height: 1 };

/// chroma-core/chroma#5259 and #5520: the folders of deleted collections stay, and fill the disk over time.
#[test]
fn a_dropped_model_gives_its_space_back_turn_after_turn() {
    let (dir, index) = filled(SHAPE, 60);
    let path = dir.path().join("index");
    let mut sizes = Vec::new();
    for turn in 0..4 {
        index.reencode(&bundle(Shape::of_height(1 + (turn + 1) % 2))).unwrap();
        assert!(index.drop_previous_model().unwrap());
        assert_eq!(fs::read_dir(path.join("models")).unwrap().count(), 1, "turn {turn}");
        sizes.push(index.stats().unwrap().bytes.total());
    }
    assert_eq!(sizes[0], sizes[2]);
    assert_eq!(sizes[1], sizes[3]);
}

/// neomjs/neo#12140: a clean-up of folders that no collection names removed folders that a collection used
/// under another name.
#[test]
fn a_clean_up_leaves_what_the_serving_and_the_kept_model_use() {
    let (dir, index) = filled(SHAPE, 120);
    let distil = |seed| index.distil(&DistilOptions { passes: 1, seed, ..DistilOptions::default() }).unwrap();
    let first = distil(0);
    index.reencode(&bundle(Shape::of_height(2))).unwrap();
    let second = distil(1);
    assert!(first.is_some() && second.is_some());
    drop(index);
    // Opening removes them.
    let index = Index::open(dir.path().join("index")).unwrap();
    assert_eq!(index.query_encoder(), second);
    index.rollback().unwrap();
    assert_eq!(index.query_encoder(), first);
    assert!(index.verify().unwrap().is_sound());
}

/// gptme/gptme-contrib#1535: if the catalogue was unreadable, the list of orphans was empty, and the index
/// was reported clean.
#[test]
fn a_bundle_that_cannot_be_read_is_not_called_clean() {
    let (dir, index) = filled(SHAPE, 20);
    drop(index);
    let model = dir.path().join("index/models/1/model");
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    fs::write(model.join("query-0123456789abcdef.safetensors"), "stray").unwrap();
    fs::write(model.join("ehi.json"), "{").unwrap();
    assert!(!reader.verify().unwrap().is_sound());
    drop(reader);
    assert!(Index::open(dir.path().join("index")).is_err());
    assert!(model.join("query-0123456789abcdef.safetensors").exists(), "nothing says that it is not used");
}

/// FlowiseAI/Flowise#4882 and jgravelle/jdocmunch-mcp#109: after a change of model, the same texts kept the
/// vectors of the previous model.
#[test]
fn a_change_of_model_encodes_texts_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let untrained = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("index"), &untrained).unwrap();
    index.insert_batch(documents(40)).unwrap();
    let change = index.reencode(&bundle(SHAPE)).unwrap();
    assert_eq!((change.encoded, change.routed), (40, 0));
    let fresh = Index::create(dir.path().join("fresh"), &bundle(SHAPE)).unwrap();
    fresh.insert_batch(documents(40)).unwrap();
    let found = |index: &Index| {
        index.search_with("tree leaf level", &SearchRequest::dense().exact().k(40)).unwrap().hits
    };
    let scores = |index: &Index| -> Vec<(String, u32)> {
        found(index).into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect()
    };
    assert_eq!(scores(&index), scores(&fresh));
}

/// NevaMind-AI/memU#678 and asciimoo/hister#605: vectors of two models with the same width were silently
/// mixed.
#[test]
fn vectors_of_another_model_of_the_same_width_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let untrained = Bundle::from_encoder(base_model()).unwrap();
    let other = Index::create(dir.path().join("other"), &untrained).unwrap();
    other.insert(document(1)).unwrap();
    let (_dir, index) = filled(SHAPE, 20);
    let refused = index.insert_from(&other, [id(1)]);
    assert!(matches!(refused, Err(Error::Input(InputError::ModelMismatch { .. }))), "{refused:?}");
    drop(other);
    let refused = Index::open_or_create(dir.path().join("other"), &bundle(SHAPE)).err();
    assert!(matches!(refused, Some(Error::Input(InputError::ModelMismatch { .. }))), "{refused:?}");
}

/// lancedb/lancedb#3177: after an optimisation, an update silently matched no rows.
#[test]
fn a_document_is_replaced_after_a_compaction_as_before() {
    let (_dir, index) = filled(SHAPE, 30);
    index.compact().unwrap();
    index.rebuild_postings().unwrap();
    let summary = index.insert_batch((0..10).map(|n| Document::new(id(n), "", "changed text"))).unwrap();
    assert_eq!((summary.inserted, summary.replaced, index.len()), (0, 10, 30));
    assert_eq!(index.get(&id(3)).unwrap().unwrap().text, "changed text");
}
