//! Static encoders, tables of token vectors: folders written by the real model2vec and sentence-transformers,
//! compared with their vectors (`fixtures/static/make.py`).

use std::fs;
use std::path::{Path, PathBuf};

use ehi::data::Dataset;
use ehi::model::{Encoder, EncoderPrecision, EncoderSettings, LoadOptions, ModelError, Role};
use ehi::train::{Fitted, Trainer, TrainingSet};
use ehi::{Bundle, Document, Error, Index, InputError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support;

#[derive(Deserialize)]
struct Recorded {
    query: Option<Vec<Vec<f32>>>,
    document: Vec<Vec<f32>>,
}

fn fixtures() -> PathBuf {
    crate::support::root().join("tests/fixtures/static")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum() };
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => fs::write(&target, fs::read(&path).unwrap()).unwrap(),
        }
    }
}

/// A copy of a fixture.
fn folder(name: &str) -> tempfile::TempDir {
    let target = tempfile::tempdir().unwrap();
    copy(&fixtures().join(name), target.path());
    target
}

#[test]
fn every_folder_gives_the_vectors_of_its_library() {
    let texts: Vec<String> = read(&fixtures().join("texts.json"));
    assert!(texts.len() >= 50);
    let (mut checked, mut empty) = (0, 0);
    for dir in folders(&fixtures()).iter().flat_map(|release| folders(release)) {
        let recorded: Recorded = read(&dir.join("vectors.json"));
        let encoder = Encoder::load(&dir).unwrap();
        for (role, rows) in [(Role::Document, Some(recorded.document)), (Role::Query, recorded.query)] {
            let Some(rows) = rows else { continue };
            assert_eq!(rows.len(), texts.len());
            let mut known: (Vec<&str>, Vec<Vec<f32>>) = Default::default();
            for (text, want) in texts.iter().zip(rows) {
                // The first releases dropped unknown tokens before truncating a text, later ones afterwards.
                let first = dir.parent().unwrap().ends_with("model2vec-0.3");
                if first
                    && text.len() > 1000
                    && ["a b c", "searching"].iter().any(|start| text.starts_with(start))
                {
                    continue;
                }
                if !encoder.tokenize(text, role).unwrap().is_empty() {
                    known.0.push(text);
                    known.1.push(want);
                    continue;
                }
                // The libraries return zeros, unless a module after the mean adds something.
                assert!(want.iter().all(|x| *x == 0.0) || dir.ends_with("dense"), "{dir:?} {text:?}");
                let error = encoder.embed(&["a tree", text], role).unwrap_err();
                assert!(matches!(error, ModelError::NoTokens { index: 1 }), "{error}");
                empty += 1;
            }
            let batch = encoder.embed(&known.0, role).unwrap();
            for ((text, want), row) in known.0.iter().zip(&known.1).zip(batch.chunks_exact(encoder.dim())) {
                let near = cosine(row, want);
                let start: String = text.chars().take(40).collect();
                assert!(near >= 0.99999, "{dir:?} {role:?} {start:?}: {near}");
                // The norms, too.
                let worst = row.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                let size = want.iter().map(|x| x.abs()).fold(0.0, f32::max);
                assert!(worst <= 2e-3 * size, "{dir:?} {start:?}: {worst} of {size}");
                assert_eq!(encoder.embed(&[text], role).unwrap(), row);
                checked += 1;
            }
        }
    }
    assert!(checked > 15 * 50 && empty > 15, "{checked} {empty}");
}

/// The differences between the two libraries' readings of a text.
#[test]
fn each_library_reads_a_text_in_its_own_way() {
    let ids = |name: &str, text: &str| {
        Encoder::load(&fixtures().join(name)).unwrap().tokenize(text, Role::Document).unwrap()
    };
    let (ours, theirs) = ("model2vec-0.10/unit", "sentence-transformers-6.2/plain");
    let unknown = "a \u{1200} tree";
    assert_eq!(ids(ours, unknown).len() + 1, ids(theirs, unknown).len());
    let long = "a ".repeat(10_000);
    assert_eq!(ids(ours, &long).len(), 512);
    assert_eq!(ids(theirs, &long).len(), 8192);
    assert_eq!(ids("model2vec-0.10/long", &long).len(), 8192);
    assert_eq!(ids("model2vec-0.10/short", &long).len(), 9);
    assert_eq!(ids("sentence-transformers-6.2/short", &long).len(), 12);
    // For 512 tokens of median length, 3 here, no further characters are read.
    let spaced = "a       ".repeat(400);
    assert!(ids(ours, &spaced).len() < 200 && ids(theirs, &spaced).len() == 400);
}

#[test]
fn a_folder_is_described() {
    let of = |name: &str| Encoder::load(&fixtures().join(name)).unwrap().describe().unwrap();
    let first = of("model2vec-0.10/unit");
    assert_eq!((first.architecture.as_str(), first.layers, first.max_tokens), ("model2vec", 0, 512));
    assert!(first.is_unit && !of("model2vec-0.10/plain").is_unit);
    let second = of("sentence-transformers-6.2/prompts");
    assert_eq!((second.architecture.as_str(), second.hidden_size), ("StaticEmbedding", 24));
    assert_eq!(second.query_prompt.text, "query: ");
    assert_eq!(of("sentence-transformers-6.2/dense").dim, 10);
    assert_eq!(of("model2vec-0.10/shared-half").dim, 16);
}

#[test]
fn eight_bits_are_refused() {
    let options = LoadOptions::new().encoder_precision(EncoderPrecision::Int8);
    let error = options.encoder(fixtures().join("model2vec-0.10/unit")).unwrap_err();
    assert!(error.to_string().contains("no matrix products"), "{error}");
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json: Value = read(path);
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Unsupported settings of a folder, and damage.
#[test]
fn wrong_folders_are_refused() {
    let refused = |dir: &Path| Encoder::load(dir).unwrap_err().to_string();
    let dir = folder("model2vec-0.10/unit");
    change(&dir.path().join("config.json"), |config| config["normalize"] = json!(false));
    assert!(refused(dir.path()).contains("normalize"), "{}", refused(dir.path()));
    let dir = folder("model2vec-0.10/unit");
    change(&dir.path().join("config.json"), |config| config["max_length"] = json!(0));
    assert!(refused(dir.path()).contains("max_length is 0"));
    let dir = folder("model2vec-0.10/unit");
    fs::copy(fixtures().join("model2vec-0.10/plain/model.safetensors"), dir.path().join("model.safetensors"))
        .unwrap();
    let encoder = LoadOptions::new().encoder(dir.path());
    let error = encoder.and_then(|encoder| encoder.embed(&["the tree of search"], Role::Query)).unwrap_err();
    assert!(matches!(error, ModelError::Tokenizer { .. }), "{error}");
    let dir = folder("sentence-transformers-6.2/unit");
    change(&dir.path().join("modules.json"), |modules| modules[0]["path"] = json!("elsewhere"));
    assert!(refused(dir.path()).contains("folder of a module"));
    let dir = folder("sentence-transformers-6.2/short");
    change(&dir.path().join("tokenizer.json"), |file| file["truncation"]["direction"] = json!("Left"));
    assert!(refused(dir.path()).contains("direction"));
    let dir = folder("sentence-transformers-3.4/unit");
    fs::remove_file(dir.path().join("0_StaticEmbedding/model.safetensors")).unwrap();
    assert!(refused(dir.path()).contains("model.safetensors is missing"));
    let dir = folder("sentence-transformers-3.4/unit");
    fs::remove_file(dir.path().join("0_StaticEmbedding/tokenizer.json")).unwrap();
    assert!(refused(dir.path()).contains("tokenizer.json is missing"));
    // A token without a row.
    let dir = folder("model2vec-0.10/shared");
    let path = dir.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mapping = file.tensor("mapping").unwrap();
    assert_eq!(mapping.dtype(), safetensors::Dtype::I32);
    let at = mapping.data().as_ptr().addr() - bytes.as_ptr().addr();
    bytes[at..at + 4].copy_from_slice(&60i32.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(refused(dir.path()).contains("a token's row of 60"), "{}", refused(dir.path()));
}

const FORMS: [&str; 4] = [
    "model2vec-0.3/unit",
    "model2vec-0.10/shared",
    "sentence-transformers-3.4/unit",
    "sentence-transformers-6.2/dense",
];

/// An index of each form finds documents, reopens, and has a copy of the model with the same results.
#[test]
fn indexes_of_static_encoders() {
    for name in FORMS {
        let bundle = Bundle::from_encoder(fixtures().join(name)).unwrap();
        assert!(!bundle.has_tree());
        let dir = tempfile::tempdir().unwrap();
        let index = Index::create(dir.path(), &bundle).unwrap();
        let texts = ["the tree of search", "a virus and its protein", "the level of a query"];
        for (id, text) in texts.iter().enumerate() {
            index.insert(Document::new(id.to_string(), "", *text)).unwrap();
        }
        let best = |index: &Index| index.search("a virus and its protein", 1, 1).unwrap().hits.remove(0);
        let found = best(&index);
        assert_eq!(found.id, "1", "{name}");
        let error = index.search("\u{1200}", 1, 1);
        match name.starts_with("model2vec") {
            true => assert!(matches!(error, Err(Error::Model(ModelError::NoTokens { .. }))), "{error:?}"),
            false => assert!(error.is_ok()),
        }
        let error = index.insert(Document::new("empty", "", " ")).unwrap_err();
        assert!(matches!(error, Error::Input(InputError::EmptyDocument { .. })), "{error}");
        if name.starts_with("model2vec") {
            let texts = [("unknown", "\u{1200} \u{1201}"), ("known", "\u{1200} tree")];
            let summary = index.insert_batch(texts.map(|(id, text)| Document::new(id, "", text))).unwrap();
            assert_eq!((summary.inserted, summary.refused.len()), (1, 1));
            let error = &summary.refused[0].error;
            assert!(matches!(error, InputError::UnknownText { id } if id == "unknown"), "{error}");
        }
        index.flush().unwrap();
        drop(index);
        let index = Index::open(dir.path()).unwrap();
        assert_eq!(best(&index).score, found.score, "{name}");
        assert!(index.verify().unwrap().is_sound());
        drop(index);
        let narrow = EncoderSettings::new().dim(8);
        let narrow = Bundle::from_encoder_with(fixtures().join(name), &narrow).unwrap();
        assert_eq!(narrow.model().dim(), 8);
    }
}

/// Passages without known tokens have no row.
#[test]
fn passages_without_a_known_word() {
    let bundle = Bundle::from_encoder(fixtures().join("model2vec-0.10/unit")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let index = Index::builder().passages(16, 0).create(dir.path(), &bundle);
    let index = index.unwrap();
    let text = format!("the tree of search. {} the leaf of a tree", "\u{1200} ".repeat(40));
    let summary = index.insert_batch([Document::new("1", "", text)]).unwrap();
    assert_eq!((summary.inserted, summary.passages), (1, 2));
    assert_eq!(index.search("leaf", 1, 1).unwrap().hits[0].id, "1");
}

/// A tree over a static encoder, whose table is fixed or trained too; the bundle has the same form.
#[test]
fn training_over_a_static_encoder() {
    let shape = support::Shape { height: 1 };
    let data = Dataset::open(support::dataset()).unwrap();
    for name in FORMS {
        let dir = tempfile::tempdir().unwrap();
        let base = fixtures().join(name);
        let mut before = Vec::new();
        for trains_table in [false, true] {
            let mut config = support::config(shape);
            config.encoder.train_embeddings = trains_table;
            config.encoder.learning_rate = 1e-2;
            let set = TrainingSet::read(&data, config.dev_fraction).unwrap();
            let out = dir.path().join(format!("bundle-{trains_table}"));
            let trainer = Trainer::builder().base(&base).config(config).output(&out);
            let Fitted { bundle, report, .. } = trainer.fit(&set).unwrap();
            assert!(bundle.has_tree());
            let moved = report.moved.iter().find(|moved| moved.name == "encoder.embeddings.word");
            assert_eq!(moved.is_some_and(|moved| moved.relative_change > 0.0), trains_table, "{name}");
            // Unchanged, and opened as a base again.
            let again = Encoder::load(&out).unwrap();
            let texts = ["the tree of search", "a virus"];
            let rows = bundle.model().encoder().unwrap().embed(&texts, Role::Document).unwrap();
            assert_eq!(again.embed(&texts, Role::Document).unwrap(), rows);
            let describe = |encoder: &Encoder| encoder.describe().unwrap();
            assert_eq!(describe(&again), describe(&Encoder::load(&base).unwrap()), "{name}");
            let of_base = Encoder::load(&base).unwrap().embed(&texts, Role::Document).unwrap();
            let near = cosine(&rows, &of_base);
            assert_eq!(near > 0.99999, !trains_table, "{name}: {near}");
            let index = Index::create(dir.path().join(format!("index-{trains_table}")), &bundle).unwrap();
            index.insert_batch(support::documents(30)).unwrap();
            assert_eq!(index.search("a tree", 5, 4).unwrap().len(), 5);
            before.push(rows);
        }
        assert_ne!(before[0], before[1]);
    }
    let mut config = support::config(shape);
    config.encoder.trainable_layers = 1;
    let set = TrainingSet::read(&data, config.dev_fraction).unwrap();
    let out = tempfile::tempdir().unwrap();
    let trainer =
        Trainer::builder().base(fixtures().join(FORMS[0])).config(config).output(out.path().join("o"));
    let error = trainer.fit(&set).unwrap_err().to_string();
    assert!(error.contains("without layers") && error.contains("train_embeddings"), "{error}");
}
