//! A model bundle with one file replaced by the input, and its checksum corrected so that the reader behind
//! the checksum is reached. `tokenizer.json` stays as it is: it has its own target.
#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arbitrary::Arbitrary;
use ehi::Bundle;
use ehi::model::{ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, Role, TOKENIZER_FILE};
use libfuzzer_sys::fuzz_target;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// `ehi.json` itself.
    Manifest(&'a [u8]),
    /// `ehi.json` with correct checksums and these settings.
    Settings { dim: u16, branching_factor: u32, height: u32, logit_scale: f32 },
    /// Another file.
    File { which: Which, content: &'a [u8] },
    /// The header of a weights file, prefixed with its length.
    Header { which: Weights, header: &'a [u8], data: &'a [u8] },
}

#[derive(Arbitrary, Debug)]
enum Which {
    Config,
    Modules,
    Pooling,
    SentenceBert,
    Prompts,
    Encoder,
    Indexer,
}

#[derive(Arbitrary, Debug)]
enum Weights {
    Encoder,
    Indexer,
}

impl Which {
    fn name(&self) -> &'static str {
        match self {
            Self::Config => "config.json",
            Self::Modules => "modules.json",
            Self::Pooling => "1_Pooling/config.json",
            Self::SentenceBert => "sentence_bert_config.json",
            Self::Prompts => "config_sentence_transformers.json",
            Self::Encoder => ENCODER_FILE,
            Self::Indexer => INDEXER_FILE,
        }
    }
}

/// Sizes of an encoder just large enough to embed a text: width, inner width, and so on.
const M: usize = 4;
const INNER: usize = 4;
const VOCAB: usize = 6;
const POSITIONS: usize = 8;

type Files = BTreeMap<&'static str, Vec<u8>>;

thread_local! {
    static BUNDLE: (TempDir, Files) = (tempfile::tempdir().expect("a temporary directory"), sound_files());
    /// The file that the last input replaced, to be restored.
    static REPLACED: RefCell<Option<&'static str>> = const { RefCell::new(None) };
}

fuzz_target!(|input: Input<'_>| BUNDLE.with(|(dir, sound)| run(dir.path(), sound, input)));

fn run(dir: &Path, sound: &Files, input: Input<'_>) {
    if !dir.join(ENCODER_FILE).exists() {
        for (name, content) in sound {
            write(dir, name, content);
        }
        let bundle = open(dir, sound, settings()).expect("the unchanged bundle opens");
        let row =
            bundle.model().encoder().expect("it has one").embed(&["a b"], Role::Query).expect("it embeds");
        assert_eq!(row.len(), M);
    }
    if let Some(name) = REPLACED.take() {
        write(dir, name, &sound[name]);
    }
    let mut files = sound.clone();
    match input {
        Input::Manifest(bytes) => {
            write(dir, MANIFEST_FILE, bytes);
            use_bundle(Bundle::open(dir));
        }
        Input::Settings { dim, branching_factor, height, logit_scale } => {
            let settings = json!({
                "dim": dim, "branching_factor": branching_factor, "height": height, "logit_scale": logit_scale,
            });
            use_bundle(open(dir, &files, settings));
        }
        Input::File { which, content } => {
            files.insert(which.name(), content.to_vec());
            replace(dir, &files, which.name());
        }
        Input::Header { which, header, data } => {
            let name = match which {
                Weights::Encoder => ENCODER_FILE,
                Weights::Indexer => INDEXER_FILE,
            };
            let length = (header.len() as u64).to_le_bytes();
            files.insert(name, [&length[..], header, data].concat());
            replace(dir, &files, name);
        }
    }
}

fn replace(dir: &Path, files: &Files, name: &'static str) {
    write(dir, name, &files[name]);
    REPLACED.replace(Some(name));
    use_bundle(open(dir, files, settings()));
}

/// Writes `ehi.json` to match the files, and opens the bundle.
fn open(
    dir: &Path,
    files: &Files,
    mut manifest: serde_json::Value,
) -> Result<Bundle, ehi::model::ModelError> {
    let sums: BTreeMap<_, String> = files
        .iter()
        .map(|(name, content)| (*name, Sha256::digest(content).iter().map(|b| format!("{b:02x}")).collect()))
        .collect();
    manifest["format_version"] = json!(ehi::model::BUNDLE_FORMAT);
    manifest["files"] = json!(sums);
    write(dir, MANIFEST_FILE, manifest.to_string().as_bytes());
    Bundle::open(dir)
}

/// A bundle that opens must also work; an error must have a message.
fn use_bundle(bundle: Result<Bundle, ehi::model::ModelError>) {
    match bundle {
        Ok(bundle) => {
            if let Ok(encoder) = bundle.model().encoder()
                && let Ok(row) = encoder.embed(&["a b"], Role::Query)
            {
                assert_eq!(row.len(), encoder.dim());
                assert!(row.iter().all(|x| x.is_finite()));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn write(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("create a folder");
    fs::write(path, content).expect("write a file");
}

fn settings() -> serde_json::Value {
    json!({"dim": M, "branching_factor": 2, "height": 2, "logit_scale": 20.0})
}

fn sound_files() -> Files {
    let config = json!({
        "model_type": "bert", "vocab_size": VOCAB, "hidden_size": M, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": INNER, "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
    });
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    let pooling = json!({"pooling_mode_mean_tokens": true});
    let prompts = json!({"prompts": {"query": "a "}});
    let mut files = Files::new();
    for (name, value) in [
        ("config.json", config),
        (TOKENIZER_FILE, tokenizer),
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("sentence_bert_config.json", json!({"max_seq_length": POSITIONS})),
        ("config_sentence_transformers.json", prompts),
    ] {
        files.insert(name, value.to_string().into_bytes());
    }
    let norm = |name: &str| [(format!("{name}.weight"), vec![M]), (format!("{name}.bias"), vec![M])];
    let linear = |name: &str, out: usize, input: usize| {
        [(format!("{name}.weight"), vec![out, input]), (format!("{name}.bias"), vec![out])]
    };
    let mut encoder = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![VOCAB, M]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![POSITIONS, M]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, M]),
    ];
    encoder.extend(norm("embeddings.LayerNorm"));
    for part in
        ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    {
        encoder.extend(linear(&format!("encoder.layer.0.{part}"), M, M));
    }
    encoder.extend(norm("encoder.layer.0.attention.output.LayerNorm"));
    encoder.extend(linear("encoder.layer.0.intermediate.dense", INNER, M));
    encoder.extend(linear("encoder.layer.0.output.dense", M, INNER));
    encoder.extend(norm("encoder.layer.0.output.LayerNorm"));
    files.insert(ENCODER_FILE, safetensors(&encoder));
    let indexer = [(0, M), (1, M + 2)].map(|(level, width)| {
        [
            (format!("levels.{level}.transform"), vec![width, width]),
            (format!("levels.{level}.classifier"), vec![width, 2]),
        ]
    });
    files.insert(INDEXER_FILE, safetensors(&indexer.concat()));
    files
}

/// Tensors of the given shapes, filled with a few different values.
fn safetensors(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| {
            (0..shape.iter().product::<usize>()).flat_map(|i| (1.0 - 0.3 * (i % 5) as f32).to_le_bytes())
        })
        .map(Iterator::collect)
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, shape), data)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).expect("as many bytes as the shape says");
        (name.clone(), view)
    });
    safetensors::serialize(views, None).expect("sound tensors")
}
