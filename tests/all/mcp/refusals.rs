//! Requests that are none, or not those of the protocol: each has an answer.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::wire::Wire;
use crate::program::{Flow, command};
use crate::support::documents;

#[test]
fn what_cannot_be_read_is_answered_by_its_id() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &[], "");
    let call = |id: u64, question: &[u8]| {
        let begin = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"search","arguments":{{"question":""#
        );
        [begin.as_bytes(), question, b"\"}}}\n"].concat()
    };
    for (id, question) in [(1, &br"half an emoji \ud83d"[..]), (2, b"\xff\xfe"), (3, b"\\x"), (4, b"\t")] {
        wire.input.write_all(&call(id, question)).unwrap();
        let answer = wire.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32700)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("not JSON in UTF-8"), "{answer}");
    }
    wire.input.write_all(&call(5, br"a whole emoji \ud83d\ude00")).unwrap();
    assert!(wire.answer()["result"].is_object());
    assert_eq!(wire.end().1, Some(0));
}

/// A reader of JSON keeps the last of two values, so the first would be lost.
#[test]
fn a_key_that_appears_twice_is_refused() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &["--write"], "");
    let name = r#""name":"insert","arguments""#;
    for (id, arguments) in [
        (1, r#"{"documents":[{"id":"x","text":"a","text":"b"}]}"#),
        (2, r#"{"documents":[{"id":"x","text":"a","metadata":{"k":1,"k":2}}]}"#),
        (3, r#"{"documents":[],"documents":[{"id":"x","text":"a"}]}"#),
    ] {
        let call = r#""jsonrpc":"2.0","method":"tools/call","params""#;
        writeln!(wire.input, r#"{{{call}:{{{name}:{arguments}}},"id":{id}}}"#).unwrap();
        let answer = wire.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32600)), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("appears twice in one object"), "{message}");
    }
    let documents = r#"[{"id":"x","text":"a","metadata":{"k":1,"k":2}}]"#;
    for (documents, says) in
        [(json!(documents), "string"), (json!([{ "id": "x", "text": "a", "metadata": [1] }]), "map")]
    {
        let params = json!({ "name": "insert", "arguments": { "documents": documents } });
        wire.send(&json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params }));
        let answer = wire.answer();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(answer["result"]["isError"] == json!(true) && text.contains(says), "{answer}");
    }
    assert_eq!(wire.end().1, Some(0));
    assert_eq!(flow.run("count", &[]).ok(), "0\n");
}

#[test]
fn parameters_of_a_wrong_form_are_told_from_an_unknown_method() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &[], "");
    for (method, params, code, says) in [
        ("tools/call", json!({ "name": "search", "arguments": "x" }), -32602, "`arguments` of `tools/call`"),
        ("tools/call", json!({ "name": "search", "arguments": [1] }), -32602, "`arguments` of `tools/call`"),
        ("tools/call", json!({ "arguments": {} }), -32602, "`name` of `tools/call`"),
        ("tools/call", json!({ "name": 5 }), -32602, "`name` of `tools/call`"),
        ("tools/call", json!([1]), -32600, "no request of JSON-RPC"),
        ("resources/read", json!({ "uri": 5 }), -32602, "`uri` of `resources/read`"),
        ("resources/read", json!({}), -32602, "`uri` of `resources/read`"),
        ("tools/calls", json!({}), -32601, "no method `tools/calls`"),
        ("resources/list", json!({ "cursor": 5 }), -32602, "`cursor` is a string"),
        ("resources/list", json!({ "cursor": ["x"] }), -32602, "`cursor` is a string"),
        ("resources/templates/list", json!({ "cursor": false }), -32602, "`cursor` is a string"),
        ("tools/list", json!({ "cursor": {} }), -32602, "`cursor` is a string"),
    ] {
        wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let answer = wire.answer();
        assert_eq!(answer["error"]["code"], json!(code), "{method} {params}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(says), "{method} {params}: {answer}");
    }
    for params in [json!({}), json!({ "cursor": null }), json!({ "cursor": "" })] {
        wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": params }));
        assert_eq!(wire.answer()["result"]["resources"], json!([]), "{params}");
        for (method, field) in [("tools/list", "tools"), ("resources/templates/list", "resourceTemplates")] {
            wire.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
            assert!(wire.answer()["result"][field].is_array(), "{method} {params}");
        }
    }
    for id in [json!(1.5), json!([1]), json!(true)] {
        wire.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        assert_eq!(wire.answer()["error"]["code"], json!(-32600), "{id}");
    }
    assert_eq!(wire.end().1, Some(0));
}

#[test]
fn the_second_of_two_requests_with_an_id_is_refused() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &["--write"], "");
    let documents: Vec<Value> = documents(200).into_iter().map(|own| json!(own)).collect();
    wire.call(1, "insert", json!({ "documents": documents }));
    wire.call(1, "stats", json!({}));
    let answer = wire.answer();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)), "{answer}");
    assert_eq!(wire.answer()["result"]["structuredContent"]["inserted"], json!(200));
    // Answered, so it may be used again.
    wire.call(1, "stats", json!({}));
    assert_eq!(wire.answer()["result"]["structuredContent"]["documents"], json!(200));
    assert_eq!(wire.end().1, Some(0));
}

#[test]
fn a_notification_before_the_first_request_is_dropped() {
    let flow = Flow::new();
    let mut command = command();
    command.args(["mcp", "--index", &flow.index()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }))
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serverInfo"), "{line}");
    drop(input);
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
    assert!(String::from_utf8(ran.stderr).unwrap().contains("before the first request"));
}
