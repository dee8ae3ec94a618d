//! Every option of a search with every other one, for one query, for many and for an explanation.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::{self, Shape, bundle, document, documents};
use ehi::{
    Document, Durability, Error, Filter, Index, InputError, LeafId, Query, SearchResult, Similarity, Stop,
};

const STORED: usize = 200;
const QUESTIONS: [&str; 3] = ["tree leaf", "gene protein virus", "the of and"];

/// How far a search goes.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Beam(usize),
    Stop(Stop),
    Both(usize, Stop),
    Exact,
}

const MODES: [Mode; 9] = [
    Mode::Beam(1),
    Mode::Beam(3),
    Mode::Beam(usize::MAX),
    Mode::Stop(Stop::Patience(2)),
    Mode::Stop(Stop::Mass(0.5)),
    Mode::Stop(Stop::Documents(40)),
    Mode::Stop(Stop::Fraction(0.3)),
    Mode::Both(2, Stop::Documents(100)),
    Mode::Exact,
];

fn filters() -> [Option<Filter>; 4] {
    // None, one that many documents pass, one that few pass, and ids.
    let ids = (0..9).map(|n| support::id(n * 20 + 1));
    [None, Some(Filter::lt("place", 150)), Some(Filter::eq("place", 33)), Some(Filter::ids(ids))]
}

fn apply<'a, I>(mode: Mode, mut query: Query<'a, I>, k: usize, filter: Option<&'a Filter>) -> Query<'a, I> {
    query = query.k(k);
    if let Some(filter) = filter {
        query = query.filter(filter);
    }
    match mode {
        Mode::Beam(beam) => query.beam(beam),
        Mode::Stop(stop) => query.stop(stop),
        Mode::Both(beam, stop) => query.beam(beam).stop(stop),
        Mode::Exact => query.exact(),
    }
}

fn with_codes<I>(query: Query<'_, I>, codes: Option<bool>) -> Query<'_, I> {
    match codes {
        Some(codes) => query.codes(codes),
        None => query,
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

/// Without codes every answer follows from exact search: the best of the visited documents that pass.
#[test]
fn all_options_agree_with_exact_search() {
    for leaves_per_document in [1, 2] {
        let shape = Shape { height: 2, leaves_per_document };
        let (_dir, index) = index(shape, Similarity::Cosine);
        let live: HashMap<String, Document> =
            index.iter().map(|document| document.unwrap()).map(|found| (found.id.clone(), found)).collect();
        let vectors = embedded(&index);
        for (mode, filter, place) in combinations() {
            for k in [1, 10, 1000] {
                let what = format!("{mode:?}, {filter:?}, {place}, {k}, {leaves_per_document}");
                let query =
                    || apply(mode, index.query_vector(&vectors[place]), k, filter.as_ref()).codes(false);
                let found = query().run().unwrap();
                let explained = query().explain_against_exact().unwrap();
                let passes = |document: &Document| {
                    filter.as_ref().is_none_or(|f| f.matches(&document.id, document.metadata.as_ref()))
                };
                let passing = live.values().filter(|document| passes(document)).count();
                assert!(found.iter().all(|hit| passes(&live[&hit.id])), "{what}");
                if filter.is_some() || found.stats.exhausted {
                    assert_eq!(found.len(), k.min(passing), "{what}");
                }
                // A hit that exact search has and this one has not is in no leaf that was visited.
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
                assert_eq!(hits(&query().parallel().run().unwrap()), hits(&found), "{what}");
            }
        }
    }
}

/// Many queries are answered as each alone, with codes and without.
#[test]
fn batches_take_all_options() {
    for (similarity, leaves_per_document) in
        [(Similarity::Cosine, 1), (Similarity::Cosine, 2), (Similarity::DotProduct, 1)]
    {
        let (_dir, index) = index(Shape { height: 2, leaves_per_document }, similarity);
        let vectors = embedded(&index);
        for codes in [None, Some(false), Some(true)] {
            let (mut read, mut visited) = (0, 0);
            for (mode, filter, _) in combinations() {
                // So few hits that codes are used.
                let k = 2;
                let many = apply(mode, index.query_vector_batch(&vectors), k, filter.as_ref());
                let many = with_codes(many, codes).run().unwrap();
                for (vector, batch) in vectors.iter().zip(&many) {
                    let alone = apply(mode, index.query_vector(vector), k, filter.as_ref());
                    let alone = with_codes(alone, codes);
                    let explained = alone.clone().explain().unwrap();
                    let alone = alone.run().unwrap();
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
    let encoder = bundle.model().encoder();
    let rows = encoder.embed(&QUESTIONS, ehi::model::Role::Query).unwrap();
    rows.chunks_exact(encoder.dim()).map(<[f32]>::to_vec).collect()
}

/// What cannot be combined is refused.
#[test]
fn options_that_exclude_each_other_are_refused() {
    let (_dir, cosine) = index(Shape::of_height(1), Similarity::Cosine);
    let conflict = |query: Query<'_>| match query.run() {
        Err(Error::Input(InputError::Conflict { options })) => options,
        other => panic!("{other:?}"),
    };
    assert_eq!(conflict(cosine.query("tree").exact().beam(3)), ["exact", "beam"]);
    assert_eq!(conflict(cosine.query("tree").stop(Stop::Mass(0.5)).exact()), ["exact", "stop"]);
    let (_dir, manhattan) = index(Shape::of_height(1), Similarity::Manhattan);
    let refused = manhattan.query("tree").codes(true).run();
    assert!(matches!(refused, Err(Error::Input(InputError::NoCodes { .. }))), "{refused:?}");
    assert!(manhattan.query("tree").codes(false).run().is_ok());
}

/// An option of an index that a call has no use for, or that the index contradicts, is refused.
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
