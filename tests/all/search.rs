//! Searches with a filter, and many searches at once, compared with plain ones.

use crate::support::{self, Shape, bundle, document, documents, in_f32};
use ehi::model::EncoderPrecision;
use ehi::{Error, Filter, Index, InputError, SearchRequest, SearchResult, Similarity};

const STORED: usize = 200;
const QUESTIONS: [&str; 11] = [
    "tree leaf",
    "gene protein virus",
    "what 40",
    "query document text",
    "the of and",
    "a b c",
    "cell",
    "far near",
    "beam index search",
    "why where",
    "tree leaf",
];

fn index(shape: Shape, similarity: Similarity) -> (tempfile::TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index = in_f32().similarity(similarity).create(dir.path().join("index"), &bundle(shape)).unwrap();
    index.insert_batch(documents(STORED)).unwrap();
    index.flush().unwrap();
    // Some only in memory, some deleted.
    index.insert_batch((STORED..STORED + 20).map(document)).unwrap();
    index.delete_batch((0..STORED).step_by(17).map(support::id)).unwrap();
    (dir, index)
}

fn shapes() -> [Shape; 3] {
    [Shape::of_height(1), Shape::of_height(3), Shape { height: 2 }]
}

fn hits(result: &SearchResult) -> Vec<(String, u32)> {
    result.iter().map(|hit| (hit.id.clone(), hit.score.to_bits())).collect()
}

#[test]
fn a_filter_is_served_beyond_the_beam() {
    let (_dir, index) = index(Shape::of_height(2), Similarity::Cosine);
    let filter = Filter::lt("place", 200);
    let pass = index
        .iter()
        .filter(|d| filter.matches(&d.as_ref().unwrap().id, d.as_ref().unwrap().metadata.as_ref()));
    let pass = pass.count();
    for beam in [1, 2] {
        for k in [1, 20, 1000] {
            let found = index
                .search_with("tree leaf", &SearchRequest::dense().k(k).beam(beam).filter(&filter))
                .unwrap();
            assert_eq!(found.len(), k.min(pass), "{beam}, {k}");
        }
    }
}

#[test]
fn a_batch_answers_as_its_searches_do() {
    let others = [Similarity::DotProduct, Similarity::Manhattan].map(|s| (s, Shape::of_height(1)));
    for (similarity, shape) in shapes().map(|shape| (Similarity::Cosine, shape)).into_iter().chain(others) {
        let (_dir, index) = index(shape, similarity);
        let encoder = index.bundle();
        let encoder = encoder.model().encoder().unwrap();
        let rows = encoder.embed(&QUESTIONS, ehi::model::Role::Query).unwrap();
        let vectors: Vec<&[f32]> = rows.chunks_exact(encoder.dim()).collect();
        for (k, beam) in [(1, 1), (10, 3), (1000, 2), (5, 1000)] {
            let texts = index.search_many(&QUESTIONS, &SearchRequest::dense().k(k).beam(beam)).unwrap();
            let given =
                index.search_many(vectors.iter().copied(), &SearchRequest::dense().k(k).beam(beam)).unwrap();
            assert_eq!((texts.len(), given.len()), (QUESTIONS.len(), QUESTIONS.len()));
            for (place, question) in QUESTIONS.iter().enumerate() {
                let alone =
                    index.search_with(vectors[place], &SearchRequest::dense().k(k).beam(beam)).unwrap();
                assert_eq!(hits(&given[place]), hits(&alone), "{question}, {similarity:?}, {k}, {beam}");
                let (batch, alone) = (&given[place].stats, &alone.stats);
                assert_eq!(
                    (batch.leaves_visited, batch.documents_visited, batch.exhausted, batch.work_fraction),
                    (alone.leaves_visited, alone.documents_visited, alone.exhausted, alone.work_fraction)
                );
                // Questions encoded together differ in the last bits from one encoded alone.
                assert_eq!(texts[place].len(), given[place].len(), "{question}");
                let near =
                    texts[place].iter().zip(&given[place]).all(|(a, b)| (a.score - b.score).abs() < 1e-3);
                assert!(near, "{question}");
            }
        }
    }
}

/// An index of documents around eight centres, in few leaves, so that most rows have codes and can be ruled
/// out; and queries.
fn clustered(documents: usize) -> (tempfile::TempDir, Index, Vec<Vec<f32>>) {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path(), &bundle(Shape::of_height(1))).unwrap();
    let dim = index.bundle().model().dim();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let centres: Vec<Vec<f32>> = (0..8).map(|_| (0..dim).map(|_| random()).collect()).collect();
    let mut near =
        |centre: usize| -> Vec<f32> { centres[centre].iter().map(|x| x + 0.7 * random()).collect() };
    let rows: Vec<Vec<f32>> = (0..documents).map(|n| near(n % 8)).collect();
    let queries = (0..40).map(|n| near(n % 8)).collect();
    index.insert_vectors(rows.into_iter().enumerate().map(|(n, row)| (document(n), row))).unwrap();
    index.compact().unwrap();
    assert!(index.verify().unwrap().is_sound());
    (dir, index, queries)
}

#[test]
fn codes_work_on_several_threads() {
    let (_dir, index, queries) = clustered(24_000);
    let (mut found, mut read, mut visited) = (0, 0, 0);
    for query in &queries {
        let plain = index.search_with(query, &SearchRequest::dense().k(10).beam(3).codes(false)).unwrap();
        let pool = index.search_with(query, &SearchRequest::dense().k(10).beam(3).parallel()).unwrap();
        assert_eq!(pool.stats.documents_visited, plain.stats.documents_visited);
        assert!(pool.stats.documents_visited > 10_000, "more than one task");
        let best = hits(&plain);
        found += hits(&pool).iter().filter(|hit| best.contains(hit)).count();
        read += pool.stats.embeddings_read;
        visited += pool.stats.documents_visited;
    }
    assert!(found >= 398, "{found} of 400");
    assert!(read * 3 < visited, "{read} of {visited}");
}

#[test]
fn codes_spare_most_embeddings_and_few_hits() {
    let (dir, index, queries) = clustered(4000);
    let dim = index.bundle().model().dim();
    let (mut found, mut read, mut visited) = (0, 0, 0);
    for query in &queries {
        let run =
            |codes| index.search_with(query, &SearchRequest::dense().k(10).beam(3).codes(codes)).unwrap();
        let (with, without) = (run(true), run(false));
        assert_eq!(with.stats.documents_visited, without.stats.documents_visited);
        assert_eq!(without.stats.embeddings_read, without.stats.documents_visited);
        let best = hits(&without);
        found += hits(&with).iter().filter(|hit| best.contains(hit)).count();
        read += with.stats.embeddings_read;
        visited += with.stats.documents_visited;
        // All leaves are exact search, with or without codes.
        let all = index.search_with(query, &SearchRequest::dense().k(10).beam(4)).unwrap();
        assert_eq!(
            hits(&all),
            hits(&index.search_with(query, &SearchRequest::dense().k(10).exact()).unwrap())
        );
    }
    assert!(found >= 398, "{found} of 400");
    assert!(read * 3 < visited, "{read} of {visited}, {found}");
    // An index without codes has smaller files, and one opened without them drops them on compaction.
    let bytes = |index: &Index| index.stats().unwrap().bytes.vectors;
    let before = bytes(&index);
    drop(index);
    let index = Index::builder().codes(false).open(dir.path()).unwrap();
    index.insert(document(4000)).unwrap();
    index.compact().unwrap();
    assert!(bytes(&index) < before - 4000 * (dim as u64 / 8), "{} {before}", bytes(&index));
    assert!(index.verify().unwrap().is_sound());
    let plain = index.search_with(&queries[0], &SearchRequest::dense().beam(3)).unwrap().stats;
    assert_eq!(plain.embeddings_read, plain.documents_visited);
}

#[test]
fn several_threads_find_the_same() {
    for shape in shapes() {
        let (_dir, index) = index(shape, Similarity::Cosine);
        for question in QUESTIONS {
            for k in [1, 10, 1000] {
                let [alone, together] = [false, true].map(|parallel| {
                    let run = |request| {
                        index.search_with(question, &SearchRequest { parallel, ..request }).unwrap()
                    };
                    let request = || SearchRequest::dense().k(k);
                    [request().exact(), request().beam(3), request().beam(usize::MAX)].map(run)
                });
                for (alone, together) in alone.iter().zip(&together) {
                    assert_eq!(hits(alone), hits(together), "{question}, {k}");
                    assert_eq!(alone.stats.documents_visited, together.stats.documents_visited);
                }
            }
        }
    }
}

#[test]
fn a_batch_refuses_what_a_search_refuses() {
    let (_dir, index) = index(Shape::of_height(1), Similarity::Cosine);
    assert!(index.search_many(&[] as &[&str], &SearchRequest::dense().k(3).beam(3)).unwrap().is_empty());
    let refused = |result: ehi::Result<Vec<SearchResult>>| match result {
        Err(Error::Input(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        refused(index.search_many(&["tree", " "], &SearchRequest::dense().k(3).beam(3))),
        InputError::EmptyQuery
    ));
    assert!(matches!(
        refused(index.search_many(&["tree"], &SearchRequest::dense().k(0).beam(3))),
        InputError::OutOfRange { .. }
    ));
    assert!(matches!(
        refused(index.search_many(&["tree"], &SearchRequest::dense().k(3).beam(0))),
        InputError::OutOfRange { .. }
    ));
    let dim = index.bundle().model().dim();
    let good = vec![1.0; dim];
    for (bad, dimension) in
        [(vec![1.0; dim - 1], true), (vec![0.0; dim], false), (vec![f32::NAN; dim], false)]
    {
        let error = refused(index.search_many(&[good.clone(), bad], &SearchRequest::dense().k(3).beam(3)));
        assert_eq!(matches!(error, InputError::Dimension { .. }), dimension, "{error:?}");
        assert_eq!(matches!(error, InputError::BadVector), !dimension, "{error:?}");
    }
}

#[test]
fn eight_bits_find_what_is_near() {
    let (dir, written) = index(Shape::of_height(2), Similarity::Cosine);
    let path = dir.path().join("index");
    let eight = Index::builder().encoder_precision(EncoderPrecision::Int8).open_read_only(&path).unwrap();
    let scores = |index: &Index, question: &str| -> Vec<f32> {
        index
            .search_with(question, &SearchRequest::dense().exact().k(5))
            .unwrap()
            .iter()
            .map(|hit| hit.score)
            .collect()
    };
    written.flush().unwrap();
    assert!(eight.refresh().unwrap());
    let mut differ = false;
    for question in QUESTIONS {
        let (exact, close) = (scores(&written, question), scores(&eight, question));
        differ |= exact != close;
        for (exact, close) in exact.iter().zip(close) {
            assert!((exact - close).abs() < 0.02, "{question}: {exact} and {close}");
        }
    }
    assert!(differ, "the handle does not use eight bits");
    // A refresh may reopen the model, with the handle's options.
    let before = scores(&eight, QUESTIONS[1]);
    written.insert(document(STORED)).unwrap();
    written.flush().unwrap();
    assert!(eight.refresh().unwrap());
    assert_eq!(scores(&eight, QUESTIONS[1]), before);
}
