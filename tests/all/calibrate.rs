//! Searches with a target recall, and the measurement behind them.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;

use crate::program::{ehi, text};
use crate::support::{DOCUMENTS, Shape, WIDTH, base_model, bundle, document, documents, filled, id};
use ehi::calibrate::{QuestionSource, RecallCurve};
use ehi::search::{DEFAULT_RECALL, MOST_EXACT_DOCUMENTS};
use ehi::store::StoreError;
use ehi::{Bundle, Document, Error, Filter, Index, InputError, SearchRequest, Stage};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

const SHAPE: Shape = Shape { height: 2 };
/// Enough documents for the tree to be used.
const MANY: usize = MOST_EXACT_DOCUMENTS + 2_000;

/// A vector near one of the directions that the trained tree distinguishes: those of the small documents.
fn near(centres: &[Vec<f32>], n: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
    let centre = &centres[n % centres.len()];
    centre.iter().map(|x| x + rng.random_range(-0.02..0.02)).collect()
}

fn centres(index: &Index) -> Vec<Vec<f32>> {
    let model = index.bundle();
    let encoder = model.model().encoder().unwrap();
    let all = documents(DOCUMENTS);
    let texts: Vec<_> = all.iter().map(Document::embedding_text).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let rows = encoder.embed(&texts, ehi::model::Role::Document).unwrap();
    rows.chunks_exact(WIDTH).map(<[f32]>::to_vec).collect()
}

/// An index large enough for its tree, with embeddings only.
fn large() -> (TempDir, Index, Vec<Vec<f32>>) {
    let (dir, index) = filled(SHAPE, 0);
    let centres = centres(&index);
    let vectors = |range: std::ops::Range<usize>| -> Vec<_> {
        range.map(|n| (Document::new(id(n), "", ""), near(&centres, n))).collect()
    };
    index.insert_vectors(vectors(0..MANY)).unwrap();
    index.flush().unwrap();
    (dir, index, centres)
}

/// The share of exact search's hits that a search finds, over many queries.
fn recall(index: &Index, centres: &[Vec<f32>], k: usize, request: &SearchRequest) -> f64 {
    let mut found = 0;
    for n in 0..100 {
        let query = near(centres, 1_000_000 + n);
        let ids = |request: SearchRequest| -> HashSet<String> {
            let found = index.search_with(&query, &request.k(k)).unwrap();
            found.hits.into_iter().map(|hit| hit.id).collect()
        };
        let exact = ids(SearchRequest::dense().exact());
        found += exact.intersection(&ids(request.clone())).count();
    }
    found as f64 / (100 * k) as f64
}

fn beam(curve: &RecallCurve, recall: f64) -> usize {
    curve.reaching(recall, 10).unwrap().beam
}

#[test]
fn a_search_finds_what_it_is_told_to() {
    let (dir, index, centres) = large();
    let query = near(&centres, 7_000_000);
    // Not measured yet: every document.
    assert!(index.recall_curve().is_none() && index.needs_calibration());
    let found = index.search_with(&query, &SearchRequest::dense()).unwrap();
    assert_eq!((found.stats.leaves_visited, found.stats.documents_visited), (0, MANY));

    let curve = index.calibrate(&[]).unwrap();
    assert_eq!((curve.documents, curve.source), (MANY, QuestionSource::Documents));
    assert_eq!(index.recall_curve(), Some(curve.clone()));
    assert!(!index.needs_calibration());
    for depth in &curve.depths {
        assert!(depth.points.is_sorted_by(|a, b| a.recall <= b.recall + 1e-9), "{depth:?}");
        let last = depth.points.last().unwrap();
        assert_eq!((last.beam, last.recall), (SHAPE.leaves(), 1.0));
    }
    // The searches reach what the curve says.
    for target in [0.8, 0.9, DEFAULT_RECALL] {
        let found = recall(&index, &centres, 10, &SearchRequest::dense().recall(target));
        assert!(found >= target - 0.05, "{found} of {target}");
    }
    let found = index.search_with(&query, &SearchRequest::dense()).unwrap();
    let expected = curve.reaching(DEFAULT_RECALL, 10).unwrap();
    match expected.visited <= 0.5 {
        true => assert_eq!(found.stats.leaves_visited, expected.beam),
        false => assert_eq!(found.stats.leaves_visited, 0),
    }
    // A recall of 1 is exact, and so are more hits than were measured.
    for request in [SearchRequest::dense().recall(1.0), SearchRequest::dense().k(101)] {
        assert_eq!(index.search_with(&query, &request).unwrap().stats.documents_visited, MANY);
    }
    // A batch and an explanation go equally far; a filter at least as far.
    let few = beam(&curve, 0.8);
    let batch = index.search_many(std::slice::from_ref(&query), &SearchRequest::dense().recall(0.8)).unwrap();
    let explained = index.explain(&query, &SearchRequest::dense().recall(0.8), false).unwrap();
    if curve.reaching(0.8, 10).unwrap().visited <= 0.5 {
        assert_eq!((batch[0].stats.leaves_visited, explained.leaves.len()), (few, few));
    }
    let filter = Filter::ids((0..MANY).step_by(2).map(id));
    assert_eq!(index.search_with(&query, &SearchRequest::dense().filter(&filter)).unwrap().hits.len(), 10);

    // It is durable, visible to readers, and included in a snapshot.
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    assert_eq!(reader.recall_curve(), Some(curve.clone()));
    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    assert_eq!(Index::open(&copy).unwrap().recall_curve(), Some(curve.clone()));
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert_eq!(index.recall_curve(), Some(curve));

    // With twice as many documents, it does not apply any more.
    let vectors = (MANY..2 * MANY + 1).map(|n| (Document::new(id(n), "", ""), near(&centres, n)));
    index.insert_vectors(vectors.collect::<Vec<_>>()).unwrap();
    assert!(index.recall_curve().is_none() && index.needs_calibration());
    assert_eq!(
        index.search_with(&query, &SearchRequest::dense()).unwrap().stats.documents_visited,
        2 * MANY + 1
    );
    index.calibrate(&[]).unwrap();
    assert!(index.recall_curve().is_some() && reader.recall_curve().is_some());
    index.flush().unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.recall_curve(), index.recall_curve());
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn there_are_k_hits_whenever_there_are_k_documents() {
    let (_dir, index, centres) = large();
    index.calibrate(&[]).unwrap();
    // Deletes all but a few of the documents, which are spread over the leaves.
    index.delete_batch((0..MANY).filter(|n| n % 1_000 != 0).map(id)).unwrap();
    let left = index.len();
    for target in [0.01, 0.5, 0.95, 1.0] {
        let query = near(&centres, 5_000_000);
        let found = index.search_with(&query, &SearchRequest::dense().k(left + 5).recall(target)).unwrap();
        assert_eq!(found.hits.len(), left, "{target}");
    }
}

#[test]
fn given_questions_are_measured_with() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let mut stages = Vec::new();
    let hear = |progress: ehi::Progress| {
        stages.push((progress.stage, progress.done, progress.total));
        ControlFlow::Continue(())
    };
    let curve =
        index.with_progress(hear).calibrate(&["tree leaf", "gene protein"].map(str::to_owned)).unwrap();
    assert_eq!((curve.questions, curve.source, curve.documents), (2, QuestionSource::Given, DOCUMENTS));
    assert_eq!(stages, [(Stage::Calibrate, 2, Some(2))]);
    // Few documents are always scored, whatever was measured.
    assert_eq!(
        index.search_with("tree", &SearchRequest::dense()).unwrap().stats.documents_visited,
        DOCUMENTS
    );
    assert!(!index.needs_calibration());
    let refused = index.calibrate(&["tree", " "].map(str::to_owned));
    assert!(matches!(refused, Err(Error::Input(InputError::EmptyQuery))), "{refused:?}");
    let cancelled = index.with_progress(|_| ControlFlow::Break(())).calibrate(&[]);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    // The previous one stays.
    assert_eq!(index.recall_curve(), Some(curve));
}

#[test]
fn what_cannot_be_measured_or_aimed_at_is_refused() {
    let (dir, index) = filled(SHAPE, 0);
    for count in 0..2 {
        let refused = index.calibrate(&[]);
        assert!(matches!(refused, Err(Error::Input(InputError::NothingToCalibrate))), "{count}: {refused:?}");
        index.insert(document(count)).unwrap();
    }
    // The same document three times over, one leaf: fine.
    for n in 0..3 {
        index.insert(Document::new(id(n), "", "the same")).unwrap();
    }
    index.calibrate(&[]).unwrap();
    for target in [0.0, -0.5, 1.1, f64::NAN, f64::INFINITY] {
        let refused = index.search_with("tree", &SearchRequest::dense().recall(target));
        assert!(matches!(refused, Err(Error::Input(InputError::OutOfRange { .. }))), "{target}: {refused:?}");
    }
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    let refused = reader.calibrate(&[]);
    assert!(matches!(refused, Err(Error::Store(StoreError::ReadOnly { .. }))), "{refused:?}");
    let untrained = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("untrained"), &untrained).unwrap();
    let refused = index.calibrate(&[]);
    assert!(matches!(refused, Err(Error::Input(InputError::NoTree))), "{refused:?}");
}

#[test]
fn a_damaged_curve_is_as_none() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    index.calibrate(&[]).unwrap();
    drop(index);
    let path = dir.path().join("index/models/1/MEASURED");
    let mut content = fs::read(&path).unwrap();
    let at = content.len() / 2;
    content[at] ^= 1;
    fs::write(&path, content).unwrap();
    let index = Index::open(dir.path().join("index")).unwrap();
    assert!(index.recall_curve().is_none());
    assert_eq!(index.search_with("tree", &SearchRequest::dense()).unwrap().hits.len(), 10);
    index.calibrate(&[]).unwrap();
    // It is tied to its model.
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    assert!(index.recall_curve().is_none());
    index.drop_previous_model().unwrap();
    assert!(!dir.path().join("index/models/1").exists());
}

#[test]
fn the_program_measures_and_tells() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    drop(index);
    let index = dir.path().join("index");
    let index = text(&index);
    assert!(!ehi(["stats", "--index", index]).ok().contains("recall"));
    let said = ehi(["calibrate", "--index", index]).ok();
    assert!(said.contains(&format!("questions made from documents, with {DOCUMENTS} documents")), "{said}");
    assert!(ehi(["stats", "--index", index]).ok().ends_with(&said));
    let queries = dir.path().join("queries.jsonl");
    fs::write(&queries, "{\"_id\": \"1\", \"text\": \"tree leaf\"}\n").unwrap();
    let said = ehi(["calibrate", "--index", index, "--queries", text(&queries), "--json"]).ok();
    let curve: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&curve["source"], &curve["questions"]), (&"given".into(), &1.into()));
    fs::write(&queries, "").unwrap();
    let said = ehi(["calibrate", "--index", index, "--queries", text(&queries)]);
    assert!(said.line().contains("holds no question"), "{}", said.err);
    assert!(ehi(["search", "--index", index, "--recall", "0.9", "tree"]).ok().contains("without the tree"));
    assert!(ehi(["search", "--index", index, "--recall", "2", "tree"]).line().contains("at most 1"));
    let said = ehi(["search", "--index", index, "--recall", "0.9", "--beam", "2", "tree"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}
