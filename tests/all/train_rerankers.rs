//! The training of rerankers on a tiny corpus, from small encoders of every family and from a reranker.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::data::Dataset;
use ehi::model::{ENCODER_FILE, ModelError, Reranker};
use ehi::train::{
    FittedReranker, REPORT_FILE, RerankerConfig, RerankerEvent, RerankerLoss, RerankerRecommendation,
    RerankerReport, RerankerTrainer, TrainError, TrainingSet,
};
use ehi::{Document, Error, Index, Judgment, SearchRequest};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::architectures::folder;
use crate::json::check as check_json;
use crate::program::{Flow, ehi, text};
use crate::support::{self, DOCUMENTS, Shape, filled};

const SHAPE: Shape = Shape { height: 2 };

fn config() -> RerankerConfig {
    let mut config = RerankerConfig::default();
    config.epochs = 2;
    config.batch_size = 8;
    config.negatives = 2;
    config.mining_depth = 10;
    config.max_tokens = Some(32);
    config.depth = 8;
    config
}

fn set() -> TrainingSet {
    TrainingSet::read(&Dataset::open(support::dataset()).unwrap(), 0.3).unwrap()
}

fn existing() -> PathBuf {
    crate::support::root().join("tests/fixtures/rerankers/6.2/identity")
}

fn train(base: &Path, config: RerankerConfig) -> (FittedReranker, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let trainer = RerankerTrainer::builder().base(base).config(config).output(dir.path().join("out"));
    (trainer.fit(&set()).unwrap(), dir)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Names and types of the weights in a folder.
fn tensors(dir: &Path) -> Vec<(String, Dtype)> {
    let bytes = fs::read(dir.join(ENCODER_FILE)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<_> = file.tensors().iter().map(|(name, own)| (name.clone(), own.dtype())).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Every trained tensor moves, and the folder has transformers' names for the family.
#[test]
fn an_encoder_of_every_family_becomes_a_reranker() {
    for (name, class, layer, head) in [
        ("bert", "Bert", "bert.encoder.layer.0.attention.self.query.weight", "bert.pooler.dense.weight"),
        ("roberta", "Roberta", "roberta.encoder.layer.0.output.dense.bias", "classifier.out_proj.weight"),
        ("xlm-roberta", "XLMRoberta", "roberta.encoder.layer.0.output.dense.bias", "classifier.dense.bias"),
        ("mpnet", "MPNet", "mpnet.encoder.layer.0.attention.attn.q.weight", "classifier.out_proj.bias"),
        ("modernbert", "ModernBert", "model.layers.0.attn.Wqkv.weight", "head.norm.weight"),
        ("distilbert", "DistilBert", "distilbert.transformer.layer.0.ffn.lin1.bias", "pre_classifier.bias"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let base = match name {
            "distilbert" => support::base_model().to_owned(),
            name => {
                folder(name, "mean", &dir.path().join("base"));
                dir.path().join("base")
            }
        };
        let (fitted, out) = train(&base, config());
        let out = out.path().join("out");
        let tensors = tensors(&out);
        for wanted in [layer, head] {
            assert!(tensors.iter().any(|(own, _)| own == wanted), "{name}: {wanted} in {tensors:?}");
        }
        assert!(tensors.iter().all(|(_, dtype)| *dtype == Dtype::F16));
        let moved = &fitted.report.moved;
        assert!(moved.iter().all(|own| own.relative_change > 0.0), "{name}: {moved:?}");
        assert!(moved.iter().any(|own| own.name.starts_with("encoder.layer.0.")), "{name}: {moved:?}");
        assert!(moved.iter().any(|own| head.ends_with(&own.name)), "{name}: {moved:?}");
        let config = json(&out.join("config.json"));
        assert_eq!(config["architectures"], json!([format!("{class}ForSequenceClassification")]));
        assert_eq!(config["id2label"], json!({"0": "LABEL_0"}));
        assert_eq!(json(&out.join("config_sentence_transformers.json"))["model_type"], "CrossEncoder");
        let opened = Reranker::open(&out).unwrap();
        assert_eq!(opened.max_tokens(), 32);
        let scores = opened.score("a question", &["a text", "another text"]).unwrap();
        assert_eq!(scores, fitted.reranker.score("a question", &["a text", "another text"]).unwrap());
        assert_ne!(scores[0], scores[1]);
        let report: RerankerReport = serde_json::from_value(json(&out.join(REPORT_FILE))).unwrap();
        assert_eq!(report.epochs.len(), 2);
        assert_eq!(report.verdict, fitted.report.verdict);
    }
}

/// A word of the subject distinguishes right documents from wrong ones: the loss falls, and answers rank
/// first.
#[test]
fn what_can_be_learned_is_learned() {
    for loss in [RerankerLoss::Listwise, RerankerLoss::Binary] {
        let mut config = config();
        (config.epochs, config.loss) = (12, loss);
        (config.learning_rate, config.head_learning_rate) = (1e-3, 1e-2);
        let (fitted, _dir) = train(support::base_model(), config);
        let epochs = &fitted.report.epochs;
        assert!(epochs[11].loss < 0.7 * epochs[0].loss, "{epochs:?}");
        let scores = fitted.reranker.score("a question", &["a text"]).unwrap();
        assert_eq!(loss == RerankerLoss::Binary, (0.0..=1.0).contains(&scores[0]) && is_logistic(&_dir));
        let ndcg = fitted.report.verdict.ndcg_at_10.unwrap();
        assert!(ndcg.value.is_finite() && ndcg.bootstrap_p.is_some());
    }
}

fn is_logistic(dir: &TempDir) -> bool {
    let config = json(&dir.path().join("out/config_sentence_transformers.json"));
    config["activation_fn"].as_str().unwrap().ends_with("Sigmoid")
}

#[test]
fn a_run_depends_on_its_seed_alone() {
    let weights = |seed| {
        let (_, dir) = train(&existing(), with_seed(seed));
        fs::read(dir.path().join("out").join(ENCODER_FILE)).unwrap()
    };
    let first = weights(0);
    assert!(first == weights(0));
    assert!(first != weights(1));
}

fn with_seed(seed: u64) -> RerankerConfig {
    let mut config = config();
    config.seed = seed;
    config
}

/// A reranker keeps its form; untrained layers keep their weights, up to f16.
#[test]
fn a_reranker_is_trained_further() {
    let mut own = config();
    own.trainable_layers = Some(1);
    let (fitted, dir) = train(&existing(), own);
    let out = dir.path().join("out");
    let names = |dir: &Path| tensors(dir).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&out), names(&existing()));
    for file in ["modules.json", "config_sentence_transformers.json"] {
        assert_eq!(json(&out.join(file)), json(&existing().join(file)));
    }
    assert!(fitted.report.moved.iter().all(|own| !own.name.contains("layer.0.")));
    assert!(fitted.report.moved.iter().any(|own| own.name == "pooler.dense.weight"));
    let read = |dir: &Path, name: &str| {
        let bytes = fs::read(dir.join(ENCODER_FILE)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensor = file.tensor(name).unwrap();
        let wide = tensor.dtype() == Dtype::F32;
        let of = |data: &[u8]| match wide {
            true => half::f16::from_f32(f32::from_le_bytes([data[0], data[1], data[2], data[3]])),
            false => half::f16::from_le_bytes([data[0], data[1]]),
        };
        tensor.data().chunks_exact(if wide { 4 } else { 2 }).map(of).collect::<Vec<_>>()
    };
    for (name, stays) in [
        ("bert.encoder.layer.0.output.dense.weight", true),
        ("bert.embeddings.word_embeddings.weight", true),
        ("bert.embeddings.token_type_embeddings.weight", true),
        ("bert.encoder.layer.1.output.dense.weight", false),
        ("classifier.weight", false),
    ] {
        assert_eq!(read(&out, name) == read(&existing(), name), stays, "{name}");
    }
    // And once more, from the output.
    let (again, _dir) = train(&out, config());
    assert_eq!(again.report.config.trainable_layers, Some(2));
}

/// The first search is that of an index if one is given, and the verdict covers its hits.
#[test]
fn the_hits_of_an_index_are_reranked() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let out = tempfile::tempdir().unwrap();
    let trainer = RerankerTrainer::builder().base(existing()).config(config()).first_stage(&index);
    let mut events = Vec::new();
    let output = out.path().join("out");
    let fitted = trainer.output(&output).on_event(|event| events.push(event.clone())).fit(&set()).unwrap();
    assert!(matches!(events[0], RerankerEvent::Started { documents: DOCUMENTS, .. }));
    assert!(matches!(events.last(), Some(RerankerEvent::Finished { .. })));
    let verdict = &fitted.report.verdict;
    assert_eq!((verdict.depth, verdict.queries), (8, set().queries().1));
    assert_eq!(verdict.recommendation, RerankerRecommendation::CannotSay);
    assert!(verdict.sentence.contains("at least 20"), "{}", verdict.sentence);

    // The measurement matches a search.
    let held_out = set().held_out();
    let mut questions: Vec<&str> = held_out.iter().map(|judged| judged.question.as_str()).collect();
    questions.dedup();
    let (mut before, mut after) = (0.0, 0.0);
    let reranker = Arc::new(fitted.reranker);
    for question in &questions {
        let judged = held_out.iter().filter(|judged| judged.question == *question);
        let judged = judged.map(|judged| (judged.id.clone(), 1)).collect();
        let ndcg = ehi::eval::Metric::Ndcg(10.try_into().unwrap());
        let value = |ids: Vec<String>| ndcg.of_query(&ids, &judged, ehi::eval::RelevanceLevel::default());
        let request = SearchRequest::dense().k(20).ids_only();
        let ids = |request: &SearchRequest| {
            let found = index.search_with(question, request).unwrap();
            found.hits.into_iter().map(|hit| hit.id).collect()
        };
        before += value(ids(&request)) / questions.len() as f64;
        after += value(ids(&request.rerank(&reranker, 8))) / questions.len() as f64;
    }
    let ndcg = verdict.ndcg_at_10.unwrap();
    assert!((ndcg.against - before).abs() < 1e-9, "{} {before}", ndcg.against);
    assert!((ndcg.value - after).abs() < 1e-9, "{} {after}", ndcg.value);
}

fn error_of(base: &Path, config: RerankerConfig, set: &TrainingSet) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let trainer = RerankerTrainer::builder().base(base).config(config).output(dir.path().join("out"));
    let error = trainer.fit(set).unwrap_err();
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "something was left: {error}");
    error
}

#[test]
fn what_cannot_be_trained_is_refused() {
    type Change = fn(&mut RerankerConfig);
    let cases: [(Change, &str); 9] = [
        (|c| c.epochs = 0, "epochs is 0"),
        (|c| c.batch_size = 0, "batch_size is 0"),
        (|c| (c.negatives, c.random_negatives) = (0, 0), "negatives and random_negatives is 0"),
        (|c| c.mining_depth = 0, "mining_depth is 0"),
        (|c| c.max_tokens = Some(7), "max_tokens is 7, expected at least 8"),
        (|c| c.depth = 0, "depth is 0"),
        (|c| c.learning_rate = f64::NAN, "learning_rate is NaN"),
        (|c| c.trainable_layers = Some(3), "trainable_layers is 3, expected 1 to the encoder's 2"),
        (|c| c.trainable_layers = Some(0), "trainable_layers is 0, expected 1 to the encoder's 2"),
    ];
    for (change, expected) in cases {
        let mut config = config();
        change(&mut config);
        let error = error_of(&existing(), config, &set());
        assert!(matches!(error, Error::Train(TrainError::Config { .. })), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }

    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("nomic");
    folder("nomic-bert", "mean", &base);
    let error = error_of(&base, config(), &set());
    assert!(matches!(error, Error::Model(ModelError::BadSetting { .. })), "{error}");
    assert!(error.to_string().contains("nomic_bert") && error.to_string().contains("xlm-roberta"), "{error}");
    let error = error_of(dir.path(), config(), &set());
    assert!(matches!(error, Error::Model(ModelError::NotAModel { .. })), "{error}");
    let masked = dir.path().join("masked");
    folder("bert", "mean", &masked);
    fs::remove_file(masked.join("modules.json")).unwrap();
    let mut settings = json(&masked.join("config.json"));
    settings["architectures"] = json!(["BertForMaskedLM"]);
    fs::write(masked.join("config.json"), settings.to_string()).unwrap();
    let error = error_of(&masked, config(), &set());
    assert!(matches!(error, Error::Model(ModelError::OtherPurpose { .. })), "{error}");

    let judged = [Judgment::new("a question", "one", 1)];
    let one = TrainingSet::from_judgments([Document::new("one", "", "the only text")], &judged, 0.0).unwrap();
    let error = error_of(&existing(), config(), &one);
    assert!(matches!(error, Error::Train(TrainError::NoNegatives { documents: 1 })), "{error}");
    let error = error_of(&existing(), config(), &TrainingSet::default());
    assert!(matches!(error, Error::Train(TrainError::NoPairs)), "{error}");

    for (trainer, missing) in [
        (RerankerTrainer::builder().base(existing()), "output"),
        (RerankerTrainer::builder().output(dir.path().join("out")), "base"),
    ] {
        let error = trainer.fit(&set()).unwrap_err();
        assert!(matches!(error, Error::Train(TrainError::Missing { what }) if what == missing), "{error}");
    }
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("out/kept"), "kept").unwrap();
    let trainer = RerankerTrainer::builder().base(existing()).output(dir.path().join("out"));
    let error = trainer.fit(&set()).unwrap_err();
    assert!(matches!(error, Error::Model(ModelError::OutputDirectory { .. })), "{error}");
    assert_eq!(fs::read(dir.path().join("out/kept")).unwrap(), b"kept");
    // A link would be replaced, not its target.
    fs::create_dir(dir.path().join("empty")).unwrap();
    std::os::unix::fs::symlink("empty", dir.path().join("link")).unwrap();
    for output in [dir.path().join("link"), dir.path().join("empty/..")] {
        let trainer = RerankerTrainer::builder().base(existing()).output(output);
        let error = trainer.fit(&set()).unwrap_err();
        assert!(matches!(error, Error::Model(ModelError::OutputDirectory { .. })), "{error}");
    }
    // Files next to the output do not belong to the run.
    fs::create_dir(dir.path().join("new.partial")).unwrap();
    fs::write(dir.path().join("new.partial/kept"), "kept").unwrap();
    let trainer = RerankerTrainer::builder().base(existing()).config(config());
    trainer.output(dir.path().join("new")).fit(&set()).unwrap();
    assert_eq!(fs::read(dir.path().join("new.partial/kept")).unwrap(), b"kept");
    assert!(!dir.path().join("new.partial-1").exists());
}

#[test]
fn an_index_of_other_documents_is_refused() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let out = tempfile::tempdir().unwrap();
    let documents = support::documents(DOCUMENTS - 1);
    let judged = [Judgment::new("a question", &documents[0].id, 1)];
    let fewer = TrainingSet::from_judgments(documents, &judged, 0.0).unwrap();
    let run = |index: &Index, set: &TrainingSet| {
        let mut config = config();
        config.mining_depth = DOCUMENTS;
        let trainer = RerankerTrainer::builder().base(existing()).config(config).first_stage(index);
        trainer.output(out.path().join("out")).fit(set).unwrap_err()
    };
    let error = run(&index, &fewer);
    assert!(matches!(error, Error::Train(TrainError::OtherDocuments { .. })), "{error}");
    // One document more than the index contains, and one with a different text.
    let mut documents = support::documents(DOCUMENTS);
    documents.push(Document::new("more", "", "a text"));
    let more = TrainingSet::from_judgments(documents.clone(), &judged, 0.0).unwrap();
    let error = run(&index, &more);
    assert!(matches!(&error, Error::Train(TrainError::OtherDocuments { id }) if id == "more"), "{error}");
    let mut changed = support::documents(DOCUMENTS);
    changed[3].text.push_str(" and more");
    let id = changed[3].id.clone();
    let changed = TrainingSet::from_judgments(changed, &judged, 0.0).unwrap();
    let error = run(&index, &changed);
    assert!(matches!(&error, Error::Train(TrainError::OtherDocuments { id: own }) if *own == id), "{error}");
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let trainer = RerankerTrainer::builder().base(existing()).config(config());
    let mut stages = Vec::new();
    let error = trainer
        .output(dir.path().join("out"))
        .on_progress(|progress| {
            stages.push(progress.stage);
            if progress.stage == ehi::Stage::Train {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .fit(&set())
        .unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    assert!(stages.contains(&ehi::Stage::Questions) && stages.contains(&ehi::Stage::FrozenLayers));
}

#[test]
fn settings_are_read_from_a_file() {
    let config =
        RerankerConfig::from_json(r#"{"epochs": 3, "loss": "binary", "trainable_layers": 2}"#).unwrap();
    let RerankerConfig { epochs, loss, trainable_layers, negatives, .. } = config;
    assert_eq!((epochs, loss, trainable_layers), (3, RerankerLoss::Binary, Some(2)));
    assert_eq!(negatives, RerankerConfig::default().negatives);
    for (bad, expected) in [
        (r#"{"epoch": 3}"#, "epoch"),
        (r#"{"epochs": "3"}"#, "string"),
        (r#"{"epochs": 3, "epochs": 4}"#, "duplicate"),
        ("[]", "expected a map"),
    ] {
        let error = RerankerConfig::from_json(bad).unwrap_err();
        assert!(error.to_string().contains(expected), "{bad}: {error}");
    }
}

#[test]
fn the_program_trains_a_reranker() {
    let flow = Flow::new();
    flow.insert(DOCUMENTS);
    let out = flow.path("reranker");
    let base = existing();
    let (base, data, index) = (text(&base), text(support::dataset()), flow.index());
    let (one, none) = (flow.path("one.json"), flow.path("none.json"));
    fs::write(&one, r#"{ "negatives": 1 }"#).unwrap();
    fs::write(&none, r#"{ "negatives": 0, "random_negatives": 0 }"#).unwrap();
    let few = ["--epochs", "1", "--config", text(&one), "--max-tokens", "32", "--rerank-depth", "5"];
    let command = ["train-reranker", "--base", base, "--data", data, "--first-stage", &index];
    let command = [&command[..], &["--out", text(&out), "--dev-fraction", "0.6"], &few].concat();
    let said = ehi(command.iter()).ok();
    for part in ["nDCG@10", "without the reranker", "questions set aside", "written after"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let hits = flow.run("search", &["--rerank", text(&out), "--json", "a question"]).json();
    assert!(hits["hits"][0]["rerank_score"].is_number());
    let error = ehi(command.iter()).failure();
    assert!(error.contains("is no empty directory"), "{error}");

    // Pairs over the documents of the index, whose own search is then the first.
    let pairs = flow.path("pairs.csv");
    let rows: Vec<String> =
        support::documents(30).iter().map(|d| format!("what of {}?,{}", d.id, d.id)).collect();
    fs::write(&pairs, format!("question,id\n{}\n", rows.join("\n"))).unwrap();
    let other = flow.path("other");
    let command = ["train-reranker", "--base", base, "--pairs", text(&pairs), "--index", &index];
    let more = ["--out", text(&other), "--dev-fraction", "0.5", "--json"];
    let report = ehi([&command[..], &more, &few].concat()).json();
    assert_eq!(report["documents"], DOCUMENTS);
    assert_eq!(report["config"]["epochs"], 1);
    assert!(report["verdict"]["sentence"].is_string());
    check_json("train-reranker", &[report]);

    for (rest, expected) in [
        (&["--data", data, "--out", "x", "--config", text(&none)][..], "negatives"),
        (&["--data", data, "--out", "x", "--dev-fraction", "2"], "dev"),
        (&["--data", data, "--pairs", "p.csv", "--out", "x"], "--pairs"),
        (&["--out", "x"], "--data"),
        (&["--data", "not-there", "--out", "x"], "not-there"),
    ] {
        let refused = ehi([&["train-reranker", "--base", base][..], rest].concat());
        assert!(matches!(refused.code, Some(1 | 2)), "{rest:?}: {:?}", refused.code);
        assert!(refused.out.is_empty() && refused.err.contains(expected), "{rest:?}: {}", refused.err);
    }
    assert!(!Path::new("x").exists());
}
