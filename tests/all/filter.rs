//! Searches with a filter: every hit passes it, and none is missing.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use crate::support::{self, Shape, bundle, document};
use ehi::model::Role;
use ehi::{Document, Filter, Index, RepairOptions, SearchRequest, no_progress};
use serde_json::json;

const STORED: usize = 1_200;
const QUESTIONS: [&str; 3] = ["tree leaf", "gene protein virus", "what 40"];

fn tagged(place: usize) -> Document {
    let (tenant, rare) = (format!("t{}", place % 7), place % 401 == 5);
    let tags = json!({
        "place": place, "tenant": tenant, "rare": rare, "list": [place % 7, "x"], "of": [{ "rare": rare }],
    });
    document(place).with_metadata(tags)
}

/// Documents with given embeddings: encoding is most of what a test costs.
fn index(shape: Shape) -> (tempfile::TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path(), &bundle(shape)).unwrap();
    let model = index.bundle();
    let encoder = model.model().encoder().unwrap();
    let texts: Vec<String> = (0..97).map(|n| document(n).text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let rows = encoder.embed(&texts, Role::Document).unwrap();
    let rows: Vec<&[f32]> = rows.chunks_exact(encoder.dim()).collect();
    // All different: the first elements differ slightly.
    let vector = |n: usize| {
        let mut row = rows[n % 97].to_vec();
        row[n % 50] += (n / 97) as f32 * 0.003;
        row
    };
    index.insert_vectors((0..800).map(|n| (tagged(n), vector(n)))).unwrap();
    index.flush().unwrap();
    index.insert_vectors((800..STORED).map(|n| (tagged(n), vector(n)))).unwrap();
    // Some that pass a filter are deleted, one is replaced, and some are only in memory.
    index.delete_batch((0..STORED).step_by(31).map(support::id)).unwrap();
    index.insert_vectors([(document(7).with_metadata(json!({ "tenant": "t3" })), vector(7))]).unwrap();
    (dir, index)
}

fn filters() -> Vec<(&'static str, Filter)> {
    vec![
        ("everything", Filter::all([])),
        ("nothing", Filter::any([])),
        ("a seventh", Filter::eq("tenant", "t3")),
        ("half", Filter::gte("place", 400).and(Filter::lt("place", 1000))),
        ("a few", Filter::eq("rare", true)),
        ("one", Filter::eq("place", 77)),
        ("ids", Filter::ids([support::id(3), support::id(31), "absent".into(), support::id(900)])),
        ("ids of a tenant", Filter::ids((0..200).map(support::id)).and(Filter::eq("tenant", "t1"))),
        ("all but", !Filter::one_of("tenant", ["t0", "t1", "t2", "t4", "t5", "t6"])),
        ("without", !Filter::exists("place")),
        ("in a list", Filter::eq("list", 3).and(Filter::eq("list", "x"))),
        ("an element", Filter::eq("list.0", 3)),
        ("objects in a list", Filter::eq("of.rare", true).or(Filter::lt("place", 9))),
    ]
}

#[test]
fn a_filtered_search_is_brute_force_among_those_that_pass() {
    for shape in [Shape::of_height(1), Shape { height: 2 }] {
        let (_dir, index) = index(shape);
        let all: Vec<Document> = index.iter().map(Result::unwrap).collect();
        let ranked = |question: &str| -> Vec<String> {
            let found = index.search_with(question, &SearchRequest::dense().exact().k(STORED)).unwrap();
            found.iter().map(|hit| hit.id.clone()).collect()
        };
        let rankings: Vec<Vec<String>> = QUESTIONS.iter().map(|question| ranked(question)).collect();
        for round in 0..2 {
            for (name, filter) in filters() {
                let pass: HashSet<&str> = all
                    .iter()
                    .filter(|d| filter.matches(&d.id, d.metadata.as_ref()))
                    .map(|d| d.id.as_str())
                    .collect();
                for (question, ranking) in QUESTIONS.iter().zip(&rankings) {
                    let best: Vec<&String> = ranking.iter().filter(|id| pass.contains(id.as_str())).collect();
                    for k in [1, 10, 300] {
                        let whole = index
                            .search_with(question, &SearchRequest::dense().filter(&filter).k(k).exact())
                            .unwrap();
                        let found: Vec<&String> = whole.iter().map(|hit| &hit.id).collect();
                        assert_eq!(found, best[..k.min(best.len())], "{name}, exact, {k} hits");
                        assert!(whole.stats.exhausted);
                        for beam in [1, 3, 100] {
                            let found = index
                                .search_with(
                                    question,
                                    &SearchRequest::dense().filter(&filter).k(k).beam(beam),
                                )
                                .unwrap();
                            let stats = &found.stats;
                            let case = format!("{name}, {k} hits, beam {beam}, round {round}: {stats:?}");
                            assert!(found.iter().all(|hit| pass.contains(hit.id.as_str())), "{case}");
                            assert_eq!(found.len(), k.min(pass.len()), "{case}");
                            let order: Vec<&String> = found.iter().map(|hit| &hit.id).collect();
                            if stats.exhausted {
                                assert_eq!(order, best[..found.len()], "{case}");
                            }
                            assert!(found.len() == k || stats.exhausted, "{case}");
                            assert!(stats.documents_visited <= pass.len(), "{case}");
                            assert!(beam < 100 || stats.exhausted, "{case}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn leaves_are_visited_as_they_are_needed_and_filters_are_remembered() {
    let (_dir, index) = index(Shape::of_height(2));
    let search = |filter: &Filter, k| {
        index.search_with(QUESTIONS[0], &SearchRequest::dense().filter(filter).k(k).beam(1)).unwrap().stats
    };
    let common = Filter::eq("tenant", "t3");
    let (few, many) = (search(&common, 1), search(&common, 150));
    assert!(few.leaves_visited < many.leaves_visited, "{few:?} {many:?}");
    assert!(few.documents_checked > 0 && few.documents_checked < index.len());
    // Few enough to be all scored, without the tree; the second time without reading the metadata on disk.
    let by_hand = Filter::eq("of.rare", true);
    let (first, second) = (search(&by_hand, 2), search(&by_hand, 2));
    assert_eq!((first.leaves_visited, second.leaves_visited), (0, 0));
    assert_eq!(first.documents_visited, second.documents_visited);
    assert!(first.documents_checked >= index.len());
    // Those in memory are examined each time, some of them twice.
    assert!(second.documents_checked < first.documents_checked - 700, "{first:?} {second:?}");
    // The lists of values say the same without reading any.
    let rare = Filter::eq("rare", true);
    let by_lists = search(&rare, 2);
    assert_eq!(
        (by_lists.leaves_visited, by_lists.documents_visited),
        (first.leaves_visited, first.documents_visited)
    );
    assert!(by_lists.documents_checked < first.documents_checked - 700, "{by_lists:?}");
    // Still correct after inserts and deletes.
    let before = index.search_with(QUESTIONS[0], &SearchRequest::dense().filter(&rare).k(100)).unwrap();
    index.delete(&before.hits[0].id).unwrap();
    index.insert(document(5000).with_metadata(json!({ "rare": true }))).unwrap();
    let after = index.search_with(QUESTIONS[0], &SearchRequest::dense().filter(&rare).k(100)).unwrap();
    let ids = |result: &ehi::SearchResult| result.iter().map(|hit| hit.id.clone()).collect::<HashSet<_>>();
    let mut expected = ids(&before);
    expected.remove(&before.hits[0].id);
    expected.insert(support::id(5000));
    assert_eq!(ids(&after), expected);
    index.compact().unwrap();
    assert_eq!(
        ids(&index.search_with(QUESTIONS[0], &SearchRequest::dense().filter(&rare).k(100)).unwrap()),
        expected
    );
    assert_eq!(search(&Filter::eq("tenant", "t2"), 5).documents_checked, 0);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn damaged_lists_of_values_are_found_passed_over_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = Index::create(&path, &bundle(Shape { height: 2 })).unwrap();
    let vector = |n: usize| (0..128).map(|i| ((i * 7 + n * 13) % 29) as f32 - 14.0).collect::<Vec<f32>>();
    let metadata =
        |n: usize| json!({ "name": format!("the name of {}", n % 4_000), "half": n.is_multiple_of(2) });
    let all = (0..20_000)
        .map(|n| (Document::new(support::id(n), "", "text").with_metadata(metadata(n)), vector(n)));
    index.insert_vectors(all).unwrap();
    index.compact().unwrap();
    let filter = Filter::eq("name", "the name of 77").and(Filter::eq("half", false));
    let found = |index: &Index| {
        let result = index.search_with(&vector(3), &SearchRequest::dense().filter(&filter)).unwrap();
        let ids: BTreeSet<String> = result.iter().map(|hit| hit.id.clone()).collect();
        (ids, result.stats.documents_checked)
    };
    let expected: BTreeSet<String> = (77..20_000).step_by(4_000).map(support::id).collect();
    assert_eq!(found(&index), (expected.clone(), 0));
    drop(index);
    // A byte of the last name in the lists, which come after the metadata themselves.
    let segments = fs::read_dir(path.join("models/1/segments")).unwrap().flatten().map(|entry| entry.path());
    let file =
        segments.into_iter().find(|path| path.extension().is_some_and(|own| own == "documents")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let name = b"the name of 3999";
    let at = bytes.windows(name.len()).rposition(|own| own == name).unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let index = Index::open(&path).unwrap();
    assert_eq!(found(&index).0, expected);
    let report = index.verify().unwrap();
    assert!(!report.is_sound(), "{report:?}");
    drop(index);
    let repaired = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert_eq!(repaired.lost, 0, "{repaired:?}");
    let index = Index::open(&path).unwrap();
    assert!(index.verify().unwrap().is_sound());
    assert_eq!((index.len(), found(&index)), (20_000, (expected, 0)));
}
