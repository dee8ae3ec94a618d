//! The data of the views Why, Leaves and State.

use std::fs;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{Explorer, filled, store, walkdir};
use crate::program::{Flow, text};
use crate::support::{Shape, bundle};

#[test]
fn the_leaves_of_a_question_are_shown_where_its_search_did_without_the_tree() {
    let flow = filled(24);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let why = |more: Value| {
        let mut ask = json!({ "question": "tree leaf", "k": 5 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        session.post("/api/why", &ask).ok()
    };
    for more in [json!({}), json!({ "exact": true }), json!({ "mode": "lexical" })] {
        let found = why(more);
        assert_eq!(found["leaves"], json!([]));
        let likely = found["likely"].as_array().unwrap();
        assert!((1..=10).contains(&likely.len()), "{found}");
        assert!(likely.iter().all(|leaf| leaf["documents"].as_u64() > Some(0)), "{found}");
        let probabilities: Vec<f64> =
            likely.iter().map(|leaf| leaf["probability"].as_f64().unwrap()).collect();
        assert!(probabilities.is_sorted_by(|a, b| a >= b), "{probabilities:?}");
    }
    let visited = why(json!({ "beam": 2 }));
    assert_eq!((visited["leaves"].as_array().unwrap().len(), &visited["likely"]), (2, &json!([])));
    let first = visited["leaves"].as_array().unwrap().iter().find(|leaf| leaf["documents"] != 0);
    assert!(first.is_none_or(|first| first["leaf"] == why(json!({}))["likely"][0]["leaf"]));
}

#[test]
fn a_hit_without_a_title_has_the_beginning_of_its_text_and_an_empty_index_no_leaves() {
    let flow = Flow::new();
    let ask = json!({ "question": "tree", "k": 5 });
    {
        let explorer = Explorer::new(&flow.index(), &[]);
        let found = explorer.begin().post("/api/why", &ask).ok();
        assert_eq!((&found["likely"], &found["hits"]), (&json!([]), &json!([])));
    }
    let document =
        json!({ "_id": "untitled", "text": format!("A tree\nstands {}", "here ".repeat(100_000)) });
    store(&flow, &[document]);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let found = session.post("/api/why", &ask).ok();
    for list in ["hits", "exact"] {
        let title = found[list][0]["title"].as_str().unwrap();
        assert!(title.starts_with("A tree stands here") && title.ends_with("here…"), "{title}");
        assert!(title.len() < 130, "{title}");
    }
}

#[test]
fn leaves_of_a_tree_that_was_exchanged_are_not_shown() {
    let flow = filled(24);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let read = session.get("/api/leaves").ok();
    assert_eq!((&read["tree"], &read["stale"]), (&json!(16), &json!(false)));
    flow.insert(30);
    session.wait("/api/leaves", |leaves| leaves["stale"] == true);
    let read = session.post("/api/leaves", &json!({})).ok();
    assert_eq!((&read["tree"], &read["stale"]), (&json!(16), &json!(false)));
    let other = bundle(Shape::of_height(1));
    flow.run("reencode", &["--model", text(other.path())]).ok();
    session.wait("/api/leaves", |leaves| leaves["tree"] == 4);
}

#[test]
fn a_training_report_that_is_no_file_keeps_nobody_waiting() {
    let flow = filled(6);
    let models = walkdir(&flow.path("index").join("models"));
    let manifest = models.iter().find(|path| path.ends_with("tokenizer.json")).unwrap();
    let report = manifest.with_file_name("training.json");
    let _ = fs::remove_file(&report);
    mknodat(CWD, &report, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let explorer = Explorer::new(&flow.index(), &[]);
    let state = explorer.begin().get("/api/state").ok();
    assert_eq!((&state["documents"], &state["report"]), (&json!(6), &Value::Null));
}

#[test]
fn the_state_says_how_far_the_index_is_behind_its_folders() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    fs::create_dir(&folder).unwrap();
    for name in ["a.md", "b.md", "c.rs", "d.txt"] {
        fs::write(folder.join(name), "A tree.").unwrap();
    }
    let named = format!("my={}", folder.display());
    flow.run("insert", &["--code", &named]).ok();
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let source = fs::canonicalize(&folder).unwrap();
    let state =
        |behind: Value| json!([{ "path": source, "prefix": "my/", "documents": 4, "behind": behind }]);
    let none = json!({ "new": 0, "changed": 0, "gone": 0 });
    assert_eq!(session.get("/api/folders").ok(), state(none));
    fs::write(folder.join("a.md"), "Another tree.").unwrap();
    fs::remove_file(folder.join("b.md")).unwrap();
    for name in ["e.md", "f.rs"] {
        fs::write(folder.join(name), "A tree.").unwrap();
    }
    assert_eq!(session.get("/api/folders").ok(), state(json!({ "new": 2, "changed": 1, "gone": 1 })));
    fs::rename(&folder, flow.path("away")).unwrap();
    assert_eq!(session.get("/api/folders").ok(), state(Value::Null));
    // A document can claim to be from anywhere.
    let claim = json!({ "source": "/", "modified": "", "changed": "", "bytes": 1, "inode": 2 });
    let line = json!({ "_id": "etc", "text": "tree", "metadata": claim });
    fs::write(flow.path("lines.jsonl"), line.to_string()).unwrap();
    flow.run("insert", &[text(&flow.path("lines.jsonl"))]).ok();
    let folders = session.wait("/api/folders", |folders| folders.as_array().unwrap().len() == 2);
    assert_eq!(folders[0], json!({ "path": "/", "prefix": "", "documents": 1, "behind": null }));
    assert_eq!(explorer.end(), Some(0));
}
