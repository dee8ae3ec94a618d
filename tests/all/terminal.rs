//! The program's output for hostile data, on a terminal and in a pipe.

use std::fs;
use std::path::Path;

use crate::program::{Flow, Ran, SHAPE, command, ehi, on_terminal, text};
use crate::support::{self, bundle, corpus_lines};
use ehi::{Document, Index};
use serde_json::{Value, json};

/// Terminal escape sequences in seven and eight bits, direction overrides and isolates, line separators.
const HOSTILE: &str =
    "\u{1b}[31m\u{1b}]0;owned\u{7}\u{8}\u{9b}1m\u{85}\u{7f}\u{2028}\u{202e}\u{2066}evil\u{2069}";

/// Whether a terminal would interpret it: written independently, so that the program's own list is tested.
fn acts(character: char) -> bool {
    let code = u32::from(character);
    (code < 0x20 && character != '\n')
        || (0x7f..=0x9f).contains(&code)
        || (0x2028..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code)
}

#[track_caller]
fn assert_plain(shown: &str, what: &dyn std::fmt::Debug) {
    assert!(!shown.chars().any(acts), "{what:?}: {shown:?}");
}

/// The output on a terminal without the program's own bars, which it draws and erases.
fn without_bars(shown: &str) -> String {
    let mut left = shown.to_owned();
    for own in ["\r\u{1b}[2K", "\r\u{1b}[K", "\u{1b}[2K", "\u{1b}[K", "\u{1b}[1A", "\u{1b}[1B", "\r"] {
        left = left.replace(own, "");
    }
    left
}

/// Without the words of the question in bold.
fn without_marks(shown: &str) -> String {
    let marked = shown.split("\u{1b}[1m").skip(1);
    assert!(marked.clone().all(|word| word.contains("\u{1b}[m")), "{shown:?}");
    shown.replace("\u{1b}[1m", "").replace("\u{1b}[m", "")
}

/// An index with a document that is hostile in every field.
fn hostile() -> (Flow, Document) {
    let flow = Flow::new();
    flow.insert(20);
    let document =
        Document::new(format!("id{HOSTILE}"), format!("cell{HOSTILE}"), format!("gene{HOSTILE} x"))
            .with_metadata(json!({ HOSTILE: HOSTILE }));
    let file = flow.path("hostile.jsonl");
    fs::write(&file, corpus_lines(std::slice::from_ref(&document))).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    (flow, document)
}

#[test]
fn hostile_documents_are_shown_and_not_obeyed() {
    let (flow, document) = hostile();
    let absent = format!("absent{HOSTILE}");
    let queries = flow.path("queries.jsonl");
    fs::write(&queries, format!("{}\n", json!({ "_id": "q", "text": format!("gene{HOSTILE}") }))).unwrap();
    let index = flow.index();
    let all: &[&[&str]] = &[
        &["search", "--k", "30", "--beam", "16", "gene"],
        &["search", "--k", "30", "--beam", "16", "--json", "gene"],
        &["explain", "--k", "30", "--exact", "gene"],
        &["explain", "--k", "30", "--exact", "--json", "gene"],
        &["leaves", "--samples", "30", "--queries", text(&queries)],
        &["leaves", "--samples", "30", "--queries", text(&queries), "--json"],
        &["get", &document.id],
    ];
    for arguments in all {
        let whole = [&[arguments[0], "--index", &index], &arguments[1..]].concat();
        let said = ehi(&whole).ok();
        assert_plain(&said, arguments);
        assert!(said.contains("evil") && said.contains("9b"), "{arguments:?}: {said:?}");
        let (code, shown) = on_terminal(&whole);
        assert_eq!(code, Some(0), "{shown}");
        let shown = without_marks(&shown);
        assert_plain(&shown, arguments);
        assert!(shown.contains("evil"), "{shown:?}");
        if arguments.contains(&"--json") || arguments[0] == "get" {
            let value: Value = serde_json::from_str(&said).unwrap();
            assert!(holds(&value, &document.id), "{said}");
        } else {
            assert!(
                said.contains("\\u{1b}[31m") && said.contains("\\u{9b}1m\\u{85}\\u{7f}\\u{2028}"),
                "{said:?}"
            );
        }
    }
    for arguments in [
        vec!["get", "--index", &index, &absent],
        vec!["delete", "--index", &index, &absent],
        // Errors of clap.
        vec!["count", "--index", &index, &absent],
        vec![&absent],
    ] {
        let ran = ehi(&arguments);
        assert_plain(&ran.err, &arguments);
        // clap removes the escape sequences that it knows.
        assert!(ran.err.contains("absent\\u{") && ran.err.contains("evil\\u{2069}"), "{}", ran.err);
        ran.line();
        assert_plain(&on_terminal(&arguments).1, &arguments);
    }
    let said = flow.run("delete", &[&document.id]).ok();
    assert!(said.starts_with("deleted id\\u{1b}[31m\\u{1b}]0;owned\\u{7}"), "{said:?}");
    assert_plain(&said, &"delete");
}

/// Whether the string occurs in the value.
fn holds(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(string) => string == wanted,
        Value::Array(items) => items.iter().any(|item| holds(item, wanted)),
        Value::Object(fields) => fields.values().any(|item| holds(item, wanted)),
        _ => false,
    }
}

#[test]
fn refused_documents_and_file_names_are_shown_and_not_obeyed() {
    let flow = Flow::new();
    let file = flow.path(&format!("file{HOSTILE}.jsonl"));
    let deep = (0..70).fold(json!(1), |value, _| json!([value]));
    let long = "x".repeat(600);
    let lines = [
        json!({ "_id": format!("empty{HOSTILE}"), "text": " " }),
        json!({ "_id": format!("deep{HOSTILE}"), "text": "x", "metadata": deep }),
        json!({ "_id": format!("long{HOSTILE}{long}"), "text": "x" }),
        json!({ "_id": 5, HOSTILE: HOSTILE }),
    ];
    for line in lines {
        fs::write(&file, format!("{line}\n")).unwrap();
        let ran = flow.run("insert", &[text(&file)]);
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert_plain(&(ran.out + &ran.err), &line);
        assert!(ran.err.contains("file\\u{1b}[31m") && ran.err.contains(".jsonl:1: "), "{}", ran.err);
        let (code, shown) = on_terminal(["insert", "--index", &flow.index(), text(&file)]);
        assert_eq!(code, Some(1));
        assert_plain(&without_bars(&shown), &line);
    }
    // Names in reports.
    let copy = flow.path(&format!("copy{HOSTILE}"));
    assert_plain(&flow.run("snapshot", &[text(&copy)]).ok(), &"snapshot");
    assert_plain(&flow.run("snapshot", &[text(&copy)]).failure(), &"snapshot again");
    let model = bundle(SHAPE);
    let other = flow.path(&format!("other{HOSTILE}"));
    let said = ehi(["create", "--index", text(&other), "--model", text(model.path())]).ok();
    assert!(said.starts_with("created ") && said.contains("other\\u{1b}[31m"), "{said:?}");
    assert_plain(&said, &"create");
}

/// Repair and verify name the damage: here a hostile document, in a folder with a hostile name.
#[test]
fn damage_is_reported_and_not_obeyed() {
    let (flow, _) = hostile();
    let index = flow.path(&format!("index{HOSTILE}"));
    fs::rename(flow.path("index"), &index).unwrap();
    let segments = fs::read_dir(index.join("models/1/segments")).unwrap().map(|entry| entry.unwrap().path());
    for documents in segments.filter(|path| path.extension().is_some_and(|e| e == "documents")) {
        let mut bytes = fs::read(&documents).unwrap();
        let end = bytes.len().min(4096 + 2000);
        bytes[4096..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&documents, bytes).unwrap();
    }
    let index = text(&index);
    for arguments in [
        vec!["verify", "--index", index],
        vec!["verify", "--index", index, "--json"],
        vec!["compact", "--index", index],
        vec!["repair", "--index", index],
        vec!["stats", "--index", index],
    ] {
        let (_, shown) = on_terminal(&arguments);
        assert_plain(&without_bars(&shown), &arguments);
        let ran = ehi(&arguments);
        assert_plain(&(ran.out + &ran.err), &arguments);
    }
}

/// No command mentions its own internals, and all output is text.
#[test]
fn every_command_is_quiet_on_a_terminal() {
    let flow = Flow::new();
    flow.insert(20);
    let model = bundle(SHAPE);
    let (model, copy, other) = (text(model.path()), flow.path("copy"), flow.path("other"));
    let data = text(support::dataset());
    let lines = flow.path("documents.jsonl");
    let index = flow.index();
    for (status, arguments) in [
        (0, vec!["create", "--index", text(&other), "--model", model]),
        (0, vec!["insert", "--index", &index, text(&lines)]),
        (0, vec!["search", "--index", &index, "cell"]),
        (0, vec!["explain", "--index", &index, "cell"]),
        (0, vec!["leaves", "--index", &index]),
        (0, vec!["health", "--index", &index]),
        (0, vec!["get", "--index", &index, "doc-0003"]),
        (0, vec!["delete", "--index", &index, "doc-0003"]),
        (0, vec!["compact", "--index", &index]),
        (0, vec!["snapshot", "--index", &index, text(&copy)]),
        (0, vec!["repair", "--index", &index]),
        (1, vec!["reencode", "--index", &index, "--model", model]),
        (1, vec!["rollback", "--index", &index]),
        (0, vec!["drop-previous", "--index", &index]),
        (0, vec!["stats", "--index", &index]),
        (0, vec!["verify", "--index", &index]),
        (0, vec!["eval", "--index", &index, "--data", data, "--split", "test"]),
        (1, vec!["train", "--base", "absent", "--data", data, "--out", "x"]),
    ] {
        let (code, shown) = on_terminal(&arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {shown}");
        let left = without_marks(&without_bars(&shown));
        assert!(!left.contains("tracing") && !left.contains("feature"), "{arguments:?}: {shown}");
        // Only words of a question are bold, and nothing has a colour.
        assert_plain(&left, &arguments);
    }
}

#[test]
fn warnings_are_printed_unless_asked_otherwise() {
    let (flow, _) = hostile();
    let index = flow.path(&format!("index{HOSTILE}"));
    fs::rename(flow.path("index"), &index).unwrap();
    fs::remove_file(index.join("models/1/model/tokenizer.json")).unwrap();
    let model = bundle(SHAPE);
    let repair = |filter: Option<&str>| {
        let mut command = command();
        filter.map(|filter| command.env("RUST_LOG", filter));
        let arguments = ["repair", "--index", text(&index), "--model", text(model.path())];
        let ran = Ran::of(command.args(arguments).output().unwrap());
        fs::remove_file(Path::new(&index).join("models/1/model/tokenizer.json")).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.err
    };
    let said = repair(None);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.starts_with("ehi: warning: the model is damaged") && said.contains("index\\u{1b}[31m"),
        "{said}"
    );
    assert_plain(&said, &"warning");
    assert_eq!(repair(Some("error")), "");
    let said = repair(Some("a=b=c"));
    assert!(said.starts_with("ehi: warning: RUST_LOG is not a filter"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(Index::open(&index).is_err());
}
