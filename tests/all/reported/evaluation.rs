//! Evaluation on third-party datasets.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::program::{Flow, text};

/// A question that is itself a document, and its answer.
const ARGUMENTS: [(&str, &str); 2] =
    [("a1", "We should ban cell and gene trees."), ("a2", "Do not ban cells and genes.")];

/// A dataset in BEIR's layout in a folder of this name, with judgments of `questions`.
fn dataset(flow: &Flow, name: &str, documents: &[Value], questions: &[Value], judged: &str) -> PathBuf {
    let folder = flow.path(name);
    fs::create_dir_all(folder.join("qrels")).unwrap();
    let lines = |all: &[Value]| all.iter().map(|own| format!("{own}\n")).collect::<String>();
    fs::write(folder.join("corpus.jsonl"), lines(documents)).unwrap();
    fs::write(folder.join("queries.jsonl"), lines(questions)).unwrap();
    fs::write(folder.join("qrels/test.tsv"), format!("query-id\tcorpus-id\tscore\n{judged}")).unwrap();
    folder
}

fn arguments(flow: &Flow, name: &str) -> PathBuf {
    let documents = ARGUMENTS.map(|(id, text)| json!({ "_id": id, "title": "", "text": text }));
    let question = json!({ "_id": ARGUMENTS[0].0, "text": ARGUMENTS[0].1 });
    dataset(flow, name, &documents, &[question], "a1\ta2\t1\n")
}

/// The output and files of `ehi eval`.
fn evaluated(flow: &Flow, data: &str, more: &[&str]) -> (String, Value, String) {
    let (json, run) = (flow.path("eval.json"), flow.path("run.txt"));
    let files = ["--data", data, "--json", text(&json), "--run", text(&run)];
    let table = flow.run("eval", &[&files[..], more].concat()).ok();
    let report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    (table, report, fs::read_to_string(&run).unwrap())
}

/// A question that finds itself first has a reciprocal rank of at most a half. Issue 198 of lightonai/pylate,
/// on ArguAna; BEIR omits such hits (`ignore_identical_ids`).
#[test]
fn a_question_that_is_a_document_does_not_find_itself() {
    let flow = Flow::new();
    let data = arguments(&flow, "arguments");
    flow.run("insert", &[text(&data)]).ok();
    let settings = |report: &Value| -> Vec<Value> {
        let all = ["points", "ivf", "modes"].iter().flat_map(|name| report[name].as_array().unwrap());
        all.chain([&report["exact"]]).map(|point| point["mrr@10"].clone()).collect()
    };
    let every = ["--beams", "all", "--baseline", "ivf", "--lists", "1", "--modes", "dense,lexical,hybrid"];
    let (table, report, run) = evaluated(&flow, text(&data), &every);
    assert_eq!(report["ignores_identical_ids"], json!(false));
    assert!(settings(&report).iter().all(|value| *value == json!(0.5)), "{report}");
    assert!(!table.contains("no hit") && run.lines().count() == 2, "{table}{run}");

    let ignoring = [&every[..], &["--ignore-identical-ids"]].concat();
    let (table, report, run) = evaluated(&flow, text(&data), &ignoring);
    assert_eq!(report["ignores_identical_ids"], json!(true));
    assert_eq!(settings(&report).len(), 6, "{report}");
    assert!(settings(&report).iter().all(|value| *value == json!(1.0)), "{report}");
    assert!(table.contains("the id of the query does not count as a hit"), "{table}");
    assert!(run.lines().count() == 1 && run.starts_with("a1 Q0 a2 1 "), "{run}");
}

/// The rule belongs to the datasets, recognised by the names of their folders. Issue 219 of
/// allenai/ir_datasets.
#[test]
fn datasets_that_ask_with_their_own_documents_are_known_by_name() {
    let flow = Flow::new();
    flow.run("insert", &[text(&arguments(&flow, "first"))]).ok();
    for (name, is_known) in [
        ("arguana", true),
        ("ArguAna", true),
        ("quora", true),
        ("QuoraRetrieval", true),
        ("NanoArguAnaRetrieval", true),
        ("arguana-notes", false),
        ("scifact", false),
    ] {
        let data = arguments(&flow, name);
        let (_, report, _) = evaluated(&flow, text(&data), &[]);
        assert_eq!(report["ignores_identical_ids"], json!(is_known), "{name}");
        let mrr = if is_known { 1.0 } else { 0.5 };
        assert_eq!(report["exact"]["mrr@10"], json!(mrr), "{name}");
        let (_, report, _) = evaluated(&flow, text(&data), &["--ignore-identical-ids=false"]);
        assert_eq!(report["exact"]["mrr@10"], json!(0.5), "{name}");
    }
}

/// The ids of a dataset may be integers in its JSON, while judgments are always text. A question and a
/// document with the same id by chance are different things: issue 187 of beir-cellar/beir.
#[test]
fn ids_of_a_dataset_may_be_integers() {
    let flow = Flow::new();
    let document = |id: Value, text: &str| json!({ "_id": id, "text": text });
    let documents =
        [document(json!(1), "Green tea."), document(json!(-20), "Genes."), document(json!("x"), "Cells.")];
    let questions = [document(json!(1), "Green tea."), document(json!(2), "Genes.")];
    let data = dataset(&flow, "integers", &documents, &questions, "1\t1\t1\n2\t-20\t1\n");
    let said = flow.run("insert", &[text(&data)]).ok();
    assert!(said.starts_with("3 inserted"), "{said}");
    let (_, report, _) = evaluated(&flow, text(&data), &[]);
    assert_eq!((&report["missing_queries"], &report["missing_documents"]), (&json!(0), &json!(0)));
    assert_eq!(report["exact"]["recall@1"], json!(1.0));
    for id in [json!(1.5), json!(true), json!(["a"]), json!({})] {
        let bad = dataset(&flow, "bad", &[document(id.clone(), "Green tea.")], &questions, "1\t1\t1\n");
        let ran = flow.run("insert", &[text(&bad)]);
        assert_eq!(ran.code, Some(1), "{id}: {}", ran.err);
        assert!(ran.err.contains("expected a string or an integer in the field"), "{id}: {}", ran.err);
    }
}

/// A question that finds nothing counts 0, and an empty sum is written as 0.0. Issue 70 of beir-cellar/beir,
/// issue 66 of opensearch-project/search-relevance.
#[test]
fn no_figure_is_a_negative_zero() {
    let flow = Flow::new();
    let mut said = vec![flow.run("stats", &["--json"]).ok(), flow.run("stats", &[]).ok()];
    let data = arguments(&flow, "arguments");
    flow.run("insert", &[text(&data)]).ok();
    // No document contains a word of this question, so it finds nothing.
    let question = json!({ "_id": "q", "text": "virus" });
    let data = dataset(&flow, "other", &[], &[question], "q\ta2\t1\n");
    let (per_query, modes) = (flow.path("queries.jsonl"), ["--modes", "lexical,dense"]);
    let (table, report, _) =
        evaluated(&flow, text(&data), &[&modes[..], &["--per-query", text(&per_query)]].concat());
    assert_eq!(report["modes"][0]["ndcg@10"], json!(0.0));
    said.extend([table, report.to_string(), fs::read_to_string(&per_query).unwrap()]);
    said.extend(["leaves", "health", "stats"].map(|command| flow.run(command, &["--json"]).ok()));
    for said in said {
        let mut negative = said.match_indices("-0.0").map(|(at, zero)| &said[at + zero.len()..]);
        assert!(negative.all(|rest| rest.starts_with(|c: char| c.is_ascii_digit())), "{said}");
    }
}

/// Judgments of questions without a text, of documents that are in no corpus, and of grade 0 alone: counted,
/// reported, and without effect on the other questions. Issue 5170 of embeddings-benchmark/mteb, issues 101
/// and 202 of beir-cellar/beir, issue 49 of cvangysel/pytrec_eval.
#[test]
fn judgments_of_what_is_not_there_are_counted() {
    let flow = Flow::new();
    let documents = ARGUMENTS.map(|(id, text)| json!({ "_id": id, "text": text }));
    let questions = ["q1", "q2", "q4"].map(|id| json!({ "_id": id, "text": ARGUMENTS[1].1 }));
    let judged = "q1\ta2\t1\nq1\tgone\t1\nq2\ta1\t0\nq3\ta1\t1\nq4\ta2\t2\n";
    let data = dataset(&flow, "data", &documents, &questions, judged);
    flow.run("insert", &[text(&data)]).ok();
    let (table, report, run) = evaluated(&flow, text(&data), &[]);
    assert_eq!((&report["queries"], &report["missing_queries"]), (&json!(4), &json!(1)));
    assert_eq!(report["missing_documents"], json!(1));
    for said in ["1 judged query without a text, scored 0", "1 judged document missing from the index"] {
        assert!(table.contains(said), "{table}");
    }
    // A half of q1, nothing of q2 and q3, all of q4.
    assert_eq!(report["exact"]["recall@10"], json!(0.375));
    assert!(!run.contains("q3") && run.lines().count() == 6, "{run}");
}
