//! How a session begins and ends, and what other processes do to its index in the meantime.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::wire::Wire;
use super::{Session, error_of, ids};
use crate::program::{Flow, Ran, SHAPE, command, ehi, text};
use crate::support::{bundle, documents};

/// Part of the error of a second writer.
const LOCKED: &str = "open for writing";

fn given(range: std::ops::Range<usize>) -> Vec<Value> {
    let documents = documents(range.end).into_iter().skip(range.start);
    documents.map(|own| json!({ "id": own.id, "text": format!("{} ", own.text).repeat(40) })).collect()
}

fn count(flow: &Flow) -> u64 {
    let stats = flow.run("stats", &["--json"]).json();
    assert_eq!(stats["memtable_documents"], json!(0), "all of it is flushed");
    stats["documents"].as_u64().unwrap()
}

#[test]
fn the_end_of_input_ends_it() {
    let flow = Flow::new();
    // Without any message.
    let ran =
        Ran::of(command().args(["mcp", "--index", &flow.index()]).stdin(Stdio::null()).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    // In the middle of an insert, which is completed if it does not take long.
    let mut wire = Wire::open(&flow, &["--write"], "");
    wire.call(1, "insert", json!({ "documents": given(0..40) }));
    let (left, code, said) = wire.end();
    assert_eq!((code, said), (Some(0), String::new()));
    let answer = left.iter().find(|message| message["id"] == 1).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["inserted"], json!(40));
    assert_eq!(count(&flow), 40);
}

#[test]
fn a_signal_ends_it_in_good_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let flow = Flow::new();
        let mut wire = Wire::open(&flow, &["--write"], "");
        wire.call(1, "insert", json!({ "documents": given(0..1_000) }));
        // It is working.
        assert_eq!(wire.read()["method"], json!("notifications/progress"));
        kill_process(Pid::from_child(&wire.child), signal).unwrap();
        // Standard input stays open.
        let mut rest = String::new();
        wire.output.read_to_string(&mut rest).unwrap();
        assert_eq!(wire.child.wait().unwrap().code(), Some(0), "{signal:?}");
        let stored = count(&flow);
        assert!((32..1_000).contains(&stored), "{signal:?}: {stored}");
        let mut answer = rest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answer = answer.rfind(|message| message["id"] == 1).unwrap();
        let told = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(told.contains(&format!("cancelled; {stored} of the 1000 documents are stored")), "{told}");
        assert!(flow.run("verify", &[]).ok().contains("sound"));
    }
}

#[test]
fn a_signal_ends_it_before_anybody_spoke() {
    let flow = Flow::new();
    let mut command = command();
    // It waits if the other command is first.
    command.args(["mcp", "--index", &flow.index(), "--write", "--wait", "60"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    // It handles signals before it takes the lock.
    while !flow.run("delete", &["absent"]).failure().contains(LOCKED) {
        assert!(child.try_wait().unwrap().is_none(), "it has not been asked to end");
        thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(input);
}

#[test]
fn a_client_that_is_gone_ends_it() {
    let flow = Flow::new();
    let mut wire = Wire::open(&flow, &["--write"], "");
    wire.call(1, "insert", json!({ "documents": given(0..10) }));
    wire.answer();
    let Wire { mut child, mut input, output, .. } = wire;
    drop(output);
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    std::io::Write::write_all(&mut input, format!("{request}\n").as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(count(&flow), 10);
}

#[test]
fn a_client_that_does_not_read_keeps_it_for_seconds_alone() {
    for by_signal in [false, true] {
        let flow = Flow::new();
        let mut wire = Wire::open(&flow, &["--write"], "");
        for id in 0..40 {
            wire.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }));
        }
        // The pipe is full of answers.
        thread::sleep(Duration::from_millis(500));
        let Wire { mut child, input, output, .. } = wire;
        let input = match by_signal {
            true => {
                kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
                Some(input)
            }
            false => {
                drop(input);
                None
            }
        };
        let begun = Instant::now();
        let code = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if begun.elapsed() > Duration::from_secs(60) => {
                    child.kill().unwrap();
                    panic!("it is still there");
                }
                None => thread::sleep(Duration::from_millis(50)),
            }
        };
        assert_eq!(code, Some(0));
        drop((input, output));
    }
}

#[test]
fn what_another_process_writes_is_found() {
    let flow = Flow::new();
    flow.insert(10);
    let reader = Session::open(&flow, &[]);
    let search = json!({ "question": "gene", "filter": { "place": { "$gte": 10 } } });
    assert_eq!(ids(&reader.call("search", search.clone())), [""; 0]);
    flow.insert(20);
    assert_eq!(ids(&reader.call("search", search.clone())).len(), 10);
    // From now on, another model is in service.
    let other = bundle(crate::support::Shape::of_height(1));
    flow.run("reencode", &["--model", text(other.path())]).ok();
    assert_eq!(ids(&reader.call("search", search.clone())).len(), 10);
    assert_eq!(reader.call("stats", json!({}))["model"], json!(other.hash().to_string()));
    // A session that writes alongside one that reads; a second writer is refused.
    let writer = Session::open(&flow, &["--write"]);
    writer.call(
        "insert",
        json!({ "documents": [{ "id": "new", "text": "gene", "metadata": { "place": 99 } }] }),
    );
    assert_eq!(ids(&reader.call("search", search.clone())).len(), 10, "k is 10");
    assert_eq!(reader.call("get", json!({ "id": "new" }))["content"], json!("gene"));
    let second = flow.run("mcp", &["--write"]);
    assert!(second.failure().contains(LOCKED), "a writer is there");
    assert!(flow.run("insert", &[text(&flow.path("documents.jsonl"))]).failure().contains(LOCKED));
    writer.call("delete", json!({ "ids": ["new"] }));
    assert!(reader.failure("get", json!({ "id": "new" })).contains("no document"));
    writer.done();
    reader.done();
}

#[test]
fn an_index_that_vanishes_is_an_error_until_one_is_there_again() {
    let flow = Flow::new();
    flow.insert(10);
    let reader = Session::open(&flow, &[]);
    reader.call("search", json!({ "question": "gene" }));
    fs::rename(flow.path("index"), flow.path("away")).unwrap();
    for (tool, arguments) in [("search", json!({ "question": "gene" })), ("stats", json!({}))] {
        let said = reader.failure(tool, arguments);
        assert!(said.contains("index"), "{said}");
    }
    // Another one, with fewer documents.
    ehi(["create", "--index", &flow.index(), "--model", text(bundle(SHAPE).path())]).ok();
    assert_eq!(reader.call("stats", json!({}))["documents"], json!(0));
    flow.insert(3);
    assert_eq!(reader.call("stats", json!({}))["documents"], json!(3));
    let (code, said) = reader.end();
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains("another index is there"), "{said}");
}

#[test]
fn a_writer_whose_index_vanishes_or_is_replaced_says_so_until_it_is_back() {
    let flow = Flow::new();
    let writer = Session::open(&flow, &["--write"]);
    writer.call("insert", json!({ "documents": given(0..10) }));
    let calls = [
        ("search", json!({ "question": "gene" })),
        ("stats", json!({})),
        ("insert", json!({ "documents": given(10..20) })),
        ("delete", json!({ "ids": ["absent"] })),
        ("judge", json!({ "question": "gene", "id": "absent" })),
    ];
    let all_say = |says: &str| {
        for (tool, arguments) in calls.clone() {
            let said = writer.failure(tool, arguments);
            assert!(said.contains(says) && said.contains("start the server again"), "{tool}: {said}");
            assert!(said.contains(&flow.index()), "{tool}: {said}");
        }
        let listed = writer.runtime.block_on(writer.service.list_resources(None));
        assert!(error_of(listed).message.contains(says));
    };
    fs::rename(flow.path("index"), flow.path("away")).unwrap();
    all_say("is gone");
    ehi(["create", "--index", &flow.index(), "--model", text(bundle(SHAPE).path())]).ok();
    all_say("was replaced by another");
    // Nothing was written to the other one, and the session is still usable.
    assert_eq!(count(&flow), 0);
    fs::rename(flow.path("index"), flow.path("other")).unwrap();
    fs::rename(flow.path("away"), flow.path("index")).unwrap();
    let answer = writer.call("insert", json!({ "documents": given(10..20) }));
    assert_eq!(answer["documents"], json!(20));
    assert_eq!(ids(&writer.call("search", json!({ "question": "gene" }))).len(), 10);
    fs::remove_dir_all(flow.path("index")).unwrap();
    all_say("is gone");
    // Nothing waits: the final message says what happened to the index, and does not mention a flush.
    let (code, said) = writer.end();
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("is gone") && !said.contains("flush"), "{said}");
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let flow = Flow::new();
    let absent = text(&flow.path("absent")).to_owned();
    let ran = ehi(["mcp", "--index", &absent]);
    assert_eq!(ran.out, "");
    assert!(ran.failure().contains("absent"));
    assert!(flow.run("mcp", &["--wait", "1"]).failure().contains("`--wait` is for `--write`"));
    assert_eq!(ehi(["mcp"]).code, Some(2));
}
