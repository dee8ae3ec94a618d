//! Every option of a search combined with every other one, for one query, for many and for an explanation.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::{self, Shape, bundle, document, documents};
use ehi::{
    Document, Durability, Error, Filter, Fusion, Index, InputError, LeafId, QueryEncoder, SearchRequest,
    SearchResult, Similarity,
};
use serde_json::{Value, json};

const STORED: usize = 200;
const QUESTIONS: [&str; 3] = ["tree leaf", "gene protein virus", "the of and"];

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Beam(usize),
    Exact,
}

const MODES: [Mode; 4] = [Mode::Beam(1), Mode::Beam(3), Mode::Beam(usize::MAX), Mode::Exact];

fn filters() -> [Option<Filter>; 4] {
    // None, one that many documents pass, one that few pass, and ids.
    let ids = (0..9).map(|n| support::id(n * 20 + 1));
    [None, Some(Filter::lt("place", 150)), Some(Filter::eq("place", 33)), Some(Filter::ids(ids))]
}

fn request(mode: Mode, k: usize, filter: Option<&Filter>, codes: Option<bool>) -> SearchRequest {
    let mut request = SearchRequest { codes, ..SearchRequest::dense().k(k) };
    if let Some(filter) = filter {
        request = request.filter(filter);
    }
    match mode {
        Mode::Beam(beam) => request.beam(beam),
        Mode::Exact => request.exact(),
    }
}

/// Sealed and unsealed documents, some of them deleted.
fn index(shape: Shape, similarity: Similarity) -> (tempfile::TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::builder().similarity(similarity).create(dir.path(), &bundle(shape)).unwrap();
    index.insert_batch(documents(STORED)).unwrap();
    index.flush().unwrap();
    index.insert_batch((STORED..STORED + 20).map(document)).unwrap();
    index.delete_batch((0..STORED).step_by(17).map(support::id)).unwrap();
    (dir, index)
}

fn hits(result: &SearchResult) -> Vec<(String, u32)> {
    result.iter().map(|hit| (hit.id.clone(), hit.score.to_bits())).collect()
}

/// Without codes, every answer follows from exact search: the best of the visited documents that pass.
#[test]
fn all_options_agree_with_exact_search() {
    let shape = Shape { height: 2 };
    let (_dir, index) = index(shape, Similarity::Cosine);
    let live: HashMap<String, Document> =
        index.iter().map(|document| document.unwrap()).map(|found| (found.id.clone(), found)).collect();
    let vectors = embedded(&index);
    for (mode, filter, place) in combinations() {
        for k in [1, 10, 1000] {
            let what = format!("{mode:?}, {filter:?}, {place}, {k}");
            let request = request(mode, k, filter.as_ref(), Some(false));
            let found = index.search_with(&vectors[place], &request).unwrap();
            let explained = index.explain(&vectors[place], &request, true).unwrap();
            let passes = |document: &Document| {
                filter.as_ref().is_none_or(|f| f.matches(&document.id, document.metadata.as_ref()))
            };
            let passing = live.values().filter(|document| passes(document)).count();
            assert!(found.iter().all(|hit| passes(&live[&hit.id])), "{what}");
            if filter.is_some() || found.stats.exhausted {
                assert_eq!(found.len(), k.min(passing), "{what}");
            }
            // If exact search has a hit that this one lacks, it is in no visited leaf.
            let visited: Vec<LeafId> = explained.leaves.iter().map(|leaf| leaf.leaf).collect();
            assert_eq!(visited.len(), found.stats.leaves_visited, "{what}");
            for best in explained.exact.as_ref().unwrap() {
                let is_hit = found.iter().any(|hit| hit.id == best.hit.id);
                assert_eq!(is_hit, best.visited || visited.is_empty(), "{what}: {}", best.hit.id);
            }
            assert_eq!(
                explained.hits.iter().map(|hit| &hit.hit).collect::<Vec<_>>(),
                found.iter().collect::<Vec<_>>()
            );
            let stats = &found.stats;
            assert_eq!(stats.embeddings_read, stats.documents_visited, "{what}");
            let together = index.search_with(&vectors[place], &request.parallel()).unwrap();
            assert_eq!(hits(&together), hits(&found), "{what}");
        }
    }
}

/// Many queries are answered like each alone, with and without codes.
#[test]
fn batches_take_all_options() {
    for similarity in [Similarity::Cosine, Similarity::DotProduct] {
        let (_dir, index) = index(Shape { height: 2 }, similarity);
        let vectors = embedded(&index);
        for codes in [None, Some(false), Some(true)] {
            let (mut read, mut visited) = (0, 0);
            for (mode, filter, _) in combinations() {
                // Few enough hits for codes to be used.
                let k = 2;
                let request = request(mode, k, filter.as_ref(), codes);
                let many = index.search_many(&vectors, &request).unwrap();
                for (vector, batch) in vectors.iter().zip(&many) {
                    let explained = index.explain(vector, &request, false).unwrap();
                    let alone = index.search_with(vector, &request).unwrap();
                    let explained: Vec<_> = explained.hits.into_iter().map(|found| found.hit).collect();
                    assert_eq!(explained, alone.hits, "{mode:?}, {filter:?}");
                    read += alone.stats.embeddings_read;
                    visited += alone.stats.documents_visited;
                    assert_eq!(hits(batch), hits(&alone), "{mode:?}, {filter:?}");
                    let [mut a, mut b] = [batch.stats, alone.stats];
                    for stats in [&mut a, &mut b] {
                        (stats.encode, stats.beam, stats.scan, stats.fetch) = Default::default();
                        stats.documents_checked = 0;
                    }
                    assert_eq!(a, b, "{mode:?}, {filter:?}");
                }
            }
            assert_eq!(read < visited, codes != Some(false), "{codes:?}: {read} of {visited}");
        }
    }
}

/// Each mode with each filter and the place of each question.
fn combinations() -> impl Iterator<Item = (Mode, Option<Filter>, usize)> {
    let of = |(mode, filter): (Mode, Option<Filter>)| {
        (0..QUESTIONS.len()).map(move |place| (mode, filter.clone(), place))
    };
    MODES.into_iter().flat_map(|mode| filters().map(|filter| (mode, filter))).flat_map(of)
}

fn embedded(index: &Index) -> Vec<Vec<f32>> {
    let bundle = index.bundle();
    let encoder = bundle.model().encoder().unwrap();
    let rows = encoder.embed(&QUESTIONS, ehi::model::Role::Query).unwrap();
    rows.chunks_exact(encoder.dim()).map(<[f32]>::to_vec).collect()
}

/// Options that cannot be combined are refused.
#[test]
fn options_that_exclude_each_other_are_refused() {
    let conflict = |json: Value| match SearchRequest::from_json(json) {
        Err(Error::Input(error @ InputError::Conflict { mut options })) => {
            options.sort_unstable();
            (options, error.to_string())
        }
        other => panic!("{other:?}"),
    };
    for (json, options) in [
        (json!({ "exact": true, "beam": 3 }), ["beam", "exact"]),
        (json!({ "exact": true, "recall": 0.9 }), ["exact", "recall"]),
        (json!({ "leaves": [1], "beam": "all" }), ["beam", "leaves"]),
        (json!({ "recall": 0.9, "beam": 3 }), ["beam", "recall"]),
        (json!({ "alpha": 0.5, "rrf": 60 }), ["alpha", "rrf"]),
        (json!({ "mode": "dense", "alpha": 0.5 }), ["alpha", "mode"]),
        (json!({ "mode": "best", "rrf": 60 }), ["mode", "rrf"]),
    ] {
        let (found, said) = conflict(json);
        assert_eq!(found, options);
        let says = if options.contains(&"mode") { "` needs the mode hybrid" } else { " exclude each other" };
        assert!(said.ends_with(says), "{said}");
    }
    let (_dir, manhattan) = index(Shape::of_height(1), Similarity::Manhattan);
    let refused = manhattan.search_with("tree", &SearchRequest::dense().codes(true));
    assert!(matches!(refused, Err(Error::Input(InputError::NoCodes { .. }))), "{refused:?}");
    assert!(manhattan.search_with("tree", &SearchRequest::dense().codes(false)).is_ok());
}

/// An index option that does not apply to a call, or contradicts the index, is refused.
#[test]
fn options_of_an_index_that_cannot_hold_are_refused() {
    use Similarity::{Cosine, DotProduct, Manhattan};
    fn refused(opened: Result<Index, Error>) -> InputError {
        match opened {
            Err(Error::Input(error)) => error,
            other => panic!("{other:?}"),
        }
    }
    let (model, other) = (bundle(Shape::of_height(1)), bundle(Shape::of_height(2)));
    let (dir, index) = index(Shape::of_height(1), DotProduct);
    drop(index);
    let path = dir.path();

    let mismatch = InputError::SimilarityMismatch { index: DotProduct, given: Cosine };
    assert_eq!(refused(Index::builder().similarity(Cosine).open(path)), mismatch);
    assert_eq!(refused(Index::builder().similarity(Cosine).open_read_only(path)), mismatch);
    assert_eq!(Index::builder().similarity(DotProduct).open(path).unwrap().similarity(), DotProduct);

    let mismatch = InputError::ModelMismatch { index: model.hash(), given: other.hash() };
    let new = path.join("new");
    assert_eq!(refused(Index::builder().expect_model(&other).create(&new, &model)), mismatch);
    assert_eq!(refused(Index::builder().expect_model(&other).open(path)), mismatch);
    assert_eq!(refused(Index::builder().expect_model(&other).open_read_only(path)), mismatch);
    assert!(Index::builder().expect_model(&model).open(path).is_ok());

    for (options, option) in [
        (Index::builder().durability(Durability::OnFlush), "durability"),
        (Index::builder().codes(false), "codes"),
        (Index::builder().lock_wait(Duration::ZERO), "lock_wait"),
    ] {
        let call = "open_read_only";
        assert_eq!(
            refused(options.clone().open_read_only(path)),
            InputError::InapplicableOption { option, call }
        );
        assert!(options.open(path).is_ok(), "{option}");
    }

    let no_codes = InputError::NoCodes { similarity: Manhattan };
    let manhattan = || Index::builder().similarity(Manhattan);
    assert_eq!(refused(manhattan().codes(true).create(&new, &model)), no_codes);
    assert!(!new.exists(), "what is refused makes nothing");
    drop(manhattan().codes(false).create(&new, &model).unwrap());
    assert_eq!(refused(Index::builder().codes(true).open(&new)), no_codes);
    assert!(Index::open(&new).is_ok());
}

/// A request is written in the form in which it is read, and anything else is refused.
#[test]
fn requests_are_read_as_they_are_written() {
    let read = |json: &Value| SearchRequest::from_json(json.clone());
    let written = |request: &SearchRequest| serde_json::to_value(request).unwrap();
    let plain = json!({ "k": 10, "mode": "best", "recall": 0.95 });
    assert_eq!(written(&SearchRequest::default()), plain);
    for nothing in [json!({}), json!({ "beam": null, "filter": null })] {
        assert_eq!(read(&nothing).unwrap(), SearchRequest::default());
    }
    let filter = json!({ "n": { "$gte": 2 } });
    for (json, request) in [
        (json!({ "k": 3, "mode": "lexical" }), SearchRequest::lexical().k(3)),
        (json!({ "k": 10, "mode": "dense", "beam": "all" }), SearchRequest::dense().beam(usize::MAX)),
        (
            json!({ "k": 10, "mode": "hybrid", "alpha": 0.3, "exact": true, "bm25": [1.5, 0.5] }),
            SearchRequest::hybrid(Fusion::Convex(0.3)).exact().bm25(1.5, 0.5),
        ),
        (
            json!({ "k": 10, "mode": "hybrid", "rrf": 60.0, "beam": 4 }),
            SearchRequest::hybrid(Fusion::Rrf { k: 60.0 }).beam(4),
        ),
        (
            json!({
                "k": 10, "mode": "best", "leaves": [3, 1], "encoder": "full", "codes": false, "parallel": true,
                "passages": 2, "ids_only": true, "unlogged": true, "filter": filter,
            }),
            SearchRequest::default()
                .leaves(&[LeafId(3), LeafId(1)])
                .encoder(QueryEncoder::Full)
                .codes(false)
                .parallel()
                .passages(2)
                .ids_only()
                .unlogged()
                .filter(&Filter::gte("n", 2)),
        ),
    ] {
        assert_eq!(read(&json).unwrap(), request, "{json}");
        assert_eq!(written(&request), json);
    }
    assert_eq!(read(&json!({ "alpha": 0.3 })).unwrap(), SearchRequest::hybrid(Fusion::Convex(0.3)));
    assert_eq!(
        read(&json!({ "filter": filter.to_string() })).unwrap(),
        read(&json!({ "filter": filter })).unwrap()
    );
    for bad in [
        json!([]),
        json!({ "kk": 3 }),
        json!({ "k": -1 }),
        json!({ "mode": "both" }),
        json!({ "beam": "some" }),
        json!({ "stop": ["mass=0.5"] }),
        json!({ "rerank_depth": 3 }),
    ] {
        assert!(matches!(read(&bad), Err(Error::Input(InputError::BadRequest { .. }))), "{bad}");
    }
    assert!(matches!(read(&json!({ "filter": { "a": { "$none": 1 } } })), Err(Error::Filter(_))));
}
