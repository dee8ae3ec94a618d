//! `ehi mcp` with observed behaviour of agents and editors. The schema forms that clients refuse are in
//! `mcp/schemas.rs`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::mcp::wire::Wire;
use crate::program::{Flow, command};

fn initialize(version: &str, capabilities: Value) -> Value {
    let params = json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": { "name": "a client", "version": "0" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn request(id: u64, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method })
}

/// A client of any version gets an answer in a version that both may know, and never an error: pull request
/// 428 of lossless-claude/lcm, issue 1003 of sickn33/agentic-awesome-skills, issue 329 of
/// coddingtonbear/obsidian-local-rest-api.
#[test]
fn a_client_of_any_version_is_answered() {
    let flow = Flow::new();
    flow.insert(3);
    let newest = "2025-11-25";
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        (newest, newest),
        ("2024-10-07", newest),
        ("2099-01-01", newest),
    ] {
        let mut wire = Wire::begin(&flow, &[], "");
        let apps = json!({ "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html"] } } });
        wire.send(&initialize(asked, apps));
        let answer = wire.answer();
        assert_eq!(answer["result"]["protocolVersion"], json!(answered), "{asked}: {answer}");
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        wire.call(1, "stats", json!({}));
        let result = &wire.answer()["result"];
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        // The text is for clients that do not know the other form, in particular older ones.
        assert_eq!((&text, &text["documents"]), (&result["structuredContent"], &json!(3)), "{asked}");
        assert_eq!(wire.end().1, Some(0));
    }
}

/// Requests before the client's initialized notification, and signals without a meaning here: issue 23 of
/// f/mcptools.
#[test]
fn a_client_need_not_say_that_it_is_ready() {
    let flow = Flow::new();
    flow.insert(3);
    let mut wire = Wire::begin(&flow, &[], "");
    wire.send(&initialize("2024-11-05", json!({ "roots": { "listChanged": true } })));
    wire.answer();
    wire.send(&request(1, "ping"));
    assert_eq!(wire.answer()["result"], json!({}));
    wire.send(&request(2, "tools/list"));
    assert_eq!(wire.answer()["result"]["tools"].as_array().unwrap().len(), 5);
    for method in ["notifications/roots/list_changed", "notifications/message", "notifications/unknown"] {
        wire.send(&json!({ "jsonrpc": "2.0", "method": method, "params": {} }));
    }
    // Requests for features that this server does not offer.
    for (id, method) in [(3, "prompts/list"), (4, "completion/complete"), (5, "logging/setLevel")] {
        wire.send(&request(id, method));
        let answer = wire.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)), "{answer}");
    }
    wire.call(6, "stats", json!({}));
    assert_eq!(wire.answer()["result"]["structuredContent"]["documents"], json!(3));
    assert_eq!(wire.end().1, Some(0));
}

/// A client that exits closes all pipes, so the last messages cannot be written: pull request 153 of
/// a-bonus/google-docs-mcp, issue 60 of codefuturist/email-mcp.
#[test]
fn a_server_outlives_its_standard_error_and_not_its_standard_input() {
    let flow = Flow::new();
    flow.insert(3);
    let mut command = command();
    command.args(["mcp", "--index", &flow.index()]).env("RUST_LOG", "trace");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stderr.take());
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    writeln!(input, "no JSON, which is warned of").unwrap();
    writeln!(input, "{}", initialize("2025-06-18", json!({}))).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("\"result\""), "{line}");
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Lists, objects and numbers given as JSON texts: issue 59227 of anthropics/claude-code, issue 6067 of
/// webstudio-is/webstudio, issue 1093 of netclaw-dev/netclaw.
#[test]
fn arguments_may_come_as_texts_of_json() {
    let flow = Flow::new();
    flow.insert(3);
    let mut wire = Wire::open(&flow, &["--write"], "");
    let mut call = |tool: &str, arguments: Value| -> Value {
        wire.call(9, tool, arguments.clone());
        let result = wire.answer()["result"].clone();
        assert_eq!(result["isError"], json!(false), "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    };
    let document = json!({ "id": "7", "text": "cell [1]", "metadata": "{\"tags\": [\"a\"]}" });
    let inserted = call("insert", json!({ "documents": json!([document]).to_string() }));
    assert_eq!(inserted["inserted"], json!(1), "{inserted}");
    let found = call(
        "search",
        json!({ "question": "3", "k": "2", "passage_bytes": "40", "filter": "{\"tags\": \"a\"}" }),
    );
    assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["hits"][0]["metadata"], json!({ "tags": ["a"] }));
    assert!(
        call("judge", json!({ "question": "q", "id": "7", "grade": "2", "weight": "0.5" }))["added"] == true
    );
    assert!(call("judge", json!({ "question": "q", "id": "7", "forget": "true" }))["forgotten"] == true);
    assert_eq!(call("delete", json!({ "ids": "[\"7\", \"absent\"]" }))["deleted"], json!(1));
    // A text stays a text.
    assert_eq!(call("get", json!({ "id": "doc-0001", "limit": "16" }))["id"], json!("doc-0001"));
    assert_eq!(wire.end().1, Some(0));
}
