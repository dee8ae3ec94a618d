//! Changes of fields of stored documents.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{DOCUMENTS, Shape, WIDTH, bundle, document, filled, id};
use ehi::store::StoreError;
use ehi::{Document, DocumentUpdate, Error, Filter, Index, InputError, InsertStatus, SearchRequest};
use serde_json::{Value, json};

const FLAT: Shape = Shape { height: 1 };

fn metadata(fields: Value) -> DocumentUpdate {
    DocumentUpdate { metadata: fields.as_object().unwrap().clone(), ..DocumentUpdate::default() }
}

fn text(text: &str) -> DocumentUpdate {
    DocumentUpdate { text: Some(text.to_owned()), ..DocumentUpdate::default() }
}

fn found(index: &Index, filter: Filter) -> Vec<String> {
    let request = SearchRequest::dense().k(100).exact().filter(&filter);
    let mut ids: Vec<String> =
        index.search_with("gene", &request).unwrap().into_iter().map(|hit| hit.id).collect();
    ids.sort();
    assert_eq!(index.ids_where(&filter).unwrap(), ids);
    ids
}

#[test]
fn metadata_change_without_encoding() {
    for passages in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let builder = if passages { Index::builder().passages(8, 2) } else { Index::builder() };
        let index = builder.create(dir.path(), &bundle(FLAT)).unwrap();
        let long = "a gene of a virus in a cell of the blood and of the lung in two weeks";
        let stored = json!({ "a": 1, "b": { "c": 2 }, "d": 3 });
        index.insert(Document::new("x", "Gene", long).with_metadata(stored)).unwrap();
        index.insert(Document::new("y", "", long)).unwrap();
        // Only a vector, so that an encoding would show.
        let vector: Vec<f32> = (0..WIDTH).map(|place| place as f32 + 1.0).collect();
        index.insert_vectors([(Document::new("z", "", "z"), vector)]).unwrap();
        let before = index.vectors(["x", "y", "z"]).unwrap();
        assert_eq!(before[0].len() > 1, passages);
        let check = |index: &Index| {
            assert_eq!(index.vectors(["x", "y", "z"]).unwrap(), before);
            let fields = json!({ "a": [1], "b": { "e": null }, "f": true });
            assert_eq!(index.get("x").unwrap().unwrap().metadata, Some(fields));
            assert_eq!(found(index, Filter::eq("f", true)), ["x", "y", "z"]);
            assert!(found(index, Filter::eq("d", 3)).is_empty());
            assert_eq!(found(index, Filter::eq("a", 1)), ["x"]);
            assert_eq!((index.len(), index.get("x").unwrap().unwrap().text.as_str()), (3, long));
            assert!(index.verify().unwrap().is_sound());
        };
        for flushed in [false, true] {
            if flushed {
                for id in ["x", "y", "z"] {
                    index.update(id, &metadata(json!({ "f": null }))).unwrap();
                }
                index.flush().unwrap();
            }
            let change = metadata(json!({ "a": [1], "b": { "e": null }, "d": null, "f": true }));
            let summary = index.update("x", &change).unwrap();
            assert_eq!((summary.replaced, summary.inserted), (1, 0));
            assert_eq!(summary.statuses, [InsertStatus::Replaced]);
            assert_eq!(summary.passages, if passages { before[0].len() } else { 0 });
            // Texts that are given but the same.
            let same = DocumentUpdate { text: Some("z".to_owned()), ..metadata(json!({ "f": true })) };
            index.update("y", &metadata(json!({ "f": true, "none": null }))).unwrap();
            index.update("z", &same).unwrap();
            assert_eq!(index.get("y").unwrap().unwrap().metadata, Some(json!({ "f": true })));
            check(&index);
            // What changes nothing is not committed.
            let before = index.stats().unwrap();
            let again = index.update("x", &change).unwrap();
            assert_eq!((again.replaced, again.statuses), (0, vec![]));
            assert_eq!(index.stats().unwrap(), before);
        }
        index.flush().unwrap();
        index.compact().unwrap();
        check(&index);
        drop(index);
        check(&Index::open(dir.path()).unwrap());
    }
}

#[test]
fn an_update_in_the_log_survives_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path(), &bundle(FLAT)).unwrap();
    index.insert(document(0)).unwrap();
    index.flush().unwrap();
    index.update(&id(0), &metadata(json!({ "seen": true }))).unwrap();
    drop(index);
    let again = Index::open(dir.path()).unwrap();
    assert_eq!(found(&again, Filter::eq("seen", true)), [id(0)]);
    assert_eq!(again.get(&id(0)).unwrap().unwrap().text, document(0).text);
}

#[test]
fn another_text_is_encoded() {
    let (_dir, index) = filled(FLAT, DOCUMENTS);
    index.insert(Document::new("new", document(1).title, document(1).text)).unwrap();
    index.update(&id(0), &text("unlike")).unwrap();
    let change = DocumentUpdate { title: Some(document(1).title), ..text(&document(1).text) };
    index.update(&id(0), &change).unwrap();
    let vectors = index.vectors(["new", &id(0)]).unwrap();
    assert_eq!(vectors[0], vectors[1]);
    let stored = index.get(&id(0)).unwrap().unwrap();
    assert_eq!((stored.text, stored.metadata), (document(1).text, document(0).metadata));
    let by_words = index.search_with(&document(1).text, &SearchRequest::lexical().k(200)).unwrap();
    let score = |id: &str| by_words.iter().find(|hit| hit.id == id).unwrap().score;
    assert_eq!(score("new"), score(&id(0)));
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn what_cannot_be_updated_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path(), &bundle(FLAT)).unwrap();
    index.insert(document(0)).unwrap();
    index.insert(Document::new("list", "", "a list").with_metadata(json!([1]))).unwrap();
    index.flush().unwrap();
    let seen = metadata(json!({ "seen": true }));
    let input = |id: &str, change: &DocumentUpdate| match index.update(id, change).unwrap_err() {
        Error::Input(error) => error,
        error => panic!("{error}"),
    };
    assert_eq!(input("none", &seen), InputError::NoDocument { ids: vec!["none".to_owned()] });
    assert_eq!(input("none", &seen).to_string(), "the index has no document \"none\"");
    assert!(matches!(input("list", &seen), InputError::MetadataWithoutFields { .. }));
    let silent = DocumentUpdate { title: Some(String::new()), ..text(" ") };
    assert!(matches!(input(&id(0), &silent), InputError::EmptyDocument { .. }));
    let deep = (0..500).fold(json!(1), |inner, _| json!([inner]));
    assert!(matches!(input(&id(0), &metadata(json!({ "a": deep }))), InputError::MetadataTooDeep { .. }));
    let reader = Index::open_read_only(dir.path()).unwrap();
    let refused = reader.update(&id(0), &seen).unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::ReadOnly { .. })), "{refused}");
    assert_eq!(index.get(&id(0)).unwrap().unwrap(), document(0));
    assert_eq!(index.get("list").unwrap().unwrap().metadata, Some(json!([1])));
    let missing = index.vectors(["a", "list", "b"]).unwrap_err().to_string();
    assert_eq!(missing, "the index has no document \"a\", \"b\"");
}

#[test]
fn an_update_may_end_a_document() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::builder().expires("until").create(dir.path(), &bundle(FLAT)).unwrap();
    index.insert(document(0)).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let later = index.update(&id(0), &metadata(json!({ "until": now + 1000.0 }))).unwrap();
    assert_eq!((later.replaced, later.expiring, later.expired), (1, 1, 0));
    let bad = index.update(&id(0), &metadata(json!({ "until": "soon" }))).unwrap_err();
    assert!(matches!(bad, Error::Input(InputError::BadExpiry { .. })), "{bad}");
    let past = index.update(&id(0), &metadata(json!({ "until": now - 1000.0 }))).unwrap();
    assert_eq!((past.replaced, past.expired), (0, 1));
    assert!(index.is_empty() && index.update(&id(0), &metadata(json!({ "until": null }))).is_err());
}

#[test]
fn a_judgment_of_a_text_that_stays_is_not_stale() {
    let (_dir, index) = filled(FLAT, 12);
    index.record("a question", &id(0), 1).unwrap();
    let is_stale = || index.standings(&index.judgments().unwrap()).unwrap()[0].stale;
    index.update(&id(0), &metadata(json!({ "seen": true }))).unwrap();
    assert!(!is_stale());
    index.update(&id(0), &text("another text of a gene")).unwrap();
    assert!(is_stale());
}

#[test]
fn updates_hold_in_the_next_model() {
    let (_dir, index) = filled(FLAT, DOCUMENTS);
    index.update(&id(0), &metadata(json!({ "seen": 1 }))).unwrap();
    index.reencode(&bundle(Shape { height: 2 })).unwrap();
    assert_eq!(found(&index, Filter::eq("seen", 1)), [id(0)]);
    index.update(&id(1), &metadata(json!({ "seen": 1 }))).unwrap();
    index.update(&id(2), &text("a gene of another kind")).unwrap();
    assert_eq!(found(&index, Filter::eq("seen", 1)), [id(0), id(1)]);
    index.rollback().unwrap();
    assert_eq!(found(&index, Filter::eq("seen", 1)), [id(0), id(1)]);
    assert_eq!(index.get(&id(2)).unwrap().unwrap().text, "a gene of another kind");
    assert!(index.verify().unwrap().is_sound());
}

/// Each writer has a field of its own, and a third one replaces the text.
#[test]
fn updates_at_the_same_time_are_all_kept() {
    const EACH: usize = 40;
    let (_dir, index) = filled(FLAT, 12);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let index = &index;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let field = format!("field {writer} {number}");
                        index.update(&id(0), &metadata(json!({ field: number }))).unwrap();
                    }
                })
            })
            .collect();
        let texts = scope.spawn(|| {
            let mut last = String::new();
            for number in 0.. {
                last = format!("a gene {number}");
                index.update(&id(0), &text(&last)).unwrap();
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            last
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::Relaxed);
        let document = index.get(&id(0)).unwrap().unwrap();
        assert_eq!(texts.join().unwrap(), index.get(&id(0)).unwrap().unwrap().text);
        let fields = document.metadata.unwrap();
        let own = crate::support::document(0).metadata.unwrap().as_object().unwrap().len();
        assert_eq!(fields.as_object().unwrap().len(), 2 * EACH + own);
    });
    let encoded = index.vectors([id(0)]).unwrap();
    let stored = index.get(&id(0)).unwrap().unwrap();
    index.insert(Document { id: "again".to_owned(), ..stored }).unwrap();
    assert_eq!(index.vectors(["again"]).unwrap(), encoded);
}
