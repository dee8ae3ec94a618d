//! Cross-encoders written by the real sentence-transformers, compared with its scores
//! (`fixtures/rerankers/make.py`), and searches with reranking.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::data::Dataset;
use ehi::eval::{Metric, RelevanceLevel};
use ehi::model::{Encoder, EncoderPrecision, LoadOptions, ModelError, Reranker};
use ehi::search::{DEFAULT_K, SearchResult};
use ehi::{Document, Error, Index, InputError, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Flow, ehi, text};
use crate::support::{self, DOCUMENTS, base_model};

#[derive(Deserialize)]
struct Recorded {
    questions: Vec<String>,
    documents: Vec<String>,
    scores: Vec<Vec<f32>>,
}

fn fixture(release: &str, name: &str) -> PathBuf {
    crate::support::root().join("tests/fixtures/rerankers").join(release).join(name)
}

fn recorded(dir: &Path) -> Recorded {
    serde_json::from_slice(&fs::read(dir.join("scores.json")).unwrap()).unwrap()
}

fn copied() -> TempDir {
    let target = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("6.2", "identity")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, target.path().join(path.file_name().unwrap())).unwrap();
    }
    target
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// The positions of scores, best first.
fn order(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order
}

#[test]
fn scores_and_order_are_those_of_the_library() {
    let others = ["xlm-roberta", "modernbert", "modernbert-mean"];
    for (release, others) in [("2.7", &[][..]), ("3.4", &[]), ("6.2", &others)] {
        for &name in ["identity", "sigmoid"].iter().chain(others) {
            let dir = fixture(release, name);
            let Recorded { questions, documents, scores } = recorded(&dir);
            let reranker = Reranker::open(&dir).unwrap();
            assert_eq!(reranker.max_tokens(), 32);
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            for (question, want) in questions.iter().zip(&scores) {
                let found = reranker.score(question, &documents).unwrap();
                for (found, want) in found.iter().zip(want) {
                    assert!((found - want).abs() < 1e-5, "{release} {name} {question:?}: {found} {want}");
                }
                assert_eq!(order(&found), order(want), "{release} {name} {question:?}");
                // One alone has the same score as among others.
                let alone = reranker.score(question, &documents[4..5]).unwrap()[0];
                assert!((alone - want[4]).abs() < 1e-5);
            }
        }
    }
}

/// Pearson's correlation: the cosine of both after subtracting their means.
fn correlation(a: &[f32], b: &[f32]) -> f32 {
    let centred = |values: &[f32]| {
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        values.iter().map(|value| value - mean).collect::<Vec<f32>>()
    };
    let (a, b) = (centred(a), centred(b));
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
}

/// The place of each score among all, best first.
fn ranks(scores: &[f32]) -> Vec<f32> {
    let mut ranks = vec![0.0; scores.len()];
    for (rank, place) in order(scores).into_iter().enumerate() {
        ranks[place] = rank as f32;
    }
    ranks
}

/// Eight bits change the scores of models as narrow as these (16 numbers per token) by more than those of
/// real ones; the order must be preserved. For each model: the correlation of all scores, the mean rank
/// correlation of each question's documents, and the best document of most questions.
#[test]
fn in_eight_bits_the_order_stays() {
    for name in ["identity", "sigmoid", "xlm-roberta", "modernbert", "modernbert-mean"] {
        let dir = fixture("6.2", name);
        let Recorded { questions, documents, scores } = recorded(&dir);
        let options = LoadOptions::new().encoder_precision(EncoderPrecision::Int8);
        let reranker = options.reranker(&dir).unwrap();
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let (mut all, mut of_ranks, mut best) = (Vec::new(), 0.0, 0);
        for (question, want) in questions.iter().zip(&scores) {
            let found = reranker.score(question, &documents).unwrap();
            of_ranks += correlation(&ranks(&found), &ranks(want)) / questions.len() as f32;
            // The best of eight bits is among the best two.
            best += usize::from(order(want)[..2].contains(&order(&found)[0]));
            all.extend(found);
        }
        let want: Vec<f32> = scores.into_iter().flatten().collect();
        let of_scores = correlation(&all, &want);
        assert!(of_scores >= 0.998, "{name}: {of_scores}");
        assert!(of_ranks >= 0.98, "{name}: {of_ranks}");
        assert_eq!(best, questions.len(), "{name}");
    }
}

#[test]
fn what_is_no_reranker_is_refused() {
    let error = Reranker::open(base_model()).unwrap_err();
    assert!(matches!(error, ModelError::OtherPurpose { .. }), "{error}");
    let error = Encoder::load(&fixture("6.2", "identity")).unwrap_err();
    assert!(error.to_string().contains("cross-encoder") && error.to_string().contains("--rerank"), "{error}");

    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 11] = [
        ("config.json", |v| v["id2label"] = json!({"0": "no", "1": "yes"}), "2 numbers"),
        ("config.json", |v| v["num_labels"] = 3.into(), "3 numbers"),
        ("config_sentence_transformers.json", |v| v["activation_fn"] = "my.Own".into(), "my.Own"),
        ("config_sentence_transformers.json", |v| v["prompts"] = json!({"query": "q: "}), "prompt"),
        (
            "sentence_bert_config.json",
            |v| v["transformer_task"] = "text-generation".into(),
            "text-generation",
        ),
        ("modules.json", |v| *v = json!([v[0], v[0]]), "one Transformer"),
        ("modules.json", |v| v[0]["type"] = "custom_st.MyTransformer".into(), "custom_st.MyTransformer"),
        ("modules.json", |v| v[0]["path"] = "0_Transformer".into(), "0_Transformer"),
        (
            "config_sentence_transformers.json",
            |v| v["default_prompt_name"] = "query".into(),
            "default_prompt_name",
        ),
        ("config_sentence_transformers.json", |v| v["novel"] = 1.into(), "novel: 1"),
        ("sentence_bert_config.json", |v| v["max_seq_length"] = 3.into(), "8 at least"),
    ];
    for (file, change, expected) in cases {
        let dir = copied();
        edit(&dir.path().join(file), change);
        let error = Reranker::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains(expected), "{file}: {error}");
    }
    let dir = copied();
    fs::rename(dir.path().join("model.safetensors"), dir.path().join("pytorch_model.bin")).unwrap();
    assert!(matches!(Reranker::open(dir.path()), Err(ModelError::BadFile { .. })));
}

fn index(dir: &TempDir) -> Index {
    let bundle = ehi::Bundle::from_encoder(base_model()).unwrap();
    let index = Index::create(dir.path().join("index"), &bundle).unwrap();
    let Recorded { documents, .. } = recorded(&fixture("6.2", "identity"));
    for (number, text) in documents.iter().enumerate() {
        let text = if text.is_empty() { "empty" } else { text };
        index.insert(Document::new(format!("d{number}"), "", text)).unwrap();
    }
    index
}

#[test]
fn a_search_is_reranked() {
    let dir = tempfile::tempdir().unwrap();
    let index = index(&dir);
    let reranker = Arc::new(Reranker::open(fixture("6.2", "identity")).unwrap());
    let question = "what is a tree?";
    let first = index.search_with(question, &SearchRequest::dense().k(DEFAULT_K)).unwrap();
    let result = index.search_with(question, &SearchRequest::dense().rerank(&reranker, 10)).unwrap();
    assert_eq!((result.hits.len(), result.stats.reranked), (10, 10));
    let scores: Vec<f32> = result.hits.iter().map(|hit| hit.rerank_score.unwrap()).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    for hit in &result.hits {
        let before = first.hits.iter().find(|other| other.id == hit.id).unwrap();
        assert_eq!((hit.score, hit.scores), (before.score, before.scores), "the first score stays");
        let own = reranker.score(question, &[&hit.document.text]).unwrap()[0];
        assert!((own - hit.rerank_score.unwrap()).abs() < 1e-5);
    }

    // Hits beyond the depth keep their order; fewer hits than the depth are the best within it.
    let result = index.search_with(question, &SearchRequest::dense().rerank(&reranker, 4)).unwrap();
    assert_eq!((result.hits.len(), result.stats.reranked), (10, 4));
    let ids = |hits: &[ehi::Hit]| hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&result.hits[4..]), ids(&first.hits[4..]));
    assert!(result.hits[4..].iter().all(|hit| hit.rerank_score.is_none()));
    let best =
        index.search_with(question, &SearchRequest::dense().k(2).rerank(&reranker, 10).ids_only()).unwrap();
    let whole = index.search_with(question, &SearchRequest::dense().rerank(&reranker, 10)).unwrap();
    assert_eq!(ids(&best.hits), ids(&whole.hits[..2]));
    assert!(best.hits.iter().all(|hit| hit.document.text.is_empty()));

    // The same in a batch, and by words.
    let both =
        index.search_many(&[question, "beam search"], &SearchRequest::dense().rerank(&reranker, 10)).unwrap();
    assert_eq!(ids(&both[0].hits), ids(&whole.hits));
    let words = index.search_with(question, &SearchRequest::lexical().rerank(&reranker, 10)).unwrap();
    assert!(words.hits.iter().all(|hit| hit.rerank_score.is_some()));
    // It does not read signs or excluded words.
    let signed = index
        .search_with("what is a tree? -quagga", &SearchRequest::lexical().rerank(&reranker, 10))
        .unwrap();
    assert_eq!(
        (&signed.signs.excluded[..], ids(&signed.hits)),
        (&["quagga".to_owned()][..], ids(&words.hits))
    );
    let scores = |hits: &[ehi::Hit]| hits.iter().map(|hit| hit.rerank_score).collect::<Vec<_>>();
    assert_eq!(scores(&signed.hits), scores(&words.hits));

    let vector = vec![1.0; index.bundle().model().dim()];
    let error = index.search_with(&vector, &SearchRequest::dense().rerank(&reranker, 5)).unwrap_err();
    assert!(
        matches!(error, Error::Input(InputError::InapplicableOption { option: "rerank", .. })),
        "{error}"
    );
    let error = index.search_with(question, &SearchRequest::dense().rerank(&reranker, 0)).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::OutOfRange { .. })), "{error}");
    let error = index.explain(question, &SearchRequest::dense().rerank(&reranker, 5), false).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::InapplicableOption { .. })), "{error}");
}

#[test]
fn the_program_reranks() {
    let dir = tempfile::tempdir().unwrap();
    drop(index(&dir));
    let index = dir.path().join("index");
    let reranker = fixture("6.2", "identity");
    let search = ["search", "--index", text(&index), "--rerank", text(&reranker), "--rerank-depth", "5"];
    let said = ehi(search.iter().copied().chain(["what is a tree?"])).ok();
    assert!(said.contains("(first ") && said.contains("the best 5 read again"), "{said}");
    let said = ehi(search.iter().copied().chain(["--json", "what is a tree?"])).ok();
    let json: Value = serde_json::from_str(&said).unwrap();
    assert!(
        json["hits"][0]["rerank_score"].is_number() && json["hits"][7]["rerank_score"].is_null(),
        "{json}"
    );
    assert_eq!(json["stats"]["reranked"], 5);
    let error =
        ehi(["search", "--index", text(&index), "--rerank", text(base_model()), "a question"]).failure();
    assert!(error.contains("no reranker"), "{error}");
}

/// An evaluation's figures of reranked hits equal those of searches with reranking.
#[test]
fn the_program_measures_a_reranker() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let (dir, data) = (fixture("6.2", "identity"), support::dataset());
    let eval = ["--data", text(data), "--rerank", text(&dir), "--rerank-depth", "8"];
    let out = &flow.path("eval.json");
    let said = flow.run("eval", &[&eval[..], &["--json", text(out)]].concat()).ok();
    assert!(said.contains("reranked"), "{said}");
    let json: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    let modes: Vec<&str> =
        json["modes"].as_array().unwrap().iter().map(|mode| mode["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["dense", "reranked"]);
    let differences = json["mode_differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0]["modes"], json!(["dense", "reranked"]));
    let p = differences[0]["p_value"]["ndcg@10"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&p), "{p}");

    let dataset = Dataset::open(data).unwrap();
    let index = Index::open_read_only(flow.index()).unwrap();
    let reranker = Arc::new(Reranker::open(&dir).unwrap());
    let qrels = dataset.qrels("test").unwrap();
    let k = NonZeroUsize::new(10).unwrap();
    let (mut plain, mut reranked) = (Vec::new(), Vec::new());
    for query in dataset.queries().unwrap().map(Result::unwrap) {
        let Some(judged) = qrels.get(&query.id) else { continue };
        let request = SearchRequest::dense().k(20);
        let search = |request| index.search_with(&query.text, &request).unwrap();
        let value = |result: &SearchResult| {
            let ids: Vec<&str> = result.hits.iter().map(|hit| hit.id.as_str()).collect();
            Metric::Ndcg(k).of_query(&ids, judged, RelevanceLevel::default())
        };
        plain.push(value(&search(request.clone())));
        reranked.push(value(&search(request.rerank(&reranker, 8))));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!(plain != reranked, "the reranker changes something");
    for (mode, values) in json["modes"].as_array().unwrap().iter().zip([&plain, &reranked]) {
        let found = mode["ndcg@10"].as_f64().unwrap();
        assert!((found - mean(values)).abs() < 1e-9, "{}: {found} {}", mode["mode"], mean(values));
    }
    assert!(p > 0.0 && p < 1.0, "{p}");

    // Of the first mode that is asked for.
    flow.run("eval", &[&eval[..], &["--modes", "lexical,dense", "--json", text(out)]].concat()).ok();
    let json: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!(json["modes"][2]["mode"], "reranked");
    let recall = |mode: usize| json["modes"][mode]["recall@100"].as_f64().unwrap();
    assert_eq!(recall(2), recall(0), "no order finds more");
    for (rest, expected) in [
        (&["--rerank", text(support::base_model())][..], "no reranker"),
        (&["--rerank", text(&dir), "--rerank-depth", "0"], "0"),
        (&["--rerank", "not-there"], "not-there"),
    ] {
        let error = flow.run("eval", &[&eval[..2], rest].concat()).failure();
        assert!(error.contains(expected), "{rest:?}: {error}");
    }
    let refused = flow.run("eval", &[&eval[..2], &["--rerank-depth", "5"]].concat());
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--rerank <DIR>"), "{}", refused.err);
}
