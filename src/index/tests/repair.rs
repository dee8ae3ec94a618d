//! Repair of what one index has and nothing else: embeddings of the caller, kept models and lost trees.

use super::vectors_alone::{DIM, embedded, ids, made};
use super::*;
use crate::Similarity;
use crate::index::RepairOptions;
use crate::index::search::Question;
use crate::model::MANIFEST_FILE;
use crate::progress::no_progress;
use crate::store::RepairReport;

#[cfg(feature = "train")]
use super::vectors_alone::into;
#[cfg(feature = "train")]
use crate::model::INDEXER_FILE;

#[test]
fn a_damaged_index_is_repaired_without_a_model() {
    let (dir, index) = made(20);
    index.flush().unwrap();
    let manifest = index.serving().store.path().join(disk::names::BUNDLE).join(MANIFEST_FILE);
    drop(index);
    let path = dir.path().join("index");
    fs::write(&manifest, "{}").unwrap();
    assert!(Index::open(&path).is_err());
    Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    let index = Index::open(&path).unwrap();
    assert_eq!(index.len(), 20);
    assert_eq!(ids(&index, Question::Text("harbour 7"), &SearchRequest::default())[0], "d7");
}

/// Closes an index after three bytes of the embeddings of its largest segment have changed.
fn damage_vectors(index: Index) {
    let segments = index.serving().store.path().join(disk::names::SEGMENTS);
    drop(index);
    damage_vectors_of(&segments);
}

fn damage_vectors_of(segments: &Path) {
    let files = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
    let vectors = files.filter(|path| path.extension().is_some_and(|own| own == "vectors"));
    let vectors = vectors.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&vectors).unwrap();
    // The embeddings follow the header.
    bytes[4_096 + 7..][..3].iter_mut().for_each(|byte| *byte ^= 1);
    fs::remove_file(&vectors).unwrap();
    fs::write(&vectors, bytes).unwrap();
}

/// Flips a bit of a file of the serving model.
#[cfg(feature = "train")]
fn damage_model(index: Index, name: &str) {
    let path = index.serving().store.path().join(disk::names::BUNDLE).join(name);
    drop(index);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
}

fn repair(path: &Path) -> RepairReport {
    Index::repair(path, &RepairOptions::default(), &mut no_progress).unwrap()
}

#[cfg(feature = "train")]
#[test]
fn a_lost_embedding_is_taken_from_the_kept_model() {
    [false, true].into_iter().for_each(check_that_lost_embeddings_are_taken);
}

/// `is_damaged`: the kept model, which is repaired, too.
#[cfg(feature = "train")]
fn check_that_lost_embeddings_are_taken(is_damaged: bool) {
    let (dir, index) = made(400);
    index.tune(&into(8)).unwrap();
    // Known to the model in service alone: another document, and another vector for the same text.
    index.insert_vectors(embedded(401).skip(400)).unwrap();
    let ((again, _), (_, vector)) = (embedded(8).nth(7).unwrap(), embedded(9).nth(8).unwrap());
    index.insert_vectors([(again, vector)]).unwrap();
    index.compact().unwrap();
    let before = index.vectors(["d8", "d399"]).unwrap();
    // The kept model's store is enough.
    let kept = dir.path().join("index/models/1/model").join(MANIFEST_FILE);
    if is_damaged {
        fs::write(kept, "{").unwrap();
    }
    damage_vectors(index);
    let path = dir.path().join("index");
    let mut report = repair(&path);
    assert_eq!((report.embeddings_of_previous, report.lost), (399, 0), "{report:?}");
    report.lost_embedding_ids.sort();
    assert_eq!(report.lost_embedding_ids, ["d400", "d7"]);
    let index = Index::open(&path).unwrap();
    assert_eq!(index.vectors(["d8", "d399"]).unwrap(), before);
    assert!(index.verify().unwrap().is_sound());
    assert_eq!(report.previous_model_repaired, is_damaged);
    index.rollback().unwrap();
    assert_eq!(index.vectors(["d8", "d399"]).unwrap(), before);
    assert!(index.verify().unwrap().is_sound());
}

#[cfg(feature = "train")]
#[test]
fn an_index_without_embeddings_cannot_be_tuned() {
    for similarity in [Similarity::Cosine, Similarity::DotProduct] {
        let dir = in_memory().unwrap();
        let path = dir.path().join("index");
        let builder = Index::builder().similarity(similarity);
        let index = builder.create(&path, &Bundle::for_vectors(DIM).unwrap()).unwrap();
        index.insert_vectors(embedded(400)).unwrap();
        index.flush().unwrap();
        damage_vectors(index);
        assert_eq!(repair(&path).lost_embeddings, 400);
        let index = Index::open(&path).unwrap();
        let few = |result| matches!(result, Err(Error::Input(InputError::TooFewToTune { .. })));
        assert!(few(index.tune(&into(8))));
        index.insert_vectors(embedded(6)).unwrap();
        assert!(few(index.tune(&into(8))));
        index.insert_vectors(embedded(400)).unwrap();
        assert_eq!(index.tune(&into(8)).unwrap().leaves, 8);
    }
}

#[test]
fn a_kept_model_keeps_what_can_be_read() {
    let (dir, index) = made(70);
    index.flush().unwrap();
    let kept = index.serving();
    // In a second segment.
    index.insert_vectors(embedded(90).skip(70)).unwrap();
    index.flush().unwrap();
    let bundles = Bundles::new();
    index.reencode(&bundles.a).unwrap();
    damage_vectors_of(&kept.store.path().join(disk::names::SEGMENTS));
    let path = dir.path().join("index");
    fs::write(path.join("models/2/model").join(MANIFEST_FILE), "{").unwrap();
    drop((index, kept));
    // It fails before it repairs anything.
    let error = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap_err();
    assert!(matches!(error, Error::Model(_)), "{error}");
    let given = RepairOptions { bundle: Some(bundles.a.clone()), ..RepairOptions::default() };
    let report = Index::repair(&path, &given, &mut no_progress).unwrap();
    assert!(report.previous_model_repaired && !report.previous_model_set_aside, "{report:?}");
    assert_eq!(report.lost_previous_embeddings, 70, "{report:?}");
    assert_eq!((report.lost, report.lost_embeddings, report.damaged_segments), (0, 0, 0));
    assert!(repair(&path).was_sound());
    let index = Index::open(&path).unwrap();
    index.rollback().unwrap();
    assert_eq!(index.len(), 90);
    let read = |id: &str| index.vectors([id]).unwrap().remove(0).remove(0);
    let has_vector = |n: &usize| read(&format!("d{n}")).iter().any(|x| *x != 0.0);
    assert_eq!((0..90).filter(has_vector).count(), 20);
    assert!(index.verify().unwrap().problems.is_empty());
}

#[cfg(feature = "train")]
#[test]
fn an_index_without_an_encoder_outlives_its_tree() {
    for waiting in [false, true] {
        let (dir, index) = made(400);
        index.tune(&into(8)).unwrap();
        index.drop_previous_model().unwrap();
        // These lie in leaves of the lost tree, in the log or in a segment.
        index.insert_vectors(embedded(410).skip(400)).unwrap();
        if !waiting {
            index.flush().unwrap();
        }
        let before = index.vectors(["d7", "d409"]).unwrap();
        damage_model(index, INDEXER_FILE);
        let path = dir.path().join("index");
        assert!(Index::open(&path).is_err());
        let report = repair(&path);
        assert!(report.tree_lost && report.model_restored, "{report:?}");
        assert_eq!((report.lost, report.lost_embeddings, report.damaged_segments), (0, 0, 0), "{report:?}");
        assert_eq!((report.documents, report.waiting_documents), (410, 0));
        let index = Index::open(&path).unwrap();
        assert!(!index.bundle().has_tree() && index.verify().unwrap().problems.is_empty());
        assert_eq!((index.len(), index.vectors(["d7", "d409"]).unwrap()), (410, before));
        let near = embedded(410).nth(409).unwrap().1;
        assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1)), ["d409"]);
        assert_eq!(ids(&index, Question::Text("harbour 409"), &SearchRequest::default())[0], "d409");
        assert_eq!(index.tune(&into(8)).unwrap().leaves, 8);
        drop(index);
        assert!(repair(&path).was_sound());
    }
}

#[cfg(feature = "train")]
#[test]
fn a_tree_and_segments_are_damaged_at_once() {
    let (dir, index) = made(400);
    index.tune(&into(8)).unwrap();
    index.flush().unwrap();
    let segments = index.serving().store.path().join(disk::names::SEGMENTS);
    damage_model(index, INDEXER_FILE);
    damage_vectors_of(&segments);
    let path = dir.path().join("index");
    let report = repair(&path);
    assert!(report.tree_lost, "{report:?}");
    assert_eq!((report.embeddings_of_previous, report.lost_embeddings, report.lost), (400, 0, 0));
    let index = Index::open(&path).unwrap();
    assert!(index.verify().unwrap().problems.is_empty());
    let near = embedded(400).nth(77).unwrap().1;
    assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1)), ["d77"]);
    index.rollback().unwrap();
    assert_eq!(index.len(), 400);
}

/// Only the caller can know that a model had no encoder if the list of its files is lost.
#[cfg(feature = "train")]
#[test]
fn a_model_without_a_list_is_replaced_by_one_of_the_same_width() {
    let (dir, index) = made(400);
    index.tune(&into(8)).unwrap();
    index.flush().unwrap();
    damage_model(index, MANIFEST_FILE);
    let path = dir.path().join("index");
    let given = |bundle: Bundle| RepairOptions { bundle: Some(bundle), ..RepairOptions::default() };
    let of_width = |dim| given(Bundle::for_vectors(dim).unwrap());
    for options in [RepairOptions::default(), of_width(DIM + 1), given(Bundles::new().a.clone())] {
        let error = Index::repair(&path, &options, &mut no_progress).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Model(_)
                    | Error::Input(InputError::ModelMismatch { .. } | InputError::WidthMismatch { .. })
            ),
            "{error}"
        );
    }
    let report = Index::repair(&path, &of_width(DIM), &mut no_progress).unwrap();
    assert!(report.tree_lost, "{report:?}");
    assert_eq!(Index::open(&path).unwrap().len(), 400);
}

#[test]
fn a_lost_tree_is_replaced_by_one_with_the_same_encoder() {
    let (bundles, dir) = (Bundles::new(), in_memory().unwrap());
    let path = dir.path().join("index");
    let index = create(unsynced(), &path, &bundles.a).unwrap();
    index.insert_batch(documents(0, 40)).unwrap();
    let before = index.vectors(["d7"]).unwrap();
    let model = index.serving().store.path().join(disk::names::BUNDLE);
    drop(index);
    fs::remove_file(model.join(crate::model::INDEXER_FILE)).unwrap();
    let given = |bundle: &Bundle| RepairOptions { bundle: Some(bundle.clone()), ..RepairOptions::default() };
    // Its encoder is another one.
    let error = Index::repair(&path, &given(&bundles.b), &mut no_progress).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::ModelMismatch { .. })), "{error}");
    let report = Index::repair(&path, &given(&bundles.without_tree), &mut no_progress).unwrap();
    assert!(report.tree_lost && report.model_restored && !report.was_sound(), "{report:?}");
    let index = open(unsynced(), &path).unwrap();
    assert_eq!(index.bundle().hash(), bundles.without_tree.hash());
    assert_eq!((index.len(), index.vectors(["d7"]).unwrap()), (40, before));
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_document_is_kept_though_its_embedding_is_lost() {
    for similarity in [Similarity::Cosine, Similarity::Manhattan] {
        let dir = in_memory().unwrap();
        let path = dir.path().join("index");
        let builder = Index::builder().similarity(similarity);
        let index = builder.create(&path, &Bundle::for_vectors(DIM).unwrap()).unwrap();
        index.insert_vectors(embedded(20)).unwrap();
        index.flush().unwrap();
        damage_vectors(index);
        let report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
        assert_eq!((report.lost, report.lost_embeddings, report.recovered), (0, 20, 20), "{report:?}");
        assert_eq!((report.lost_embedding_ids.len(), report.recomputed), (20, 0));
        let index = Index::open(&path).unwrap();
        assert_eq!(index.get("d7").unwrap(), embedded(20).nth(7).map(|(document, _)| document));
        assert_eq!(ids(&index, Question::Text("harbour 7"), &SearchRequest::default())[0], "d7");
        // They are similar to nothing until they have vectors again.
        index.insert_vectors(embedded(24).skip(20)).unwrap();
        let near = embedded(3).nth(2).unwrap().1;
        assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1)), ["d22"]);
        index.insert_vectors(embedded(20)).unwrap();
        assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1)), ["d2"]);
        assert!(index.verify().unwrap().problems.is_empty());
    }
}
