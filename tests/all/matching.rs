//! Counts, ids, facets, groups and deletes by filter, against the documents themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{Shape, bundle};
use ehi::{Document, Filter, Index, InputError, SearchRequest};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

type Stored = BTreeMap<String, Value>;

const FIELDS: [&str; 7] = ["tenant", "year", "tags", "by.name", "at", "mixed", "absent"];

fn metadata(rng: &mut ChaCha8Rng) -> Value {
    let tags: Vec<String> =
        (0..rng.random_range(0..4)).map(|_| format!("tag {}", rng.random_range(0..6))).collect();
    let mixed = [json!(1), json!(1.0), json!("1"), json!(true), json!(null), json!([1, "a", [2]]), json!({})];
    let at = ["2024-01-05T10:00:00Z", "2024-01-05T12:00:00+02:00", "2024-01-05T10:00:00.5Z", "2024"];
    let mut metadata = json!({ "tenant": format!("t{}", rng.random_range(0..5)), "tags": tags });
    let fields = metadata.as_object_mut().unwrap();
    // Of many values, so that its lists have blocks.
    fields.insert("price".into(), json!(rng.random_range(0.0..100.0)));
    if rng.random_bool(0.8) {
        fields.insert("year".into(), json!(rng.random_range(1990..2010)));
    }
    if rng.random_bool(0.5) {
        fields.insert("by".into(), json!({ "name": format!("name {}", rng.random_range(0..40)) }));
    }
    if rng.random_bool(0.5) {
        fields.insert("mixed".into(), mixed.choose(rng).unwrap().clone());
    }
    if rng.random_bool(0.5) {
        fields.insert("at".into(), json!(at.choose(rng).unwrap()));
    }
    metadata
}

fn test(rng: &mut ChaCha8Rng) -> Filter {
    let year = rng.random_range(1988..2012);
    match rng.random_range(0..14) {
        0 => Filter::eq("tenant", format!("t{}", rng.random_range(0..6))),
        1 => Filter::gte("year", year).and(Filter::lt("year", year + rng.random_range(0..8))),
        2 => Filter::ne("year", year),
        3 => Filter::eq("tags", format!("tag {}", rng.random_range(0..7))),
        4 => Filter::has_all("tags", ["tag 1", "tag 2"]),
        5 => Filter::size("tags", rng.random_range(0..4)),
        6 => Filter::starts_with("by.name", format!("name {}", rng.random_range(0..5))),
        7 => Filter::exists(*FIELDS.choose(rng).unwrap()),
        8 => Filter::eq("mixed", json!(1)),
        9 => Filter::lte("at", "2024-01-05T10:00:00Z"),
        10 => Filter::starts_with("at", "2024-01-05T1"),
        11 => Filter::gte("price", rng.random_range(-10.0..110.0)),
        12 => {
            let from = rng.random_range(0.0..100.0);
            Filter::gt("price", from).and(Filter::lte("price", from + rng.random_range(0.0..100.0)))
        }
        _ => Filter::ids((0..20).map(|_| id(rng.random_range(0..400)))),
    }
}

fn filter(rng: &mut ChaCha8Rng) -> Filter {
    let parts: Vec<Filter> = (0..rng.random_range(1..4)).map(|_| test(rng)).collect();
    let joined = if rng.random_bool(0.5) { Filter::all(parts) } else { Filter::any(parts) };
    if rng.random_bool(0.25) { !joined } else { joined }
}

fn id(number: usize) -> String {
    format!("id {number:04}")
}

fn document(rng: &mut ChaCha8Rng, number: usize, metadata: &Value) -> Document {
    let text: Vec<&str> = (0..rng.random_range(1..40))
        .map(|_| *["tree", "leaf", "gene", "virus"].choose(rng).unwrap())
        .collect();
    Document::new(id(number), "", text.join(" ")).with_metadata(metadata.clone())
}

fn passing<'a>(stored: &'a Stored, filter: &Filter) -> Vec<&'a String> {
    stored.iter().filter(|(id, own)| filter.matches(id, Some(own))).map(|(id, _)| id).collect()
}

/// The values of a field that a filter finds in documents, each with the number of documents.
fn check_facets(index: &Index, stored: &Stored, filter: &Filter) {
    let facets = index.facets(FIELDS, Some(filter), usize::MAX).unwrap();
    let among: Vec<(&String, &Value)> =
        stored.iter().filter(|(id, own)| filter.matches(id, Some(own))).collect();
    let holding = |test: &Filter| among.iter().filter(|(id, own)| test.matches(id, Some(own))).count();
    for (field, facet) in FIELDS.iter().zip(&facets) {
        assert_eq!((facet.field.as_str(), facet.values.len()), (*field, facet.distinct));
        assert_eq!(facet.missing, among.len() - holding(&Filter::exists(*field)), "{field}");
        for value in &facet.values {
            let mut expected = holding(&Filter::eq(*field, value.value.clone()));
            if value.value.is_null() {
                expected -= facet.missing;
            }
            assert_eq!(value.documents, expected, "{field} {value:?} among {filter}");
        }
        assert!(facet.values.is_sorted_by(|a, b| a.documents >= b.documents));
        // No value is missing: whoever has a scalar has one of these.
        let has_one = Filter::one_of(*field, facet.values.iter().map(|own| own.value.clone()));
        let scalars = Filter::any([
            Filter::gte(*field, f64::MIN),
            Filter::gte(*field, ""),
            Filter::gte(*field, false),
            Filter::eq(*field, Value::Null).and(Filter::exists(*field)),
        ]);
        assert_eq!(holding(&scalars), holding(&has_one.and(Filter::exists(*field))), "{field}");
        let numbers: Vec<f64> = facet.values.iter().filter_map(|own| own.value.as_f64()).collect();
        let least = numbers.iter().copied().reduce(f64::min);
        assert_eq!(facet.range.as_ref().and_then(|[least, _]| least.as_f64()), least);
    }
    let [few] = &index.facets(["by.name"], Some(filter), 3).unwrap()[..] else { unreachable!() };
    let all = &facets[3];
    assert_eq!(few.values, all.values[..all.values.len().min(3)]);
    assert_eq!((few.distinct, few.missing), (all.distinct, all.missing));
}

/// After any writes, counts, ids, facets and hits by filter are those of the documents.
///
/// 600 filters for each of `EHI_FILTER_SEEDS` seeds, 3 if it is not set.
#[test]
fn any_sequence_of_writes_leaves_what_a_filter_says_true() {
    let seeds = std::env::var("EHI_FILTER_SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        let passages = seed % 3 == 2;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let builder = Index::builder();
        let builder = if passages { builder.passages(8, 2) } else { builder };
        let mut index = builder.create(&path, &bundle(Shape::of_height(1))).unwrap();
        let mut stored = Stored::new();
        for step in 0..60 {
            match rng.random_range(0..10) {
                0..5 => {
                    let mut group = Vec::new();
                    for _ in 0..rng.random_range(1..25) {
                        let (number, metadata) = (rng.random_range(0..400), metadata(&mut rng));
                        group.push(document(&mut rng, number, &metadata));
                        stored.insert(id(number), metadata);
                    }
                    index.insert_batch(group).unwrap();
                }
                5 => index.flush().unwrap(),
                6 => {
                    index.flush().unwrap();
                    index.compact().unwrap();
                }
                7 => {
                    drop(index);
                    index = Index::open(&path).unwrap();
                }
                8 => {
                    let number = id(rng.random_range(0..400));
                    assert_eq!(index.delete(&number).unwrap(), stored.remove(&number).is_some());
                }
                _ => {
                    let narrow = filter(&mut rng).and(test(&mut rng));
                    let gone: Vec<String> = passing(&stored, &narrow).into_iter().cloned().collect();
                    assert_eq!(index.delete_where(&narrow).unwrap(), gone.len(), "{narrow}");
                    gone.iter().for_each(|id| drop(stored.remove(id)));
                }
            }
            for _ in 0..10 {
                let filter = filter(&mut rng);
                let expected = passing(&stored, &filter);
                assert_eq!(index.count_where(&filter).unwrap(), expected.len(), "{seed} {step} {filter}");
                let ids = index.ids_where(&filter).unwrap();
                assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{seed} {step} {filter}");
            }
            let filter = filter(&mut rng);
            check_facets(&index, &stored, &filter);
            let request = SearchRequest::dense().filter(&filter).k(500).ids_only();
            let hits: BTreeSet<String> =
                index.search_with("tree", &request).unwrap().into_iter().map(|hit| hit.id).collect();
            assert_eq!(hits.iter().collect::<Vec<_>>(), passing(&stored, &filter), "{seed} {step} {filter}");
        }
        assert_eq!(index.count_where(&Filter::all([])).unwrap(), index.len());
        assert!(index.verify().unwrap().is_sound());
    }
}

/// What a tenant asks and deletes, whatever it asks for, is its own.
#[test]
fn a_scope_shows_and_deletes_nothing_of_others() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path().join("index"), &bundle(Shape::of_height(1))).unwrap();
    let mut stored = Stored::new();
    for number in 0..300 {
        let metadata = metadata(&mut rng);
        index.insert(document(&mut rng, number, &metadata)).unwrap();
        stored.insert(id(number), metadata);
        if number == 200 {
            index.flush().unwrap();
        }
    }
    for round in 0..100 {
        let tenant = format!("t{}", rng.random_range(0..5));
        let scoped = index.scoped(Filter::eq("tenant", &*tenant));
        let own: Stored = stored
            .iter()
            .filter(|(_, own)| own["tenant"] == *tenant)
            .map(|(a, b)| (a.clone(), b.clone()))
            .collect();
        assert_eq!(scoped.count(None).unwrap(), own.len());
        assert_eq!(scoped.ids(None).unwrap(), own.keys().cloned().collect::<Vec<_>>());
        let filter = filter(&mut rng);
        let expected = passing(&own, &filter);
        assert_eq!(scoped.count(Some(&filter)).unwrap(), expected.len());
        assert_eq!(scoped.ids(Some(&filter)).unwrap().iter().collect::<Vec<_>>(), expected);
        for mode in [SearchRequest::default(), SearchRequest::dense(), SearchRequest::lexical()] {
            let request = mode.k(500).filter(&filter);
            let found = scoped.search_with("tree leaf", &request).unwrap();
            assert!(found.iter().all(|hit| expected.contains(&&hit.id)), "{filter}");
            assert_eq!(found.request, request);
            // Counts would tell how many documents of others have a word.
            let stats = found.stats;
            let counts = (stats.documents_visited, stats.postings_scored, stats.documents_checked);
            assert_eq!((counts, stats.visited_fraction), ((0, 0, 0), 0.0));
        }
        let [tenants] = &scoped.facets(["tenant"], Some(&filter), 10).unwrap()[..] else { unreachable!() };
        assert!(tenants.values.iter().all(|value| value.value == *tenant), "{tenants:?}");
        let some = id(rng.random_range(0..310));
        assert_eq!(
            scoped.get(&some).unwrap().map(|own| own.id),
            own.get_key_value(&some).map(|own| own.0.clone())
        );
        if round % 10 == 0 {
            assert_eq!(scoped.delete(&some).unwrap(), own.contains_key(&some));
            if own.contains_key(&some) {
                stored.remove(&some);
            }
            let narrow = filter.and(Filter::size("tags", 3));
            let gone: Vec<String> =
                passing(&own, &narrow).into_iter().filter(|id| **id != some).cloned().collect();
            assert_eq!(scoped.delete_where(&narrow).unwrap(), gone.len());
            gone.iter().for_each(|id| drop(stored.remove(id)));
        }
    }
    assert_eq!(index.ids().unwrap(), stored.keys().cloned().collect::<Vec<_>>());
    // A judgment counts, and its question is not shown.
    let tea = index.scoped(Filter::eq("tenant", "t1"));
    let own = tea.ids(None).unwrap().remove(0);
    index.record("a question of somebody", &own, 1).unwrap();
    let found = tea.search_with("A question of somebody", &SearchRequest::dense().k(3)).unwrap();
    assert_eq!((&found.hits[0].id, &found.hits[0].judged), (&own, &None));
    // Another tenant's documents have the field, and it holds strings there.
    index.insert(document(&mut rng, 900, &json!({ "tenant": "other", "secret": "x" }))).unwrap();
    let scoped = index.scoped(Filter::eq("tenant", "t0"));
    let secret = SearchRequest::dense().filter(&Filter::eq("secret", 1));
    for _ in 0..2 {
        let found = scoped.search_with("tree", &secret).unwrap();
        assert_eq!(found.notes, ["no document has the field `secret` in its metadata"]);
        // Both at once, as one filter, are answered from the whole index.
        let both = Filter::eq("tenant", "t0").and(Filter::eq("secret", 1));
        index.search_with("tree", &SearchRequest::dense().filter(&both)).unwrap();
    }
}

#[test]
fn hits_come_in_groups() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path().join("index"), &bundle(Shape::of_height(1))).unwrap();
    let documents: Vec<Document> = (0..300)
        .map(|number| {
            let metadata = match number % 10 {
                0 => json!({}),
                1 => json!({ "of": ["a", "b"] }),
                _ => json!({ "of": number % 7 }),
            };
            document(&mut rng, number, &metadata)
        })
        .collect();
    let stored: BTreeMap<String, Value> =
        documents.iter().map(|own| (own.id.clone(), own.metadata.clone().unwrap())).collect();
    index.insert_batch(documents).unwrap();
    for mode in [SearchRequest::default(), SearchRequest::dense(), SearchRequest::lexical()] {
        let all = index.search_with("tree leaf", &mode.clone().k(300)).unwrap();
        for (k, per_group) in [(1, 1), (3, 2), (7, 1), (20, 4), (100, 50)] {
            let grouped =
                index.search_with("tree leaf", &mode.clone().k(k).group_by("of", per_group)).unwrap();
            let (mut sizes, mut singles) = (BTreeMap::<String, usize>::new(), 0);
            for hit in &grouped {
                let value = &stored[&hit.id]["of"];
                assert_eq!(hit.group.as_ref(), Some(value).filter(|value| value.is_number()));
                match &hit.group {
                    Some(value) => *sizes.entry(value.to_string()).or_default() += 1,
                    None => singles += 1,
                }
            }
            assert!(sizes.len() + singles <= k && sizes.values().all(|size| *size <= per_group));
            // 7 values, and 60 documents that are groups of their own.
            if mode != SearchRequest::default() {
                assert_eq!(sizes.len() + singles, k.min(67));
            }
            // The groups are in the order of their best hits, and each has consecutive hits.
            let groups: Vec<String> = grouped
                .iter()
                .map(|hit| hit.group.as_ref().map_or(hit.id.clone(), Value::to_string))
                .collect();
            let mut once = groups.clone();
            once.dedup();
            assert_eq!(once.iter().collect::<BTreeSet<_>>().len(), once.len(), "{groups:?}");
            if mode == SearchRequest::dense() {
                let mut expected: Vec<String> = Vec::new();
                for hit in &all {
                    let value = &stored[&hit.id]["of"];
                    let group = if value.is_number() { value.to_string() } else { hit.id.clone() };
                    if !expected.contains(&group) {
                        expected.push(group);
                    }
                }
                assert_eq!(once, expected[..once.len()]);
            }
        }
    }
    let found = index.search_with("tree", &SearchRequest::dense().group_by("off", 1)).unwrap();
    assert_eq!(found.notes, ["no document has the field `off` in its metadata"]);
    let request = SearchRequest::dense().group_by("of", 0);
    let error = index.search_with("tree", &request).unwrap_err();
    assert!(matches!(error, ehi::Error::Input(InputError::OutOfRange { .. })), "{error}");
    let error = index.explain("tree", &SearchRequest::dense().group_by("of", 1), false).unwrap_err();
    assert!(matches!(error, ehi::Error::Input(InputError::InapplicableOption { .. })), "{error}");
    let read = SearchRequest::from_json(json!({ "group_by": "of", "per_group": 3 })).unwrap();
    assert_eq!(read, SearchRequest::default().group_by("of", 3));
    assert!(SearchRequest::from_json(json!({ "per_group": 3 })).is_err());
}

/// Deletes by filter see every write before them and none after.
#[test]
fn deletes_by_filter_come_between_no_other_writes() {
    let dir = tempfile::tempdir().unwrap();
    let index = Arc::new(Index::create(dir.path().join("index"), &bundle(Shape::of_height(1))).unwrap());
    let put =
        |number: usize, old: bool| Document::new(id(number), "", "tree").with_metadata(json!({ "old": old }));
    index.insert_batch((0..200).map(|number| put(number, true)).collect::<Vec<_>>()).unwrap();
    let writer = {
        let index = Arc::clone(&index);
        std::thread::spawn(move || {
            for number in 0..200 {
                index.insert(put(number, false)).unwrap();
            }
        })
    };
    while !writer.is_finished() {
        index.delete_where(&Filter::eq("old", true)).unwrap();
    }
    writer.join().unwrap();
    assert_eq!(index.count_where(&Filter::eq("old", false)).unwrap(), 200);
    assert_eq!(index.len(), 200);
}
