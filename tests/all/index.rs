//! The index as an application uses it, on small trained bundles.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{self, DOCUMENTS, Shape, WIDTH, bundle, document, documents, filled, id, in_f32};
use ehi::model::Role;
use ehi::store::StoreError;
use ehi::{
    Document, Error, Hit, Index, InputError, InsertStatus, Judgment, Progress, Question, SearchRequest,
    SearchResult, Similarity, Stage,
};
use serde_json::json;

const FLAT: Shape = Shape { height: 1 };
const TALL: Shape = Shape { height: 2 };

/// The questions' embeddings: encoding is most of the cost of these tests.
fn vectors(index: &Index) -> Vec<Vec<f32>> {
    let bundle = index.bundle();
    let encoder = bundle.model().encoder().unwrap();
    let rows = encoder.embed(&QUESTIONS, Role::Query).unwrap();
    rows.chunks_exact(encoder.dim()).map(<[f32]>::to_vec).collect()
}

/// Texts that differ from all documents.
const QUESTIONS: [&str; 5] =
    ["the beam of a tree", "cell and gene 17", "what is a query", "b c d 40", "why search a long text"];

#[test]
fn documents_come_back_as_they_were_inserted() {
    let (_dir, index) = filled(FLAT, 0);
    assert!(index.is_empty());
    assert!(index.search("tree", 10, 4).unwrap().is_empty());
    assert!(index.iter().next().is_none());

    let plain = Document::new("no metadata", "", "a leaf");
    let summary = index.insert(plain.clone()).unwrap();
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (1, 0, 0));
    let titled = Document::new("título 学", "only a title", "").with_metadata(json!([1, {"two": 2.5}]));
    let both = index.insert_batch([titled.clone(), document(3)]).unwrap();
    assert_eq!((both.inserted, both.replaced, both.superseded), (2, 0, 0));
    assert!(both.generation > summary.generation);

    assert_eq!(index.len(), 3);
    for expected in [&plain, &titled, &document(3)] {
        assert_eq!(index.get(&expected.id).unwrap().as_ref(), Some(expected));
        assert!(index.contains(&expected.id).unwrap());
    }
    assert_eq!(index.get("absent").unwrap(), None);
    assert!(!index.contains("absent").unwrap());
}

#[test]
fn iteration_gives_all_documents_in_order_of_ids() {
    // More than one page of the iterator.
    const COUNT: usize = 260;
    let (_dir, index) = filled(FLAT, COUNT);
    let found: Vec<Document> = index.iter().map(Result::unwrap).collect();
    assert_eq!(found, documents(COUNT));
    let again = index.iter().map(|d| d.unwrap().id).collect::<BTreeSet<_>>();
    assert_eq!(again.len(), COUNT);
}

#[test]
fn the_last_of_several_documents_with_an_id_counts() {
    let (_dir, index) = filled(FLAT, 10);
    let new = Document::new(id(4), "new", "virus and cancer");
    let batch = [Document::new(id(4), "old", "the tree"), document(20), new.clone()];
    let summary = index.insert_batch(batch).unwrap();
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (1, 1, 1));
    assert_eq!(index.len(), 11);
    assert_eq!(index.get(&id(4)).unwrap(), Some(new.clone()));

    let result = index.search("new virus and cancer", 11, 4).unwrap();
    let of_id: Vec<_> = result.iter().filter(|hit| hit.id == id(4)).collect();
    assert_eq!(of_id.len(), 1, "the replaced row must not be found");
    assert_eq!(of_id[0].document, new);
    assert_eq!(result.hits[0].id, id(4));
    assert!(result.hits[0].score > 0.999, "its own text: {}", result.hits[0].score);
    let stats = index.stats().unwrap();
    assert_eq!((stats.documents, stats.rows, stats.dead_rows), (11, 12, 1));
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn deleted_documents_are_gone_from_everything() {
    let (_dir, index) = filled(FLAT, 12);
    assert!(index.delete(&id(7)).unwrap());
    assert!(!index.delete(&id(7)).unwrap());
    assert!(!index.delete("absent").unwrap());
    assert_eq!(index.len(), 11);
    assert_eq!(index.get(&id(7)).unwrap(), None);
    assert!(index.iter().all(|d| d.unwrap().id != id(7)));
    let text = document(7).embedding_text().into_owned();
    for result in [
        index.search(&text, 12, 4).unwrap(),
        index.search_with(&text, &SearchRequest::dense().k(12).exact()).unwrap(),
    ] {
        assert_eq!(result.len(), 11);
        assert!(result.iter().all(|hit| hit.id != id(7)));
        assert_eq!(result.stats.documents_visited, 11);
    }
    index.insert(document(7)).unwrap();
    assert_eq!(index.search(&text, 1, 4).unwrap().hits[0].document, document(7));
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_hit_carries_the_whole_document() {
    let (_dir, index) = filled(FLAT, DOCUMENTS);
    for hit in &index.search(QUESTIONS[0], 10, 4).unwrap() {
        assert_eq!(index.get(&hit.id).unwrap().as_ref(), Some(&hit.document));
        let place = hit.document.metadata.as_ref().unwrap()["place"].as_u64().unwrap();
        assert_eq!(hit.document, document(place as usize));
    }
}

#[test]
fn a_hit_is_read_back_from_its_json() {
    let (_dir, index) = filled(FLAT, DOCUMENTS);
    index.insert(document(3).with_metadata(json!({ "a": [1.5, null] }))).unwrap();
    for request in [SearchRequest::dense(), SearchRequest::dense().ids_only(), SearchRequest::lexical()] {
        let hits = index.search_with(QUESTIONS[1], &request.k(10)).unwrap().hits;
        assert!(!hits.is_empty());
        for hit in hits {
            let text = serde_json::to_string(&hit).unwrap();
            assert_eq!(serde_json::from_str::<Hit>(&text).unwrap(), hit);
        }
    }
}

/// Ids with scores; equal scores in order of insertion, as documented.
fn ranking(result: &SearchResult) -> Vec<(String, f32)> {
    result.iter().map(|hit| (hit.id.clone(), hit.score)).collect()
}

#[test]
fn a_full_beam_is_exact_search() {
    const COUNT: usize = 60;
    for height in [1, 2, 3] {
        let shape = Shape::of_height(height);
        for similarity in [Similarity::Cosine, Similarity::DotProduct, Similarity::Manhattan] {
            let dir = tempfile::tempdir().unwrap();
            let index = Index::builder().similarity(similarity).create(dir.path(), &bundle(shape)).unwrap();
            assert_eq!(index.similarity(), similarity);
            index.insert_batch(documents(COUNT)).unwrap();
            for vector in &vectors(&index) {
                let exact = index.search_with(vector, &SearchRequest::dense().k(25).exact()).unwrap();
                assert_eq!(exact.len(), 25);
                assert!(exact.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
                assert_eq!(exact.stats.leaves_visited, 0);
                assert_eq!(exact.stats.documents_visited, COUNT);
                // The second exceeds the number of leaves.
                for beam in [shape.leaves(), 1000] {
                    let full = index.search_with(vector, &SearchRequest::dense().k(25).beam(beam)).unwrap();
                    assert_eq!(ranking(&full), ranking(&exact), "height {height}, {similarity:?}");
                    assert_eq!(full.stats.leaves_visited, shape.leaves());
                    assert_eq!(full.stats.documents_visited, COUNT);
                    assert_eq!(full.stats.visited_fraction, 1.0);
                    assert!(full.stats.work_fraction > 1.0);
                }
            }
        }
    }
}

/// Exact search compared with scores computed here, from the encoder's embeddings.
#[test]
fn exact_search_ranks_by_the_similarity() {
    const COUNT: usize = 30;
    type Score = fn(&[f32], &[f32]) -> f64;
    let cases: [(Similarity, Score); 3] = [
        (Similarity::Cosine, |a, b| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()),
        (Similarity::DotProduct, dot),
        (Similarity::Manhattan, |a, b| -a.iter().zip(b).map(|(x, y)| f64::from((x - y).abs())).sum::<f64>()),
    ];
    let bundle = bundle(FLAT);
    let encoder = bundle.model().encoder().unwrap();
    let query = encoder.embed(&[QUESTIONS[1]], Role::Query).unwrap();
    let documents = documents(COUNT);
    let texts: Vec<_> = documents.iter().map(Document::embedding_text).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let rows = encoder.embed(&texts, Role::Document).unwrap();
    let rows: HashMap<&str, &[f32]> =
        documents.iter().map(|d| d.id.as_str()).zip(rows.chunks_exact(encoder.dim())).collect();
    for (similarity, score) in cases {
        let dir = tempfile::tempdir().unwrap();
        let index = in_f32().similarity(similarity).create(dir.path(), &bundle).unwrap();
        index.insert_batch(documents.clone()).unwrap();
        let result = index.search_with(&query, &SearchRequest::dense().k(COUNT).exact()).unwrap();
        assert_eq!(result.len(), COUNT);
        for hit in &result {
            let row = rows[hit.id.as_str()];
            let expected = score(&query, row);
            // Rows are stored with 11 bits; a value's error is at most 2^-11 of it.
            let bound = row.iter().map(|x| f64::from(x.abs())).sum::<f64>() / 1024.0;
            assert!(
                (f64::from(hit.score) - expected).abs() < bound,
                "{similarity:?}: {} {expected}",
                hit.score
            );
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

#[test]
fn a_wider_beam_visits_more_and_finds_no_less() {
    let shape = Shape::of_height(2);
    let (_dir, index) = filled(shape, DOCUMENTS);
    let sizes = index.stats().unwrap().leaf_sizes;
    assert_eq!(sizes.iter().map(|leaf| leaf.documents).sum::<usize>(), DOCUMENTS);
    for vector in &vectors(&index) {
        let exact =
            ranking(&index.search_with(vector, &SearchRequest::dense().k(DOCUMENTS).exact()).unwrap());
        let mut visited = 0;
        let mut best = f32::NEG_INFINITY;
        for beam in 1..=shape.leaves() {
            let result = index.search_with(vector, &SearchRequest::dense().k(DOCUMENTS).beam(beam)).unwrap();
            let stats = result.stats;
            assert_eq!(stats.leaves_visited, beam);
            // With k as large as the index, hits are all visited documents.
            assert_eq!(stats.documents_visited, result.len());
            let fraction = stats.documents_visited as f64 / DOCUMENTS as f64;
            assert!((stats.visited_fraction - fraction).abs() < 1e-12);
            assert!(stats.work_fraction > stats.visited_fraction);
            let leaves: HashSet<_> = result.iter().map(|hit| hit.leaf).collect();
            let of_leaves =
                sizes.iter().filter(|size| leaves.contains(&size.leaf)).map(|size| size.documents);
            let of_leaves: usize = of_leaves.sum();
            assert_eq!(of_leaves, result.len(), "a visited leaf is scanned whole");
            assert!(stats.documents_visited >= visited);
            visited = stats.documents_visited;
            if let Some(first) = result.hits.first() {
                assert!(first.score >= best);
                best = first.score;
            }
            // The same scores as in exact search, without the unvisited documents.
            let found: HashSet<_> = result.iter().map(|hit| hit.id.clone()).collect();
            let expected: Vec<_> = exact.iter().filter(|(id, _)| found.contains(id)).cloned().collect();
            assert_eq!(ranking(&result), expected);
        }
        assert_eq!(visited, DOCUMENTS);
    }
}

#[test]
fn defaults_are_those_documented() {
    let shape = Shape::of_height(2);
    let (_dir, index) = filled(shape, DOCUMENTS);
    let result = index.search_with(QUESTIONS[2], &SearchRequest::dense()).unwrap();
    assert_eq!(result.len(), ehi::search::DEFAULT_K);
    // So few documents are searched exactly, by codes first.
    assert_eq!((result.stats.leaves_visited, result.stats.documents_visited), (0, DOCUMENTS));
    let exact = index.search_with(QUESTIONS[2], &SearchRequest::dense().exact().codes(true)).unwrap();
    assert_eq!(ranking(&result), ranking(&exact));
}

#[test]
fn a_vector_finds_what_its_text_finds() {
    let (_dir, index) = filled(Shape::of_height(2), DOCUMENTS);
    for question in QUESTIONS {
        let vector = index.bundle().model().encoder().unwrap().embed(&[question], Role::Query).unwrap();
        let by_text = index.search(question, 15, 3).unwrap();
        assert_eq!(
            ranking(&index.search_with(&vector, &SearchRequest::dense().k(15).beam(3)).unwrap()),
            ranking(&by_text)
        );
        // Cosine ignores length.
        let longer: Vec<f32> = vector.iter().map(|x| x * 4.0).collect();
        assert_eq!(
            ranking(&index.search_with(&longer, &SearchRequest::dense().k(15).beam(3)).unwrap()),
            ranking(&by_text)
        );
        let exact = index.search_with(&vector, &SearchRequest::dense().k(15).exact()).unwrap();
        assert_eq!(
            ranking(&exact),
            ranking(&index.search_with(question, &SearchRequest::dense().k(15).exact()).unwrap())
        );
    }
}

#[test]
fn a_reopened_index_gives_the_same_answers() {
    let shape = Shape::of_height(2);
    for similarity in [Similarity::Cosine, Similarity::Manhattan] {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::builder().similarity(similarity).create(dir.path(), &bundle(shape)).unwrap();
        index.insert_batch(documents(DOCUMENTS)).unwrap();
        index.delete(&id(11)).unwrap();
        index.insert(Document { text: "how to train".into(), ..document(12) }).unwrap();
        let hash = index.bundle().hash();
        let answers: Vec<_> = QUESTIONS.map(|q| index.search(q, 20, 5).unwrap().hits).into();
        let stats = index.stats().unwrap();
        // No explicit flush: dropping flushes.
        drop(index);

        let index = Index::open(dir.path()).unwrap();
        assert_eq!(
            (index.len(), index.similarity(), index.bundle().hash()),
            (DOCUMENTS - 1, similarity, hash)
        );
        for (question, expected) in QUESTIONS.iter().zip(&answers) {
            assert_eq!(&index.search(question, 20, 5).unwrap().hits, expected);
        }
        let again = index.stats().unwrap();
        assert_eq!(
            (again.generation, again.documents, again.leaf_sizes),
            (stats.generation, stats.documents, stats.leaf_sizes)
        );
        assert!(index.verify().unwrap().is_sound());
    }
}

/// As in another process: the handles share nothing but the directory.
#[test]
fn a_read_only_index_follows_the_writer() {
    let (dir, index) = filled(FLAT, 40);
    let path = dir.path().join("index");
    let reader = Index::open_read_only(&path).unwrap();
    assert!(reader.is_read_only() && reader.is_empty(), "nothing was flushed yet");
    index.flush().unwrap();
    assert!(reader.refresh().unwrap() && !reader.refresh().unwrap());
    let answers = |index: &Index| QUESTIONS.map(|q| index.search(q, 10, 4).unwrap().hits);
    assert_eq!(answers(&reader), answers(&index));

    index.delete(&id(3)).unwrap();
    index.insert_batch(documents(60)).unwrap();
    assert_eq!(reader.len(), 40);
    index.compact().unwrap();
    // Not refreshed: the files that it has open were removed, and are still readable.
    assert_eq!(reader.get(&id(3)).unwrap(), Some(document(3)));
    assert!(reader.refresh().unwrap());
    assert_eq!((reader.len(), reader.stats().unwrap().segments), (60, 1));
    assert_eq!(answers(&reader), answers(&index));
    let refused = reader.insert(document(70)).unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::ReadOnly { .. })), "{refused}");
    drop(index);
    assert_eq!(answers(&reader), answers(&Index::open(&path).unwrap()));
}

#[test]
fn a_cancelled_compaction_changes_nothing() {
    let (dir, index) = filled(FLAT, 30);
    index.flush().unwrap();
    index.delete(&id(1)).unwrap();
    let cancelled = index.with_progress(|_| ControlFlow::Break(())).compact();
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert_eq!((index.len(), index.stats().unwrap().dead_rows), (29, 1));
    index.compact().unwrap();
    assert_eq!((index.len(), index.stats().unwrap().dead_rows), (29, 0));
    drop(index);
    assert!(Index::open(dir.path().join("index")).unwrap().verify().unwrap().is_sound());
}

#[test]
fn a_callback_may_search_and_write() {
    let (dir, index) = filled(FLAT, 30);
    index.flush().unwrap();
    index.delete(&id(1)).unwrap();
    let copy = dir.path().join("copy");
    let mut heard = Vec::new();
    index
        .with_progress(|progress| {
            heard.push((progress.stage, progress.done, progress.total));
            assert_eq!(index.search("tree", 3, 4).unwrap().len(), 3);
            // Each waits for the compaction that has begun, which does not wait for the callback.
            index.insert(document(40)).unwrap();
            index.delete(&id(2)).unwrap();
            index.flush().unwrap();
            index.compact().unwrap();
            if !copy.exists() {
                index.snapshot(&copy).unwrap();
            }
            ControlFlow::Continue(())
        })
        .compact()
        .unwrap();
    let ends = [heard[0], heard[heard.len() - 1]];
    assert_eq!(ends, [0, 2 * 29].map(|done| (Stage::Compact, done, Some(2 * 29))));
    assert_eq!(index.len(), 29);
    assert!(index.verify().unwrap().is_sound());
    assert_eq!(Index::open(&copy).unwrap().len(), 29);
}

#[test]
fn a_compaction_counts_passages_and_judgments() {
    let (_dir, index) = filled(FLAT, 30);
    index.record_all((0..7).map(|n| Judgment::new("tree", id(n), 1))).unwrap();
    let mut heard = Vec::new();
    let progress = |progress: Progress| {
        heard.push((progress.done, progress.total));
        ControlFlow::Continue(())
    };
    index.with_progress(progress).compact().unwrap();
    assert_eq!([heard[0], heard[heard.len() - 1]], [0, 2 * 37].map(|done| (done, Some(2 * 37))));
}

#[test]
fn a_check_tells_how_far_it_is_and_can_be_cancelled() {
    let (_dir, index) = filled(FLAT, 30);
    index.flush().unwrap();
    index.insert(document(40)).unwrap();
    let mut heard = Vec::new();
    let hear = |progress: Progress| {
        heard.push((progress.done, progress.total));
        ControlFlow::Continue(())
    };
    let report = index.with_progress(hear).verify();
    assert!(report.unwrap().is_sound());
    let total = heard[0].1;
    assert!(heard.is_sorted() && heard.iter().all(|(_, all)| *all == total));
    assert_eq!(heard.last().map(|(done, _)| Some(*done)), Some(total));
    let cancelled = index.with_progress(|_| ControlFlow::Break(())).verify();
    assert!(matches!(cancelled, Err(Error::Cancelled)));
}

#[test]
fn an_empty_index_can_be_reopened() {
    let (dir, index) = filled(FLAT, 0);
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert!(index.is_empty());
    index.insert(document(0)).unwrap();
    assert_eq!(index.search("tree", 1, 4).unwrap().hits[0].id, id(0));
}

#[test]
fn a_cancelled_insert_keeps_the_groups_before() {
    const COUNT: usize = 300;
    let (dir, index) = filled(FLAT, 0);
    let mut heard = Vec::new();
    let error = index
        .with_progress(|progress| {
            heard.push((progress.done, progress.total));
            if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .insert_batch(documents(COUNT))
        .unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let kept = index.len();
    assert!(kept > 0 && kept < COUNT, "{kept}");
    assert_eq!(heard.first(), Some(&(0, Some(COUNT as u64))));
    assert_eq!(heard.last(), Some(&(kept as u64, Some(COUNT as u64))));
    assert!(heard[..heard.len() - 1].iter().all(|(done, _)| *done == 0), "{heard:?}");
    // In the middle of a group: nothing of it is stored.
    let mut calls = 0;
    let cancel = |_| {
        calls += 1;
        if calls == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let again = index.with_progress(cancel).insert_batch(documents(COUNT));
    assert!(matches!(again, Err(Error::Cancelled)));
    assert_eq!((index.len(), calls), (kept, 2));
    assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), documents(kept));
    assert!(index.verify().unwrap().is_sound());

    // Repeating the call does the rest.
    let summary = index.insert_batch(documents(COUNT)).unwrap();
    assert_eq!((summary.inserted, summary.replaced), (COUNT - kept, kept));
    drop(index);
    assert_eq!(Index::open(dir.path().join("index")).unwrap().len(), COUNT);
}

#[test]
fn searches_run_beside_a_writer() {
    const GROUPS: usize = 10;
    const PER_GROUP: usize = 20;
    let shape = Shape::of_height(2);
    let (_dir, index) = filled(shape, PER_GROUP);
    let vectors = vectors(&index);
    let done = AtomicBool::new(false);
    let searches: usize = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (index, done, vectors) = (&index, &done, &vectors);
                scope.spawn(move || {
                    let mut searches = 0;
                    let mut seen = 0;
                    while !done.load(Ordering::Acquire) || searches == 0 {
                        let place = (reader + searches) % QUESTIONS.len();
                        // One reader encodes while the writer works, the others keep the index busy.
                        let question = match reader {
                            0 => Question::Text(QUESTIONS[place]),
                            _ => Question::Vector(&vectors[place]),
                        };
                        let request = SearchRequest::dense().k(1000).beam(shape.leaves());
                        let result = index.search_with(question, &request).unwrap();
                        // Groups are visible completely or not at all, and nothing disappears.
                        assert_eq!(result.len() % PER_GROUP, 0, "{}", result.len());
                        assert_eq!(result.stats.documents_visited, result.len());
                        assert!(result.len() >= seen);
                        seen = result.len();
                        let ids: HashSet<_> = result.iter().map(|hit| &hit.id).collect();
                        assert_eq!(ids.len(), result.len());
                        searches += 1;
                    }
                    searches
                })
            })
            .collect();
        for group in 1..GROUPS {
            index.insert_batch((group * PER_GROUP..(group + 1) * PER_GROUP).map(document)).unwrap();
        }
        done.store(true, Ordering::Release);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(searches >= 3);
    assert_eq!(index.len(), GROUPS * PER_GROUP);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn an_evaluation_agrees_with_searches() {
    use ehi::data::Dataset;
    use ehi::eval::{EvalOptions, Metric, RelevanceLevel, evaluate};
    let shape = Shape::of_height(2);
    let (_dir, index) = filled(shape, DOCUMENTS);
    let dataset = Dataset::open(support::dataset()).unwrap();
    let options = EvalOptions {
        beams: vec![1, 2, usize::MAX],
        baseline: Some(Vec::new()),
        at: vec![0.5],
        ..EvalOptions::default()
    };
    let (report, run) = evaluate(&index, &dataset, "test", &options, &mut ehi::no_progress).unwrap();
    assert_eq!(report.points.iter().map(|p| p.beam).collect::<Vec<_>>(), [1, 2, 16]);
    assert_eq!((report.documents, report.queries, report.leaves), (DOCUMENTS, 10, 16));

    let qrels = dataset.qrels("test").unwrap();
    let k = NonZeroUsize::new(10).unwrap();
    for point in &report.points {
        let (mut recall, mut visited) = (0.0, 0.0);
        for query in dataset.queries().unwrap().map(Result::unwrap) {
            let Some(judged) = qrels.get(&query.id) else { continue };
            let result = index.search(&query.text, 100, point.beam).unwrap();
            let ids: Vec<&str> = result.iter().map(|hit| hit.id.as_str()).collect();
            recall +=
                Metric::Recall(k).of_query(&ids, judged, RelevanceLevel::default()) / qrels.len() as f64;
            visited += result.stats.visited_fraction / qrels.len() as f64;
        }
        assert!((recall - point.quality.get(Metric::Recall(k)).unwrap()).abs() < 1e-9, "beam {}", point.beam);
        assert!((visited - point.visited_fraction).abs() < 1e-9, "beam {}", point.beam);
    }
    let full = report.points.last().unwrap();
    assert_eq!((full.visited_fraction, &full.quality), (1.0, &report.exact));
    assert_eq!(run.iter().len(), 10);
    let baseline = report.ivf.last().unwrap();
    assert_eq!((baseline.nprobe, baseline.visited_fraction), (16, 1.0));
    let at_100 = Metric::Recall(NonZeroUsize::new(100).unwrap());
    let (ivf, exact) = (baseline.quality.get(at_100).unwrap(), report.exact.get(at_100).unwrap());
    assert!((ivf - exact).abs() < 1e-12);
    // These were `None` while the sum of the visited fractions could round to more than 1.
    assert!(report.at[0].tree.is_some() && report.at[0].ivf_best.is_some());
}

#[test]
fn a_batch_says_what_became_of_each_document() {
    let (_dir, index) = filled(FLAT, 3);
    let renamed = |mut d: Document, id: &str| {
        d.id = id.to_owned();
        d
    };
    let batch = vec![
        renamed(document(10), "new"),
        renamed(document(11), &id(1)),
        renamed(document(12), "new"),
        renamed(document(13), "other"),
    ];
    let summary = index.insert_batch(batch).unwrap();
    use InsertStatus::{Inserted, Replaced, Superseded};
    assert_eq!(summary.statuses, [Superseded, Replaced, Inserted, Inserted]);
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (2, 1, 1));
    // Over several commits, with the last of one id far behind the others.
    let mut many: Vec<Document> = (0..600).map(document).collect();
    many.push(renamed(document(7), &id(0)));
    let summary = index.insert_batch(many).unwrap();
    assert_eq!(summary.statuses.len(), 601);
    assert_eq!(summary.statuses[..4], [Superseded, Replaced, Replaced, Inserted]);
    assert_eq!(summary.statuses[600], Replaced);
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (597, 3, 1));
    assert_eq!(index.len(), 602);
    assert_eq!(index.insert_batch([]).unwrap().statuses, []);
}

#[test]
fn a_batch_stores_what_it_can_and_says_what_it_refused() {
    use InsertStatus::{Inserted, Refused, Replaced, Superseded};
    let (_dir, index) = filled(FLAT, 3);
    let blank = |id: String| Document::new(id, " ", "");
    let long = "x".repeat(600);
    let batch = [blank(id(1)), document(10), Document::new(&*long, "", "text"), document(2), document(10)];
    let summary = index.insert_batch(batch.clone()).unwrap();
    assert_eq!(summary.statuses, [Refused, Superseded, Refused, Replaced, Inserted]);
    let refused: Vec<_> = summary.refused.iter().map(|r| (r.position, r.id.as_str())).collect();
    assert_eq!(refused, [(0, id(1).as_str()), (2, &*long)]);
    assert!(matches!(summary.refused[1].error, InputError::InvalidId { found: 600, .. }));
    // A refused document replaces nothing.
    assert_eq!(index.get(&id(1)).unwrap(), Some(document(1)));
    assert_eq!(index.len(), 4);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["refused"][0]["error"], format!("document `{}` has neither title nor text", id(1)));

    let none = index.insert_batch([blank("a".to_owned()), blank("b".to_owned())]).unwrap();
    assert_eq!((none.inserted, none.statuses), (0, vec![Refused, Refused]));
    let error = index.insert_all_or_none(batch).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::EmptyDocument { .. })), "{error}");
    assert!(index.insert(blank("a".to_owned())).is_err());
    assert_eq!(index.len(), 4);
}

#[test]
fn embeddings_that_cannot_be_stored_are_left_out() {
    use InsertStatus::{Inserted, Refused};
    let dir = tempfile::tempdir().unwrap();
    let builder = Index::builder().similarity(Similarity::DotProduct);
    let index = builder.create(dir.path().join("index"), &bundle(FLAT)).unwrap();
    let row = |value| {
        let mut row = vec![0.5; WIDTH];
        row[7] = value;
        row
    };
    let rows = [row(1.0), row(f32::NAN), row(70_000.0), row(f32::INFINITY), row(65_504.0)];
    let summary =
        index.insert_vectors(rows.into_iter().enumerate().map(|(n, row)| (document(n), row))).unwrap();
    assert_eq!(summary.statuses, [Inserted, Refused, Refused, Refused, Inserted]);
    let errors: Vec<_> = summary.refused.iter().map(|r| &r.error).collect();
    assert_eq!(*errors[0], InputError::BadVector);
    assert_eq!(*errors[1], InputError::NotFinite { id: id(2), position: 7 });
    assert!(errors[1].to_string().contains("from -65504 to 65504"), "{}", errors[1]);
    assert_eq!(*errors[2], InputError::BadVector);
    assert_eq!(index.len(), 2);
    assert!(index.insert_vectors([(document(9), vec![1.0; WIDTH + 1])]).is_err());
}

#[test]
fn many_documents_are_read_paged_and_deleted_together() {
    let (_dir, index) = filled(FLAT, 20);
    let found = index.get_many([id(3), "absent".into(), id(0), id(3)]).unwrap();
    assert_eq!(found, [Some(document(3)), None, Some(document(0)), Some(document(3))]);
    assert_eq!(index.page(None, 3).unwrap(), documents(3));
    assert_eq!(index.page(Some(&id(2)), 2).unwrap(), [document(3), document(4)]);
    // After an id that does not exist, and after the last.
    assert_eq!(index.page(Some("doc-0002x"), 1).unwrap(), [document(3)]);
    assert_eq!(index.page(Some(&id(19)), 5).unwrap(), []);
    let generation = index.stats().unwrap().generation;
    assert_eq!(index.delete_batch([id(3), "absent".into(), id(4), id(3)]).unwrap(), 2);
    assert_eq!(index.stats().unwrap().generation.0, generation.0 + 1, "one commit");
    assert_eq!(index.page(Some(&id(2)), 1).unwrap(), [document(5)]);
    assert_eq!(index.delete_batch(Vec::<String>::new()).unwrap(), 0);
}

#[test]
fn given_embeddings_are_stored_and_found_as_computed_ones_are() {
    let (_dir, index) = filled(FLAT, 60);
    let other = tempfile::tempdir().unwrap();
    let given = in_f32().create(other.path(), &bundle(FLAT)).unwrap();
    let model = index.bundle();
    let all = documents(60);
    let texts: Vec<_> = all.iter().map(|d| d.embedding_text().into_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let encoder = model.model().encoder().unwrap();
    let rows = encoder.embed(&texts, Role::Document).unwrap();
    let mut pairs: Vec<(Document, Vec<f32>)> =
        all.into_iter().zip(rows.chunks_exact(encoder.dim()).map(<[f32]>::to_vec)).collect();
    // Of a repeated id the last counts; it is stored even without text; any length is normalised.
    let twice = vec![3.0; encoder.dim()];
    pairs.insert(0, (Document::new(id(0), "", ""), twice.clone()));
    pairs.push((Document::new("bare", "", ""), twice));
    let summary = given.insert_vectors(pairs).unwrap();
    assert_eq!(summary.statuses.len(), 62);
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (61, 0, 1));
    assert_eq!(given.get("bare").unwrap(), Some(Document::new("bare", "", "")));
    given.delete("bare").unwrap();
    for question in QUESTIONS {
        let hits = |index: &Index| -> Vec<(u32, String, u32)> {
            let found = index.search(question, 10, 2).unwrap();
            let mut hits: Vec<_> =
                found.iter().map(|h| (h.score.to_bits(), h.id.clone(), h.leaf.0)).collect();
            hits.sort();
            hits
        };
        assert_eq!(hits(&given), hits(&index));
    }
    let dim = encoder.dim();
    let insert = |vector: Vec<f32>| given.insert_vectors([(Document::new("x", "", "x"), vector)]);
    let narrow = insert(vec![1.0; dim - 1]).unwrap_err();
    assert!(matches!(narrow, Error::Input(InputError::Dimension { .. })), "{narrow}");
    for bad in [0.0, f32::NAN, f32::INFINITY] {
        assert_eq!(insert(vec![bad; dim]).unwrap().refused[0].error, InputError::BadVector);
    }
    assert_eq!(given.len(), 60);
    let cancelled =
        given.with_progress(|_| ControlFlow::Break(())).insert_vectors([(document(99), vec![1.0; dim])]);
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert!(given.contains(&id(99)).unwrap(), "the group before the cancel is in place");
}

#[test]
fn a_copy_and_rebuilt_lists_answer_as_the_index_does() {
    let (dir, index) = filled(TALL, 60);
    index.delete(&id(7)).unwrap();
    let answers = |index: &Index| -> Vec<Vec<(u32, String)>> {
        let answer = |question: &&str| {
            let found = index.search(question, 10, 2).unwrap();
            let mut hits: Vec<_> = found.iter().map(|h| (h.score.to_bits(), h.id.clone())).collect();
            hits.sort();
            hits
        };
        QUESTIONS.iter().map(answer).collect()
    };
    let expected = answers(&index);
    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    let refused = index.snapshot(&copy);
    assert!(matches!(refused, Err(Error::Store(StoreError::AlreadyExists { .. }))), "{refused:?}");
    index.rebuild_postings().unwrap();
    assert_eq!(answers(&index), expected);
    let cancelled = index.with_progress(|_| ControlFlow::Break(())).rebuild_postings();
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    let stats = index.stats().unwrap();
    assert_eq!(stats.documents, 59);
    assert!(
        stats.bytes.vectors > 59 * WIDTH as u64 * 2 && stats.bytes.documents > 0 && stats.bytes.model > 0
    );
    drop(index);
    let copy = Index::open(&copy).unwrap();
    assert_eq!(answers(&copy), expected);
    assert!(copy.verify().unwrap().is_sound());
    assert_eq!(copy.len(), 59);
}

#[test]
fn an_index_is_opened_or_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let open = || Index::open_or_create(&path, &bundle(FLAT));
    open().unwrap().insert(document(0)).unwrap();
    assert_eq!(open().unwrap().len(), 1);
    let other = Index::open_or_create(&path, &bundle(Shape::of_height(2)));
    assert!(matches!(other, Err(Error::Input(InputError::ModelMismatch { .. }))), "{other:?}");
    for place in ["index", "absent"] {
        let builder = Index::builder().expect_model(&bundle(Shape::of_height(2)));
        let other = builder.open_or_create(dir.path().join(place), &bundle(FLAT));
        assert!(matches!(other, Err(Error::Input(InputError::ModelMismatch { .. }))), "{other:?}");
    }
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("note.txt"), "not an index").unwrap();
    let refused = Index::open_or_create(&foreign, &bundle(FLAT));
    assert!(matches!(refused, Err(Error::Store(StoreError::AlreadyExists { .. }))), "{refused:?}");
}

#[test]
fn an_encoder_that_is_loaded_on_use_is_checked_on_use() {
    use ehi::model::{ENCODER_FILE, ModelError};
    let (dir, index) = filled(FLAT, 5);
    index.flush().unwrap();
    drop(index);
    let path = dir.path().join("index");
    let weights = path.join("models/1/model").join(ENCODER_FILE);
    let sound = std::fs::read(&weights).unwrap();
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, &damaged).unwrap();
    let refused = |error: Error| {
        assert!(matches!(&error, Error::Model(ModelError::Checksum { path }) if *path == weights), "{error}");
    };
    refused(Index::open(&path).unwrap_err());

    let index = Index::builder().lazy_encoder(true).open(&path).unwrap();
    assert_eq!(index.get(&id(3)).unwrap(), Some(document(3)));
    assert_eq!(index.search_with(&[0.5; WIDTH], &SearchRequest::dense().k(3).beam(4)).unwrap().hits.len(), 3);
    index.delete(&id(0)).unwrap();
    refused(index.insert(document(7)).unwrap_err());
    refused(index.search("a question", 3, 4).unwrap_err());
    assert!(!index.verify().unwrap().is_sound());
    std::fs::write(&weights, &sound).unwrap();
    assert_eq!(index.search("a question", 3, 4).unwrap().hits.len(), 3);
    assert_eq!(index.len(), 4);
}
