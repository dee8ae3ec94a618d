//! Bundles of a few kilobytes with random weights: a BERT of one layer and eight dimensions.

use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tempfile::TempDir;

use crate::model::{Bundle, BundleParts, Indexer, LevelWeights, LoadOptions, TreeWeights};
use crate::tree::TreeShape;

/// The whole vocabulary.
pub(super) const WORDS: [&str; 30] = [
    "[UNK]", "tree", "leaf", "level", "path", "beam", "index", "search", "near", "far", "cell", "gene",
    "virus", "test", "data", "model", "query", "text", "word", "piece", "learn", "train", "the", "of", "and",
    "to", "in", "is", "for", "on",
];
pub const WIDTH: usize = 8;
const POSITIONS: usize = 16;
const BRANCHING: u32 = 3;

/// Bundles with different hashes; the tree of the third has another shape.
pub(super) struct Bundles {
    pub a: Bundle,
    pub b: Bundle,
    pub c: Bundle,
    /// The encoder of the first.
    pub without_tree: Bundle,
    _dir: TempDir,
}

impl Bundles {
    pub(super) fn new() -> Self {
        let dir = super::in_memory().unwrap();
        write_base(&dir.path().join("base"));
        let make = |name: &str, seed, height| {
            let out = dir.path().join(name);
            write(&dir.path().join("base"), &out, seed, height);
            Bundle::open(out).unwrap()
        };
        let (a, b, c) = (make("a", 1, 1), make("b", 2, 1), make("c", 3, 2));
        let without_tree = Bundle::from_encoder(a.path()).unwrap();
        Self { a, b, c, without_tree, _dir: dir }
    }

    /// A bundle that is neither of the two.
    pub(super) fn other_than(&self, bundle: &Bundle) -> &Bundle {
        [&self.c, &self.a].into_iter().find(|other| other.hash() != bundle.hash()).unwrap()
    }
}

fn write_base(dir: &Path) {
    let vocabulary: serde_json::Map<_, _> =
        WORDS.iter().zip(0..).map(|(word, n)| ((*word).to_owned(), json!(n))).collect();
    let config = json!({
        "model_type": "bert", "vocab_size": WORDS.len(), "hidden_size": WIDTH, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": WIDTH, "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]);
    fs::create_dir_all(dir.join("1_Pooling")).unwrap();
    for (name, value) in [
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("modules.json", modules),
        ("1_Pooling/config.json", json!({"pooling_mode_mean_tokens": true})),
        ("sentence_bert_config.json", json!({"max_seq_length": POSITIONS})),
    ] {
        fs::write(dir.join(name), value.to_string()).unwrap();
    }
}

fn write(base: &Path, out: &Path, seed: u64, height: u32) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut values =
        |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(-1.0..1.0)).collect() };
    let mut encoder = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let tensor = Tensor::from_vec(values(shape.iter().product()), shape, &Device::Cpu).unwrap();
        encoder.push((name, tensor));
    };
    add("embeddings.word_embeddings.weight".to_owned(), &[WORDS.len(), WIDTH]);
    add("embeddings.position_embeddings.weight".to_owned(), &[POSITIONS, WIDTH]);
    add("embeddings.token_type_embeddings.weight".to_owned(), &[2, WIDTH]);
    let layer = "encoder.layer.0";
    for norm in [
        "embeddings.LayerNorm".to_owned(),
        format!("{layer}.attention.output.LayerNorm"),
        format!("{layer}.output.LayerNorm"),
    ] {
        add(format!("{norm}.weight"), &[WIDTH]);
        add(format!("{norm}.bias"), &[WIDTH]);
    }
    for part in [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ] {
        add(format!("{layer}.{part}.weight"), &[WIDTH, WIDTH]);
        add(format!("{layer}.{part}.bias"), &[WIDTH]);
    }
    let shape = TreeShape::new(BRANCHING, height).unwrap();
    let levels = (0..height as usize).map(|level| {
        let width = WIDTH + BRANCHING as usize * level;
        LevelWeights { transform: None, classifier: values(width * BRANCHING as usize) }
    });
    let weights = TreeWeights { projection: None, levels: levels.collect() };
    let indexer = Indexer::new(shape, WIDTH, 5.0, weights).unwrap();
    // The folder of a base has no weights, and they do not affect how it is read.
    fs::write(base.join("model.safetensors"), b"").unwrap();
    let base_encoder = LoadOptions::new().lazy_encoder(true).encoder(base).unwrap();
    let parts = BundleParts {
        base,
        base_encoder: Some(&base_encoder),
        encoder: Some(encoder),
        indexer: &indexer,
        extras: vec![("training.json", b"{}".to_vec())],
    };
    parts.write(out).unwrap();
}
