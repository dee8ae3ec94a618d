//! Folders written by the real sentence-transformers, compared with its vectors (`fixtures/folders/make.py`),
//! and folders with unsupported settings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ehi::data::Dataset;
use ehi::model::{Encoder, EncoderSettings, LoadOptions, ModelError, PoolingMode, PromptSource, Role};
use ehi::train::{Trainer, TrainingSet};
use ehi::{Bundle, Document, Index, SearchRequest, Similarity};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support;

const RELEASES: [&str; 4] = ["2.2", "2.7", "3.4", "6.2"];

#[derive(Deserialize)]
struct Recorded {
    query: Option<Vec<Vec<f32>>>,
    document: Option<Vec<Vec<f32>>>,
}

fn fixtures() -> PathBuf {
    crate::support::root().join("tests/fixtures/folders")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Assembles a folder as it was written.
pub fn folder(release: &str, name: &str) -> TempDir {
    let target = tempfile::tempdir().unwrap();
    copy(&fixtures().join(release).join(name), target.path());
    let places: BTreeMap<String, String> = read(&fixtures().join(release).join("shared.json"));
    for (place, shared) in places {
        if let Some(file) = place.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) {
            fs::copy(fixtures().join("shared").join(shared), target.path().join(file)).unwrap();
        }
    }
    target
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

fn names(release: &str) -> Vec<String> {
    let entries = fs::read_dir(fixtures().join(release)).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = entries
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Release 2 wrote PyTorch's format: replaced by the identical weights of a later release.
fn convert(folder: &Path) {
    let other = self::folder("3.4", "mean");
    fs::copy(other.path().join("model.safetensors"), folder.join("model.safetensors")).unwrap();
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum() };
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

/// Both vectors, and not only their direction.
fn assert_near(what: &str, found: &[f32], want: &[f32], compare_norms: bool) {
    assert_eq!(found.len(), want.len(), "{what}");
    assert!(cosine(found, want) >= 0.99999, "{what}: cosine {}", cosine(found, want));
    if compare_norms {
        let worst = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let size = want.iter().map(|x| x.abs()).fold(0.0, f32::max);
        assert!(worst <= 2e-5 * size.max(1.0), "{what}: {worst} of {size}");
    }
}

fn check(what: &str, dir: &Path) {
    let texts: Vec<String> = read(&fixtures().join("texts.json"));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let recorded: Recorded = read(&dir.join("vectors.json"));
    let encoder = Encoder::load(dir).unwrap();
    let mut compared = 0;
    for (role, rows) in [(Role::Query, recorded.query), (Role::Document, recorded.document)] {
        let Some(rows) = rows else { continue };
        let batch = encoder.embed(&texts, role).unwrap();
        assert_eq!(rows.len(), texts.len());
        for ((text, want), found) in texts.iter().zip(&rows).zip(batch.chunks_exact(encoder.dim())) {
            // Releases before 6 also lower-case special tokens that are written out in a text.
            if what.ends_with("lower") && !what.starts_with("6.2") && text.contains("[CLS]") {
                continue;
            }
            // A truncated vector is normalised again here, but not there.
            let what = format!("{what}, {role:?}, {text:?}");
            assert_near(&what, found, want, !what.contains("truncated"));
            assert_near(&what, &encoder.embed(&[text], role).unwrap(), want, !what.contains("truncated"));
            compared += 1;
        }
    }
    assert!(compared >= 50, "{what}: {compared}");
}

#[test]
fn every_folder_gives_the_vectors_of_the_library() {
    let mut checked = 0;
    for release in RELEASES {
        for name in names(release) {
            let dir = folder(release, &name);
            let what = format!("{release} {name}");
            let pickled = ["model.safetensors", "2_Dense/model.safetensors"]
                .iter()
                .any(|file| !dir.path().join(file).exists() && is_pickled(dir.path(), file));
            if pickled {
                let error = Encoder::load(dir.path()).unwrap_err();
                assert!(matches!(error, ModelError::BadFile { .. }), "{what}: {error}");
                assert!(error.to_string().contains("sentence_transformers"), "{error}");
                if name.starts_with("dense") {
                    continue;
                }
                convert(dir.path());
            }
            check(&what, dir.path());
            checked += 1;
        }
    }
    assert!(checked >= 4 * 8, "{checked} folders");
}

fn is_pickled(dir: &Path, file: &str) -> bool {
    dir.join(file.replace("model.safetensors", "pytorch_model.bin")).exists()
}

/// The settings that distinguish folders do make a difference.
#[test]
fn settings_of_a_folder_are_described() {
    let describe = |name: &str| Encoder::load(folder("6.2", name).path()).unwrap().describe().unwrap();
    assert_eq!(describe("three").pooling, [PoolingMode::Cls, PoolingMode::Max, PoolingMode::Mean]);
    assert_eq!((describe("three").width, describe("three").dim), (48, 48));
    let lower = describe("lower");
    assert!(!lower.is_unit && lower.pools_prompt);
    assert_eq!((describe("mean").max_tokens, describe("length").max_tokens), (24, 40));
    assert_eq!((describe("truncated").width, describe("truncated").dim), (16, 6));
    let prompts = describe("without-prompt");
    assert_eq!((prompts.pools_prompt, prompts.query_prompt.text.as_str()), (false, "query: "));
    assert_eq!(prompts.document_prompt.text, "the passage: ");
    let default = describe("default-prompt");
    assert_eq!((default.query_prompt.source, default.document_prompt.source), {
        // Since release 5, the library names two empty prompts of its own, and then has no default for them.
        (PromptSource::None, PromptSource::None)
    });
    let former = Encoder::load(folder("3.4", "default-prompt").path()).unwrap();
    assert_eq!(former.prompt(Role::Query).text, "search: ");
    let json = serde_json::to_value(describe("denses")).unwrap();
    assert_eq!(
        json["modules"][0],
        json!({"module": "dense", "inputs": 32, "outputs": 12, "activation": "identity"})
    );
    assert_eq!(json["modules"][2], json!({"module": "normalize"}));
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json: Value = read(path);
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Every unsupported setting is an error that names the file and the setting.
#[test]
fn what_is_not_done_is_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, &str, Change, &str); 29] = [
        ("mean", "modules.json", |v| v[0]["type"] = "custom_st.Transformer".into(), "custom_st"),
        ("mean", "modules.json", |v| v[2]["type"] = "sentence_transformers.models.LSTM".into(), "LSTM"),
        ("mean", "modules.json", |v| v[0]["kwargs"] = json!(["task"]), "arguments of module"),
        ("mean", "modules.json", |v| v[0]["path"] = "0_Transformer".into(), "0_Transformer"),
        ("mean", "modules.json", |v| v[1]["path"] = "../1_Pooling".into(), "../1_Pooling"),
        ("mean", "modules.json", |v| *v = json!([v[0]]), "without Pooling"),
        ("mean", "modules.json", |v| *v = json!([v[1], v[0]]), "Pooling"),
        ("mean", "1_Pooling/config.json", |v| v["pooling_mode"] = "attention".into(), "attention"),
        ("mean", "1_Pooling/config.json", |v| v["new"] = 1.into(), "new: 1"),
        ("dense", "2_Dense/config.json", |v| v["activation_function"] = "my.Tanh".into(), "my.Tanh"),
        ("dense", "2_Dense/config.json", |v| v["in_features"] = 15.into(), "in_features is 15"),
        ("dense", "2_Dense/config.json", |v| v["module_input_name"] = "token_embeddings".into(), "token_emb"),
        ("dense", "2_Dense/config.json", |v| v["out_features"] = 0.into(), "out_features is 0"),
        ("mean", "2_Normalize/config.json", |v| v["module_input_name"] = "scores".into(), "scores"),
        ("mean", "sentence_bert_config.json", |v| v["transformer_task"] = "fill-mask".into(), "fill-mask"),
        ("mean", "sentence_bert_config.json", |v| v["query_length"] = 32.into(), "query_length: 32"),
        ("mean", "sentence_bert_config.json", |v| v["module_output_name"] = "x".into(), "module_output_name"),
        (
            "mean",
            "sentence_bert_config.json",
            |v| v["modality_config"] = json!({"image": {"method": "forward"}}),
            "image",
        ),
        ("mean", "sentence_bert_config.json", |v| v["max_seq_length"] = 1.into(), "is 1, expected 2"),
        ("mean", "tokenizer_config.json", |v| v["truncation_side"] = "left".into(), "truncation_side `left`"),
        (
            "mean",
            "config_sentence_transformers.json",
            |v| v["default_prompt_name"] = "q".into(),
            "default_prompt_name `q`",
        ),
        (
            "mean",
            "config_sentence_transformers.json",
            |v| v["similarity_fn_name"] = "maxsim".into(),
            "maxsim",
        ),
        (
            "mean",
            "config_sentence_transformers.json",
            |v| v["model_type"] = "SparseEncoder".into(),
            "SparseEncoder",
        ),
        ("mean", "config_sentence_transformers.json", |v| v["truncate_dim"] = 17.into(), "keep is 17"),
        ("mean", "config_sentence_transformers.json", |v| v["novel"] = json!({"a": 1}), "novel"),
        ("mean", "config.json", |v| v["is_encoder_decoder"] = true.into(), "is_encoder_decoder"),
        ("mean", "tokenizer_config.json", |v| v["do_lower_case"] = false.into(), "do_lower_case: false"),
        ("mean", "tokenizer_config.json", |v| v["strip_accents"] = false.into(), "strip_accents: false"),
        (
            "mean",
            "tokenizer_config.json",
            |v| v["tokenize_chinese_chars"] = false.into(),
            "chinese_chars: false",
        ),
    ];
    for (name, file, change, expected) in cases {
        let dir = folder("6.2", name);
        let path = dir.path().join(file);
        edit(&path, change);
        let error = Encoder::load(dir.path()).unwrap_err();
        let named = matches!(error, ModelError::BadSetting { .. });
        assert!(named, "{file}: {error}");
        assert!(error.to_string().contains(expected), "{file}: {error}");
    }
}

/// Models for other purposes are recognised.
#[test]
fn what_is_no_encoder_is_named() {
    for (architecture, kind) in [
        ("BertForSequenceClassification", "cross-encoder"),
        ("BertForMaskedLM", "fills in masked words"),
        ("BertForTokenClassification", "classifier of words"),
        ("BertForSomething", "head of its own"),
    ] {
        let dir = folder("3.4", "mean");
        edit(&dir.path().join("config.json"), |v| v["architectures"] = json!([architecture]));
        // With modules, it is an encoder, whatever it was made from.
        Encoder::load(dir.path()).unwrap();
        fs::remove_file(dir.path().join("modules.json")).unwrap();
        let error = Encoder::load(dir.path()).unwrap_err();
        assert!(matches!(error, ModelError::OtherPurpose { .. }), "{error}");
        assert!(error.to_string().contains(architecture) && error.to_string().contains(kind), "{error}");
    }
    let dir = folder("3.4", "mean");
    edit(&dir.path().join("config.json"), |v| {
        v["sentence_transformers"] = json!({"activation_fn": "torch.nn.modules.linear.Identity"});
    });
    assert!(matches!(Encoder::load(dir.path()), Err(ModelError::OtherPurpose { .. })));
}

/// Both spellings of the pooling file mean the same.
#[test]
fn older_and_newer_pooling_files_are_read_alike() {
    let dir = folder("6.2", "mean");
    let path = dir.path().join("1_Pooling/config.json");
    let pooling = |config: Value| {
        fs::write(&path, config.to_string()).unwrap();
        Encoder::load(dir.path()).unwrap().describe().unwrap().pooling
    };
    assert_eq!(pooling(json!({"pooling_mode": "cls"})), [PoolingMode::Cls]);
    assert_eq!(pooling(json!({"pooling_mode": ["mean", "cls"]})), [PoolingMode::Mean, PoolingMode::Cls]);
    let older = json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true});
    assert_eq!(pooling(older), [PoolingMode::Cls, PoolingMode::Mean]);
    assert_eq!(pooling(json!({"pooling_mode_mean_tokens": false})), [PoolingMode::Mean]);
}

fn first_words(index: &Index, query: &str) -> Vec<String> {
    index
        .search_with(query, &SearchRequest::dense().k(3))
        .unwrap()
        .hits
        .into_iter()
        .map(|hit| hit.id)
        .collect()
}

/// An index keeps its encoder's settings, however the folder is renamed or changed.
#[test]
fn an_index_keeps_settings_of_its_encoder() {
    let dir = folder("6.2", "dense");
    let settings = EncoderSettings::new().dim(5).query_prompt("query: ").document_prompt("leaf ");
    let bundle = Bundle::from_encoder_with(dir.path(), &settings).unwrap();
    assert_ne!(bundle.hash(), Bundle::from_encoder(dir.path()).unwrap().hash());
    let place = tempfile::tempdir().unwrap();
    let index = Index::create(place.path().join("index"), &bundle).unwrap();
    for text in ["a leaf", "a tree", "the beam of a search"] {
        index.insert(Document::new(text, "", text)).unwrap();
    }
    let before = first_words(&index, "tree");
    drop(index);
    fs::remove_dir_all(dir.path()).unwrap();
    let index = Index::open(place.path().join("index")).unwrap();
    let encoder = index.bundle().model().encoder().unwrap().describe().unwrap();
    assert_eq!((encoder.width, encoder.dim, encoder.query_prompt.text.as_str()), (8, 5, "query: "));
    assert_eq!(encoder.document_prompt.text, "leaf ");
    assert_eq!(first_words(&index, "tree"), before);
    let norm: f32 = index
        .bundle()
        .model()
        .encoder()
        .unwrap()
        .embed(&["a"], Role::Document)
        .unwrap()
        .iter()
        .map(|x| x * x)
        .sum();
    assert!((norm - 1.0).abs() < 1e-5, "{norm}");
    assert!(index.verify().is_ok());
    assert_eq!(index.bundle().hash(), bundle.hash());
}

/// The prompts of a known model's card are used, and kept under another name; the user's take precedence.
#[test]
fn prompts_of_a_model_card() {
    let source = folder("3.4", "mean");
    let place = tempfile::tempdir().unwrap();
    let named = place.path().join("e5-small-v2");
    copy(source.path(), &named);
    let encoder = Encoder::load(&named).unwrap();
    assert_eq!(
        (encoder.prompt(Role::Query).text.as_str(), encoder.prompt(Role::Query).source),
        ("query: ", PromptSource::Card)
    );
    assert_eq!(encoder.prompt(Role::Document).text, "passage: ");
    let given = EncoderSettings::new().query_prompt("");
    let encoder = LoadOptions::new().encoder_with(&named, &given).unwrap();
    assert_eq!(
        (encoder.prompt(Role::Query).text.as_str(), encoder.prompt(Role::Document).text.as_str()),
        ("", "passage: ")
    );

    let bundle = Bundle::from_encoder(&named).unwrap();
    drop(Index::create(place.path().join("index"), &bundle).unwrap());
    let index = Index::open(place.path().join("index")).unwrap();
    assert_eq!(index.bundle().model().encoder().unwrap().prompt(Role::Query).text, "query: ");
    assert_eq!(index.bundle().hash(), bundle.hash());

    // Its own prompts take precedence over those of the card.
    edit(&named.join("config_sentence_transformers.json"), |v| v["prompts"] = json!({"query": "q: "}));
    let encoder = Encoder::load(&named).unwrap();
    assert_eq!(
        (encoder.prompt(Role::Query).text.as_str(), encoder.prompt(Role::Document).text.as_str()),
        ("q: ", "")
    );
}

/// An index ranks as the encoder's folder says, unless told otherwise.
#[test]
fn similarity_comes_from_the_folder() {
    let dir = folder("3.4", "cls");
    edit(&dir.path().join("config_sentence_transformers.json"), |v| v["similarity_fn_name"] = "dot".into());
    let bundle = Bundle::from_encoder(dir.path()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let index = Index::create(place.path().join("a"), &bundle).unwrap();
    assert_eq!(index.similarity(), Similarity::DotProduct);
    let builder = Index::builder().similarity(Similarity::Cosine);
    assert_eq!(builder.create(place.path().join("b"), &bundle).unwrap().similarity(), Similarity::Cosine);
}

/// A trained bundle treats a text as its base did, and opens without `ehi.json` as the same encoder.
#[test]
fn training_keeps_what_the_folder_and_its_settings_say() {
    for (name, layers) in [("denses", 1), ("denses", 0), ("without-prompt", 1)] {
        let base = folder("6.2", name);
        let mut config = support::config(support::Shape::of_height(1));
        config.encoder.trainable_layers = layers;
        let set =
            TrainingSet::read(&Dataset::open(support::dataset()).unwrap(), config.dev_fraction).unwrap();
        let settings = match name {
            "denses" => EncoderSettings::new().dim(6).query_prompt("query: ").document_prompt("leaf "),
            _ => EncoderSettings::new(),
        };
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("bundle");
        let trainer = Trainer::builder().base(base.path()).encoder_settings(settings.clone());
        let bundle = trainer.output(&out).config(config).fit(&set).unwrap().bundle;
        let before = LoadOptions::new().encoder_with(base.path(), &settings).unwrap();
        let after = bundle.model().encoder().unwrap();
        let described = |encoder: &Encoder| {
            let mut said = serde_json::to_value(encoder.describe().unwrap()).unwrap();
            for prompt in ["query_prompt", "document_prompt"] {
                said[prompt]["source"].take();
            }
            said
        };
        assert_eq!(described(after), described(&before), "{name}");
        let texts = ["a leaf of the tree", "What is a beam search?"];
        let embed = |encoder: &Encoder, role| encoder.embed(&texts, role).unwrap();
        let moved = embed(after, Role::Query) != embed(&before, Role::Query);
        assert!(moved || layers == 0, "{name}");

        // As sentence-transformers would open it.
        let alone = place.path().join("alone");
        copy(&out, &alone);
        fs::remove_file(alone.join("ehi.json")).unwrap();
        let alone = Encoder::load(&alone).unwrap();
        for role in [Role::Query, Role::Document] {
            assert_eq!(embed(&alone, role), embed(after, role), "{name}, {role:?}");
        }
        if name == "denses" {
            let said: Value = read(&out.join("config_sentence_transformers.json"));
            assert_eq!((&said["truncate_dim"], &said["prompts"]["query"]), (&json!(6), &json!("query: ")));
            assert!(out.join("3_Dense/model.safetensors").is_file());
        }
    }
}

/// A copy with dangling links, adapters, texts truncated on the left, and prompts that leave no room.
#[test]
fn folders_that_would_be_read_wrongly_are_refused() {
    for name in ["modules.json", "config_sentence_transformers.json", "tokenizer_config.json"] {
        let dir = folder("6.2", "mean");
        fs::remove_file(dir.path().join(name)).unwrap();
        std::os::unix::fs::symlink("nothing", dir.path().join(name)).unwrap();
        let error = Encoder::load(dir.path()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let dir = folder("6.2", "mean");
    fs::write(dir.path().join("adapter_config.json"), "{}").unwrap();
    assert!(Encoder::load(dir.path()).unwrap_err().to_string().contains("adapter"));
    let dir = folder("6.2", "mean");
    let truncation = json!({"direction": "Left", "max_length": 9, "strategy": "LongestFirst", "stride": 0});
    edit(&dir.path().join("tokenizer.json"), |v| v["truncation"] = truncation);
    assert!(Encoder::load(dir.path()).unwrap_err().to_string().contains("on the side `Left`"));
    let dir = folder("6.2", "mean");
    fs::write(dir.path().join("model.safetensors"), "version https://git-lfs.github.com/spec/v1\noid")
        .unwrap();
    assert!(matches!(Encoder::load(dir.path()), Err(ModelError::BadFile { .. })));
    let dir = folder("6.2", "mean");
    let settings = EncoderSettings::new().document_prompt("the tea ".repeat(40));
    let encoder = LoadOptions::new().encoder_with(dir.path(), &settings).unwrap();
    let error = encoder.embed(&["a"], Role::Document).unwrap_err();
    assert!(error.to_string().contains("number of tokens of a prompt"), "{error}");
    encoder.embed(&["a"], Role::Query).unwrap();
}
