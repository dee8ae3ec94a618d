//! The tools that write.

use ehi::Index;
use serde_json::{Value, json};

use super::{Session, ids};
use crate::program::Flow;
use crate::support::{documents, id};

fn given(count: usize) -> Vec<Value> {
    documents(count).into_iter().map(|document| json!(document)).collect()
}

#[test]
fn documents_are_stored_replaced_and_deleted() {
    let flow = Flow::new();
    let session = Session::open(&flow, &["--write"]);
    let answer = session.call("insert", json!({ "documents": given(40) }));
    assert_eq!((&answer["inserted"], &answer["documents"]), (&json!(40), &json!(40)));
    // On disk, and visible to others.
    assert_eq!(flow.run("count", &[]).ok(), "40\n");
    let stored = flow.run("get", &[&id(3)]).json();
    assert_eq!((&stored["text"], &stored["metadata"]), (&given(4)[3]["text"], &given(4)[3]["metadata"]));
    let mut more = given(41);
    more.push(json!({ "id": "", "text": "no id" }));
    more.push(json!({ "id": "empty", "text": "" }));
    more.push(json!({ "id": id(40), "text": "gene" }));
    let answer = session.call("insert", json!({ "documents": &more[30..] }));
    assert_eq!((&answer["replaced"], &answer["refused"]), (&json!(10), &json!(2)));
    let refusals = answer["refusals"].as_array().unwrap();
    let places: Vec<&Value> = refusals.iter().map(|refusal| &refusal["position"]).collect();
    assert_eq!(places, [&json!(11), &json!(12)]);
    assert!(refusals[1]["reason"].as_str().unwrap().contains("neither title nor text"), "{answer}");
    assert_eq!(answer["documents"], json!(41));
    assert_eq!(session.call("get", json!({ "id": id(40) }))["content"], json!("gene"));
    let found =
        session.call("search", json!({ "question": "gene cell protein virus", "filter": { "place": 13 } }));
    assert_eq!(ids(&found), [id(13)]);
    let answer = session.call("delete", json!({ "ids": [id(1), id(2), id(1), "absent"] }));
    assert_eq!((&answer["deleted"], &answer["absent"]), (&json!(2), &json!(1)));
    assert_eq!(flow.run("count", &[]).ok(), "39\n");
    assert!(session.failure("get", json!({ "id": id(1) })).contains("no document has the id"));
    session.done();
    let index = Index::open(flow.path("index")).unwrap();
    assert!(index.verify().unwrap().is_sound() && index.notices().is_empty());
}

#[test]
fn judgments_are_given_and_taken_back() {
    let flow = Flow::new();
    flow.insert(10);
    let session = Session::open(&flow, &["--write"]);
    let answer =
        session.call("judge", json!({ "question": "what?", "id": id(1), "grade": 2, "weight": 0.5 }));
    assert_eq!((&answer["added"], &answer["judgments"]), (&json!(true), &json!(1)));
    let answer = session.call("judge", json!({ "question": "what?", "id": id(1), "grade": -1 }));
    assert_eq!((&answer["replaced"], &answer["judgments"]), (&json!(true), &json!(1)));
    let answer = session.call("judge", json!({ "question": "what?", "id": "later" }));
    assert!(answer["notes"].to_string().contains("no document has the id `later`"), "{answer}");
    let listed = flow.run("judgments", &["--json"]).ok();
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut grades: Vec<_> = listed.iter().map(|own| (own["id"].to_string(), own["grade"].clone())).collect();
    grades.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(grades, [(json!(id(1)).to_string(), json!(-1)), ("\"later\"".to_owned(), json!(1))]);
    let forget = json!({ "question": "what?", "id": id(1), "forget": true });
    let both = json!({ "question": "what?", "id": id(1), "forget": true, "grade": 2 });
    assert!(session.failure("judge", both).contains("leave out `grade` and `weight`, or `forget`"));
    assert_eq!(session.call("judge", forget.clone())["forgotten"], json!(true));
    assert!(session.failure("judge", forget).contains("no judgment"));
    session.done();
}

#[test]
fn a_search_says_that_a_judged_document_was_replaced() {
    let flow = Flow::new();
    flow.insert(10);
    let session = Session::open(&flow, &["--write"]);
    session.call("judge", json!({ "question": "what?", "id": id(1) }));
    let first = |session: &Session| session.call("search", json!({ "question": "what?" }))["hits"][0].clone();
    let hit = first(&session);
    assert_eq!((&hit["id"], &hit["judged"], &hit["stale"]), (&json!(id(1)), &json!("what?"), &Value::Null));
    session.call("insert", json!({ "documents": [{ "id": id(1), "text": "another gene" }] }));
    let found = session.call("search", json!({ "question": "what?" }));
    let hit = found["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == json!(id(1)));
    assert_eq!(hit.unwrap()["stale"], json!(true), "{found}");
    session.done();
}

#[test]
fn writes_that_make_no_sense_store_nothing() {
    let flow = Flow::new();
    flow.insert(10);
    let session = Session::open(&flow, &["--write"]);
    let many: Vec<Value> =
        (0..1_001).map(|number| json!({ "id": number.to_string(), "text": "gene" })).collect();
    for (tool, arguments, says) in [
        ("insert", json!({ "documents": [] }), "from 1 to 1000"),
        ("insert", json!({ "documents": many }), "from 1 to 1000"),
        ("insert", json!({ "documents": [{ "id": "a" }] }), "missing field `text`"),
        (
            "insert",
            json!({ "documents": [{ "id": "a", "text": "b", "lang": "en" }] }),
            "unknown field `lang`",
        ),
        ("insert", json!({ "documents": "gene" }), "expected a sequence"),
        ("delete", json!({ "ids": [] }), "from 1 to 1000"),
        ("delete", json!({ "ids": id(1) }), "expected a sequence"),
        ("judge", json!({ "question": "", "id": id(1) }), "empty"),
        ("judge", json!({ "question": "q", "id": "" }), "bytes"),
        ("judge", json!({ "question": "q", "id": id(1), "weight": 2 }), "at most 1"),
    ] {
        let said = session.failure(tool, arguments.clone());
        assert!(said.contains(says), "{tool}: {said}");
    }
    assert_eq!(session.call("stats", json!({}))["documents"], json!(10));
    assert_eq!(flow.run("judgments", &["--json"]).ok(), "");
    session.done();
}

#[test]
fn progress_of_an_insert_is_told() {
    let flow = Flow::new();
    let session = Session::open(&flow, &["--write"]);
    session.call("insert", json!({ "documents": given(300) }));
    let told = session.client.told.lock().unwrap().clone();
    assert!(!told.is_empty() && told.is_sorted(), "{told:?}");
    assert!(told.iter().all(|&(done, of)| done > 0.0 && done <= 300.0 && of == Some(300.0)), "{told:?}");
    session.done();
}
