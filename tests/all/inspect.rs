//! Inspecting an index: explanations, leaves and health.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{self, DOCUMENTS, Shape, bundle, document, documents, filled, id};
use ehi::health::{Advice, RECENT, RemedyCommand, SKEWED};
use ehi::leaves::LeafOptions;
use ehi::model::{ModelError, RoutingProfile};
use ehi::{Document, Error, Index, InputError, LeafId, SearchRequest};
use serde_json::{Value, json};

const SHAPE: Shape = Shape { height: 2 };
const QUESTION: &str = "cell and gene 17";

#[test]
fn an_explanation_is_of_the_search_itself() {
    let shape = Shape { height: 2 };
    let (_dir, index) = filled(shape, DOCUMENTS);
    let found = index.explain(QUESTION, &SearchRequest::dense().k(7).beam(3), true).unwrap();
    let result = index.search(QUESTION, 7, 3).unwrap();
    assert_eq!(found.hits.iter().map(|f| &f.hit).collect::<Vec<_>>(), result.iter().collect::<Vec<_>>());
    assert_eq!(found.stats.documents_visited, result.stats.documents_visited);
    assert_eq!(found.stats.work_fraction, result.stats.work_fraction);
    assert!(found.multiply_adds > 0);

    assert_eq!(found.leaves.len(), 3);
    let stats = index.stats().unwrap();
    let sizes: BTreeMap<_, _> = stats.leaf_sizes.iter().map(|size| (size.leaf, size.documents)).collect();
    for leaf in &found.leaves {
        let [first, second] = leaf.path[..] else { panic!("{leaf:?}") };
        assert_eq!(first * support::BRANCHING + second, leaf.leaf.0);
        assert_eq!(leaf.documents, sizes.get(&leaf.leaf).copied().unwrap_or(0));
        let [above, own] = leaf.level_probabilities[..] else { panic!("{leaf:?}") };
        assert!(own <= above && above <= 1.0 && own > 0.0, "{leaf:?}");
        assert!((own - leaf.probability).abs() < 1e-5, "{leaf:?}");
    }
    assert!(found.leaves.is_sorted_by(|a, b| a.probability >= b.probability));
    let entropy = found.entropy.unwrap();
    assert!((0.0..=16f32.ln() + 1e-4).contains(&entropy), "{entropy}");

    let all = index.search_with(QUESTION, &SearchRequest::dense().k(DOCUMENTS).exact()).unwrap();
    let reached: Vec<LeafId> = found.leaves.iter().map(|leaf| leaf.leaf).collect();
    for explained in &found.hits {
        let rank = all.iter().position(|hit| hit.id == explained.hit.id).unwrap() + 1;
        assert_eq!(explained.exact_rank, Some(rank));
        assert!(reached.contains(&explained.hit.leaf));
    }
    let exact = found.exact.unwrap();
    assert_eq!(exact.len(), 7);
    for (best, hit) in exact.iter().zip(&all) {
        assert_eq!(&best.hit, hit);
        // A visited document among the best is found.
        let is_hit = found.hits.iter().any(|explained| explained.hit.id == hit.id);
        assert_eq!(best.visited, is_hit, "{}", hit.id);
        assert!((0.0..=1.0).contains(&best.leaf_probability));
    }

    let full = index.explain(QUESTION, &SearchRequest::dense().k(5).beam(1000), false).unwrap();
    let total: f32 = full.leaves.iter().map(|leaf| leaf.probability).sum();
    assert!((total - 1.0).abs() < 1e-4, "{total}");
    assert!(full.exact.is_none() && full.hits.iter().all(|found| found.exact_rank.is_none()));
}

/// With one level, the entropy is that of the distribution over leaves, whatever the beam.
#[test]
fn the_entropy_of_a_flat_tree_is_exact() {
    let (_dir, index) = filled(Shape::of_height(1), 20);
    let explain = |beam| index.explain(QUESTION, &SearchRequest::dense().k(1).beam(beam), false).unwrap();
    let full = explain(4);
    let expected: f32 = full.leaves.iter().map(|leaf| -leaf.probability * leaf.probability.ln()).sum();
    let entropy = full.entropy.unwrap();
    assert!((entropy - expected).abs() < 1e-4, "{entropy} {expected}");
    assert_eq!(explain(1).entropy, full.entropy);
}

#[test]
fn bad_input_is_refused_by_what_looks_inside() {
    let (_dir, index) = filled(SHAPE, 10);
    let request = |k, beam| SearchRequest::dense().k(k).beam(beam);
    let explain = |query: &str, k, beam| match index.explain(query, &request(k, beam), true).unwrap_err() {
        Error::Input(error) => error,
        error => panic!("{error}"),
    };
    assert_eq!(explain(" ", 1, 1), InputError::EmptyQuery);
    assert!(matches!(explain("x", 0, 1), InputError::OutOfRange { .. }));
    assert!(matches!(explain("x", 1, 0), InputError::OutOfRange { .. }));
    let error = index.leaves(&LeafOptions { leaf: Some(LeafId(16)), ..LeafOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::UnknownLeaf { leaf: 16, leaves: 16 })), "{error}");
    let queries = vec!["a tree".to_owned(), "\n".to_owned()];
    let error = index.leaves(&LeafOptions { queries, ..LeafOptions::default() }).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::EmptyQuery)), "{error}");

    let (_dir, empty) = filled(SHAPE, 0);
    let nothing = empty.explain("x", &SearchRequest::dense(), true).unwrap();
    assert!(nothing.hits.is_empty() && nothing.exact.unwrap().is_empty());
    assert!(empty.leaves(&LeafOptions::default()).unwrap().is_empty());
    let health = empty.health().unwrap();
    assert_eq!((health.largest_leaf, health.empty_leaves, health.skew), (None, 16, 1.0));
    assert!(health.documents_routing.recent.is_none() && health.advice.is_empty());
}

#[test]
fn leaves_say_what_they_are_about() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let queries: Vec<String> = (0..40).map(|place| document(place).text).collect();
    let options = LeafOptions { queries, samples: 4, ..LeafOptions::default() };
    let leaves = index.leaves(&options).unwrap();
    let sizes = leaves.iter().map(|leaf| (leaf.leaf, leaf.documents));
    let sizes: Vec<_> = sizes.filter(|(_, documents)| *documents > 0).collect();
    let stats = index.stats().unwrap();
    assert_eq!(sizes, stats.leaf_sizes.iter().map(|size| (size.leaf, size.documents)).collect::<Vec<_>>());
    assert_eq!(leaves.iter().map(|leaf| leaf.queries_routed).sum::<usize>(), 40);
    let mut with_terms = 0;
    for leaf in &leaves {
        assert_eq!(leaf.path[0] * support::BRANCHING + leaf.path[1], leaf.leaf.0);
        assert_eq!(leaf.nearest.len(), leaf.documents.min(4));
        assert!(leaf.nearest.is_sorted_by(|a, b| a.similarity >= b.similarity));
        for near in &leaf.nearest {
            let hit = index.search_with(&near.text, &SearchRequest::dense().k(DOCUMENTS).exact()).unwrap();
            let hit = hit.iter().find(|hit| hit.id == near.id).unwrap();
            assert_eq!((hit.leaf, &hit.document.title), (leaf.leaf, &near.title));
        }
        assert_eq!(leaf.queries.len(), leaf.queries_routed.min(4));
        assert!(leaf.queries.is_sorted_by(|a, b| a.probability >= b.probability));
        // A term's count only covers the leaf's own documents.
        assert!(leaf.terms.iter().all(|term| term.weight > 0.0 && term.documents as usize <= leaf.documents));
        with_terms += usize::from(!leaf.terms.is_empty());
    }
    assert!(with_terms >= 2, "{leaves:?}");

    let one = LeafOptions { leaf: Some(leaves[0].leaf), ..options };
    assert_eq!(index.leaves(&one).unwrap(), leaves[..1]);
    let nothing = LeafOptions { terms: 0, samples: 0, ..LeafOptions::default() };
    for leaf in index.leaves(&nothing).unwrap() {
        assert!(leaf.terms.is_empty() && leaf.nearest.is_empty() && leaf.queries.is_empty());
    }
}

#[test]
fn training_records_how_it_routed() {
    let bundle = bundle(SHAPE);
    let profiles = bundle.routing_profiles().unwrap().unwrap();
    assert_eq!(profiles.documents.rows, DOCUMENTS);
    assert!(profiles.queries.rows > 0);
    for profile in [&profiles.documents, &profiles.queries] {
        assert_eq!(profile.leaf_shares.len(), 16);
        assert!((profile.leaf_shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(profile.entropy_quantiles.is_sorted());
        assert!((0.0..=16f64.ln() + 1e-4).contains(&profile.mean_entropy));
        assert!(profile.mean_top_probability > 1.0 / 16.0 && profile.mean_top_probability <= 1.0);
    }
    // Measured again with the bundle's own weights, which are those at the end of the run.
    let encoder = bundle.model().encoder().unwrap();
    let documents = documents(DOCUMENTS);
    let texts: Vec<_> = documents.iter().map(Document::embedding_text).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let rows = encoder.embed(&texts, ehi::model::Role::Document).unwrap();
    let units: Vec<f32> = rows
        .chunks_exact(encoder.dim())
        .flat_map(|row| {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter().map(move |x| x / norm)
        })
        .collect();
    let measured = RoutingProfile::measure(bundle.model().indexer(), &units);
    let difference = (measured.mean_entropy - profiles.documents.mean_entropy).abs();
    assert!(difference < 0.05, "{measured:?} {:?}", profiles.documents);
    assert!(measured.shift(&profiles.documents) < 0.1);
}

#[test]
fn a_collection_like_the_corpus_is_healthy_and_another_is_not() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let health = index.health().unwrap();
    let stats = index.stats().unwrap();
    let sizes: Vec<usize> = stats.leaf_sizes.iter().map(|leaf| leaf.documents).collect();
    assert_eq!(health.documents, DOCUMENTS);
    assert_eq!(health.empty_leaves, 16 - sizes.len());
    assert_eq!(health.largest_leaf.unwrap().documents, *sizes.iter().max().unwrap());
    let expected = sizes.iter().map(|c| (c * c) as f64).sum::<f64>() / DOCUMENTS as f64;
    assert!((health.skew - expected / (DOCUMENTS as f64 / 16.0)).abs() < 1e-9);
    let routing = &health.documents_routing;
    assert_eq!(routing.recent.as_ref().unwrap().rows, DOCUMENTS);
    assert!(routing.shift.unwrap() < 0.1, "{routing:?}");
    assert!(health.queries_routing.recent.is_none() && health.queries_routing.reference.is_some());
    assert!(health.advice.is_empty(), "{:?}", health.advice);

    // One text a thousand times: one leaf, whatever the training saw.
    let same = |number| Document::new(format!("same-{number:04}"), "", "virus cancer virus");
    index.insert_batch((0..RECENT).map(same)).unwrap();
    let health = index.health().unwrap();
    let recent = health.documents_routing.recent.as_ref().unwrap();
    assert_eq!(recent.rows, RECENT);
    assert_eq!(recent.leaf_shares.iter().filter(|share| **share > 0.0).count(), 1);
    let says = |wanted: fn(&Advice) -> bool| health.advice.iter().any(wanted);
    assert!(says(|a| matches!(a, Advice::ShiftedDocuments { shift } if *shift > 0.25)), "{health:?}");
    assert!(says(|a| matches!(a, Advice::Skewed { skew, .. } if *skew > SKEWED)), "{health:?}");
    assert!(health.remedies.iter().any(|remedy| remedy.command == RemedyCommand::Tune), "{health:?}");
    // Deleted rows are not recent documents.
    for number in 0..RECENT {
        index.delete(&format!("same-{number:04}")).unwrap();
    }
    assert_eq!(index.health().unwrap().documents_routing.recent.unwrap().rows, DOCUMENTS);
}

#[test]
fn served_queries_are_remembered_up_to_a_bound() {
    let (dir, index) = filled(SHAPE, 30);
    index.search(QUESTION, 3, 2).unwrap();
    index.explain(QUESTION, &SearchRequest::dense().beam(2), false).unwrap();
    index.search_with(QUESTION, &SearchRequest::dense().exact()).unwrap();
    assert_eq!(index.health().unwrap().queries_routing.recent.unwrap().rows, 2);
    let vector =
        index.bundle().model().encoder().unwrap().embed(&[QUESTION], ehi::model::Role::Query).unwrap();
    for _ in 0..RECENT {
        index.search_with(&vector, &SearchRequest::dense().k(1).beam(1)).unwrap();
    }
    let health = index.health().unwrap();
    assert_eq!(health.queries_routing.recent.as_ref().unwrap().rows, RECENT);
    // The same question again and again differs from what the tree was trained on; which of the two signs
    // shows that depends on where the tiny tree happens to send it.
    let strange = |a: &Advice| matches!(a, Advice::ShiftedQueries { .. } | Advice::UncertainQueries { .. });
    assert!(health.advice.iter().any(strange), "{health:?}");
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert!(index.health().unwrap().queries_routing.recent.is_none(), "an open begins anew");
}

#[test]
fn reports_without_a_reference_or_damaged_ones() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let hash = index.bundle().hash();
    drop(index);
    let path = dir.path().join("index");
    let report = path.join("models/1/model/training.json");
    let whole: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let health = |content: Option<&str>| {
        match content {
            Some(content) => fs::write(&report, content).unwrap(),
            None => fs::remove_file(&report).unwrap(),
        }
        let index = Index::open(&path).unwrap();
        assert_eq!(index.bundle().hash(), hash, "the report is no part of the model");
        index.health()
    };
    // In bundles of older versions, and those without a report.
    let mut old = whole.clone();
    old.as_object_mut().unwrap().remove("routing");
    for content in [Some(old.to_string()), Some("{\"routing\": null}".to_owned()), None] {
        let health = health(content.as_deref()).unwrap();
        assert!(health.documents_routing.reference.is_none() && health.trained_skew.is_none());
        assert!(health.documents_routing.recent.is_some() && health.documents_routing.shift.is_none());
        assert!(health.advice.is_empty());
    }
    let mut other = whole;
    other["routing"]["queries"]["leaf_shares"] = json!([1.0]);
    let error = health(Some(&other.to_string())).unwrap_err();
    assert!(matches!(error, Error::Model(ModelError::BadSetting { .. })), "{error}");
    for bad in ["{", "[]", "{\"routing\": 3}"] {
        let error = health(Some(bad)).unwrap_err();
        assert!(matches!(error, Error::Model(ModelError::Json { .. })), "{bad}: {error}");
    }
    // Everything else still works, and the damage is named.
    let index = Index::open(&path).unwrap();
    assert!(index.contains(&id(3)).unwrap());
    let problems = index.verify().unwrap().problems;
    assert_eq!(problems.iter().map(|own| &*own.file).collect::<Vec<_>>(), ["models/1/model/training.json"]);
}

/// The leaf of each document, determined in another way.
fn leaf_of_each(index: &Index) -> BTreeMap<String, LeafId> {
    let every = LeafOptions { samples: DOCUMENTS + 1, ..LeafOptions::default() };
    let leaves = index.leaves(&every).unwrap();
    let documents = leaves.iter().flat_map(|leaf| leaf.nearest.iter().map(|own| (own.id.clone(), leaf.leaf)));
    documents.collect()
}

#[test]
fn a_change_says_where_the_documents_of_each_leaf_were() {
    let (dir, index) = filled(Shape { height: 2 }, DOCUMENTS);
    assert_eq!(index.leaf_changes().unwrap(), None, "nothing has changed");
    let before = leaf_of_each(&index);
    let from = index.bundle().hash();
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    index.insert(document(DOCUMENTS)).unwrap();
    index.delete(&id(0)).unwrap();
    let after = leaf_of_each(&index);
    let mut expected: BTreeMap<LeafId, (usize, BTreeMap<LeafId, usize>)> = BTreeMap::new();
    for (id, leaf) in &after {
        let (new, origins) = expected.entry(*leaf).or_default();
        match before.get(id) {
            Some(leaf) => *origins.entry(*leaf).or_default() += 1,
            None => *new += 1,
        }
    }
    let changes = index.leaf_changes().unwrap().unwrap();
    assert_eq!((changes.from, changes.leaves_before, changes.compared), (from, 16, DOCUMENTS - 1));
    let found = changes.leaves.iter().map(|own| {
        assert!(own.from.is_sorted_by_key(|origin| std::cmp::Reverse(origin.documents)), "{own:?}");
        let origins = own.from.iter().map(|origin| (origin.leaf, origin.documents)).collect();
        (own.leaf, (own.new, origins))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert!(changes.together > 0.0 && changes.together <= 1.0);
    index.flush().unwrap();
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    assert_eq!(reader.leaf_changes().unwrap(), Some(changes));
    index.drop_previous_model().unwrap();
    assert_eq!((index.leaf_changes().unwrap(), reader.leaf_changes().unwrap()), (None, None));
}
