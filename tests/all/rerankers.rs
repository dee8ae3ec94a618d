//! Cross-encoders written by the real sentence-transformers, against its scores
//! (`fixtures/rerankers/make.py`), and searches that are reranked.

use std::fs;
use std::path::{Path, PathBuf};

use ehi::model::{Encoder, EncoderPrecision, LoadOptions, ModelError, Reranker};
use ehi::search::DEFAULT_K;
use ehi::{Document, Error, Index, InputError};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{ehi, text};
use crate::support::base_model;

#[derive(Deserialize)]
struct Recorded {
    questions: Vec<String>,
    documents: Vec<String>,
    scores: Vec<Vec<f32>>,
}

fn fixture(release: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rerankers").join(release).join(name)
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

/// The places of some scores, best first.
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
                // One alone is scored as among others.
                let alone = reranker.score(question, &documents[4..5]).unwrap()[0];
                assert!((alone - want[4]).abs() < 1e-5);
            }
        }
    }
}

/// Eight bits cost a part of the spread; most in a model as narrow as this.
#[test]
fn in_eight_bits_scores_are_near() {
    let dir = fixture("6.2", "identity");
    let Recorded { questions, documents, scores } = recorded(&dir);
    let options = LoadOptions::new().encoder_precision(EncoderPrecision::Int8);
    let reranker = options.reranker(&dir).unwrap();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let all: Vec<f32> = scores.iter().flatten().copied().collect();
    let mean = all.iter().sum::<f32>() / all.len() as f32;
    let spread = (all.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / all.len() as f32).sqrt();
    let mut squares = 0.0;
    for (question, want) in questions.iter().zip(&scores) {
        let found = reranker.score(question, &documents).unwrap();
        squares += found.iter().zip(want).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
    }
    let error = (squares / all.len() as f32).sqrt();
    assert!(error < 0.25 * spread, "{error} of {spread}");
}

#[test]
fn what_is_no_reranker_is_refused() {
    let error = Reranker::open(base_model()).unwrap_err();
    assert!(matches!(error, ModelError::NotAReranker { .. }), "{error}");
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
    assert!(matches!(Reranker::open(dir.path()), Err(ModelError::OtherWeights { .. })));
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
    let reranker = Reranker::open(fixture("6.2", "identity")).unwrap();
    let question = "what is a tree?";
    let first = index.query(question).k(DEFAULT_K).run().unwrap();
    let result = index.query(question).rerank(&reranker, 10).run().unwrap();
    assert_eq!((result.hits.len(), result.stats.reranked), (10, 10));
    let scores: Vec<f32> = result.hits.iter().map(|hit| hit.rerank_score.unwrap()).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    for hit in &result.hits {
        let before = first.hits.iter().find(|other| other.id == hit.id).unwrap();
        assert_eq!((hit.score, hit.scores), (before.score, before.scores), "the first score stays");
        let own = reranker.score(question, &[&hit.document.text]).unwrap()[0];
        assert!((own - hit.rerank_score.unwrap()).abs() < 1e-5);
    }

    // Hits behind the depth keep their order; fewer hits than the depth are the best of it.
    let result = index.query(question).rerank(&reranker, 4).run().unwrap();
    assert_eq!((result.hits.len(), result.stats.reranked), (10, 4));
    let ids = |hits: &[ehi::Hit]| hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&result.hits[4..]), ids(&first.hits[4..]));
    assert!(result.hits[4..].iter().all(|hit| hit.rerank_score.is_none()));
    let best = index.query(question).k(2).rerank(&reranker, 10).ids_only().run().unwrap();
    let whole = index.query(question).rerank(&reranker, 10).run().unwrap();
    assert_eq!(ids(&best.hits), ids(&whole.hits[..2]));
    assert!(best.hits.iter().all(|hit| hit.document.text.is_empty()));

    // The same in a batch, and by words.
    let both = index.query_batch(&[question, "beam search"]).rerank(&reranker, 10).run().unwrap();
    assert_eq!(ids(&both[0].hits), ids(&whole.hits));
    let words = index.query(question).lexical().rerank(&reranker, 10).run().unwrap();
    assert!(words.hits.iter().all(|hit| hit.rerank_score.is_some()));

    let vector = vec![1.0; index.bundle().model().encoder().dim()];
    let error = index.query_vector(&vector).rerank(&reranker, 5).run().unwrap_err();
    assert!(
        matches!(error, Error::Input(InputError::InapplicableOption { option: "rerank", .. })),
        "{error}"
    );
    let error = index.query(question).rerank(&reranker, 0).run().unwrap_err();
    assert!(matches!(error, Error::Input(InputError::ZeroDepth)), "{error}");
    let error = index.query(question).rerank(&reranker, 5).explain().unwrap_err();
    assert!(matches!(error, Error::Input(InputError::InapplicableOption { .. })), "{error}");
    let error = index.query(question).rerank(&reranker, 5).refine(|_| ()).unwrap_err();
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
