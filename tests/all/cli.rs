//! The whole flow through the binary.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::Stdio;

use crate::program::{Flow, Ran, SHAPE, command, ehi, text};
use crate::support::runs::{mean, read_run};
use crate::support::{self, DOCUMENTS, Shape, WIDTH, bundle, corpus_lines, document, documents, id};
use ehi::data::Dataset;
use ehi::eval::{Metric, RelevanceLevel};
use ehi::{Index, Similarity};
use flate2::{Compression, write::GzEncoder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

#[test]
fn documents_are_inserted_from_files_packed_files_and_standard_input() {
    let flow = Flow::new();
    let all = documents(60);
    let plain = flow.path("a.jsonl");
    fs::write(&plain, corpus_lines(&all[..20])).unwrap();
    let packed = flow.path("b.jsonl.gz");
    let mut encoder = GzEncoder::new(File::create(&packed).unwrap(), Compression::default());
    encoder.write_all(corpus_lines(&all[15..40]).as_bytes()).unwrap();
    encoder.finish().unwrap();
    let said = flow.run("insert", &[text(&plain), text(&packed)]).ok();
    assert_eq!(said, "40 inserted, 5 replaced; the index has 40 documents\n");

    let (child, mut input) = flow.inserting();
    let twice = corpus_lines(&all[40..]) + &corpus_lines(&all[59..]);
    input.write_all(twice.as_bytes()).unwrap();
    drop(input);
    let said = Ran::of(child.wait_with_output().unwrap()).ok();
    assert_eq!(
        said,
        "20 inserted, 0 replaced, 1 superseded by later documents of the same id; the index has 60 documents\n"
    );

    let index = Index::open(flow.path("index")).unwrap();
    assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), all);
}

#[test]
fn what_was_inserted_before_a_bad_line_stays() {
    let flow = Flow::new();
    let file = flow.path("bad.jsonl");
    let cases: [(&[u8], &str); 2] = [
        (b"{\"_id\": \"bad\", \"text\": \"\xff\"}\n", "not UTF-8"),
        (b"{\"_id\": \"bad\", \"text\": tru}\n", "expected ident"),
    ];
    for (round, (bad, message)) in cases.into_iter().enumerate() {
        let first = round * 4;
        let mut bytes = corpus_lines(&(first..first + 3).map(document).collect::<Vec<_>>()).into_bytes();
        bytes.push(b'\n');
        bytes.extend(bad);
        bytes.extend(corpus_lines(&[document(99)]).bytes());
        fs::write(&file, &bytes).unwrap();
        let ran = flow.run("insert", &[text(&file)]);
        let total = (round + 1) * 3;
        assert_eq!(
            ran.out,
            format!(
                "3 inserted, 0 replaced, 1 read but not stored, and reading stopped there; 3 of the 3 stored are on disk; \
                 the index has {total} documents\n"
            )
        );
        let line = ran.failure();
        assert!(line.starts_with(&format!("ehi: {}:5: ", file.display())), "{line}");
        assert!(line.contains(message), "{line}");
    }
    assert!(flow.run("verify", &[]).ok().starts_with("sound: 6 documents"));

    let line = flow.run("insert", &["absent.jsonl"]).failure();
    assert!(line.contains("absent.jsonl") && line.contains("No such file"), "{line}");
}

#[test]
fn texts_are_encoded_as_asked() {
    let flow = Flow::with(&["--encoder-precision", "f32"]);
    flow.insert(DOCUMENTS);
    let score = |precision: &str| {
        let options = ["--encoder-precision", precision, "--json", "cell and gene 17"];
        flow.run("search", &options).json()["hits"][0]["dense"].as_f64().unwrap()
    };
    let (exact, close) = (score("f32"), score("int8"));
    assert!(exact != close && (exact - close).abs() < 0.02, "{exact} and {close}");
    let wrong = flow.run("search", &["--encoder-precision", "int4", "cell"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("expected `f32` or `int8`"), "{}", wrong.err);
}

fn rounded_down(score: f32) -> f64 {
    (f64::from(score) * 1e4).floor() / 1e4
}

#[test]
fn searches_print_text_or_json() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let question = "cell and gene 17";
    let options = ["--k", "7", "--beam", "3", "--mode", "dense"];
    let json = flow.run("search", &[&options[..], &["--json", question]].concat()).json();

    let index = Index::open(flow.path("index")).unwrap();
    assert_eq!(index.similarity(), Similarity::Cosine);
    let expected = index.search(question, 7, 3).unwrap();
    drop(index);
    let hits = json["hits"].as_array().unwrap();
    assert_eq!(hits.len(), expected.len());
    for (hit, expected) in hits.iter().zip(&expected) {
        assert_eq!(hit["id"], json!(expected.id));
        assert_eq!(hit["leaf"], json!(expected.leaf.0));
        assert_eq!(hit["title"], json!(expected.document.title));
        assert_eq!(hit["text"], json!(expected.document.text));
        assert_eq!(Some(&hit["metadata"]), expected.document.metadata.as_ref());
        assert_eq!(hit["score"].as_f64().unwrap() as f32, expected.score);
    }
    let stats = &json["stats"];
    assert_eq!(stats["leaves_visited"], json!(3));
    assert_eq!(stats["documents_visited"], json!(expected.stats.documents_visited));
    assert_eq!(stats["visited_fraction"].as_f64(), Some(expected.stats.visited_fraction));
    assert_eq!(stats["embeddings_read"], json!(expected.stats.embeddings_read));
    for time in ["encode_ms", "beam_ms", "scan_ms", "fetch_ms"] {
        let ms = stats[time].as_f64().unwrap();
        assert!((0.0..60_000.0).contains(&ms), "{time} {ms}");
    }

    let said = flow.run("search", &[&options[..], &[question]].concat()).ok();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2 * expected.len() + 1, "{said}");
    for (pair, hit) in lines.chunks(2).zip(&expected) {
        for part in [
            &hit.id,
            &format!("{:.4}", rounded_down(hit.score)),
            &format!("leaf {}", hit.leaf.0),
            &hit.document.title,
        ] {
            assert!(pair[0].contains(part.as_str()), "{part}: {}", pair[0]);
        }
        assert_eq!(pair[1].trim(), hit.document.text);
    }
    let cost = lines.last().unwrap();
    let visited = format!("3 of 16 leaves, {} of {DOCUMENTS} passages", expected.stats.documents_visited);
    assert!(cost.starts_with(&visited), "{cost}");

    // The defaults are those of the library.
    let json = flow.run("search", &["--json", question]).json();
    let stats = [&json["stats"]["leaves_visited"], &json["stats"]["documents_visited"]];
    assert_eq!((json["hits"].as_array().unwrap().len(), stats), (10, [&json!(0), &json!(DOCUMENTS)]));

    assert!(flow.run("search", &[" "]).failure().contains("question is empty"));
    // All leaves are exact search.
    let hits = |arguments: &[&str]| {
        flow.run("search", &[&["--json", question], arguments].concat()).json()["hits"].clone()
    };
    assert_eq!(hits(&["--beam", "all"]), hits(&["--exact"]));
    assert_eq!(hits(&["--exact", "--codes", "false"]), hits(&["--exact"]));
    assert_eq!(flow.run("search", &["--exact", "--beam", "3", "x"]).code, Some(2));
    assert_eq!(flow.run("search", &["--beam", "many", "x"]).code, Some(2));
    let filter = ["--filter", r#"{"place": {"$lt": 10}}"#];
    let explained = flow.run("explain", &[&filter[..], &["--json", "--exact", question]].concat()).json();
    let found = hits(&filter);
    assert_eq!(explained["hits"].as_array().unwrap().len(), found.as_array().unwrap().len());

    assert!(flow.run("search", &["--k", "0", "x"]).failure().contains("k is 0"));
    assert!(flow.run("search", &["--beam", "0", "x"]).failure().contains("beam is 0"));
}

#[test]
fn documents_are_printed_and_deleted() {
    let flow = Flow::new();
    flow.insert(5);
    let line = flow.run("get", &[&id(3)]).ok();
    assert_eq!(line.lines().count(), 1);
    assert!(line.starts_with("{\"_id\":"), "{line}");
    let expected = document(3);
    let want = json!({
        "_id": expected.id, "title": expected.title, "text": expected.text, "metadata": expected.metadata,
    });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), want);

    let said = flow.run("delete", &[&id(3)]).ok();
    assert_eq!(said, format!("deleted {}, 4 documents left\n", id(3)));
    for command in ["get", "delete"] {
        let ran = flow.run(command, &[&id(3)]);
        assert_eq!(ran.out, "");
        assert!(ran.failure().ends_with(&format!("has no document `{}`", id(3))));
    }
    // The printed line can be inserted again.
    let file = flow.path("line.jsonl");
    fs::write(&file, line).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    assert_eq!(Index::open(flow.path("index")).unwrap().get(&id(3)).unwrap(), Some(document(3)));
}

#[test]
fn documents_are_listed_exported_and_deleted_together() {
    let flow = Flow::new();
    flow.insert(40);
    let ids = flow.run("ids", &[]).ok();
    let mut expected: Vec<String> = (0..40).map(id).collect();
    expected.sort();
    assert_eq!(ids.lines().collect::<Vec<_>>(), expected);
    let filter = r#"{"place": {"$lt": 10}}"#;
    let some = flow.run("ids", &["--filter", filter, "--json"]).ok();
    let some: Vec<String> = some.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((1..40).contains(&some.len()), "{some:?}");
    assert_eq!(flow.run("count", &[]).ok(), "40\n");
    assert_eq!(flow.run("count", &["--filter", filter]).ok(), format!("{}\n", some.len()));

    // An export can be inserted again.
    let exported = flow.run("export", &[]).ok();
    assert_eq!(exported.lines().count(), 40);
    assert_eq!(flow.run("export", &["--filter", filter]).ok().lines().count(), some.len());
    let said = flow.run("delete", &["--filter", filter]).ok();
    assert_eq!(said, format!("deleted {} documents, {} left\n", some.len(), 40 - some.len()));
    assert_eq!(flow.run("count", &["--filter", filter]).ok(), "0\n");
    let file = flow.path("exported.jsonl");
    fs::write(&file, &exported).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    assert_eq!(flow.run("export", &[]).ok(), exported);

    let list = flow.path("ids");
    fs::write(&list, format!("\u{feff}{}\n\n{}\r\nunheard-of\n{}\n", id(3), id(4), id(3))).unwrap();
    let said = flow.run("delete", &["--ids-from", text(&list)]).ok();
    assert_eq!(said, "deleted 2 documents, 1 id without a document, 38 left\n");
    assert!(
        flow.run("delete", &["--ids-from", "no/such/file"]).failure().contains("cannot open no/such/file")
    );
    for arguments in [&[][..], &["some-id", "--filter", "{}"]] {
        let ran = flow.run("delete", arguments);
        assert_eq!(ran.code, Some(2), "{}", ran.out);
    }
    assert_eq!(flow.run("count", &[]).ok(), "38\n");
}

#[test]
fn stats_and_verify_report_the_index() {
    let flow = Flow::new();
    flow.insert(30);
    flow.insert(6);
    let stats = flow.run("stats", &["--json"]).json();
    for (field, value) in [
        ("documents", json!(30)),
        ("rows", json!(36)),
        ("dead_rows", json!(6)),
        ("segments", json!(2)),
        ("leaves", json!(16)),
        ("branching_factor", json!(4)),
        ("height", json!(2)),
        ("dim", json!(WIDTH)),
        ("similarity", json!("cosine")),
        ("model", json!(bundle(SHAPE).hash().to_string())),
    ] {
        assert_eq!(stats[field], value, "{field}");
    }
    let sizes = stats["leaf_sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|leaf| leaf["documents"].as_u64().unwrap()).sum::<u64>(), 30);
    assert_eq!(stats["leaves_used"], json!(sizes.len()));
    let said = flow.run("stats", &[]).ok();
    assert!(said.contains("30 (36 rows, 6 dead)") && !said.contains("waiting"), "{said}");
    assert!(flow.run("compact", &[]).ok().contains("6 dead rows gone"));
    assert!(flow.run("stats", &[]).ok().contains("30 (30 rows, 0 dead)"));

    assert!(flow.run("verify", &[]).ok().starts_with("sound: 30 documents"));
    let report = flow.run("verify", &["--json"]).json();
    assert_eq!((&report["sound"], &report["warnings"]), (&json!(true), &json!([])));
}

/// Damage that opening does not check, but a full check does.
#[test]
fn verify_fails_on_a_damaged_index() {
    let flow = Flow::new();
    flow.insert(260);
    let segments = fs::read_dir(flow.path("index").join("models/1/segments")).unwrap();
    let vectors = segments
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "vectors"));
    let vectors = vectors.unwrap();
    let mut bytes = fs::read(&vectors).unwrap();
    bytes[4096 + 1000] ^= 0x10;
    fs::write(&vectors, bytes).unwrap();
    let ran = flow.run("verify", &[]);
    assert!(ran.out.contains(".vectors: "), "{}", ran.out);
    assert!(ran.out.contains("damaged: "), "{}", ran.out);
    assert!(ran.failure().contains("is damaged: 1 problem"));
    let ran = flow.run("verify", &["--json"]);
    assert_eq!(ran.code, Some(1));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["sound"], &json["problem_count"]), (&json!(false), &json!(1)));
    assert!(json["problems"][0]["file"].as_str().unwrap().ends_with(".vectors"), "{json}");

    let said = flow.run("repair", &[]).ok();
    assert!(said.contains("1 damaged segment:") && said.contains("0 lost"), "{said}");
    assert!(said.contains("set aside: "), "{said}");
    // Sound, with a note about what was set aside.
    let ran = flow.run("verify", &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    assert!(
        ran.out.contains("was set aside by a repair") && ran.out.contains("sound: 260 documents"),
        "{}",
        ran.out
    );
    assert!(flow.run("repair", &[]).ok().starts_with("sound: 260 documents"));
    // Where it does not even open: manifest and model.
    let index = flow.path("index");
    fs::write(index.join("models/1/MANIFEST"), "").unwrap();
    fs::remove_file(index.join("models/1/model/tokenizer.json")).unwrap();
    assert!(flow.run("stats", &[]).failure().contains("repair the index"));
    assert!(flow.run("repair", &[]).failure().contains("tokenizer.json"));
    let model = bundle(SHAPE);
    let report = flow.run("repair", &["--model", text(model.path()), "--json"]).json();
    assert_eq!((&report["model_restored"], &report["documents"]), (&json!(true), &json!(260)));
    assert_eq!(flow.run("verify", &[]).code, Some(3));
    assert_eq!(Index::open(index).unwrap().len(), 260);
}

#[test]
fn an_index_is_copied_and_changes_its_model() {
    let flow = Flow::new();
    flow.insert(8);
    let copy = flow.path("copy");
    assert!(flow.run("snapshot", &[text(&copy)]).ok().ends_with("copy: 8 documents\n"));
    let said = flow.run("snapshot", &[text(&copy)]).failure();
    assert!(said.contains("already exists") && said.contains("`ehi search --index"), "{said}");
    for inside in [flow.path("index"), flow.path("index/models"), flow.path("index/a/copy")] {
        assert!(flow.run("snapshot", &[text(&inside)]).failure().contains("choose a directory outside it"));
    }
    assert!(!flow.path("index/a").exists());
    let other = bundle(Shape::of_height(1));
    let change = flow.run("reencode", &["--model", text(other.path()), "--json"]).json();
    assert_eq!((&change["documents"], &change["routed"]), (&json!(8), &json!(8)));
    assert_eq!(change["to"], json!(other.hash().to_string()));
    let stats = flow.run("stats", &["--json"]).json();
    assert_eq!((&stats["model"], &stats["leaves"]), (&change["to"], &json!(4)));
    assert!(stats["bytes"]["other_models"].as_u64() > Some(0));
    assert!(flow.run("reencode", &["--model", text(other.path())]).failure().contains("already"));
    assert!(flow.run("rollback", &[]).ok().starts_with(
        "8 documents, none of their texts changed since this model was last in use; the index now uses"
    ));
    assert_eq!(flow.run("stats", &["--json"]).json()["model"], change["from"]);
    assert!(flow.run("drop-previous", &[]).ok().contains("are removed"));
    assert_eq!(flow.run("drop-previous", &["--json"]).json()["dropped"], json!(false));
    assert!(flow.run("rollback", &[]).failure().contains("no previous model"));
    assert_eq!(flow.run("stats", &["--json"]).json()["bytes"]["other_models"], json!(0));
    flow.run("verify", &[]).ok();
    assert_eq!(Index::open(copy).unwrap().len(), 8);
}

#[test]
fn a_search_keeps_to_its_filter() {
    let flow = Flow::new();
    flow.insert(30);
    let filter = r#"{"place": {"$gte": 10, "$lt": 13}, "tags": "x"}"#;
    let found = flow.run("search", &["--json", "--beam", "1", "--filter", filter, "tree leaf"]).json();
    let mut ids: Vec<&str> =
        found["hits"].as_array().unwrap().iter().map(|h| h["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [id(10), id(11), id(12)]);
    assert_eq!(found["stats"]["exhausted"], json!(true));
    let refused = flow.run("search", &["--filter", r#"{"place": {"$around": 3}}"#, "x"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.line().contains("$around"));
}

#[test]
fn an_evaluation_is_written_as_figures_and_as_a_run() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let (json, run) = (flow.path("eval.json"), flow.path("run.trec"));
    let data = text(support::dataset()).to_owned();
    let arguments = ["--data", &data, "--split", "test", "--beams", "1,2,all", "--baseline", "ivf"];
    let files = ["--json", text(&json), "--run", text(&run)];
    let table = flow.run("eval", &[&arguments[..], &files[..]].concat()).ok();
    for part in ["beam", "nprobe", "exact", "recall@10", "at 10% visited", "IVF"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let figures: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(
        (&figures["documents"], &figures["queries"], &figures["leaves"]),
        (&json!(DOCUMENTS), &json!(10), &json!(16))
    );
    let points = figures["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|p| p["beam"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 16]);
    let probes = figures["ivf"].as_array().unwrap();
    assert_eq!(probes.iter().map(|p| p["nprobe"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 16]);

    let k = |k| NonZeroUsize::new(k).unwrap();
    let qrels = Dataset::open(support::dataset()).unwrap().qrels("test").unwrap();
    let read = read_run(&fs::read_to_string(&run).unwrap());
    let last = points.last().unwrap();
    assert_eq!(last["visited_fraction"], json!(1.0));
    let shown = [
        Metric::Recall(k(10)),
        Metric::Recall(k(20)),
        Metric::Recall(k(100)),
        Metric::Mrr(k(10)),
        Metric::Ndcg(k(10)),
    ];
    for metric in Metric::STANDARD {
        let found = last[metric.to_string()].as_f64().unwrap();
        let expected = mean(metric, &read, &qrels, RelevanceLevel::default());
        assert!((found - expected).abs() < 1e-12, "{metric}: {found} {expected}");
        assert!(
            !shown.contains(&metric) || table.contains(&format!("{found:.4}")),
            "{metric} is not in the table"
        );
        assert_eq!(last[metric.to_string()], figures["exact"][metric.to_string()], "{metric}");
    }
    assert!(last["recall@100"].as_f64().unwrap() > 0.5);

    assert!(flow.run("eval", &["--data", &data, "--split", "dev"]).failure().contains("no split `dev`"));
    for beams in ["0", "x", "1,,2"] {
        let ran = flow.run("eval", &["--data", &data, "--beams", beams]);
        assert_eq!(ran.code, Some(2), "{beams}");
        ran.line();
    }
}

#[test]
fn the_cost_and_the_metrics_of_an_evaluation_are_the_users_choice() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let (json, queries) = (flow.path("eval.json"), flow.path("queries.jsonl"));
    let data = text(support::dataset()).to_owned();
    let arguments = ["--data", &data, "--baseline", "ivf", "--lists", "8,40", "--at", "0.07,0.5"];
    let more = ["--at-work", "0.4", "--metrics", "P@1,ndcg@7", "--relevance-level", "1"];
    let files = ["--json", text(&json), "--per-query", text(&queries)];
    let table = flow.run("eval", &[&arguments[..], &more[..], &files[..]].concat()).ok();
    for part in ["into 8 lists", "into 40 lists", "at 7% visited", "at 50% visited", "at 40% work"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(table.contains("precision@1  ndcg@7") && !table.contains("recall@"), "{table}");
    assert!(table.contains("IVF, best of these"), "{table}");
    let figures: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(figures["at"].as_array().unwrap().len(), 2);
    assert_eq!(figures["at"][0]["ivf"][1]["lists"], json!(40));
    assert!(figures["at"][0]["ivf_best"]["ndcg@7"].is_number());
    assert!(figures["at_work"][0]["tree"].is_object() || figures["at_work"][0]["tree"].is_null());
    let rows = fs::read_to_string(&queries).unwrap();
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert!(rows.len().is_multiple_of(10) && rows[0]["engine"] == "exact", "{}", rows.len());

    for bad in [
        ["--at", "1.5"],
        ["--at", "x"],
        ["--at-work", "-1"],
        ["--metrics", "map@10"],
        ["--metrics", "recall@0"],
        ["--relevance-level", "high"],
        // Lists without a baseline.
        ["--lists", "8"],
    ] {
        let ran = flow.run("eval", &[&["--data", data.as_str()][..], &bad[..]].concat());
        assert_eq!(ran.code, Some(2), "{bad:?}");
        ran.line();
    }
    let ran = flow.run("eval", &["--data", &data, "--baseline", "ivf", "--lists", "0"]);
    assert_eq!(ran.code, Some(2));
    let ran = flow.run("eval", &["--data", &data, "--baseline", "ivf", "--lists", "1000"]);
    let says = format!("it needs more documents than lists, and there are {DOCUMENTS}\n");
    assert_eq!(ran.err, format!("ehi: warning: IVF with 1000 lists is not measured: {says}"));
    // The split from which questions are set aside is missing.
    let other = flow.path("other");
    support::copy_directory(support::dataset(), &other);
    fs::remove_dir_all(other.join("qrels")).unwrap();
    fs::create_dir(other.join("qrels")).unwrap();
    fs::copy(support::dataset().join("qrels/test.tsv"), other.join("qrels/test.tsv")).unwrap();
    let line = flow.run("fuse", &["--data", text(&other)]).failure();
    assert!(line.ends_with("`--split` takes the judgments of another: test"), "{line}");
}

#[test]
fn a_question_has_words_pages_and_a_threshold() {
    let flow = Flow::new();
    flow.insert(60);
    let ids = |rest: &[&str]| -> Vec<(String, f64)> {
        let found = flow.run("search", &[&["--json", "--beam", "all"], rest].concat()).json();
        let hit = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap());
        found["hits"].as_array().unwrap().iter().map(hit).collect()
    };
    let ten = ids(&["tree leaf"]);
    assert_eq!(ten.len(), 10);
    // Several words are one question, before and after options.
    assert_eq!(ids(&["tree", "--top-k", "10", "leaf"]), ten);
    assert_eq!(ids(&["-n", "4", "--offset", "3", "tree leaf"]), ten[3..7]);
    let said = flow.run("search", &["-n", "1", "--offset", "3", "--beam", "all", "tree leaf"]).ok();
    assert!(said.starts_with(&format!("  4  {:.4} (", ten[3].1)), "{said}");
    assert!(said.contains(&format!(")  {}", ten[3].0)), "{said}");
    let dense = ids(&["--mode", "dense", "tree leaf"]);
    let least = ((dense[4].1 + dense[5].1) / 2.0).to_string();
    assert_eq!(ids(&["--mode", "dense", "--threshold", &least, "tree leaf"]), dense[..5]);
    // By default the same, though words change the order.
    let (near, similar) = (ids(&["--threshold", &least, "tree leaf"]), &dense[..5]);
    assert!(!near.is_empty() && near.iter().all(|hit| similar.iter().any(|other| other.0 == hit.0)));
    // What is shown lets its hit pass.
    let said = flow.run("search", &["--beam", "all", "--mode", "dense", "tree leaf"]).ok();
    let score = |line: &str| {
        let mut parts = line.split_whitespace();
        parts
            .next()?
            .parse::<usize>()
            .ok()
            .and(parts.next())
            .filter(|part| part.contains('.'))
            .map(str::to_owned)
    };
    let scores: Vec<String> = said.lines().filter_map(score).collect();
    assert_eq!(scores.len(), 10, "{said}");
    for (place, score) in scores.iter().enumerate() {
        assert!(
            ids(&["--mode", "dense", "--threshold", score, "tree leaf"]).len() > place,
            "{score}: {said}"
        );
    }
    // A search that is left without hits says why, in each form.
    let ran = flow.run("search", &["--beam", "all", "--threshold", "2", "tree"]);
    let said = "note: --threshold 2 leaves out all 10 hits; the highest similarity is 0.";
    assert!(ran.out.starts_with("no hits") && ran.err.starts_with(said), "{}{}", ran.out, ran.err);
    let notes = |rest: &[&str]| {
        let found = flow.run("search", &[&["--json", "-n", "5"], rest].concat()).json();
        assert_eq!(found["hits"], json!([]));
        found["notes"][0].as_str().unwrap().to_owned()
    };
    let said = notes(&["--mode", "lexical", "--threshold", "99", "--offset", "1", "tree"]);
    assert!(said.starts_with("--threshold 99 leaves out all 5 hits after --offset 1; the highest score is "));
    assert_eq!(notes(&["--offset", "100", "--mode", "dense", "tree"]), "there are only 60 hits");

    let file = flow.path("questions.txt");
    fs::write(&file, "tree leaf\n\n  gene  \n").unwrap();
    let ran = flow.run("search", &["--beam", "all", "--questions", text(&file)]).ok();
    let answers: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!([&answers[0]["question"], &answers[1]["question"]], ["tree leaf", "gene"]);
    assert_eq!((answers.len(), answers[0]["hits"].as_array().unwrap().len()), (2, 10));
    assert_eq!(answers[0]["hits"][0]["id"], ten[0].0);
    let ran = flow.run("search", &["--offset", "100", "--beam", "all", "--questions", text(&file)]).ok();
    assert_eq!(ran.matches(r#""notes":["there are only 60 hits"]"#).count(), 2, "{ran}");
    // A question that cannot be answered does not end the others.
    let long = "x".repeat(3 << 20);
    fs::write(&file, [b"-gene\nb\xffd\n", long.as_bytes(), b"\ntree\n"].concat()).unwrap();
    let ran = flow.run("search", &["--mode", "lexical", "--questions", text(&file)]);
    let answers: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers[..3].iter().all(|answer| answer["error"].is_string()), "{}", ran.out);
    assert_eq!([&answers[1]["question"], &answers[2]["question"]], ["b\u{fffd}d", &long[..200]]);
    assert!(answers.len() == 4 && answers[3]["hits"].is_array(), "{}", ran.out);
    assert!(ran.failure().contains("3 questions could not be answered"));
    for bad in [vec!["--questions", text(&file), "tree"], vec![], vec!["--threshold", "x", "tree"]] {
        assert_eq!(flow.run("search", &bad).code, Some(2), "{bad:?}");
    }

    // Somebody has said that it answers, so it stays, with its similarity beside the score.
    let worst = &dense[9].0;
    flow.run("judge", &["tree leaf", worst]).ok();
    for mode in ["dense", "hybrid"] {
        let kept = ids(&["--mode", mode, "--threshold", "2", "tree leaf"]);
        assert!(kept.len() == 1 && kept[0].0 == *worst, "{mode}: {kept:?}");
    }
    let said = flow.run("search", &["--beam", "all", "--mode", "dense", "tree leaf"]).ok();
    let line = said.lines().find(|line| line.contains(&format!("  {worst}"))).unwrap();
    let shown = format!(" ({:.2})  ", (dense[9].1 * 100.0).floor() / 100.0);
    assert!(line.contains(&shown) && said.contains("in brackets the similarity"), "{said}");
}

/// A program that asks and reads in turns is answered, and a byte order mark is not part of a question.
#[test]
fn a_question_is_answered_before_the_next_is_written() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let mut child = command()
        .args(["search", "--index", &flow.index(), "--k", "2", "--questions", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = |expected: &[&str]| {
        let mut best = Value::Null;
        for question in expected {
            let answer: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
            assert_eq!(
                (&answer["question"], answer["hits"].as_array().unwrap().len()),
                (&json!(question), 2)
            );
            best = answer["hits"][0]["id"].clone();
        }
        best
    };
    input.write_all("\u{feff}tree leaf\n".as_bytes()).unwrap();
    answered(&["tree leaf"]);
    input.write_all(b"\n  \ngene\nleaf\nbeginning of").unwrap();
    answered(&["gene", "leaf"]);
    input.write_all(b" a line\n\nlast").unwrap();
    answered(&["beginning of a line"]);
    // What was inserted meanwhile is found.
    let lines = flow.path("lines.jsonl");
    fs::write(&lines, r#"{"_id": "okapi", "title": "", "text": "okapi"}"#).unwrap();
    flow.run("insert", &[text(&lines)]).ok();
    input.write_all(b"\nokapi\n").unwrap();
    assert_eq!(answered(&["last", "okapi"]), "okapi");
    input.write_all(b"last").unwrap();
    drop(input);
    answered(&["last"]);
    assert!(child.wait().unwrap().success() && output.next().is_none());
}

#[test]
fn the_folder_of_a_dataset_can_be_inserted_and_evaluated_on() {
    let samples = crate::support::root().join("tests/fixtures/datasets");
    for (name, split, documents) in [("msmarco", "dev.small", 30), ("extreme", "test", 24)] {
        let flow = Flow::new();
        let folder = samples.join(name);
        let said = flow.run("insert", &[text(&folder)]).ok();
        let expected =
            [format!("{documents} inserted, "), format!("; the index has {documents} documents\n")];
        assert!(said.starts_with(&expected[0]) && said.ends_with(&expected[1]), "{said}");
        let table = flow.run("eval", &["--data", text(&folder), "--split", split, "--metrics", "p@1"]).ok();
        assert!(table.starts_with(&format!("{documents} documents, ")), "{table}");
    }
}

#[test]
fn an_index_can_be_looked_into() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let question = "cell and gene 17";
    let json = flow.run("explain", &["--k", "3", "--beam", "2", "--exact", "--json", question]).json();
    assert_eq!(json["leaves"].as_array().unwrap().len(), 2);
    assert_eq!(json["leaves"][0]["level_probabilities"].as_array().unwrap().len(), 2);
    assert_eq!(json["exact"].as_array().unwrap().len(), 3);
    let search = flow.run("search", &["--k", "3", "--beam", "2", "--json", question]).json();
    for (explained, hit) in json["hits"].as_array().unwrap().iter().zip(search["hits"].as_array().unwrap()) {
        assert_eq!((&explained["id"], &explained["leaf"]), (&hit["id"], &hit["leaf"]));
        assert!(explained["exact_rank"].as_u64().unwrap() >= 1);
    }
    let said = flow.run("explain", &["--beam", "8", "--exact", question]).ok();
    for part in ["8 of 16 leaves reached", "probability", "exact rank", "with routing"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(flow.run("explain", &[" "]).failure().contains("question is empty"));

    let queries = support::dataset().join("queries.jsonl");
    let leaves = flow.run("leaves", &["--queries", text(&queries), "--json"]).json();
    let leaves = leaves.as_array().unwrap();
    assert_eq!(leaves.iter().map(|leaf| leaf["documents"].as_u64().unwrap()).sum::<u64>(), DOCUMENTS as u64);
    assert_eq!(leaves.iter().map(|leaf| leaf["queries_routed"].as_u64().unwrap()).sum::<u64>(), 40);
    let first = leaves[0]["leaf"].to_string();
    let said = flow.run("leaves", &["--leaf", &first]).ok();
    assert!(said.starts_with(&format!("leaf {first} (path ")) && said.contains("  words      "), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("leaf ")).count(), 1);
    assert!(flow.run("leaves", &["--leaf", "16"]).failure().contains("no leaf 16"));
    assert!(flow.run("leaves", &["--queries", "absent.jsonl"]).failure().contains("absent.jsonl"));

    let health = flow.run("health", &["--json"]).json();
    assert_eq!(health["health"]["documents"], json!(DOCUMENTS));
    assert_eq!(health["words"], json!([]));
    let said = flow.run("health", &[]).ok();
    assert!(said.contains("in training") && said.contains("nothing stands out"), "{said}");
    fs::remove_file(flow.path("index").join("models/1/model/training.json")).unwrap();
    assert!(flow.run("health", &[]).ok().contains("no reference is known"));
}

fn train(flow: &Flow, rest: &[&str]) -> Ran {
    let base = text(support::base_model());
    ehi(["train", "--base", base, "--data", text(support::dataset())].iter().chain(rest).map(|a| {
        // Paths in the flow's folder are given by name.
        match a.strip_prefix("@") {
            Some(name) => text(&flow.path(name)).to_owned(),
            None => (*a).to_owned(),
        }
    }))
}

#[test]
fn a_bundle_is_trained_used_and_trained_further() {
    let flow = Flow::new();
    let config = flow.path("config.json");
    fs::write(&config, serde_json::to_vec(&support::config(SHAPE)).unwrap()).unwrap();
    let ran =
        train(&flow, &["--out", "@bundle", "--config", "@config.json", "--height", "1", "--epochs", "2"]);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("epoch ")).count(), 2, "{}", ran.err);
    let said = ran.ok();
    for part in [
        "before",
        "after",
        "exact recall@10",
        "exact recall@100",
        "tree recall@100, 10% visited",
        "empty leaves",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains(&format!("bundle {} written", flow.path("bundle").display())), "{said}");
    let report: Value =
        serde_json::from_slice(&fs::read(flow.path("bundle/training.json")).unwrap()).unwrap();
    let config_of = |report: &Value, name: &str| report["config"].pointer(name).cloned();
    assert_eq!(config_of(&report, "/tree/height"), Some(json!(1)));
    assert_eq!(config_of(&report, "/schedule/epochs"), Some(json!(2)));
    assert_eq!(config_of(&report, "/schedule/batch_size"), Some(json!(8)), "from the file");

    let bundle = text(&flow.path("bundle")).to_owned();
    let index = text(&flow.path("second")).to_owned();
    assert!(ehi(["create", "--index", &index, "--model", &bundle]).ok().contains("4 leaves"));

    let refused = train(&flow, &["--out", "@bundle", "--config", "@config.json"]).failure();
    assert!(refused.contains("already exists"), "{refused}");

    let data = text(support::dataset());
    let out = text(&flow.path("further")).to_owned();
    let arguments = ["train", "--base", &bundle, "--data", data, "--out", &out, "--config", text(&config)];
    ehi(arguments.iter().chain(&["--seed", "5", "--init", "random"])).ok();
    let report: Value =
        serde_json::from_slice(&fs::read(flow.path("further/training.json")).unwrap()).unwrap();
    assert_eq!(config_of(&report, "/seed"), Some(json!(5)));
    assert_eq!(config_of(&report, "/tree/init"), Some(json!("random")));
}

#[test]
fn a_run_without_a_dev_split_says_so() {
    let flow = Flow::new();
    let mut config = support::config(Shape::of_height(1));
    config.dev_fraction = 0.0;
    fs::write(flow.path("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let said = train(&flow, &["--out", "@bundle", "--config", "@config.json", "--log", "@log.jsonl"]).ok();
    assert!(said.contains("no dev split") && !said.contains("recall@10"), "{said}");

    let log = fs::read_to_string(flow.path("log.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["at"].is_f64()), "{log}");
    assert_eq!(events.last().unwrap()["event"], "finished");
}

#[test]
fn an_interrupted_training_says_so_and_goes_on() {
    let flow = Flow::new();
    let mut config = support::config(Shape::of_height(1));
    config.schedule.epochs = 1_000_000;
    fs::write(flow.path("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    let mut child = command()
        .current_dir(flow.dir.path())
        .args(["train", "--base", text(support::base_model()), "--data", text(support::dataset())])
        .args(["--out", "bundle", "--config", "config.json", "--checkpoints", "checkpoints"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.starts_with("epoch 1/")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let last = lines.last().unwrap();
    assert!(last.starts_with("ehi: interrupted: no bundle") && last.contains("--resume"), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(flow.path("checkpoints/checkpoint.safetensors").exists() && !flow.path("bundle").exists());
}

#[test]
fn bad_settings_of_training_are_refused() {
    let flow = Flow::new();
    fs::write(flow.path("config.json"), r#"{"epochs": 2}"#).unwrap();
    let line = train(&flow, &["--out", "@bundle", "--config", "@config.json"]).failure();
    assert!(line.contains("config.json") && line.contains("unknown setting `epochs`"), "{line}");
    assert!(line.contains("did you mean `schedule.epochs`?"), "{line}");
    let line = train(&flow, &["--out", "@bundle", "--config", "@absent.json"]).failure();
    assert!(line.contains("absent.json"), "{line}");
    fs::write(flow.path("none.json"), r#"{"schedule": {"indexer_epochs": 0}}"#).unwrap();
    let line = train(&flow, &["--out", "@bundle", "--config", "@none.json", "--epochs", "0"]).failure();
    assert!(line.contains("epochs is 0"), "{line}");
    let ran = train(&flow, &["--out", "@bundle", "--config", "@config.json", "--preset", "fiqa"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.line().contains("cannot be used with"));
    #[cfg(not(feature = "cuda"))]
    {
        let line = train(&flow, &["--out", "@bundle", "--branching", "4", "--device", "cuda"]).failure();
        assert!(line.contains("lacks the `cuda` feature"), "{line}");
    }
    #[cfg(not(feature = "hub"))]
    {
        let absent = text(&flow.path("absent")).to_owned();
        let data = text(support::dataset());
        let line = ehi(["train", "--base", &absent, "--data", data, "--out", "x"]).failure();
        assert!(line.contains(&absent) && line.contains("`hub` feature"), "{line}");
    }
    assert!(!flow.path("bundle").exists());
}

#[test]
fn errors_are_one_line() {
    let flow = Flow::new();
    for arguments in [
        vec!["search", "--index", "/nonexistent/index", "x"],
        vec!["create", "--index", "x", "--model", "/nonexistent/model"],
        vec!["eval", "--index", "/nonexistent/index", "--data", "/nonexistent/data"],
        vec!["verify", "--index", "/nonexistent/index"],
    ] {
        let line = ehi(&arguments).failure();
        assert!(line.contains("/nonexistent/"), "{line}");
    }
    let model = bundle(SHAPE);
    let line = ehi(["create", "--index", &flow.index(), "--model", text(model.path())]).failure();
    assert!(line.contains("already exists"), "{line}");
    for arguments in
        [vec!["search", "x"], vec!["unheard-of"], vec!["get", "--index"], vec!["stats", "--jsom"]]
    {
        let ran = ehi(&arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}");
        ran.line();
    }
    let note = flow.path("note.txt");
    fs::write(&note, "mine").unwrap();
    for arguments in [
        vec!["create", "--index", text(&note), "--model", text(model.path())],
        vec!["snapshot", "--index", &flow.index(), text(&note)],
    ] {
        let line = ehi(&arguments).failure();
        assert!(line.contains("note.txt exists and is not a directory"), "{line}");
    }
    assert_eq!(fs::read_to_string(&note).unwrap(), "mine");
    for (arguments, hint) in [
        (vec!["insret", "x"], "; a similar subcommand exists: 'insert' (see"),
        (vec!["stats", "--jsom"], "; a similar argument exists: '--json' (see"),
        (vec!["repair", "--undecided", "x"], "[possible values: keep, drop]"),
        (vec!["train", "--init", "x"], "[possible values: random, kmeans]"),
        (vec!["train", "--device", "x"], "[possible values: cpu, cuda]"),
        (vec!["eval", "--baseline", "x"], "[possible values: ivf]"),
    ] {
        let ran = ehi(&arguments);
        assert!(ran.code == Some(2) && ran.line().contains(hint), "{}", ran.err);
    }
    assert!(ehi(["help"]).ok().contains("search"));
}

/// What a report of a problem needs.
#[test]
fn the_version_names_commit_features_and_instructions() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(ehi(["-V"]).ok(), format!("ehi {version}\n"));
    let long = ehi(["--version"]).ok();
    let lines: Vec<&str> = long.lines().collect();
    let [first, commit, features, instructions] = lines[..] else { panic!("{long}") };
    assert_eq!(first, format!("ehi {version}"));
    assert!(commit.starts_with("commit: "), "{long}");
    assert!(features.starts_with("features: explore, hub, mcp, parquet"), "{long}");
    assert_eq!(instructions, format!("vector instructions: {}", ehi::Instructions::detect()));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let mut child = command()
        .args(["search", "--index", &flow.index(), "--k", "100", "--beam", "16", "--json", "tree"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn every_command_has_help_with_an_example_and_a_manual_page() {
    let help = ehi(["--help"].iter()).ok();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  "));
    let commands: Vec<&str> =
        commands.filter_map(|line| line[2..].split(' ').next()).filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 20, "{commands:?}");
    let dir = tempfile::tempdir().unwrap();
    ehi(["man", text(dir.path())].iter()).ok();
    assert!(dir.path().join("ehi.1").exists());
    for name in commands.into_iter().filter(|name| *name != "help") {
        let help = ehi([name, "--help"].iter()).ok();
        let example = format!("  ehi {name} ");
        let piped = format!("| ehi {name} ");
        let is_plain = ["completions", "man"].contains(&name);
        assert!(is_plain || help.contains(&example) || help.contains(&piped), "{help}");
        assert!(dir.path().join(format!("ehi-{name}.1")).exists(), "{name}");
    }
    assert!(ehi(["insert", "--help"].iter()).ok().contains(r#"{"_id": "#));
    for shell in ["bash", "zsh", "fish"] {
        let script = ehi(["completions", shell].iter()).ok();
        assert!(script.contains("drop-previous"), "{shell}");
    }
}

#[test]
fn wrong_usage_names_the_help_of_its_command_and_what_was_meant() {
    const DASH: &str = "; put `--` before a question or a name that begins with `-`";
    for (arguments, expected) in [
        (
            &["insret", "x"][..],
            "unrecognized subcommand 'insret'; a similar subcommand exists: 'insert' (see `ehi --help`)",
        ),
        (
            &["search", "--topk", "5", "x"],
            "unexpected argument '--topk' found; a similar argument exists: '--top-k' (see `ehi search --help`)",
        ),
        (&["search", "--limit", "5", "x"], "unexpected argument '--limit' found (see `ehi search --help`)"),
        (
            &["search", "--top-k", "x", "q"],
            "invalid value 'x' for '--k <K>': expected a whole number (see `ehi search --help`)",
        ),
        (
            &["search", "--k"],
            "a value is required for '--k <K>' but none was supplied (see `ehi search --help`)",
        ),
        (
            &["search", "--mode", "m", "x"],
            "invalid value 'm' for '--mode <MODE>' [possible values: best, dense, lexical, hybrid] (see `ehi search --help`)",
        ),
        (
            &["search", "-mice infection"],
            &format!("unexpected argument '-m' found{DASH} (see `ehi search --help`)"),
        ),
        (
            &["search", "--mice infection"],
            &format!("unexpected argument '--mice infection' found{DASH} (see `ehi search --help`)"),
        ),
        (
            &["explain", "-kitten toys"],
            &format!(
                "invalid value 'itten toys' for '--k <K>': expected a whole number{DASH} (see `ehi explain --help`)"
            ),
        ),
        (&["explore", "--frob"], "unexpected argument '--frob' found (see `ehi explore --help`)"),
        (&["--frob"], "unexpected argument '--frob' found (see `ehi --help`)"),
    ] {
        let ran = ehi(arguments);
        assert_eq!((ran.code, ran.line()), (Some(2), format!("ehi: {expected}")), "{arguments:?}");
    }
}

#[test]
fn the_index_can_be_named_by_the_environment() {
    let flow = Flow::new();
    flow.insert(3);
    let run = |arguments: &[&str]| {
        let output = command().args(arguments).env("EHI_INDEX", flow.path("index")).output().unwrap();
        Ran::of(output).ok()
    };
    assert_eq!(run(&["count"]), "3\n");
    run(&["delete", &id(1)]);
    assert_eq!(run(&["count"]), "2\n");
}
