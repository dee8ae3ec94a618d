//! Limits of answers and clients.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ehi::Document;
use serde_json::{Map, Value, json};

use super::documents::with;
use super::wire::Wire;
use crate::program::Flow;

/// Bytes of an answer as JSON, and of its line: it is included once as JSON, and once as text.
const ANSWER: usize = 64 << 10;
const LINE: usize = 3 * ANSWER + 1_000;

/// The answer to a request, and bytes of its line.
fn line(wire: &mut Wire) -> (Value, usize) {
    let mut line = String::new();
    wire.output.read_line(&mut line).unwrap();
    (serde_json::from_str(&line).unwrap(), line.len())
}

/// Documents in which every character takes six bytes as JSON.
fn hostile() -> Vec<Document> {
    let document = |number: usize| {
        let id = format!("{number:03}{}", "\u{1}".repeat(500));
        let text = format!("gene {}", "\u{1}\"\\ ".repeat(10_000));
        let metadata: Map<String, Value> = (0..60)
            .map(|field| (format!("{number}{field}{}", "\u{2}".repeat(150)), json!("\u{3}".repeat(100))))
            .collect();
        Document::new(id, "\u{4}".repeat(1_000), text).with_metadata(Value::Object(metadata))
    };
    (0..60).map(document).collect()
}

#[test]
fn answers_are_bounded_whatever_documents_hold() {
    let flow = with(&[], hostile());
    let mut wire = Wire::open(&flow, &["--write"], "");
    let refused: Vec<Value> = (0..200)
        .map(|number| json!({ "id": format!("{}{number}", "\u{1}".repeat(600)), "text": "x" }))
        .collect();
    let mut many = Map::new();
    for number in 0..1_000 {
        many.insert(format!("\u{1b}{number}"), json!(1));
    }
    let id = format!("000{}", "\u{1}".repeat(500));
    for (tool, arguments) in [
        ("search", json!({ "question": "gene", "k": 50, "passage_bytes": 4_000, "mode": "lexical" })),
        ("search", json!({ "question": "gene", "k": 50, "passage_bytes": 4_000, "mode": "dense" })),
        ("search", json!({ "question": "gene", "filter": many })),
        ("explain", json!({ "question": "gene", "k": 20, "exact": true, "beam": 1 })),
        ("stats", json!({})),
        ("facets", json!({ "fields": vec!["\u{1}".repeat(1_000); 20], "most": 100 })),
        (
            "facets",
            json!({ "fields": (0..20).map(|n| format!("0{n}{}", "\u{2}".repeat(150))).collect::<Vec<_>>(), "most": 100 }),
        ),
        ("get", json!({ "id": id, "limit": 65_536 })),
        ("get", json!({ "id": id, "part": "metadata", "limit": 65_536 })),
        ("insert", json!({ "documents": refused })),
        ("search", json!({ "question": "x", "\u{1}".repeat(1 << 20): 1 })),
        ("get", json!({ "id": "\u{1}".repeat(1 << 20) })),
    ] {
        wire.call(1, tool, arguments);
        let (answer, bytes) = loop {
            let (answer, bytes) = line(&mut wire);
            if answer.get("id").is_some() {
                break (answer, bytes);
            }
        };
        let structured = answer["result"]["structuredContent"].to_string().len();
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        assert!(bytes <= LINE && structured <= ANSWER, "{tool}: {bytes}, {structured}");
    }
    wire.call(2, "\u{1}".repeat(1 << 20).as_str(), json!({}));
    let (answer, bytes) = line(&mut wire);
    assert!(answer["error"].is_object() && bytes < 8_000, "{bytes}");
    let (_, code, _) = wire.end();
    assert_eq!(code, Some(0));
}

#[test]
fn resources_are_bounded_whatever_documents_hold() {
    let flow = with(&[], hostile());
    let mut wire = Wire::open(&flow, &[], "");
    let (mut cursor, mut names) = (Value::Null, Vec::new());
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": params }));
        let (answer, bytes) = line(&mut wire);
        assert!(bytes <= ANSWER, "{bytes}");
        let resources = answer["result"]["resources"].as_array().unwrap();
        names.extend(resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((names.len(), names.is_sorted()), (60, true));
    let params = json!({ "uri": names[0] });
    wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params }));
    let (answer, bytes) = line(&mut wire);
    assert!(bytes <= ANSWER, "{bytes}");
    assert_eq!(answer["result"]["contents"].as_array().unwrap().len(), 2, "of a long document");
    let uri = format!("ehi://document/{}", "x".repeat(1 << 20));
    wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": { "uri": uri } }));
    let (answer, bytes) = line(&mut wire);
    assert_eq!((&answer["error"]["code"], bytes < 1_000), (&json!(-32602), true));
    assert_eq!(wire.end().1, Some(0));
}

#[test]
fn requests_wait_where_answers_are_not_read() {
    const PINGS: usize = 100_000;
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &[], "");
    let mut input = File::from(wire.input.as_fd().try_clone_to_owned().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let writer = thread::spawn(move || {
        for id in 0..PINGS {
            writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).unwrap();
            count.store(id + 1, Ordering::Relaxed);
        }
    });
    // Until it makes no more progress.
    let mut before = usize::MAX;
    loop {
        let now = sent.load(Ordering::Relaxed);
        if now == before {
            break;
        }
        before = now;
        thread::sleep(Duration::from_secs(1));
    }
    assert!(before < PINGS, "all were taken");
    let mut answered: Vec<_> =
        (0..PINGS).map(|_| line(&mut wire).0["id"].as_u64().unwrap() as usize).collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..PINGS));
    writer.join().unwrap();
    assert_eq!(wire.end().1, Some(0));
}
