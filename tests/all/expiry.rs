//! Documents that expire.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::program::{Flow, text};
use crate::support::{Shape, bundle};
use ehi::{Document, Error, Filter, Fusion, Index, InputError, SearchRequest};
use serde_json::{Value, json};

const TEXT: &str = "gene of a virus";

fn seconds(from_now: f64) -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + from_now
}

fn document(id: &str, until: Value) -> Document {
    Document::new(id, "", format!("{TEXT} {id}")).with_metadata(json!({ "offer": { "until": until } }))
}

/// What every call that finds documents finds.
fn check(index: &Index, expected: &[&str]) {
    let all = Filter::all([]);
    assert_eq!(index.ids_where(&all).unwrap(), expected);
    assert_eq!(index.ids_where(&Filter::ne("offer.until", true)).unwrap(), expected);
    assert_eq!((index.len(), index.count_where(&all).unwrap()), (expected.len(), expected.len()));
    let listed: Vec<String> = index.iter().map(|document| document.unwrap().id).collect();
    assert_eq!(listed, expected);
    let facets = index.facets(["offer.until"], None, 100).unwrap();
    assert_eq!(
        facets[0].values.iter().map(|value| value.documents).sum::<usize>() + facets[0].missing,
        expected.len()
    );
    for id in ["a", "b", "c", "d"] {
        assert_eq!(index.get(id).unwrap().is_some(), expected.contains(&id), "{id}");
        assert_eq!(index.contains(id).unwrap(), expected.contains(&id), "{id}");
    }
    let requests = [
        SearchRequest::dense(),
        SearchRequest::dense().exact(),
        SearchRequest::lexical(),
        SearchRequest::hybrid(Fusion::default()),
    ];
    for request in requests {
        for request in [request.clone(), request.filter(&Filter::ne("offer.until", true))] {
            let hits = index.search_with(TEXT, &request.k(100)).unwrap();
            let mut ids: Vec<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
            ids.sort_unstable();
            assert_eq!(ids, expected);
        }
    }
}

#[test]
fn past_its_time_no_call_finds_a_document() {
    for passages in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let builder = Index::builder().expires("offer.until");
        let builder = if passages { builder.passages(8, 2) } else { builder };
        let index = builder.create(&path, &bundle(Shape::of_height(1))).unwrap();
        let soon = seconds(3.0);
        index.insert(document("b", Value::Null)).unwrap();
        let summary = index
            .insert_batch([
                document("a", json!(soon)),
                document("b", json!("2020-01-01T00:00:00Z")),
                document("c", Value::Null),
                document("d", json!("9000-01-01T00:00:00+02:00")),
            ])
            .unwrap();
        // It is not stored, and the one before it is gone.
        assert_eq!((summary.inserted, summary.replaced, summary.expired, summary.expiring), (3, 0, 1, 2));
        let past = index.insert_batch([document("c", json!(1)), document("c", Value::Null)]).unwrap();
        assert_eq!((past.replaced, past.superseded, past.expired), (1, 1, 0));
        index.flush().unwrap();
        let reader = Index::open_read_only(&path).unwrap();
        let [all, later] = [&["a", "c", "d"][..], &["c", "d"]];
        [&index, &reader].into_iter().for_each(|index| check(index, all));
        assert!(seconds(0.0) < soon, "the machine is too slow for this test");
        std::thread::sleep(Duration::from_secs_f64((soon - seconds(0.0)).max(0.0)));
        [&index, &reader].into_iter().for_each(|index| check(index, later));
        let stats = index.stats().unwrap();
        assert_eq!((stats.expires.as_deref(), stats.expired, stats.documents), (Some("offer.until"), 1, 2));
        assert!(!index.delete("a").unwrap());
        assert_eq!(index.insert_batch([document("b", Value::Null)]).unwrap().replaced, 0);
        check(&index, &["b", "c", "d"]);
        // A snapshot, another model and a compact index forget no time.
        index.snapshot(dir.path().join("copy")).unwrap();
        check(&Index::open(dir.path().join("copy")).unwrap(), &["b", "c", "d"]);
        index.compact().unwrap();
        assert_eq!((index.stats().unwrap().expired, index.stats().unwrap().dead_rows), (0, 0));
        check(&index, &["b", "c", "d"]);
        index.reencode(&bundle(Shape::of_height(2))).unwrap();
        assert_eq!(index.stats().unwrap().expires.as_deref(), Some("offer.until"));
        assert_eq!(index.insert_batch([document("b", json!(1))]).unwrap().expired, 1);
        let vector = vec![1.0; bundle(Shape::of_height(2)).model().dim()];
        assert_eq!(index.insert_vectors([(document("d", json!(1)), vector)]).unwrap().expired, 1);
        check(&index, &["c"]);
        assert!(index.verify().unwrap().is_sound());
    }
}

#[test]
fn a_document_without_a_readable_time_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bundle) = (dir.path().join("index"), bundle(Shape::of_height(1)));
    let index = Index::builder().expires("offer.until").create(&path, &bundle).unwrap();
    let summary = index.insert_batch([document("a", json!("soon")), document("c", json!(9e9))]).unwrap();
    assert_eq!(summary.inserted, 1);
    let error = summary.refused[0].error.to_string();
    assert!(error.contains(r#"its field `offer.until` is "soon", which is not a time"#), "{error}");
    check(&index, &["c"]);
    drop(index);
    let refused = Index::builder().expires("until").open(&path).unwrap_err();
    let Error::Input(InputError::ExpiresMismatch { index, given }) = refused else { panic!("{refused:?}") };
    assert_eq!((index.as_deref(), &*given), (Some("offer.until"), "until"));
    assert!(Index::builder().expires("offer.until").open(&path).is_ok());
    let refused = Index::builder().expires("").create(dir.path().join("empty"), &bundle).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the length of the field by which documents expire is 0, it must be from 1 to 512"
    );
}

#[test]
fn the_program_says_what_has_expired_and_that_nothing_will() {
    let flow = Flow::with(&["--expires", "until"]);
    let insert = |documents: &[Value]| {
        let file = flow.path("offers.jsonl");
        std::fs::write(&file, documents.iter().map(|own| format!("{own}\n")).collect::<String>()).unwrap();
        flow.run("insert", &[text(&file)])
    };
    let plain = json!({ "id": "a", "text": TEXT });
    assert_eq!(
        insert(std::slice::from_ref(&plain)).ok(),
        "1 inserted, 0 replaced; the index has 1 document\n\
         note: no stored document has a time in the field `until`, so these do not expire\n"
    );
    let past = json!({ "id": "b", "text": TEXT, "until": 1 });
    let bad = json!({ "id": "c", "text": TEXT, "until": "2027-01-31" });
    let ran = insert(&[plain, past, bad]);
    assert_eq!(ran.out, "0 inserted, 1 replaced, 1 already expired, 1 refused; the index has 1 document\n");
    assert!(ran.err.ends_with("ehi: 1 of 3 documents refused, 1 stored\n"), "{}", ran.err);
    let later = json!({ "id": "d", "text": TEXT, "until": "9000-01-01T00:00:00Z" });
    assert_eq!(insert(&[later]).ok(), "1 inserted, 0 replaced; the index has 2 documents\n");
    let stats = flow.run("stats", &[]).ok();
    assert!(stats.contains("expiry         at the time in `until`\n"), "{stats}");
}
