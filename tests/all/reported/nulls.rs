//! Null, missing and empty values, in every form of input.

use std::fs;
use std::io::{Cursor, Write};
use std::process::Stdio;

use ehi::Document;
use ehi::data::Input;
use serde_json::{Value, json};

use crate::program::{Flow, Ran, command, text};

fn metadata(input: &Input, text: &str) -> Vec<Value> {
    let documents = input.read(Cursor::new(text.to_owned()), "in").unwrap();
    documents.map(|document| document.unwrap().metadata.unwrap_or_default()).collect()
}

/// unstructured#2438, chroma-core/chroma#4316: null is the same in every position.
#[test]
fn null_is_the_same_wherever_it_stands() {
    let null = json!({ "lang": null });
    for line in [
        r#"{"id": "a", "text": "x", "lang": null}"#,
        r#"{"_id": "a", "text": "x", "lang": null}"#,
        r#"{"_id": "a", "text": "x", "metadata": {"lang": null}}"#,
        r#"{"id": "a", "text": "x", "metadata": {"lang": null}}"#,
        r#"[{"id": "a", "text": "x", "lang": null, "metadata": null}]"#,
    ] {
        assert_eq!(metadata(&Input::new(), line), std::slice::from_ref(&null), "{line}");
        assert_eq!(metadata(&Input::new().metadata(["lang"]), line), std::slice::from_ref(&null), "{line}");
    }
    let several = r#"{"_id": "a", "text": "x", "metadata": {"lang": null}, "url": "x"}"#;
    assert_eq!(metadata(&Input::new(), several), [json!({"lang": null, "url": "x"})]);
    // An empty cell is not null.
    assert_eq!(metadata(&Input::new(), "id,text,lang,n\na,x,,1\n"), [json!({"n": 1})]);
}

/// The same through the program: `$exists` finds the documents with null.
#[test]
fn null_is_found_as_it_was_inserted() {
    let flow = Flow::new();
    let lines = [
        r#"{"id": "set", "text": "apples", "lang": "en"}"#,
        r#"{"id": "null", "text": "apples", "lang": null}"#,
        r#"{"id": "missing", "text": "apples"}"#,
        r#"{"id": "empty", "text": "apples", "lang": ""}"#,
        r#"{"_id": "bnull", "text": "apples", "metadata": {"lang": null}}"#,
        r#"{"_id": "bmissing", "text": "apples", "metadata": {}}"#,
        r#"{"_id": "bextra", "text": "apples", "metadata": {"lang": null}, "url": "x"}"#,
    ];
    let file = flow.path("lines.jsonl");
    fs::write(&file, lines.join("\n")).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    let ids = |filter: &str| flow.run("ids", &["--filter", filter]).ok().replace('\n', " ");
    assert_eq!(ids(r#"{"lang": {"$exists": true}}"#), "bextra bnull empty null set ");
    assert_eq!(ids(r#"{"lang": {"$exists": false}}"#), "bmissing missing ");
    let exported = flow.run("export", &[]).ok();
    assert!(exported.contains(r#""_id":"bmissing","title":"","text":"apples","metadata":{}"#), "{exported}");

    // An export recreates the same documents, including empty metadata and nulls.
    let other = Flow::new();
    fs::write(&file, &exported).unwrap();
    other.run("insert", &[text(&file)]).ok();
    assert_eq!(other.run("export", &[]).ok(), exported);
}

/// cityjson/specs#2: if an object repeats a key, one value would be silently lost.
#[test]
fn a_key_that_comes_twice_is_refused() {
    let flow = Flow::new();
    let file = flow.path("lines.jsonl");
    for line in [
        r#"{"id": 1, "text": "x", "lang": "en", "lang": "de"}"#,
        r#"{"id": 1, "text": "x", "metadata": {"lang": "en", "lang": "de"}}"#,
        r#"{"id": 1, "text": "x", "who": [{"name": "Ann", "name": "Bob"}]}"#,
    ] {
        fs::write(&file, line).unwrap();
        let said = flow.run("insert", &[text(&file)]).failure();
        assert!(said.contains("appears twice in one object; remove or rename one of them"), "{said}");
    }
}

/// maxlath/wikibase-dump-filter#13: a filter of many ids exceeds the length of a command line.
#[test]
fn a_filter_of_many_ids_is_read_from_a_file_and_from_standard_input() {
    let flow = Flow::new();
    let file = flow.path("lines.jsonl");
    let lines: String = (0..20).map(|id| format!("{{\"id\": {id}, \"text\": \"apples\"}}\n")).collect();
    fs::write(&file, lines).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    // More than the 2 MiB that Linux accepts.
    let ids: Vec<String> = (17..200_000).map(|id| id.to_string()).collect();
    let filter = json!({ "$ids": ids }).to_string();
    assert!(filter.len() > 1 << 20);
    let place = flow.path("filter.json");
    fs::write(&place, &filter).unwrap();
    let from_file = format!("@{}", text(&place));
    for command in ["count", "ids", "export"] {
        let lines = flow.run(command, &["--filter", &from_file]).ok();
        assert_eq!(if command == "count" { lines.trim() } else { "3" }, "3", "{lines}");
    }
    let found = flow.run("search", &["--json", "--filter", &from_file, "apples"]).json();
    assert_eq!(found["hits"].as_array().unwrap().len(), 3);
    let from_input = |rest: &[&str]| {
        let mut child = command();
        child.args(rest).args(["--index", &flow.index(), "--filter", "-"]);
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(filter.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    };
    assert_eq!(from_input(&["ids"]).ok(), "17\n18\n19\n");
    assert_eq!(from_input(&["delete"]).ok(), "deleted 3 documents, 17 left\n");
    let missing = flow.run("ids", &["--filter", "@no-such-file"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.line().contains("cannot be read: No such file"), "{}", missing.err);
}

/// A document of the library keeps its empty metadata through export and insert.
#[test]
fn empty_metadata_is_not_none() {
    let line = r#"{"_id":"a","title":"","text":"x","metadata":{}}"#;
    let read: Vec<Document> =
        Input::new().read(Cursor::new(line), "in").unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, [Document::new("a", "", "x").with_metadata(json!({}))]);
}
