//! Filters: null, missing fields, and fields with several kinds of values.

use std::collections::BTreeSet;

use ehi::{Document, Filter, Index, SearchRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Flow, text};
use crate::support::{Shape, bundle};

/// An index with documents of this metadata, half of them in a segment; one without any is `null` here.
fn index(documents: &[(&str, Value)]) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path().join("index"), &bundle(Shape::of_height(1))).unwrap();
    for (place, (id, metadata)) in documents.iter().enumerate() {
        let document = Document::new(*id, "", "the tree of apples");
        index
            .insert(match metadata {
                Value::Null => document,
                metadata => document.with_metadata(metadata.clone()),
            })
            .unwrap();
        if place == documents.len() / 2 {
            index.flush().unwrap();
        }
    }
    (dir, index)
}

/// The results of a filter in a search and in the list of ids, which must agree.
fn found(index: &Index, filter: &Value) -> BTreeSet<String> {
    let filter = Filter::from_json(filter).unwrap();
    let hits = index.search_with("tree", &SearchRequest::dense().filter(&filter).k(100)).unwrap();
    let hits: BTreeSet<String> = hits.into_iter().map(|hit| hit.id).collect();
    let by_words = index.search_with("tree", &SearchRequest::lexical().filter(&filter).k(100)).unwrap();
    assert_eq!(by_words.into_iter().map(|hit| hit.id).collect::<BTreeSet<_>>(), hits, "{filter}");
    hits
}

#[track_caller]
fn check(index: &Index, cases: &[(Value, &[&str])]) {
    for (filter, expected) in cases {
        let expected: BTreeSet<String> = expected.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(found(index, filter), expected, "{filter}");
    }
}

/// After chroma#4316 and unstructured#2438: null and missing values as in MongoDB, wherever documents are
/// stored.
#[test]
fn null_is_as_missing_but_for_exists() {
    let (_dir, index) = index(&[
        ("set", json!({ "lang": "en" })),
        ("null", json!({ "lang": null })),
        ("missing", json!({})),
        ("bare", Value::Null),
        ("empty", json!({ "lang": "" })),
    ]);
    check(
        &index,
        &[
            (json!({ "lang": null }), &["null", "missing", "bare"]),
            (json!({ "lang": { "$ne": null } }), &["set", "empty"]),
            (json!({ "lang": { "$in": [null, "en"] } }), &["set", "null", "missing", "bare"]),
            (json!({ "lang": { "$nin": [null, "en"] } }), &["empty"]),
            (json!({ "lang": { "$ne": "en" } }), &["null", "missing", "bare", "empty"]),
            (json!({ "lang": { "$nin": ["en"] } }), &["null", "missing", "bare", "empty"]),
            (json!({ "lang": { "$exists": true } }), &["set", "null", "empty"]),
            (json!({ "lang": { "$exists": true, "$eq": null } }), &["null"]),
            (json!({ "lang": { "$exists": false } }), &["missing", "bare"]),
        ],
    );
}

/// After qdrant#10096 and qdrant#414: null within a list, an empty list, and paths into lists.
#[test]
fn null_in_lists_and_at_the_end_of_paths() {
    let (_dir, index) = index(&[
        ("null", json!({ "s": null })),
        ("list", json!({ "s": [null, "a"] })),
        ("empty", json!({ "s": [] })),
        ("value", json!({ "s": ["a"] })),
        ("path", json!({ "by": { "name": "x" } })),
        ("nameless", json!({ "by": [{ "place": "y" }] })),
    ]);
    check(
        &index,
        &[
            (json!({ "s": null }), &["null", "list", "path", "nameless"]),
            (json!({ "s": { "$exists": true, "$in": [null] } }), &["null", "list"]),
            (json!({ "s": { "$ne": null } }), &["empty", "value"]),
            (json!({ "by.name": { "$ne": null } }), &["path"]),
            (json!({ "by": { "$exists": true }, "by.name": null }), &["nameless"]),
        ],
    );
}

/// After super#2315: a column of numbers and text hides rows from a filter with either type; if a filter
/// finds nothing for that reason, every answer says so.
#[test]
fn a_field_of_two_kinds_is_named_where_a_filter_finds_nothing() {
    let zips = [("a", json!({ "zip": "02134" })), ("b", json!({ "zip": 90210, "n": 1 }))];
    let (_dir, index) = index(&zips);
    let says = "the field `zip` holds numbers and strings, and the filter compares it with strings alone";
    let filter = Filter::eq("zip", "90210");
    for request in [SearchRequest::dense(), SearchRequest::lexical(), SearchRequest::default().exact()] {
        let found = index.explain("tree", &request.filter(&filter), false).unwrap();
        assert!(found.hits.is_empty() && found.notes.len() == 1, "{:?}", found.notes);
        assert!(found.notes[0].contains(says), "{:?}", found.notes);
    }
    let notes =
        |filter: &Filter| index.search_with("tree", &SearchRequest::dense().filter(filter)).unwrap().notes;
    assert!(
        notes(&Filter::eq("n", "1"))[0].contains("holds numbers, and the filter compares it with strings")
    );
    assert!(notes(&Filter::eq("town", "x"))[0].contains("no document has the field `town`"));
    // If the filter is not the reason, it is not blamed.
    for filter in [Filter::eq("zip", "02134"), Filter::ids(["none"]), Filter::eq("n", 2)] {
        assert_eq!(notes(&filter), [""; 0], "{filter}");
    }
    let none =
        index.search_with("+nothing", &SearchRequest::lexical().filter(&Filter::eq("zip", 90210))).unwrap();
    assert!(none.is_empty() && none.notes.is_empty(), "{:?}", none.notes);
    drop(index);

    let flow = Flow::new();
    let lines: Vec<String> = zips
        .iter()
        .map(|(id, metadata)| json!({ "_id": id, "text": "tree", "metadata": metadata }).to_string())
        .collect();
    let file = flow.path("zips.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    let filter = ["--filter", r#"{"zip": "90210"}"#, "tree"];
    let ran = flow.run("search", &filter);
    assert!(ran.code == Some(0) && ran.err.contains(says), "{}", ran.err);
    let found = flow.run("search", &[&["--json"], &filter[..]].concat()).json();
    assert!(found["notes"][0].as_str().unwrap().contains(says), "{found}");
    // Lists of documents report it too.
    for (command, printed) in
        [("ids", ""), ("count", "0\n"), ("export", ""), ("delete", "deleted 0 documents, 2 left\n")]
    {
        let ran = flow.run(command, &filter[..2]);
        assert!(ran.err.contains(says), "{command}: {}", ran.err);
        assert_eq!(ran.ok(), printed, "{command}");
    }
}

/// After arrow#37110: the same moment is equal in every zone, in the forms of TOML and JSON front matter.
#[test]
fn times_with_an_offset_compare_by_the_clock() {
    let (_dir, index) = index(&[
        ("utc", json!({ "at": "2024-01-05T10:00:00Z" })),
        ("paris", json!({ "at": "2024-01-05T11:00:00+01:00" })),
        ("new york", json!({ "at": "2024-01-05T23:00:00.5-05:00" })),
        ("local", json!({ "at": "2024-01-05T10:00:00" })),
    ]);
    check(
        &index,
        &[
            (json!({ "at": "2024-01-05T10:00:00.000Z" }), &["utc", "paris"]),
            (json!({ "at": { "$in": ["2024-01-05T05:00:00-05:00"] } }), &["utc", "paris"]),
            (json!({ "at": { "$gt": "2024-01-06T00:00:00Z" } }), &["new york"]),
            (json!({ "at": { "$gt": "2024-01-06T04:00:00Z" } }), &["new york"]),
            (json!({ "at": { "$gt": "2024-01-06T05:00:01+01:00" } }), &[]),
        ],
    );
}
