//! Documents with vectors, by the program: an index without an encoder.

use std::fs;

use crate::program::{Ran, ehi, text};
use crate::support::{Shape, bundle};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Vectors(TempDir);

impl Vectors {
    fn new(options: &[&str]) -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        let index = own.path("index");
        let create = ["create", "--index", &index, "--dim", "4"];
        let said = ehi(create.iter().chain(options)).ok();
        assert!(said.contains("4 dimensions") && said.contains("no encoder"), "{said}");
        own
    }

    fn path(&self, name: &str) -> String {
        text(&self.0.path().join(name)).to_owned()
    }

    fn file(&self, name: &str, lines: &[Value]) -> String {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(self.path(name), lines.join("\n")).unwrap();
        self.path(name)
    }

    fn run(&self, command: &str, rest: &[&str]) -> Ran {
        let index = self.path("index");
        ehi([command, "--index", &index].iter().chain(rest))
    }

    fn ids(&self, rest: &[&str]) -> Vec<String> {
        let found = self.run("search", &[&["--json"], rest].concat()).json();
        found["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn line(id: &str, text: &str, vector: Value) -> Value {
    json!({ "_id": id, "text": text, "vector": vector, "kind": "drink" })
}

fn drinks() -> [Value; 3] {
    [
        line("tea", "Green tea has caffeine", json!([1, 0, 0, 0.1])),
        line("coffee", "Coffee beans are roasted", json!([0, 1, 0, 0.1])),
        line("water", "Water is boiling", json!([0, 0, 1, 0.1])),
    ]
}

#[test]
fn documents_come_with_vectors_and_are_found_by_them_and_by_words() {
    let own = Vectors::new(&[]);
    let said = own.run("insert", &["--json", &own.file("drinks.jsonl", &drinks())]).json();
    assert_eq!((&said["inserted"], &said["refused"]), (&json!(3), &json!(0)));
    let vector = own.file("vector.json", &[json!([0.1, 0.9, 0.1, 0.0])]);
    assert_eq!(own.ids(&["--vector", &vector])[0], "coffee");
    assert_eq!(own.ids(&["boiled waters"]), ["water"]);
    let both = own.run("search", &["--json", "--vector", &vector, "coffee"]).json();
    assert_eq!((&both["hits"][0]["id"], &both["ranked_by"]["mode"]), (&json!("coffee"), &json!("hybrid")));
    // The vector is not part of the metadata.
    let stored = own.run("get", &["tea"]).json();
    assert_eq!(stored["metadata"], json!({ "kind": "drink" }));
    for command in ["stats", "verify", "health", "leaves"] {
        own.run(command, &[]).ok();
    }
    own.run("explain", &["caffeine"]).ok();
    // What is exported makes the same index.
    let copy = Vectors::new(&[]);
    let exported = own.run("export", &[]).ok();
    fs::write(copy.path("exported.jsonl"), exported).unwrap();
    copy.run("insert", &[&copy.path("exported.jsonl")]).ok();
    assert_eq!(copy.ids(&["--vector", &vector]), own.ids(&["--vector", &vector]));
    assert_eq!(copy.run("get", &["tea"]).json(), stored);
    let shown = own.run("search", &["caffeine"]).ok();
    assert!(shown.contains("Green tea"), "{shown}");
}

#[test]
fn bad_vectors_are_refused_one_by_one() {
    let own = Vectors::new(&["--similarity", "dot"]);
    let mut lines = drinks().to_vec();
    lines.extend([
        line("short", "a", json!([1, 2])),
        line("text", "a", json!("1,2,3,4")),
        line("none", "a", Value::Null),
        line("zero", "a", json!([0, 0, 0, 0])),
        line("huge", "a", json!([1e39, 0, 0, 0])),
    ]);
    let ran = own.run("insert", &[&own.file("mixed.jsonl", &lines)]);
    assert_eq!(ran.code, Some(1));
    for expected in [
        ":4: the field `vector` has 2 numbers",
        ":5: ",
        "not a list of numbers",
        "no field `vector`",
        ":7: ",
        ":8: ",
    ] {
        assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
    }
    assert_eq!(own.run("stats", &["--json"]).json()["documents"], 3);
    let named = json!({ "_id": "named", "text": "b", "v": [1, 1, 1, 1], "kind": "drink" });
    own.run("insert", &["--vector", "v", "--metadata", "kind", &own.file("named.jsonl", &[named])]).ok();
    assert_eq!(own.run("get", &["named"]).json()["metadata"], json!({ "kind": "drink" }));
}

#[test]
fn what_needs_an_encoder_is_an_error_that_says_so() {
    let own = Vectors::new(&[]);
    own.run("insert", &[&own.file("drinks.jsonl", &drinks())]).ok();
    fs::create_dir(own.path("notes")).unwrap();
    fs::write(own.path("notes/a.md"), "text").unwrap();
    let notes = own.path("notes");
    for (command, arguments) in [
        ("search", &["--mode", "dense", "tea"][..]),
        ("search", &["--beam", "3", "tea"]),
        ("insert", &[&notes]),
        ("explain", &["--mode", "dense", "tea"]),
        ("learn", &[]),
        ("fuse", &[]),
        ("distil", &[]),
    ] {
        let ran = own.run(command, arguments);
        assert_ne!(ran.code, Some(0), "{command}: {}", ran.out);
        let said = ran.err.lines().last().unwrap_or_default();
        assert!(said.contains("encoder") || said.contains("vectors"), "{command}: {said}");
    }
    for options in [&["--passages", "50"][..], &["--lexical", "tokens"], &["--query-prompt", "q"]] {
        let other = own.path("other");
        let ran = ehi(["create", "--index", &other, "--dim", "4"].iter().chain(options));
        assert_eq!(ran.code, Some(1), "{options:?}");
        assert!(ran.err.contains("encoder"), "{}", ran.err);
    }
    let described = ehi(["model", &own.path("index")]);
    assert!(described.err.contains("encoder"), "{}", described.err);
}

#[test]
fn judgments_teach_nothing_and_say_nothing_of_it() {
    let own = Vectors::new(&[]);
    own.run("insert", &[&own.file("drinks.jsonl", &drinks())]).ok();
    let judged: Vec<Value> =
        (0..60).map(|n| json!({ "question": format!("tea {n}"), "id": "tea", "grade": 1 })).collect();
    let ran = own.run("judge", &["--file", &own.file("judged.jsonl", &judged)]);
    assert_eq!((ran.code, ran.err.contains("encoder")), (Some(0), false), "{}", ran.err);
    assert!(!own.run("stats", &[]).ok().contains("ehi fuse"));
}

#[test]
fn an_index_with_an_encoder_takes_vectors_where_they_are_named() {
    let own = Vectors(tempfile::tempdir().unwrap());
    let (index, model) = (own.path("index"), bundle(Shape::of_height(1)));
    ehi(["create", "--index", &index, "--model", text(model.path())]).ok();
    let vector: Vec<f32> = (0..128).map(|n| if n == 7 { 1.0 } else { 0.0 }).collect();
    let lines = [json!({ "_id": "given", "text": "gene of a virus", "v": vector })];
    own.run("insert", &["--vector", "v", &own.file("given.jsonl", &lines)]).ok();
    let question = own.file("question.json", &[json!(vector)]);
    let found = own.run("search", &["--json", "--vector", &question]).json();
    assert!(found["hits"][0]["score"].as_f64().unwrap() > 0.99, "{found}");
    assert_eq!(own.run("stats", &["--json"]).json()["encoded_by"], json!(["given"]));
}
