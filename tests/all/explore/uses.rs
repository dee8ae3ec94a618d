//! What the page asks for, as it asks for it.

use std::fs;

use serde_json::{Value, json};

use super::{Explorer, GETS, content, filled};
use crate::program::{Flow, text};
use crate::support::id;

#[test]
fn by_default_nothing_is_written() {
    let flow = filled(24);
    flow.run("questions", &["--log", "off"]).ok();
    let before = content(&flow.path("index"));
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    assert_eq!(session.get("/api/about").ok()["judge"], false);
    let judged = json!({ "question": "tree", "id": id(0), "grade": 1 });
    assert_eq!(session.post("/api/judge", &judged).refused(403), "read_only");
    let forgotten = json!({ "question": "tree", "id": id(0) });
    assert_eq!(session.post("/api/forget", &forgotten).refused(403), "read_only");
    for path in ["/api/learn", "/api/rollback"] {
        assert_eq!(session.post(path, &json!({})).refused(403), "read_only");
    }
    session.search("tree leaf").ok();
    session.post("/api/why", &json!({ "question": "tree leaf", "k": 5 })).ok();
    session.post("/api/leaves", &json!({})).ok();
    let leaves = session.wait("/api/leaves", |leaves| leaves["phase"] == "done");
    let documents =
        leaves["leaves"].as_array().unwrap().iter().map(|leaf| leaf["documents"].as_u64().unwrap());
    assert_eq!(documents.sum::<u64>(), 24);
    GETS.iter().for_each(|path| assert_eq!(session.get(path).status, 200, "{path}"));
    assert_eq!(content(&flow.path("index")), before);
    assert_eq!(explorer.end(), Some(0));
}

#[test]
fn hits_have_what_the_page_shows_and_options_are_heeded() {
    let flow = Flow::new();
    let hostile = "<script>alert(1)</script> \u{202e}{{tree}} leaf";
    let documents = [
        json!({ "_id": "long", "title": "Tree", "text": format!("{}tree leaf ", "nothing ".repeat(700_000)), "metadata": { "lang": "en" } }),
        json!({ "_id": "word", "text": "tree", "metadata": { "lang": "de", "tags": ["a", "b"] } }),
        json!({ "_id": "hostile", "title": hostile, "text": hostile }),
    ];
    let file = flow.path("own.jsonl");
    fs::write(&file, documents.iter().map(|document| format!("{document}\n")).collect::<String>()).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let answer = session.search("tree leaf");
    assert!(answer.body.len() < 10_000, "a text of 5 MB is not sent with each key");
    let found = answer.ok();
    let hit = |name: &str| found["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == name).unwrap();
    assert_eq!(hit("word")["excerpt"]["stretches"], json!([{ "text": "tree", "marked": true }]));
    assert_eq!(hit("hostile")["title"], hostile);
    assert_eq!(hit("word")["fields"][1]["filter"], json!({ "tags": { "$eq": "a" } }));
    assert_eq!(found["stats"]["documents_visited"], 3);
    let filtered = json!({ "question": "tree", "k": 5, "filter": hit("word")["fields"][1]["filter"] });
    let filtered = session.post("/api/search", &filtered).ok();
    assert_eq!(filtered["hits"].as_array().unwrap().len(), 1);
    let ask = |more: Value| {
        let mut ask = json!({ "question": "tree", "k": 5 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        session.post("/api/search", &ask)
    };
    assert_eq!(ask(json!({ "mode": "lexical" })).ok()["ranked_by"]["mode"], "lexical");
    assert_eq!(ask(json!({ "reach": { "leaves": 1 } })).ok()["stats"]["leaves_visited"], 1);
    assert_eq!(ask(json!({ "reach": "exact" })).ok()["stats"]["leaves_visited"], 0);
    assert!(ask(json!({ "encoder": "full" })).ok()["stats"]["encoder"] == "full");
    ask(json!({ "encoder": "fast" })).ok();
    for bad in [
        json!({ "k": 0 }),
        json!({ "k": 201 }),
        json!({ "reach": { "recall": 2.0 } }),
        json!({ "reach": { "leaves": 0 } }),
        json!({ "mode": "lexical", "reach": "exact" }),
        json!({ "encoder": "slow" }),
        json!({ "filter": { "$bad": 1 } }),
        json!({ "question": " " }),
    ] {
        assert_eq!(ask(bad).refused(400), "bad_request");
    }
    // All of the long text, piece by piece.
    let (mut from, mut whole) = (0, String::new());
    loop {
        let piece = session.post("/api/document", &json!({ "id": "long", "from": from })).ok();
        let stretches = piece["stretches"].as_array().unwrap();
        whole.extend(stretches.iter().map(|stretch| stretch["text"].as_str().unwrap()));
        match piece["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(whole, documents[0]["text"].as_str().unwrap());
    assert_eq!(
        session.post("/api/document", &json!({ "id": "long", "from": 1_u64 << 40 })).refused(400),
        "bad_request"
    );
    let why = json!({ "question": "tree", "k": 5, "reach": { "leaves": 1 } });
    let why = session.post("/api/why", &why).ok();
    let visited = why["leaves"][0]["leaf"].as_u64().unwrap();
    assert!(why["hits"].as_array().unwrap().iter().all(|hit| hit["from"] == visited), "{why}");
    for exact in why["exact"].as_array().unwrap() {
        assert_eq!(exact["visited"], exact["leaf"] == visited, "{exact}");
    }
}

#[test]
fn what_another_process_writes_is_shown_and_an_index_that_is_gone_is_missed() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let before = session.get("/api/about").ok();
    flow.insert(24);
    let after = session.wait("/api/about", |about| about["documents"] == 24);
    assert_ne!(before["generation"], after["generation"]);
    flow.run("delete", &[&id(3)]).ok();
    session.wait("/api/about", |about| about["documents"] == 23);
    assert_eq!(session.post("/api/document", &json!({ "id": id(3) })).status, 404);
    fs::rename(flow.path("index"), flow.path("elsewhere")).unwrap();
    let gone = session.wait("/api/about", |about| about["error"] == "gone");
    assert!(gone["message"].as_str().unwrap().contains("cannot be read any more"), "{gone}");
    assert_eq!(session.search("tree").refused(503), "gone");
    fs::rename(flow.path("elsewhere"), flow.path("index")).unwrap();
    session.wait("/api/about", |about| about["documents"] == 23);
    drop(explorer);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    fs::rename(flow.path("index"), flow.path("elsewhere")).unwrap();
    session.wait("/api/about", |about| about["error"] == "gone");
}

#[test]
fn judgments_are_kept_listed_and_undone_and_questions_logged_when_asked() {
    let flow = filled(12);
    flow.run("questions", &["--log", "on"]).ok();
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    let line = flow.run("insert", &["-"]).failure();
    assert!(line.contains("open for writing elsewhere"), "{line}");
    let judge = |id: &str, grade: i32| {
        session.post("/api/judge", &json!({ "question": "what is a tree?", "id": id, "grade": grade }))
    };
    assert_eq!(judge(&id(0), 2).ok()["added"], 1);
    assert_eq!(judge(&id(0), 1).ok()["replaced"], 1);
    judge(&id(6), 0).ok();
    judge("absent", 1).ok();
    assert_eq!(judge("", 1).refused(400), "bad_request");
    // Others see them at once.
    let said = flow.run("judgments", &["--json"]).ok();
    assert_eq!(said.lines().count(), 3, "{said}");
    let list = session.get("/api/judgments").ok();
    assert_eq!((&list["all"], &list["questions"]), (&json!(3), &json!(1)));
    let absent = list["judgments"].as_array().unwrap().iter().find(|own| own["id"] == "absent").unwrap();
    assert_eq!(absent["title"], Value::Null);
    let forget = json!({ "question": "what is a tree?", "id": "absent" });
    assert_eq!(session.post("/api/forget", &forget).ok()["forgotten"], 1);
    assert_eq!(session.post("/api/forget", &forget).ok()["forgotten"], 0);
    session.post("/api/search", &json!({ "question": "tre", "k": 1 })).ok();
    session.post("/api/search", &json!({ "question": "tree", "k": 1, "asked": true })).ok();
    let logged = flow.run("questions", &["--json"]).ok();
    assert!(logged.lines().count() == 1 && logged.contains("\"tree\""), "{logged}");
    session.post("/api/learn", &json!({})).ok();
    let job = session.wait("/api/job", |job| job["phase"] != "running");
    assert_eq!((&job["phase"], &job["learned"]["decision"]), (&json!("learned"), &json!("too_few")));
    assert_eq!(session.post("/api/decide", &json!({ "use": true })).refused(409), "nothing_to_decide");
    session.post("/api/rollback", &json!({})).ok();
    let job = session.wait("/api/job", |job| job["phase"] != "running");
    assert!(job["message"].as_str().unwrap().contains("no earlier model"), "{job}");
    assert_eq!(explorer.end(), Some(0));
    assert_eq!(flow.run("judgments", &["--json"]).ok().lines().count(), 2);
}
