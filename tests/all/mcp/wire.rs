//! The protocol line by line: what a client never sends, or cannot see.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::program::{Flow, command};
use crate::support::documents;

/// A session whose lines the test writes and reads itself.
pub struct Wire {
    pub child: Child,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
    /// All of standard error, read continuously so that it never blocks.
    said: JoinHandle<String>,
}

impl Wire {
    /// A session before any message.
    pub fn begin(flow: &Flow, options: &[&str], log: &str) -> Self {
        let mut command = command();
        command.args(["mcp", "--index", &flow.index()]).args(options).env("RUST_LOG", log);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut errors = child.stderr.take().unwrap();
        let said = thread::spawn(move || {
            let mut said = String::new();
            errors.read_to_string(&mut said).unwrap();
            said
        });
        Self { child, input, output, said }
    }

    pub fn open(flow: &Flow, options: &[&str], log: &str) -> Self {
        let mut wire = Self::begin(flow, options, log);
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        wire.send(&json!({ "jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params }));
        let answer = wire.read();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!("begin"), &json!("2025-06-18"))
        );
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        wire
    }

    pub fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    pub fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": id } });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    pub fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id, "reason": "not needed" });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    pub fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], json!("2.0"));
        message
    }

    /// The next answer, skipping progress notifications.
    pub fn answer(&mut self) -> Value {
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    /// Ends its input; returns the remaining messages, the exit status, and standard error.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>, String) {
        drop(self.input);
        let mut left = Vec::new();
        for line in self.output.lines() {
            left.push(serde_json::from_str(&line.unwrap()).unwrap());
        }
        (left, self.child.wait().unwrap().code(), self.said.join().unwrap())
    }
}

fn filled(count: usize) -> Flow {
    let flow = Flow::new();
    flow.insert(count);
    flow
}

/// Documents that take a while to store.
fn long(count: usize) -> Vec<Value> {
    let text = |document: ehi::Document| format!("{} ", document.text).repeat(40);
    let long = |document: ehi::Document| json!({ "id": document.id.clone(), "text": text(document) });
    documents(count).into_iter().map(long).collect()
}

#[test]
fn nothing_but_the_protocol_is_on_standard_output() {
    let flow = filled(20);
    let mut wire = Wire::open(&flow, &["--write"], "trace");
    wire.call(1, "search", json!({ "question": "+gene \"cell", "filter": { "absent": 1 } }));
    wire.call(2, "insert", json!({ "documents": long(3) }));
    wire.call(3, "search", json!({ "question": 7 }));
    wire.call(4, "nothing", json!({}));
    wire.send(&json!({ "jsonrpc": "2.0", "id": 5, "method": "no/such/method" }));
    wire.send(&json!({ "jsonrpc": "2.0", "id": 6, "method": "ping" }));
    let mut answers: Vec<Value> = (0..6).map(|_| wire.answer()).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let errors: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["code"]).collect();
    let null = &Value::Null;
    assert_eq!(errors, [null, null, null, &json!(-32602), &json!(-32601), null]);
    assert_eq!(answers[2]["result"]["isError"], json!(true));
    let (mut left, code, said) = wire.end();
    // A slow machine reports progress.
    left.retain(|message| message["method"] != "notifications/progress");
    assert_eq!((left, code), (Vec::new(), Some(0)));
    assert!(said.lines().count() > 10 && said.lines().all(|line| line.starts_with("ehi: ")), "{said}");
}

#[test]
fn a_request_that_is_too_long_is_refused_and_the_session_goes_on() {
    let flow = filled(20);
    let mut wire = Wire::open(&flow, &["--write"], "");
    let insert = |size: usize| json!({ "documents": [{ "id": "big", "text": "gene ".repeat(size) }] });
    wire.call(1, "insert", insert(1_800_000));
    let answer = wire.answer();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(true)), "{answer}");
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("give fewer or shorter documents"), "{said}");
    // A longer line is dropped before it is parsed.
    wire.call(2, "insert", insert(4_000_000));
    wire.call(3, "stats", json!({}));
    let answer = wire.answer();
    assert_eq!((&answer["id"], &answer["result"]["structuredContent"]["documents"]), (&json!(3), &json!(20)));
    let (left, code, said) = wire.end();
    assert_eq!((left, code, said.lines().count()), (Vec::new(), Some(0), 1), "{said}");
}

#[test]
fn what_is_no_message_does_not_end_the_session() {
    let flow = filled(5);
    let mut wire = Wire::open(&flow, &[], "");
    for line in ["", "{", "gene", "[]", "\u{feff}", "{\"jsonrpc\":\"2.0\",\"method\":\"$/unknown\"}", "null"]
    {
        writeln!(wire.input, "{line}").unwrap();
    }
    wire.input.write_all(b"\xff\xfe{}\n").unwrap();
    wire.call(1, "stats", json!({}));
    let answer = loop {
        let answer = wire.answer();
        if answer["id"] == 1 {
            break answer;
        }
        // Valid JSON that is not a request, without an id to answer to.
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    };
    assert_eq!(answer["result"]["structuredContent"]["documents"], json!(5));
    let (_, code, said) = wire.end();
    assert_eq!(code, Some(0));
    // `{`, `gene` and the bytes that are not UTF-8.
    let warns = |line: &str| line.starts_with("ehi: warning: a line that is not JSON was ignored: ");
    assert!(said.lines().count() == 3 && said.lines().all(warns), "{said}");
}

#[test]
fn a_flood_of_calls_is_answered_or_refused() {
    let flow = filled(50);
    let mut wire = Wire::open(&flow, &[], "");
    const CALLS: u64 = 400;
    let mut input = wire.input;
    let writer = thread::spawn(move || {
        for id in 0..CALLS {
            let arguments = json!({ "question": "gene ".repeat(1_000), "mode": "dense" });
            let params = json!({ "name": "search", "arguments": arguments });
            writeln!(
                input,
                "{}",
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
            )
            .unwrap();
        }
        input
    });
    let mut answered = vec![0; CALLS as usize];
    let (mut found, mut refused) = (0, 0);
    for _ in 0..CALLS {
        let mut line = String::new();
        wire.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        answered[answer["id"].as_u64().unwrap() as usize] += 1;
        match answer.get("error") {
            Some(error) => {
                assert!(error["message"].as_str().unwrap().contains("64 calls"), "{error}");
                refused += 1;
            }
            None => found += 1,
        }
    }
    wire.input = writer.join().unwrap();
    assert!(answered.iter().all(|&count| count == 1));
    assert!(found >= 64, "{found} answered, {refused} refused");
    wire.call(CALLS, "stats", json!({}));
    assert!(wire.answer().get("error").is_none());
    assert_eq!(wire.end().1, Some(0));
}

#[test]
fn a_cancelled_insert_stops_and_stores_what_it_had() {
    let flow = filled(5);
    let mut wire = Wire::open(&flow, &["--write"], "");
    let documents: Vec<Value> = (0..2).flat_map(|_| long(500)).collect();
    wire.call(7, "insert", json!({ "documents": documents }));
    let told = wire.read();
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(7))
    );
    wire.cancel(7);
    // It has no answer; the call in progress is completed before the next write.
    wire.call(8, "delete", json!({ "ids": ["absent"] }));
    let answer = wire.answer();
    assert_eq!(answer["id"], json!(8), "{answer}");
    let documents = answer["result"]["structuredContent"]["documents"].as_u64().unwrap();
    assert!((32..500).contains(&documents), "{documents}");
    let (left, code, said) = wire.end();
    assert!(left.iter().all(|message| message.get("id").is_none()), "{left:?}");
    assert_eq!((code, said), (Some(0), String::new()));
    let stored: u64 = flow.run("count", &[]).ok().trim().parse().unwrap();
    assert!((documents..500).contains(&stored), "{stored}");
    assert!(flow.run("verify", &[]).ok().contains("sound"));
}

#[test]
fn a_call_that_waits_is_cancelled_before_it_begins() {
    let flow = filled(5);
    let mut wire = Wire::open(&flow, &["--write"], "");
    // As many as there are threads, and more.
    let threads = thread::available_parallelism().unwrap().get() as u64;
    for id in 0..=threads {
        wire.call(id, "insert", json!({ "documents": long(300) }));
    }
    wire.call(100, "delete", json!({ "ids": ["doc-0001"] }));
    wire.cancel(100);
    let mut answered: Vec<u64> = (0..=threads).map(|_| wire.answer()["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..=threads).collect::<Vec<_>>());
    let (left, code, _) = wire.end();
    assert!(left.iter().all(|message| message.get("id").is_none()), "{left:?}");
    assert_eq!(code, Some(0));
    flow.run("get", &["doc-0001"]).ok();
}
