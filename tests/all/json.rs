//! `docs/json.md` compared with the program's output, so that neither drifts from the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::encoder_folders::folder;
use crate::program::{Flow, SHAPE, ehi, text};
use crate::support::{self, DOCUMENTS, Shape, bundle, id};
use ehi::health::Advice;
use ehi::store::{Notice, RepairReport, VerifyReport};
use serde_json::{Value, json};

const QUESTION: &str = "cell and gene 17";

/// The fields of a command on the page, with their types.
fn documented(command: &str) -> BTreeMap<String, String> {
    let page = crate::support::root().join("docs/json.md");
    let page = fs::read_to_string(page).unwrap();
    let sections = page.split("\n## ").skip(1);
    let section = sections.filter_map(|section| section.split_once('\n')).find(|(name, _)| *name == command);
    let (_, section) = section.unwrap_or_else(|| panic!("docs/json.md has no section {command}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let fields = rows.map(|(field, rest)| (field.to_owned(), rest.split(" | ").next().unwrap().to_owned()));
    fields.collect()
}

/// The fields of a page with those of the objects that it names in a type such as "as `x` of `command`".
fn with_named(page: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = page.clone();
    for (field, kind) in page.iter().filter(|(_, kind)| kind.starts_with("as ")) {
        let names: Vec<&str> = kind.split('`').skip(1).step_by(2).collect();
        let (named, path) = match names[..] {
            [path] if page.keys().any(|own| own.starts_with(&format!("{path}."))) => (all.clone(), path),
            [command] => (with_named(&documented(command)), ""),
            [path, command] => (with_named(&documented(command)), path),
            _ => panic!("{field} is {kind}"),
        };
        assert!(named.keys().any(|own| own.starts_with(path)), "{field} is {kind}");
        for (own, kind) in &named {
            let rest = if path.is_empty() {
                Some(format!(".{own}"))
            } else {
                own.strip_prefix(path).map(str::to_owned)
            };
            if let Some(rest) = rest.filter(|rest| rest.starts_with(['.', '['])) {
                all.entry(format!("{field}{rest}")).or_insert_with(|| match kind.as_str() {
                    "any" => kind.clone(),
                    kind => format!("{kind} or null"),
                });
            }
        }
    }
    all
}

/// The leaves of a value by their paths, with their types. All metrics of an evaluation share one name.
fn collect(
    path: &str,
    value: &Value,
    page: &BTreeMap<String, String>,
    into: &mut BTreeSet<(String, String)>,
) {
    let is_container = |(field, _): (&String, &String)| {
        field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.') || rest.starts_with('['))
    };
    let kind = match value {
        _ if page.get(path).is_some_and(|kind| kind == "any") => "any",
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if name.contains('@') { "METRIC" } else { name };
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                collect(&path, value, page, into);
            }
            return;
        }
        Value::Array(values) => {
            return values.iter().for_each(|value| collect(&format!("{path}[]"), value, page, into));
        }
        // Null in place of an object or an array.
        Value::Null if page.iter().any(is_container) => return,
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
    };
    into.insert((path.to_owned(), kind.to_owned()));
}

/// The output of a command has exactly the fields of the page, with the types given there.
#[track_caller]
pub fn check(command: &str, values: &[Value]) {
    let page = documented(command);
    let all = with_named(&page);
    let mut found = BTreeSet::new();
    values.iter().for_each(|value| collect("", value, &all, &mut found));
    for (field, kind) in &found {
        let documented =
            all.get(field).unwrap_or_else(|| panic!("{command}: {field} is not in docs/json.md"));
        let mut kinds = documented.split(" or ");
        let fits = kinds.any(|known| known == kind || known == "number" && kind == "integer");
        assert!(fits, "{command}: {field} is {kind}, docs/json.md says {documented}");
    }
    let found: BTreeSet<&String> = found.iter().map(|(field, _)| field).collect();
    let own = page.iter().filter(|(_, kind)| !kind.starts_with("as ")).map(|(field, _)| field);
    let missing: Vec<&String> = own.filter(|field| !found.contains(field)).collect();
    assert!(missing.is_empty(), "{command}: docs/json.md has {missing:?}, the program has not");
}

/// Standard output as JSON, whatever the exit status.
fn printed(flow: &Flow, command: &str, rest: &[&str]) -> Value {
    let ran = flow.run(command, rest);
    serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{command}: {error}: {}{}", ran.out, ran.err))
}

#[test]
fn searches_and_what_looks_inside_print_what_is_documented() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let modes = ["dense", "lexical", "hybrid"];
    let mut searched =
        modes.map(|mode| printed(&flow, "search", &["--json", "--mode", mode, QUESTION])).to_vec();
    let apart = Flow::with(&["--passages", "20/5"]);
    apart.insert(20);
    apart.run("judge", &[QUESTION, &id(3)]).ok();
    apart.run("judge", &[QUESTION, &id(4), "--grade", "0"]).ok();
    searched.push(printed(&apart, "search", &["--json", "--passages", "2", QUESTION]));
    let page = apart.path("page.md");
    fs::write(&page, format!("# Page\n\n## {QUESTION}\n\n{}", "leaf ".repeat(30))).unwrap();
    apart.run("insert", &[text(&page)]).ok();
    searched.push(printed(&apart, "search", &["--json", "--filter", r#"{"$ids": ["page.md"]}"#, QUESTION]));
    // The meaning of signs, and why nothing is found.
    let signed = ["--json", "--filter", r#"{"none": 1}"#, r#"+tree "the leaf" -quagga -"a zebra" -20"#];
    searched.push(printed(&flow, "search", &signed));
    check("search", &searched);
    check("facets", &[printed(&flow, "facets", &["--json", "place", "none"])]);
    let of_passages = printed(&apart, "explain", &["--json", "--k", "3", "--beam", "8", "--exact", QUESTION]);
    let few = ["--json", "--filter", r#"{"place": 33}"#, QUESTION];
    let exact = printed(&flow, "explain", &["--json", "--beam", "8", "--exact", QUESTION]);
    let hybrid = printed(&flow, "explain", &["--json", "--mode", "hybrid", QUESTION]);
    let lexical = printed(&flow, "explain", &["--json", "--mode", "lexical", QUESTION]);
    let signed = printed(&flow, "explain", &signed);
    check("explain", &[exact, printed(&flow, "explain", &few), hybrid, lexical, of_passages, signed]);
    let judgments = flow.path("pairs.jsonl");
    let judged = |n: usize| json!({ "question": format!("{QUESTION} {n}"), "id": id(n) }).to_string() + "\n";
    fs::write(&judgments, (0..60).map(judged).collect::<String>()).unwrap();
    let pairs = ["--json", "--passes", "1", "--pairs", text(&judgments)];
    check("distil", &[printed(&flow, "distil", &pairs)]);
    let queries = support::dataset().join("queries.jsonl");
    check("leaves", &[printed(&flow, "leaves", &["--json", "--queries", text(&queries)])]);

    let health = printed(&flow, "health", &["--json"]);
    let index = ehi::Index::open(flow.path("index")).unwrap();
    index.search(QUESTION, 3, 3).unwrap();
    // Enough similar documents for a finding, and a remedy for it.
    let same = |number| ehi::Document::new(format!("same-{number}"), "", "virus cancer virus");
    index.insert_batch((0..400).map(same)).unwrap();
    let advice = [
        Advice::NoTree { documents: 12_000 },
        Advice::Grown { documents: 24_000, trained: 12_000 },
        Advice::NotCalibrated { documents: 12_000 },
        Advice::Skewed { skew: 5.0, trained: None },
        Advice::UncertainDocuments { recent: 2.0, trained: 1.0 },
        Advice::ShiftedQueries { shift: 0.5 },
    ];
    let words = advice.each_ref().map(ToString::to_string);
    let mut found = index.health().unwrap();
    found.advice = advice.into();
    let asked = json!({ "health": found, "words": words });
    assert_eq!(asked["health"]["advice"][0]["sentence"], words[0]);
    check("health", &[health, asked]);
}

#[test]
fn what_a_model_does_is_printed_as_documented() {
    let model = |name: &str, rest: &[&str]| {
        let dir = folder("6.2", name);
        let said = ehi(["model", text(dir.path()), "--json"].iter().chain(rest)).ok();
        serde_json::from_str::<Value>(&said).unwrap()
    };
    let dense = model("dense", &["--dim", "5", "--text", "A leaf"]);
    assert_eq!((dense["dim"].as_u64(), dense["width"].as_u64()), (Some(5), Some(8)));
    assert_eq!(dense["query"]["tokens"], json!(["[CLS]", "a", "leaf", "[SEP]"]));
    let without = model("without-prompt", &["--text", "A leaf"]);
    assert!(without["query"]["pooled_from"].as_u64() > Some(1), "{without}");
    let trained = ehi(["model", text(bundle(SHAPE).path()), "--json"]).ok();
    check("model", &[dense, without, serde_json::from_str(&trained).unwrap()]);
}

#[test]
fn what_lists_documents_prints_what_is_documented() {
    let flow = Flow::new();
    flow.insert(5);
    check("get and export", &[printed(&flow, "get", &[&id(3)])]);
    let exported = flow.run("export", &[]).ok();
    let exported: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    check("get and export", &exported);
    let ids = flow.run("ids", &["--json"]).ok();
    assert_eq!(ids.lines().next(), Some(format!("\"{}\"", id(0)).as_str()));
}

#[test]
fn what_keeps_an_index_prints_what_is_documented() {
    let flow = Flow::new();
    flow.insert(30);
    let before = printed(&flow, "stats", &["--json"]);
    check("calibrate", &[printed(&flow, "calibrate", &["--json"])]);
    let none = printed(&flow, "fuse", &["--json"]);
    let judgments = flow.path("judgments.jsonl");
    let judged =
        |n: usize| json!({ "question": format!("{QUESTION} {n}"), "id": id(n % 30) }).to_string() + "\n";
    fs::write(&judgments, (0..60).map(judged).collect::<String>()).unwrap();
    let fused = printed(&flow, "fuse", &["--json", "--pairs", text(&judgments)]);
    let remembering = Flow::new();
    remembering.insert(30);
    let learned = printed(&remembering, "judge", &["--json", "--file", text(&judgments)]);
    check("fuse", &[none, fused.clone(), printed(&remembering, "fuse", &["--json"])]);
    let stats = remembering.run("stats", &[]).ok();
    let learned_again = remembering.run("fuse", &[]).ok();
    assert!(
        stats.contains(&format!("learned        {}\n", learned_again.lines().next().unwrap())),
        "{stats}"
    );
    let apart = Flow::with(&["--passages", "20/5"]);
    // Values of which no lists are kept.
    let large = apart.path("large.jsonl");
    let line = |n: u32| json!({ "id": n.to_string(), "text": "a", "metadata": { "note": format!("{n} ").repeat(2_000) } });
    fs::write(&large, (10..40).map(|n| line(n).to_string() + "\n").collect::<String>()).unwrap();
    apart.run("insert", &[text(&large)]).ok();
    assert!(apart.run("stats", &[]).ok().contains("filters        slow by note: "));
    let apart = printed(&apart, "stats", &["--json"]);
    check("stats", &[before, printed(&flow, "stats", &["--json"]), apart]);
    let judged = printed(&flow, "judge", &["--json", QUESTION, &id(1)]);
    let quoted = flow.path("quoted.tsv");
    fs::write(&quoted, "\"a \"\"b\"\"\"\tabsent\n").unwrap();
    assert!(judged["fused"].is_null() && learned["fused"]["fusion"]["judgments"] == 60, "{learned}");
    check("judge", &[judged, learned, printed(&flow, "judge", &["--json", "--file", text(&quoted)])]);
    flow.run("judge", &["a \"b\"", "absent", "--forget"]).ok();
    flow.run("judge", &[QUESTION, "absent", "--weight", "0.5"]).ok();
    let mut listed = flow.run("judgments", &["--json"]).ok();
    flow.run("judgments", &["--half-life", "30"]).ok();
    listed += &flow.run("judgments", &["--json"]).ok();
    check("judgments", &listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>());
    flow.run("questions", &["--log", "on"]).ok();
    flow.run("search", &[QUESTION]).ok();
    check("questions", &[serde_json::from_str(&flow.run("questions", &["--json"]).ok()).unwrap()]);
    let pairs = flow.path("pairs.jsonl");
    let line =
        |n: usize| json!({ "question": format!("{QUESTION} {n}"), "id": id(n % 30) }).to_string() + "\n";
    fs::write(&pairs, (0..150).map(line).collect::<String>()).unwrap();
    let settings = flow.path("settings.json");
    fs::write(
        &settings,
        r#"{"encoder.trainable_layers": 0, "schedule.epochs": 1, "schedule.indexer_epochs": 1}"#,
    )
    .unwrap();
    let learn = ["--json", "--pairs", text(&pairs), "--config", text(&settings)];
    let mut changed = printed(&flow, "learn", &learn);
    assert_eq!(changed["change"], Value::Null, "nothing is learned by a tree alone");
    let few = printed(&flow, "learn", &["--json"]);
    check("recover", &[printed(&flow, "recover", &["--json"])]);
    check("compact", &[printed(&flow, "compact", &["--json"])]);
    let tuned = printed(&flow, "tune", &["--json", "--passes", "1", "--leaves", "3", "--always"]);
    check("tune", &[tuned]);
    assert_eq!(printed(&flow, "rollback", &["--json"])["encoded"], 0);
    flow.run("drop-previous", &[]).ok();
    let other = bundle(Shape::of_height(1));
    let reencoded = printed(&flow, "reencode", &["--json", "--model", text(other.path())]);
    changed["change"] = reencoded.clone();
    changed["fusion"] = fused["fusion"].clone();
    // Whichever questions they are.
    let question = json!({ "question": QUESTION, "before": 0.5, "after": 1.0 });
    (changed["better"], changed["worse"]) = (json!([question]), json!([question]));
    check("learn", &[few, changed]);
    check("reencode", &[reencoded]);
    check("rollback", &[printed(&flow, "rollback", &["--json"])]);
    check("drop-previous", &[printed(&flow, "drop-previous", &["--json"])]);

    let sound = printed(&flow, "verify", &["--json"]);
    let segments = fs::read_dir(flow.path("index").join("models/1/segments")).unwrap();
    let mut segments = segments.map(|entry| entry.unwrap().path());
    let vectors = segments.find(|path| path.extension().is_some_and(|end| end == "vectors")).unwrap();
    let mut bytes = fs::read(&vectors).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&vectors, bytes).unwrap();
    let damaged = printed(&flow, "verify", &["--json"]);
    let repaired = printed(&flow, "repair", &["--json"]);
    let warned = printed(&flow, "verify", &["--json"]);
    check("verify", &[sound, damaged, warned]);
    let mut lost = RepairReport::default();
    lost.lost_ids.push(id(1));
    lost.lost_embedding_ids.push(id(2));
    lost.unmeasured.push("models/1/MEASURED is missing".to_owned());
    lost.forgotten.push("damaged/1".into());
    check("repair", &[repaired, json!(lost)]);
}

/// A method of a report is a field of its JSON, and a value with words is a string.
#[test]
fn reports_of_the_library_are_written_with_their_verdicts() {
    let mut report = VerifyReport::default();
    report.warnings.push(Notice::StaleCopy { file: "CURRENT.copy".to_owned() });
    let json = json!(report);
    assert_eq!(json["sound"], json!(true));
    assert_eq!(json["warnings"][0], json!(report.warnings[0].to_string()));
    assert_eq!(json!(RepairReport::default())["was_sound"], json!(true));
    let hash = bundle(Shape::of_height(1)).hash();
    assert_eq!(json!(hash), json!(hash.to_string()));
}

#[test]
fn an_evaluation_writes_what_is_documented() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let out = flow.path("eval.json");
    let data = text(support::dataset());
    let arguments =
        ["--modes", "dense,lexical,hybrid,rrf", "--data", data, "--baseline", "ivf", "--at", "0.5,0.9"];
    let more = ["--at-work", "0.9,1.5", "--beams", "1,2,4,8,all", "--json", text(&out)];
    flow.run("eval", &[&arguments[..], &more[..]].concat()).ok();
    check("eval", &[serde_json::from_slice(&fs::read(out).unwrap()).unwrap()]);
}
