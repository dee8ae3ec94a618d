//! Requests that are malformed or unknown.

use serde_json::{Value, json};

use super::wire::Wire;
use crate::program::Flow;

#[test]
fn malformed_documents_are_refused() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &["--write"], "");
    for (documents, says) in
        [(json!("[{"), "string"), (json!([{ "id": "x", "text": "a", "metadata": [1] }]), "map")]
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
fn malformed_parameters_are_told_from_an_unknown_method() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &[], "");
    for (method, params, code, says) in [
        ("tools/call", json!({ "name": "search", "arguments": "x" }), -32602, "`tools/call` are malformed"),
        ("tools/call", json!({ "arguments": {} }), -32602, "`tools/call` are malformed"),
        ("resources/read", json!({ "uri": 5 }), -32602, "`resources/read` are malformed"),
        ("tools/calls", json!({}), -32601, "unknown method `tools/calls`"),
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
    // Without an id to answer to.
    wire.send(&Value::from("not a request"));
    assert_eq!(wire.read()["error"]["code"], json!(-32600));
    assert_eq!(wire.end().1, Some(0));
}
