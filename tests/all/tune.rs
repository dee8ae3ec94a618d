//! A tree for the index's own documents, without labels.

use std::fs;
use std::ops::ControlFlow;

use crate::program::{ehi, text};
use crate::support::{DOCUMENTS, WIDTH, base_model, dataset, document, documents, filled, id};
use crate::support::{Shape, bundle};
use ehi::learn::TuneOptions;
use ehi::store::StoreError;
use ehi::train::TrainError;
use ehi::{Bundle, Document, Error, Index, InputError, SearchRequest, Stage};
use tempfile::TempDir;

/// Enough for a tree of several leaves.
const STORED: usize = 300;

fn options() -> TuneOptions {
    TuneOptions { passes: Some(3), always: true, ..TuneOptions::default() }
}

fn untrained(count: usize) -> (TempDir, Index) {
    let dir = TempDir::new().unwrap();
    let model = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("index"), &model).unwrap();
    index.insert_batch(documents(count)).unwrap();
    (dir, index)
}

fn hits(index: &Index, question: &str, beam: Option<usize>) -> Vec<(String, u32)> {
    let request = SearchRequest::dense().k(7).codes(false);
    let request = match beam {
        Some(beam) => request.beam(beam),
        None => request.exact(),
    };
    let found = index.search_with(question, &request).unwrap();
    let mut hits: Vec<_> = found.hits.into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect();
    // Equal scores are ordered by row.
    hits.sort();
    hits
}

#[test]
fn a_tree_is_made_without_encoding_anything_again() {
    let (dir, index) = untrained(STORED);
    // With an embedding that differs from the encoder's.
    let vector: Vec<f32> = (0..WIDTH).map(|i| if i % 3 == 0 { 1.0 } else { -0.5 }).collect();
    index.insert_vectors([(document(STORED), vector.clone())]).unwrap();
    let questions = ["tree leaf level", "gene protein virus"];
    let before = questions.map(|question| hits(&index, question, None));
    let mut stages = Vec::new();
    let tuned = index
        .with_progress(|progress| {
            stages.push(progress.stage);
            assert_eq!(index.search_with("tree", &SearchRequest::dense().k(3)).unwrap().hits.len(), 3);
            ControlFlow::Continue(())
        })
        .tune(&options())
        .unwrap();
    stages.dedup();
    assert!(stages.starts_with(&[Stage::Questions]) && stages.ends_with(&[Stage::Reencode]), "{stages:?}");
    assert_eq!((tuned.documents, tuned.leaves), (STORED + 1, (STORED as u32 + 1) / 10));
    assert!(tuned.questions > 10 && tuned.before.visited == 1.0, "{tuned:?}");
    assert!(tuned.after.visited > 0.0 && tuned.after.work > tuned.after.visited, "{tuned:?}");
    let change = tuned.change.unwrap();
    assert_eq!((change.documents, change.encoded, change.routed), (STORED + 1, 0, STORED + 1));
    assert!(index.bundle().has_tree());
    assert!(index.bundle().has_encoder_of(&Bundle::from_encoder(base_model()).unwrap()));
    for (question, before) in questions.iter().zip(&before) {
        assert_eq!(hits(&index, question, None), *before);
        assert_eq!(hits(&index, question, Some(usize::MAX)), *before, "a full beam is exact search");
        assert_eq!(index.search(question, 5, 4).unwrap().stats.leaves_visited, 4);
    }
    let found = index.search_with(&vector, &SearchRequest::dense().k(1).exact()).unwrap();
    assert!(found.hits[0].id == id(STORED) && found.hits[0].score > 0.999);
    assert!(index.verify().unwrap().is_sound());
    assert!(!dir.path().join("index/model.trained").exists());

    // Back and forth, each time with the writes in between.
    index.insert(document(STORED + 1)).unwrap();
    let back = index.rollback().unwrap();
    assert_eq!((back.encoded, back.routed), (0, 1));
    assert!(!index.bundle().has_tree());
    assert_eq!(index.len(), STORED + 2);
    index.rollback().unwrap();
    assert!(index.bundle().has_tree());
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert_eq!(index.len(), STORED + 2);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_tree_that_brings_nothing_is_left() {
    let (_dir, index) = untrained(STORED);
    index.tune(&options()).unwrap();
    let hash = index.bundle().hash();
    // Two leaves, each with half of the documents.
    let tuned = index.tune(&TuneOptions { leaves: Some(2), always: false, ..options() }).unwrap();
    assert_eq!((tuned.change, index.bundle().hash()), (None, hash), "{tuned:?}");
    assert!(tuned.after.visited > tuned.before.visited, "{tuned:?}");
    assert_eq!(index.len(), STORED);
    index.insert(document(1)).unwrap();
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_trained_encoder_stays_as_it_is() {
    let (_dir, index) = filled(Shape::of_height(2), DOCUMENTS);
    let tuned = index.tune(&TuneOptions { leaves: Some(6), ..options() }).unwrap();
    assert_eq!(tuned.leaves, 6);
    let change = tuned.change.unwrap();
    assert_eq!((change.encoded, change.routed), (0, DOCUMENTS));
    assert!(index.bundle().has_encoder_of(&bundle(Shape::of_height(2))));
    assert_ne!(index.bundle().hash(), bundle(Shape::of_height(2)).hash());
}

#[test]
fn documents_of_one_kind_or_without_texts_are_no_obstacle() {
    let dir = TempDir::new().unwrap();
    let model = Bundle::from_encoder(base_model()).unwrap();
    let equal = Index::create(dir.path().join("equal"), &model).unwrap();
    equal.insert_batch((0..40).map(|n| Document::new(id(n), "", "all the same"))).unwrap();
    let textless = Index::create(dir.path().join("textless"), &model).unwrap();
    let vector = |n: usize| (0..WIDTH).map(|i| ((i * 7 + n * 13) % 31) as f32 - 15.0).collect::<Vec<_>>();
    textless.insert_vectors((0..60).map(|n| (Document::new(id(n), "", ""), vector(n)))).unwrap();
    for index in [equal, textless] {
        let tuned = index.tune(&options()).unwrap();
        assert!(tuned.change.is_some() && tuned.questions > 0, "{tuned:?}");
        let vector = vector(3);
        for request in [SearchRequest::dense(), SearchRequest::dense().beam(usize::MAX)] {
            assert_eq!(index.search_with(&vector, &request.k(500)).unwrap().len(), index.len());
        }
        assert!(index.verify().unwrap().is_sound());
    }
}

#[test]
fn a_large_collection_is_sampled() {
    let (_dir, index) = untrained(0);
    let vector = |n: usize| (0..WIDTH).map(|i| ((i * 7 + n * 13) % 31) as f32 - 15.0).collect::<Vec<_>>();
    index.insert_vectors((0..1_500).map(|n| (document(n), vector(n)))).unwrap();
    // Memory for fewer than the minimum sample; the leaves are those for the sample.
    let tuned = index.tune(&TuneOptions { memory_bytes: 0, passes: Some(1), ..options() }).unwrap();
    assert_eq!((tuned.documents, tuned.leaves), (1_000, 100));
    assert_eq!(tuned.change.unwrap().routed, 1_500);
}

#[test]
fn the_same_tree_again_is_no_change() {
    let dir = TempDir::new().unwrap();
    let model = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("index"), &model).unwrap();
    index.insert_batch((0..40).map(|n| Document::new(id(n), "", "all the same"))).unwrap();
    assert!(index.tune(&options()).unwrap().change.is_some());
    assert_eq!(index.tune(&options()).unwrap().change, None);
    assert!(!dir.path().join("index/model.trained").exists());
}

#[test]
fn what_cannot_be_tuned_is_refused_and_left_as_it_was() {
    let (dir, index) = untrained(0);
    let refused = index.tune(&options()).unwrap_err();
    assert!(matches!(refused, Error::Input(InputError::TooFewToTune { documents: 0, .. })), "{refused}");
    index.insert_batch(documents(STORED)).unwrap();
    let hash = index.bundle().hash();
    let refused = |options: TuneOptions| index.tune(&options).unwrap_err();
    let error = refused(TuneOptions { questions: vec![" ".into()], ..options() });
    assert!(matches!(error, Error::Input(InputError::EmptyQuery)), "{error}");
    for leaves in [0, 1, STORED as u32 / 2 + 1, u32::MAX] {
        let error = refused(TuneOptions { leaves: Some(leaves), ..options() });
        assert!(
            matches!(error, Error::Train(TrainError::Config { field: "leaves", .. })),
            "{leaves}: {error}"
        );
    }
    let error = refused(TuneOptions { passes: Some(0), ..options() });
    assert!(matches!(error, Error::Train(TrainError::Config { field: "passes", .. })), "{error}");
    for stage in [Stage::Questions, Stage::TrainIndexer, Stage::Reencode] {
        let cancel = |progress: ehi::Progress| {
            if progress.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let cancelled = index.with_progress(cancel).tune(&options());
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{stage:?}: {cancelled:?}");
        assert_eq!(index.bundle().hash(), hash);
        assert!(!dir.path().join("index/model.trained").exists(), "{stage:?}");
        // Nothing could continue the unfinished model.
        assert_eq!(fs::read_dir(dir.path().join("index/models")).unwrap().count(), 1, "{stage:?}");
    }
    assert!(index.tune(&options()).unwrap().change.is_some());
    let mut nested = None;
    let nest = |_| {
        nested.get_or_insert_with(|| index.tune(&options()).unwrap_err());
        ControlFlow::Continue(())
    };
    index.with_progress(nest).tune(&TuneOptions { seed: 1, ..options() }).unwrap();
    assert!(matches!(nested, Some(Error::Input(InputError::ChangeUnderWay))), "{nested:?}");
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    assert!(matches!(reader.tune(&options()), Err(Error::Store(StoreError::ReadOnly { .. }))));
}

#[test]
fn the_program_tunes() {
    let dir = TempDir::new().unwrap();
    let index = dir.path().join("index");
    let index = text(&index);
    ehi(["create", "--index", index, "--model", text(base_model())]).ok();
    let corpus = dataset().join("corpus.jsonl");
    ehi(["insert", "--index", index, text(&corpus)]).ok();
    let queries = dataset().join("queries.jsonl");
    let tune = ["tune", "--index", index, "--passes", "3", "--leaves", "8"];
    let more = ["--queries", text(&queries), "--always"];
    let said = ehi([&tune[..], &more[..]].concat()).ok();
    assert!(
        said.contains("a tree of 8 leaves from 120 documents") && said.contains("with routing"),
        "{said}"
    );
    assert!(said.contains("120 documents routed"), "{said}");
    assert!(ehi(["stats", "--index", index]).ok().contains("of 8 used"));
    assert!(
        ehi(["rollback", "--index", index])
            .ok()
            .contains("none of their texts changed since this model was last in use")
    );
    assert!(ehi(["stats", "--index", index]).ok().contains("tree           none"));
    let said = ehi(["tune", "--index", index, "--passes", "1", "--leaves", "2"]).ok();
    for part in ["the index is unchanged", "90% of the work", "50 questions", "50% of the work", "`--always`"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = ehi(["tune", "--index", index, "--leaves", "1000"]).line();
    assert!(said.contains("leaves is 1000") && said.contains("2 to 60"), "{said}");
}

#[test]
fn a_tuning_that_was_cut_off_goes_on() {
    let (dir, index) = untrained(STORED);
    let whole = index.tune(&options()).unwrap();
    let hash = index.bundle().hash();
    index.rollback().unwrap();
    index.drop_previous_model().unwrap();
    let checkpoints = dir.path().join("checkpoints");
    let kept = TuneOptions { checkpoints: Some(checkpoints.clone()), resume: true, ..options() };
    let mut steps = 0;
    let cut_off = index
        .with_progress(|progress| {
            steps += usize::from(progress.stage == Stage::TrainIndexer);
            // In the third pass.
            if progress.stage == Stage::TrainIndexer && progress.done * 3 > progress.total.unwrap() * 2 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .tune(&kept);
    assert!(matches!(cut_off, Err(Error::Cancelled)) && checkpoints.exists());
    let mut again = 0;
    let resumed = index
        .with_progress(|progress| {
            again += usize::from(progress.stage == Stage::TrainIndexer);
            ControlFlow::Continue(())
        })
        .tune(&kept)
        .unwrap();
    assert!(again < steps, "{again} steps after {steps}");
    assert_eq!((resumed.after, resumed.before, index.bundle().hash()), (whole.after, whole.before, hash));
    // With other documents, it is another run.
    index.insert(document(STORED)).unwrap();
    let other = index.tune(&kept).unwrap_err();
    assert!(matches!(other, Error::Train(TrainError::OtherRun { .. })), "{other}");
    let missing = index.tune(&TuneOptions { resume: true, ..options() }).unwrap_err();
    assert!(matches!(missing, Error::Train(TrainError::Missing { what: "checkpoints" })), "{missing}");
}
