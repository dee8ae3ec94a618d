//! Our encoders compared with reference vectors recorded with transformers in f32.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ehi::model::{Encoder, Role};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    texts: Vec<RecordedText>,
}

#[derive(Deserialize)]
struct RecordedText {
    text: String,
    ids: Vec<u32>,
}

fn fixture(name: &str) -> PathBuf {
    crate::support::root().join("tests/fixtures").join(name)
}

fn recorded(name: &str) -> Recorded {
    let json = fs::read(fixture(name).join("texts.json")).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// Rows of a recorded `[n, dim]` f32 tensor.
fn vectors(name: &str, tensor: &str) -> Vec<Vec<f32>> {
    let bytes = fs::read(fixture(name).join("vectors.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(tensor).unwrap();
    let dim = view.shape()[1];
    let flat: Vec<f32> =
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    flat.chunks_exact(dim).map(<[f32]>::to_vec).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum() };
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

/// Compares ids for equality, and embeddings of each text alone and of all in one batch within `tolerance`
/// per value.
fn check(encoder: &Encoder, recorded: &Recorded, vectors: &[Vec<f32>], tolerance: f32) {
    assert_eq!(recorded.texts.len(), vectors.len());
    let texts: Vec<&str> = recorded.texts.iter().map(|t| t.text.as_str()).collect();
    let batch = encoder.embed(&texts, Role::Document).unwrap();
    for ((text, want), row) in recorded.texts.iter().zip(vectors).zip(batch.chunks_exact(encoder.dim())) {
        assert_eq!(encoder.tokenize(&text.text, Role::Document).unwrap(), text.ids, "{:?}", text.text);
        let single = encoder.embed(&[&text.text], Role::Query).unwrap();
        for found in [row, &single] {
            assert!(cosine(found, want) > 0.99999, "{:?}: {}", text.text, cosine(found, want));
            let worst = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < tolerance, "{:?}: {worst}", text.text);
        }
    }
}

/// Copies the DistilBERT fixture with its weights unpacked.
fn unpack_distilbert(target: &Path) {
    let source = fixture("distilbert-768");
    fs::create_dir_all(target.join("1_Pooling")).unwrap();
    for name in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
    ] {
        fs::copy(source.join(name), target.join(name)).unwrap();
    }
    let packed = fs::File::open(source.join("model.safetensors.gz")).unwrap();
    let mut weights = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut weights).unwrap();
    fs::write(target.join("model.safetensors"), weights).unwrap();
}

#[test]
fn distilbert_matches_transformers_with_mean_and_cls_pooling() {
    let dir = tempfile::tempdir().unwrap();
    unpack_distilbert(dir.path());
    let recorded = recorded("distilbert-768");
    let encoder = Encoder::load(dir.path()).unwrap();
    assert_eq!((encoder.dim(), encoder.max_tokens()), (768, 48));
    check(&encoder, &recorded, &vectors("distilbert-768", "mean"), 5e-6);

    let pooling = dir.path().join("1_Pooling/config.json");
    let text = fs::read_to_string(&pooling).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["pooling_mode_mean_tokens"] = false.into();
    json["pooling_mode_cls_token"] = true.into();
    fs::write(&pooling, json.to_string()).unwrap();
    let encoder = Encoder::load(dir.path()).unwrap();
    check(&encoder, &recorded, &vectors("distilbert-768", "cls"), 5e-6);
}

/// Without the sentence-transformers extras the documented defaults hold: mean, unit norm.
#[test]
fn a_bare_directory_loads_with_defaults() {
    let dir = tempfile::tempdir().unwrap();
    unpack_distilbert(dir.path());
    fs::remove_file(dir.path().join("modules.json")).unwrap();
    fs::remove_dir_all(dir.path().join("1_Pooling")).unwrap();
    fs::remove_file(dir.path().join("sentence_bert_config.json")).unwrap();
    let encoder = Encoder::load(dir.path()).unwrap();
    // The position table's length, since the default maximum is longer.
    assert_eq!(encoder.max_tokens(), 64);
    let recorded = recorded("distilbert-768");
    let want = vectors("distilbert-768", "mean");
    let shorter = recorded.texts.iter().zip(&want).filter(|(text, _)| text.ids.len() < 48);
    let mut compared = 0;
    for (text, want) in shorter {
        let found = encoder.embed(&[&text.text], Role::Document).unwrap();
        assert!(cosine(&found, want) > 0.99999);
        compared += 1;
    }
    assert!(compared > 5);
}

/// Prompts only precede texts of their role.
#[test]
fn prompts_apply_by_role() {
    let dir = tempfile::tempdir().unwrap();
    unpack_distilbert(dir.path());
    let plain = Encoder::load(dir.path()).unwrap();
    let prompts = r#"{"prompts": {"query": "a b: ", "document": "c "}, "default_prompt_name": null}"#;
    fs::write(dir.path().join("config_sentence_transformers.json"), prompts).unwrap();
    let prompted = Encoder::load(dir.path()).unwrap();
    let ids = |encoder: &Encoder, text: &str, role| encoder.tokenize(text, role).unwrap();
    assert_eq!(ids(&prompted, "d e", Role::Query), ids(&plain, "a b: d e", Role::Query));
    assert_eq!(ids(&prompted, "d e", Role::Document), ids(&plain, "c d e", Role::Document));
    assert_ne!(ids(&prompted, "d e", Role::Query), ids(&plain, "d e", Role::Query));
}

/// all-MiniLM-L6-v2, which `scripts/fetch-base-model` puts in `target/base-model`.
fn base_model() -> PathBuf {
    let dir = match std::env::var_os("EHI_BASE_MODEL") {
        Some(dir) => PathBuf::from(dir),
        None => crate::support::root().join("target/base-model"),
    };
    assert!(
        dir.join("model.safetensors").is_file(),
        "{} holds no model; run scripts/fetch-base-model first",
        dir.display()
    );
    dir
}

#[test]
fn minilm_matches_transformers() {
    let dir = base_model();
    let encoder = Encoder::load(&dir).unwrap();
    assert_eq!((encoder.dim(), encoder.max_tokens()), (384, 256));
    check(&encoder, &recorded("minilm"), &vectors("minilm", "embeddings"), 5e-6);
}

/// A comparison with another implementation in the same process, on texts beyond the fixtures.
#[cfg(feature = "parity")]
#[test]
fn minilm_matches_the_stock_bert_of_candle() {
    use candle_core::{Device, Tensor};
    use candle_nn::VarBuilder;
    use candle_transformers::models::bert::{BertModel, Config};

    let dir = base_model();
    let encoder = Encoder::load(&dir).unwrap();
    let config: Config = serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap();
    let weights = fs::read(dir.join("model.safetensors")).unwrap();
    let builder =
        VarBuilder::from_buffered_safetensors(weights, candle_core::DType::F32, &Device::Cpu).unwrap();
    let stock = BertModel::load(builder, &config).unwrap();
    for repeat in [1, 3, 17, 90] {
        let text = "Leaf routing, 42 \u{e9}t\u{e9}s; ".repeat(repeat);
        let ids = encoder.tokenize(&text, Role::Document).unwrap();
        let input = Tensor::new(ids.as_slice(), &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let hidden = stock.forward(&input, &input.zeros_like().unwrap(), None).unwrap();
        let want: Vec<f32> = hidden.mean(1).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let found = encoder.embed(&[&text], Role::Document).unwrap();
        assert!(cosine(&found, &want) > 0.99999, "{} tokens: {}", ids.len(), cosine(&found, &want));
    }
}
