//! The requests of the page, as it sends them.

use std::fs;

use serde_json::{Value, json};

use super::{Explorer, GETS, content, filled, store};
use crate::program::{Flow, text};
use crate::support::id;

#[test]
fn by_default_nothing_is_written() {
    let flow = filled(24);
    // Not even where questions are logged.
    flow.run("questions", &["--log", "on"]).ok();
    let before = content(&flow.path("index"));
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let about = session.get("/api/about").ok();
    assert_eq!((&about["judge"], &about["encoder"]), (&json!(false), &json!(true)));
    let judged = json!({ "question": "tree", "id": id(0), "grade": 1 });
    assert_eq!(session.post("/api/judge", &judged).refused(403), "read_only");
    let forgotten = json!({ "question": "tree", "id": id(0) });
    assert_eq!(session.post("/api/judge", &forgotten).refused(403), "read_only");
    for path in ["/api/learn", "/api/rollback"] {
        assert_eq!(session.post(path, &json!({})).refused(403), "read_only");
    }
    session.search("tree leaf").ok();
    session.post("/api/search", &json!({ "question": "tree", "k": 1, "asked": true })).ok();
    session.post("/api/why", &json!({ "question": "tree leaf", "k": 5 })).ok();
    let leaves = session.get("/api/leaves").ok();
    let documents =
        leaves["leaves"].as_array().unwrap().iter().map(|leaf| leaf["documents"].as_u64().unwrap());
    assert_eq!(documents.sum::<u64>(), 24);
    GETS.iter().for_each(|path| assert_eq!(session.get(path).status, 200, "{path}"));
    assert_eq!(content(&flow.path("index")), before);
    assert_eq!(explorer.end(), Some(0));
}

#[test]
fn hits_have_what_the_page_shows_and_options_are_heeded() {
    let flow = Flow::with(&["--whole"]);
    let hostile = "<script>alert(1)</script> \u{202e}{{tree}} leaf";
    let documents = [
        json!({ "_id": "long", "title": "Tree", "text": format!("{}tree leaf ", "nothing ".repeat(700_000)), "metadata": { "lang": "en" } }),
        json!({ "_id": "word", "text": "tree", "metadata": { "lang": "de", "tags": ["a", "b"] } }),
        json!({ "_id": "hostile", "title": hostile, "text": hostile, "metadata": { "lang": "en" } }),
    ];
    store(&flow, &documents);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let answer = session.search("tree leaf");
    assert!(answer.body.len() < 10_000, "a text of 5 MB is not sent with each key");
    let found = answer.ok();
    let hit = |name: &str| found["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == name).unwrap();
    assert_eq!(hit("word")["excerpt"]["stretches"], json!([{ "text": "tree", "marked": true }]));
    assert_eq!(hit("hostile")["title"], hostile);
    assert_eq!(hit("word")["fields"][1]["filter"], r#"{"tags":{"$eq":"a"}}"#);
    assert_eq!(found["stats"]["documents_visited"], 3);
    // Scores have the digits of their 32 bits.
    let scores = found["hits"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap());
    scores.for_each(|score| assert_eq!(score.to_string(), (score as f32).to_string()));
    let filtered = json!({ "question": "tree", "k": 5, "filters": [hit("word")["fields"][1]["filter"]] });
    let filtered = session.post("/api/search", &filtered).ok();
    assert_eq!(filtered["hits"].as_array().unwrap().len(), 1);
    let ask = |more: Value| {
        let mut ask = json!({ "question": "tree", "k": 5 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        session.post("/api/search", &ask)
    };
    assert_eq!(ask(json!({ "mode": "lexical" })).ok()["ranked_by"]["mode"], "lexical");
    // Values that only one document has are not offered.
    let english =
        json!({ "name": "lang", "value": "en", "filter": r#"{"lang":{"$eq":"en"}}"#, "documents": 2 });
    let lang = json!({ "name": "lang", "values": [english], "distinct": 2 });
    assert_eq!(ask(json!({ "facets": true })).ok()["facets"], json!([lang]));
    assert_eq!(ask(json!({ "beam": 1 })).ok()["stats"]["leaves_visited"], 1);
    assert_eq!(ask(json!({ "exact": true })).ok()["stats"]["leaves_visited"], 0);
    assert!(ask(json!({ "encoder": "full" })).ok()["stats"]["encoder"] == "full");
    ask(json!({ "encoder": "fast" })).ok();
    for bad in [
        json!({ "k": 0 }),
        json!({ "k": 201 }),
        json!({ "recall": 2.0 }),
        json!({ "beam": 0 }),
        json!({ "mode": "lexical", "exact": true }),
        json!({ "encoder": "slow" }),
        json!({ "filters": ["{\"$bad\":1}"] }),
        json!({ "filters": ["{"] }),
        json!({ "question": " " }),
    ] {
        assert_eq!(ask(bad).refused(400), "bad_request");
    }
    // A long text around its passage, and in parts.
    let text = documents[0]["text"].as_str().unwrap();
    let shown = |own: &Value, field: &str| {
        let stretches = own[field].as_array().unwrap().iter();
        stretches.map(|stretch| stretch["text"].as_str().unwrap()).collect::<String>()
    };
    let long = |more: Value| {
        let mut ask = json!({ "id": "long", "question": "tree" });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        session.post("/api/document", &ask).ok()
    };
    let opened = long(json!({ "passage": { "start": 400_000, "end": 401_000 } }));
    assert_eq!(shown(&opened, "passage"), text[400_000..401_000]);
    let (start, end) = (opened["start"].as_u64().unwrap() as usize, opened["end"].as_u64().unwrap() as usize);
    assert!(start > 0 && end < text.len() && opened["bytes"] == text.len(), "{start}..{end}");
    let all = ["above", "passage", "below"].map(|field| shown(&opened, field));
    assert_eq!(all.concat(), text[start..end]);
    let (mut whole, mut at) = (String::new(), 0);
    while at < text.len() {
        let part = long(json!({ "part": { "start": at, "end": at + (100 << 10) } }));
        whole += &shown(&part, "below");
        at = part["end"].as_u64().unwrap() as usize;
    }
    assert!(whole == text && shown(&long(json!({ "part": { "start": 9, "end": 3 } })), "below").is_empty());
    let why = json!({ "question": "tree", "k": 5, "beam": 1, "mode": "dense" });
    let why = session.post("/api/why", &why).ok();
    let visited = why["leaves"][0]["leaf"].as_u64().unwrap();
    assert!(why["hits"].as_array().unwrap().iter().all(|hit| hit["leaf"] == visited), "{why}");
    for exact in why["exact"].as_array().unwrap() {
        assert_eq!(exact["visited"], exact["leaf"] == visited, "{exact}");
    }
    // Both pages show the meaning of a question's signs.
    for path in ["/api/search", "/api/why"] {
        let signed = session.post(path, &json!({ "question": "+tree -leaf", "k": 5 })).ok();
        let signs = &signed["signs"];
        assert_eq!((&signs["required"], &signs["excluded"]), (&json!(["tree"]), &json!(["leaf"])), "{path}");
        assert!(signed["ranked_by"]["mode"] == "hybrid" && signed["notes"] == json!([]), "{path}");
    }
}

#[test]
fn metadata_is_bounded_and_large_numbers_are_filtered_by_as_they_are() {
    let flow = Flow::new();
    let large = "v".repeat(512 << 10);
    let mut metadata: serde_json::Map<String, Value> =
        (0..14).map(|n| (format!("large{n}"), json!(large))).collect();
    metadata.insert("n".repeat(60_000), json!(1));
    metadata.insert("account".to_owned(), json!(9_007_199_254_740_993_u64));
    let documents = [
        json!({ "_id": "large", "text": "tree", "metadata": metadata }),
        json!({ "_id": "near", "text": "tree", "metadata": { "account": 9_007_199_254_740_992_u64 } }),
    ];
    store(&flow, &documents);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let answer = session.search("tree");
    assert!(answer.body.len() < 10_000, "{} bytes", answer.body.len());
    let found = answer.ok();
    let hit = found["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == "large").unwrap();
    let fields = hit["fields"].as_array().unwrap();
    for field in fields.iter().filter(|field| field["name"] != "account") {
        assert!(field["filter"].is_null() && field["name"].as_str().unwrap().len() < 200, "{field}");
    }
    let account = fields.iter().find(|field| field["name"] == "account").unwrap();
    let asked = json!({ "question": "tree", "k": 5, "filters": [account["filter"].as_str().unwrap()] });
    let found = session.post("/api/search", &asked).ok();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    assert_eq!(found["hits"][0]["id"], "large");
}

#[test]
fn a_question_has_a_bound() {
    let flow = filled(6);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    let ask = |question: &str| session.post("/api/search", &json!({ "question": question, "k": 1 }));
    let most = "t".repeat(16 << 10);
    ask(&most).ok();
    let refused = ask(&format!("{most}t"));
    assert_eq!(refused.refused(400), "bad_request");
    assert!(refused.json()["message"].as_str().unwrap().contains("at most 16 KiB"));
    assert_eq!(ask(&"é".repeat(24 << 10)).refused(400), "bad_request");
    let question = format!("{most}t");
    for (path, ask) in [
        ("/api/why", json!({ "question": question, "k": 1 })),
        ("/api/document", json!({ "question": question, "id": id(0) })),
        ("/api/judge", json!({ "question": question, "id": id(0), "grade": 1 })),
    ] {
        assert_eq!(session.post(path, &ask).refused(400), "bad_request", "{path}");
    }
}

#[test]
fn hits_have_the_grades_of_their_question_however_many_others_were_judged() {
    let flow = filled(12);
    let file = flow.path("judged.jsonl");
    let judged = |question: &str, grade: i32| json!({ "question": question, "id": id(0), "grade": grade });
    let mut lines = format!("{}\n", judged("tree", 3));
    for n in 0..1_200 {
        lines += &format!("{}\n", judged(&format!("question {n}"), 1));
    }
    fs::write(&file, lines).unwrap();
    flow.run("judge", &["--file", text(&file)]).ok();
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    let grades = |question: &str, grades: bool| {
        let asked = json!({ "question": question, "k": 12, "grades": grades });
        let found = session.post("/api/search", &asked).ok();
        let hits = found["hits"].as_array().unwrap().iter();
        hits.filter(|hit| !hit["grade"].is_null())
            .map(|hit| hit["grade"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(grades("tree", true), [3]);
    assert_eq!(grades(" tree ", true), [3], "as the page stores it");
    assert!(grades("tree", false).is_empty());
    assert!(grades("leaf", true).is_empty());
    assert_eq!(session.get("/api/about").ok()["examples"][0], "question 0");
}

#[test]
fn a_hit_names_the_judgment_that_moved_it_noticeably() {
    let flow = filled(12);
    let file = flow.path("judged.jsonl");
    let weighed = [(id(0), 1.0), (id(1), 0.001)];
    let lines = weighed.map(|(id, weight)| {
        json!({ "question": "tree", "id": id, "grade": 1, "weight": weight }).to_string()
    });
    fs::write(&file, lines.join("\n")).unwrap();
    flow.run("judge", &["--file", text(&file)]).ok();
    let explorer = Explorer::new(&flow.index(), &[]);
    let found = explorer.begin().post("/api/search", &json!({ "question": "tree", "k": 12 })).ok();
    let hits = found["hits"].as_array().unwrap();
    let moved = hits.iter().filter(|hit| !hit["memory"].is_null()).count();
    let named: Vec<&Value> =
        hits.iter().filter(|hit| !hit["judged"].is_null()).map(|hit| &hit["id"]).collect();
    assert_eq!((moved, named), (2, vec![&json!(id(0))]));
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
    assert!(gone["message"].as_str().unwrap().contains("is gone or cannot be read"), "{gone}");
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
fn examples_forget_the_titles_of_documents_that_are_gone() {
    let flow = filled(0);
    let document = |id: &str, title: &str| json!({ "id": id, "title": title, "text": "tree" });
    store(&flow, &[document("a", "A secret offer"), document("b", "Another offer")]);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    assert_eq!(session.get("/api/about").ok()["examples"], json!(["A secret offer", "Another offer"]));
    flow.run("delete", &["a"]).ok();
    let after = session.wait("/api/about", |about| about["documents"] == 1);
    assert_eq!(after["examples"], json!(["Another offer"]));
}

#[test]
fn another_index_in_its_place_is_read_but_not_written() {
    for options in [&[][..], &["--judge"]] {
        let (flow, other) = (filled(12), filled(6));
        let explorer = Explorer::new(&flow.index(), options);
        let session = explorer.begin();
        fs::rename(flow.path("index"), flow.path("elsewhere")).unwrap();
        session.wait("/api/about", |about| about["error"] == "gone");
        fs::rename(other.path("index"), flow.path("index")).unwrap();
        if options.is_empty() {
            session.wait("/api/about", |about| about["documents"] == 6);
            continue;
        }
        let said = session.wait("/api/about", |about| {
            about["message"].as_str().is_some_and(|message| message.contains("was replaced by another"))
        });
        assert_eq!(said["error"], "gone");
        assert!(said["message"].as_str().unwrap().contains("start the server again"), "{said}");
        assert_eq!(session.search("tree").refused(503), "gone", "{options:?}");
        let judged = json!({ "question": "tree", "id": id(0), "grade": 1 });
        assert_ne!(session.post("/api/judge", &judged).status, 200);
        fs::rename(flow.path("index"), other.path("index")).unwrap();
        fs::rename(flow.path("elsewhere"), flow.path("index")).unwrap();
        session.wait("/api/about", |about| about["documents"] == 12);
    }
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
    // Other processes see them at once.
    let said = flow.run("judgments", &["--json"]).ok();
    assert_eq!(said.lines().count(), 3, "{said}");
    let list = session.get("/api/judgments").ok();
    assert_eq!((&list["all"], &list["questions"]), (&json!(3), &json!(1)));
    let absent = list["judgments"].as_array().unwrap().iter().find(|own| own["id"] == "absent").unwrap();
    assert_eq!(absent["title"], Value::Null);
    let forget = json!({ "question": "what is a tree?", "id": "absent" });
    assert_eq!(session.post("/api/judge", &forget).ok()["forgotten"], 1);
    assert_eq!(session.post("/api/judge", &forget).ok()["forgotten"], 0);
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
    assert!(job["message"].as_str().unwrap().contains("no previous model"), "{job}");
    assert_eq!(explorer.end(), Some(0));
    assert_eq!(flow.run("judgments", &["--json"]).ok().lines().count(), 2);
}
