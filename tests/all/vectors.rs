//! Documents with vectors, by the program: an index without an encoder.

use std::fs;

use crate::program::{Ran, command, ehi, text};
use crate::support::{Shape, bundle, dataset};
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

    /// An index with an encoder, and a document with a vector, which is the other value.
    fn with_encoder() -> (Self, Vec<f32>) {
        let own = Vectors(tempfile::tempdir().unwrap());
        let (index, model) = (own.path("index"), bundle(Shape::of_height(1)));
        ehi(["create", "--index", &index, "--model", text(model.path())]).ok();
        let vector: Vec<f32> = (0..128).map(|n| if n == 7 { 1.0 } else { 0.0 }).collect();
        let lines = [json!({ "_id": "given", "text": "gene of a virus", "v": vector })];
        own.run("insert", &["--vector", "v", &own.file("given.jsonl", &lines)]).ok();
        (own, vector)
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
    let file = own.file("mixed.jsonl", &lines);
    let mut text = fs::read_to_string(&file).unwrap();
    for numbers in ["NaN,0,0,1", "1e400,0,0,1", "0,70000,0,1"] {
        let vector = format!("\n{{\"_id\": \"wide\", \"text\": \"a\", \"vector\": [{numbers}]}}");
        text.push_str(&vector);
    }
    fs::write(&file, text).unwrap();
    let ran = own.run("insert", &[&file]);
    assert_eq!(ran.code, Some(1));
    for expected in [
        ":4: the field `vector` has 2 numbers",
        ":5: ",
        "not a list of numbers",
        "no field `vector`",
        ":8: ",
        ":9: JSON has neither NaN",
        ":10: JSON has neither NaN",
        "mixed.jsonl:11: number 1 of the vector of \"wide\", counted from 0, is not from -65504 to 65504",
    ] {
        assert!(ran.err.contains(expected), "{expected}: {}", ran.err);
    }
    // For a dot product, a vector of zeros is like any other.
    assert_eq!(own.run("stats", &["--json"]).json()["documents"], 4);
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
        ("eval", &["--modes", "dense", "--data", text(dataset())]),
        ("eval", &["--beams", "1", "--data", text(dataset())]),
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
    let (own, vector) = Vectors::with_encoder();
    let question = own.file("question.json", &[json!(vector)]);
    let found = own.run("search", &["--json", "--vector", &question]).json();
    assert!(found["hits"][0]["score"].as_f64().unwrap() > 0.99, "{found}");
    assert_eq!(own.run("stats", &["--json"]).json()["encoded_by"], json!(["given"]));
}

#[test]
fn documents_need_no_text_and_an_export_makes_the_same_index() {
    let own = Vectors::new(&[]);
    let lines = [
        json!({ "_id": "bare", "emb": [1, 0, 0, 0] }),
        json!({ "_id": "fields", "emb": [0, 1, 0, 0], "kind": "drink", "vector": "a field of the metadata" }),
        json!({ "_id": "both", "emb": [0, 0, 1, 0], "text": "Green tea" }),
    ];
    own.run("insert", &["--vector", "emb", &own.file("lines.jsonl", &lines)]).ok();
    let copy = Vectors::new(&[]);
    fs::write(copy.path("exported.jsonl"), own.run("export", &[]).ok()).unwrap();
    copy.run("insert", &[&copy.path("exported.jsonl")]).ok();
    let vector = own.file("vector.json", &[json!([0, 1, 0.2, 0])]);
    for id in ["bare", "fields", "both"] {
        assert_eq!(copy.run("get", &[id]).json(), own.run("get", &[id]).json());
    }
    assert_eq!(copy.ids(&["--vector", &vector]), ["fields", "both", "bare"]);
    // Fields of the text may be named, none of them too.
    let again =
        copy.run("insert", &["--vector", "emb", "--text", "", "--id", "_id", &own.path("lines.jsonl")]);
    again.ok();
    assert_eq!(copy.run("get", &["both"]).json()["metadata"], json!({ "text": "Green tea" }));
    let ran = own.run("insert", &["--vector", "emb", "--text", "body", &own.path("lines.jsonl")]);
    assert!(ran.err.contains("no record") && ran.err.contains("`body`"), "{}", ran.err);
    // Ids of texts would be the same for all that have none.
    let ran = copy.run("insert", &["--vector", "emb", "--hash-ids", &own.file("bare.jsonl", &lines[..1])]);
    assert!(ran.failure().contains("neither title nor text to make an id of"));
    for field in ["_id", "id", "title", "text"] {
        let ran = copy.run("insert", &["--vector", field, &own.path("lines.jsonl")]);
        assert!(ran.failure().contains("has a field of its own"));
    }
}

#[test]
fn an_export_says_that_given_vectors_are_left_out() {
    let (own, _) = Vectors::with_encoder();
    let said = own.run("export", &[]);
    assert!(said.err.contains("were given") && said.err.contains("ehi snapshot"), "{}", said.err);
}

#[test]
fn a_question_is_explained_by_its_vector_and_words_are_evaluated() {
    let own = Vectors::new(&[]);
    own.run("insert", &[&own.file("drinks.jsonl", &drinks())]).ok();
    let vector = own.file("vector.json", &[json!([0.1, 0.9, 0.1, 0.0])]);
    for words in [&[][..], &["coffee"]] {
        let explained = own.run("explain", &[&["--json", "--vector", &vector], words].concat()).json();
        assert_eq!(explained["hits"][0]["id"], "coffee", "{explained}");
    }
    let nested = own.file("nested.json", &[json!([[1, 2, 3, 4]])]);
    assert!(own.run("search", &["--vector", &nested]).failure().contains("not a list of numbers"));
    // Standard input is one file.
    let filter = fs::File::open(own.file("filter.json", &[json!({ "kind": "drink" })])).unwrap();
    let both = ["search", "--index", &own.path("index"), "--vector", "-", "--filter", "-"];
    let ran = Ran::of(command().args(both).stdin(filter).output().unwrap());
    assert!(ran.failure().contains("another option reads standard input"));

    let own = Vectors::new(&[]);
    let corpus = fs::read_to_string(dataset().join("corpus.jsonl")).unwrap();
    let lines = corpus.lines().enumerate().map(|(n, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["vector"] = json!([1, n, 0, 0]);
        line
    });
    own.run("insert", &[&own.file("corpus.jsonl", &lines.collect::<Vec<_>>())]).ok();
    let (json, run) = (own.path("report.json"), own.path("run"));
    let options = ["--data", text(dataset()), "--json", &json, "--run", &run];
    let said = own.run("eval", &options).ok();
    assert!(said.contains("lexical") && !said.contains("exact"), "{said}");
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(report["modes"][0]["ndcg@10"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!((&report["points"], &report["exact"]), (&json!([]), &json!({})));
    assert!(!fs::read_to_string(run).unwrap().is_empty());
    own.run("eval", &["--modes", "lexical", "--data", text(dataset())]).ok();
}

#[test]
fn what_is_missing_or_damaged_is_said_with_what_to_do() {
    let own = Vectors::new(&[]);
    assert!(ehi(["create", "--index", &own.path("other")]).failure().contains("--dim N"));
    let said = ehi(["create", "--index", &own.path("narrow"), "--dim", "1"]).ok();
    assert!(said.contains("; 1 dimension") && !said.contains("1 dimensions"), "{said}");
    let manifest = own.path("index/models/1/model/ehi.json");
    for damaged in [
        "{",
        "{\"format_version\": 1, \"has_encoder\": false, \"dim\": 0, \"branching_factor\": 1, \
                    \"height\": 1, \"logit_scale\": 1.0, \"files\": {}}",
    ] {
        fs::write(&manifest, damaged).unwrap();
        assert!(own.run("stats", &[]).failure().contains("`ehi repair`"));
    }
    own.run("repair", &[]);
    own.run("stats", &[]).ok();
}

/// A lost tree costs the tree alone, and the documents in the log lie in its leaves.
#[test]
fn a_lost_tree_is_said_and_made_again() {
    let own = Vectors::new(&[]);
    let lines: Vec<Value> =
        (0..300).map(|n: i64| line(&format!("d{n}"), "tea", json!([n % 7, n % 11, n % 13, 1]))).collect();
    own.run("insert", &["--vector", "vector", &own.file("lines.jsonl", &lines)]).ok();
    own.run("tune", &["--leaves", "4", "--always"]).ok();
    let before = own.ids(&["--vector", &own.file("query.json", &[json!([1, 2, 3, 1])])]);
    assert!(own.run("repair", &["--dim", "4"]).ok().contains("were not needed"));
    fs::write(own.path("index/models/2/model/indexer.safetensors"), "short").unwrap();
    assert!(own.run("stats", &[]).failure().contains("`ehi repair`"));
    let said = own.run("repair", &["--dim", "5"]);
    assert!(said.failure().contains("vectors of 4 numbers, not of 5"));
    let said = own.run("repair", &[]);
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    assert!(said.out.contains("LOST: the tree") && said.out.contains("`ehi tune`"), "{}", said.out);
    assert_eq!(own.ids(&["--vector", &own.path("query.json")]), before);
    assert!(own.run("repair", &["--forget"]).ok().contains("sound: 300 documents"));
    own.run("tune", &["--leaves", "4", "--always"]).ok();
    own.run("verify", &[]).ok();
}

#[test]
fn options_of_a_tree_need_an_encoder() {
    let own = Vectors::new(&[]);
    own.run("insert", &[&own.file("drinks.jsonl", &drinks())]).ok();
    for option in ["--at", "--at-work"] {
        let said = own.run("eval", &[option, "0.1", "--data", text(dataset())]).err;
        assert!(said.contains(option) && said.contains("no encoder"), "{said}");
    }
    // The exported vector of a document that has lost it does not hide another.
    let lines = [json!({ "_id": "new", "text": "tea", "_vector": null, "vector": [0, 1, 0, 0] })];
    own.run("insert", &[&own.file("new.jsonl", &lines)]).ok();
}
