//! Encoders of every architecture compared with vectors recorded with transformers, in f32 and in eight bits.

use std::fs;
use std::path::{Path, PathBuf};

use ehi::model::{Encoder, EncoderPrecision, LoadOptions, ModelError, Role};
use safetensors::SafeTensors;
use serde_json::{Value, json};

pub const NAMES: [&str; 6] = ["bert", "roberta", "xlm-roberta", "mpnet", "nomic-bert", "modernbert"];

fn fixtures() -> PathBuf {
    crate::support::root().join("tests/fixtures/architectures")
}

/// The output of transformers for each of the texts.
struct Recorded {
    texts: Vec<String>,
    ids: Vec<Vec<u32>>,
    mean: Vec<Vec<f32>>,
    cls: Vec<Vec<f32>>,
}

fn words<const N: usize>(file: &SafeTensors<'_>, name: &str) -> Vec<[u8; N]> {
    file.tensor(name).unwrap().data().chunks_exact(N).map(|bytes| bytes.try_into().unwrap()).collect()
}

fn recorded(name: &str) -> Recorded {
    let json = fs::read(fixtures().join("texts.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let texts: Vec<String> = serde_json::from_value(json["texts"].clone()).unwrap();
    let bytes = fs::read(fixtures().join(name).join("vectors.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |name| words(&file, name).into_iter().map(i32::from_le_bytes).map(|n| n as u32);
    let mut all = numbers("ids");
    let ids = numbers("lengths").map(|length| all.by_ref().take(length as usize).collect()).collect();
    let rows = |name| -> Vec<Vec<f32>> {
        let dim = file.tensor(name).unwrap().shape()[1];
        let flat: Vec<f32> = words(&file, name).into_iter().map(f32::from_le_bytes).collect();
        flat.chunks_exact(dim).map(<[f32]>::to_vec).collect()
    };
    Recorded { ids, mean: rows("mean"), cls: rows("cls"), texts }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum() };
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}

/// Copies a fixture as a sentence-transformers folder with this pooling.
pub fn folder(name: &str, pooling: &str, target: &Path) {
    fs::create_dir_all(target.join("1_Pooling")).unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(fixtures().join(name).join(file), target.join(file)).unwrap();
    }
    let kind = |name: &str| format!("sentence_transformers.models.{name}");
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": kind("Transformer")},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind("Pooling")},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind("Normalize")},
    ]);
    fs::write(target.join("modules.json"), modules.to_string()).unwrap();
    let pooling = json!({
        "word_embedding_dimension": 64,
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_cls_token": pooling == "cls",
    });
    fs::write(target.join("1_Pooling/config.json"), pooling.to_string()).unwrap();
    fs::write(target.join("sentence_bert_config.json"), r#"{"max_seq_length": 64}"#).unwrap();
}

/// The lowest cosine between embeddings and recorded ones, in one batch and alone.
fn least_cosine(encoder: &Encoder, texts: &[String], want: &[Vec<f32>]) -> f64 {
    let slices: Vec<&str> = texts.iter().map(String::as_str).collect();
    let batch = encoder.embed(&slices, Role::Document).unwrap();
    let mut least = f64::INFINITY;
    for ((text, want), row) in slices.iter().zip(want).zip(batch.chunks_exact(encoder.dim())) {
        let single = encoder.embed(&[text], Role::Document).unwrap();
        least = least.min(cosine(row, want)).min(cosine(&single, want));
    }
    least
}

#[test]
fn every_architecture_matches_transformers() {
    for name in NAMES {
        let recorded = recorded(name);
        assert!(recorded.texts.len() >= 50 && recorded.mean.len() == recorded.texts.len());
        for (pooling, want) in [("mean", &recorded.mean), ("cls", &recorded.cls)] {
            let dir = tempfile::tempdir().unwrap();
            folder(name, pooling, dir.path());
            let encoder = Encoder::load(dir.path()).unwrap();
            for (text, ids) in recorded.texts.iter().zip(&recorded.ids) {
                assert_eq!(&encoder.tokenize(text, Role::Document).unwrap(), ids, "{name} {text:?}");
            }
            let exact = least_cosine(&encoder, &recorded.texts, want);
            assert!(exact >= 0.99999, "{name} {pooling}: {exact}");
            let options = LoadOptions::new().encoder_precision(EncoderPrecision::Int8);
            let close = least_cosine(&options.encoder(dir.path()).unwrap(), &recorded.texts, want);
            println!("{name} {pooling}: f32 {exact:.7}, int8 {close:.5}");
            assert!(close >= 0.995, "{name} {pooling}: int8 {close}");
        }
    }
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// The names of NomicBERT's tensors within transformers.
fn native_names(dir: &Path) {
    let bytes = fs::read(dir.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = Vec::new();
    for (name, view) in file.tensors() {
        let name = [
            ("encoder.layers", "layers"),
            ("emb_ln", "embeddings.LayerNorm"),
            ("attn.out_proj", "self_attn.o_proj"),
            ("fc11", "up_proj"),
            ("fc12", "gate_proj"),
            ("fc2", "down_proj"),
            ("norm1", "post_attention_layernorm"),
            ("norm2", "post_mlp_layernorm"),
        ]
        .iter()
        .fold(name, |name, (old, new)| name.replace(old, new));
        let mut put = |name: String, shape: Vec<usize>, data: &[u8]| {
            tensors.push((name, (view.dtype(), shape, data.to_vec())));
        };
        match name.strip_suffix("attn.Wqkv.weight") {
            Some(layer) => {
                let shape = vec![view.shape()[0] / 3, view.shape()[1]];
                let thirds = view.data().chunks_exact(view.data().len() / 3);
                for (part, data) in ["q", "k", "v"].iter().zip(thirds) {
                    put(format!("{layer}self_attn.{part}_proj.weight"), shape.clone(), data);
                }
            }
            None => put(name, view.shape().to_vec(), view.data()),
        }
    }
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name.clone(), safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

/// The `config.json` of nomic-embed-text-v1.5, at the fixture's sizes.
fn published_nomic(config: &mut Value) {
    *config = json!({
        "activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0,
        "bos_token_id": null, "causal": false, "dense_seq_output": true, "embd_pdrop": 0.0,
        "eos_token_id": null, "fused_bias_fc": true, "fused_dropout_add_ln": true,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048,
        "mlp_fc1_bias": false, "mlp_fc2_bias": false, "model_type": "nomic_bert", "n_embd": 64,
        "n_head": 4, "n_inner": 160, "n_layer": 3, "n_positions": 8192, "pad_vocab_size_multiple": 64,
        "parallel_block": false, "parallel_block_tied_norm": false, "prenorm": false,
        "qkv_proj_bias": false, "resid_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": false, "rotary_emb_scale_base": null, "rotary_scaling_factor": null,
        "scale_attn_weights": true, "type_vocab_size": 2, "use_cache": true, "use_flash_attn": true,
        "use_rms_norm": false, "use_xentropy": true, "vocab_size": config["vocab_size"],
    });
}

/// The `config.json` of ModernBERT before transformers 5, at the fixture's sizes.
fn former_modernbert(config: &mut Value) {
    for field in ["layer_types", "rope_parameters"] {
        config.as_object_mut().unwrap().remove(field);
    }
    config["global_attn_every_n_layers"] = json!(3);
    config["global_rope_theta"] = json!(160_000.0);
    config["local_rope_theta"] = json!(10_000.0);
    config["position_embedding_type"] = json!("absolute");
    config["layer_norm_eps"] = json!(1e-5);
}

/// The output of different releases is the same encoder.
#[test]
fn other_releases_of_a_checkpoint_are_read_alike() {
    let change = |name: &str, change: &dyn Fn(&Path)| {
        let (recorded, dir) = (recorded(name), tempfile::tempdir().unwrap());
        folder(name, "mean", dir.path());
        change(dir.path());
        let encoder = Encoder::load(dir.path()).unwrap();
        let exact = least_cosine(&encoder, &recorded.texts, &recorded.mean);
        assert!(exact >= 0.99999, "{name}: {exact}");
    };
    change("nomic-bert", &native_names);
    change("nomic-bert", &|dir| rewrite(&dir.join("config.json"), published_nomic));
    change("modernbert", &|dir| rewrite(&dir.join("config.json"), former_modernbert));
    // Models with heads, of a language model or a classifier, add a prefix to every name.
    for (name, prefix) in [("roberta", "roberta."), ("mpnet", "mpnet."), ("modernbert", "model.")] {
        change(name, &|dir| {
            let bytes = fs::read(dir.join("model.safetensors")).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let views = file.tensors().into_iter().map(|(name, view)| (format!("{prefix}{name}"), view));
            safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
        });
    }
}

/// Every unsupported setting of a configuration is an error that names the field and the value.
#[test]
fn what_is_not_done_is_refused_by_field_and_value() {
    let cases: [(&str, &str, Value, &str); 26] = [
        ("bert", "model_type", json!("deberta-v2"), "model_type `deberta-v2`"),
        ("bert", "hidden_act", json!("mish"), "hidden_act `mish`"),
        ("bert", "position_embedding_type", json!("relative_key"), "position_embedding_type `relative_key`"),
        ("bert", "is_decoder", json!(true), "is_decoder `true`"),
        ("bert", "add_cross_attention", json!(true), "add_cross_attention `true`"),
        ("bert", "quantization_config", json!({"bits": 4}), "quantization_config `{\"bits\":4}`"),
        ("bert", "pruned_heads", json!({"0": [1]}), "pruned_heads `{\"0\":[1]}`"),
        ("bert", "num_attention_heads", json!(5), "hidden size is 64"),
        ("bert", "num_hidden_layers", json!(0), "number of layers is 0"),
        ("xlm-roberta", "position_embedding_type", json!("relative_key_query"), "`relative_key_query`"),
        ("xlm-roberta", "hidden_act", json!("quick_gelu"), "hidden_act `quick_gelu`"),
        ("xlm-roberta", "pad_token_id", json!(65), "max_position_embeddings is 66, expected more than 66"),
        ("mpnet", "relative_attention_num_buckets", json!(64), "relative_attention_num_buckets `64`"),
        ("mpnet", "hidden_act", json!("gelu_10"), "hidden_act `gelu_10`"),
        ("nomic-bert", "head_dim", json!(32), "head_dim `32`"),
        ("nomic-bert", "rope_parameters", json!({"rope_type": "yarn"}), "rope_type `yarn`"),
        ("nomic-bert", "partial_rotary_factor", json!(0.5), "partial_rotary_factor `0.5`"),
        ("nomic-bert", "hidden_act", json!("laplace"), "hidden_act `laplace`"),
        ("modernbert", "hidden_activation", json!("mish"), "hidden_activation `mish`"),
        ("modernbert", "layer_types", json!(["full_attention"]), "number of layer_types `1`"),
        ("modernbert", "rope_scaling", json!({"type": "linear"}), "rope_scaling `{\"type\":\"linear\"}`"),
        (
            "modernbert",
            "layer_types",
            json!(["full_attention", "chunked_attention", "full_attention", "full_attention"]),
            "layer_types `chunked_attention`",
        ),
        (
            "modernbert",
            "rope_parameters",
            json!({"full_attention": {"rope_type": "dynamic", "rope_theta": 1.0}}),
            "rope_type `dynamic`",
        ),
        ("modernbert", "num_attention_heads", json!(64), "width of a head is 1"),
        ("modernbert", "max_position_embeddings", json!(0), "max_position_embeddings is 0"),
        ("modernbert", "num_hidden_layers", json!(1 << 30), "number of layer"),
    ];
    for (name, field, value, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        folder(name, "mean", dir.path());
        rewrite(&dir.path().join("config.json"), |config| config[field] = value);
        let refused = Encoder::load(dir.path()).unwrap_err();
        assert!(matches!(refused, ModelError::BadSetting { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("config.json") && text.contains(expected), "{name} {field}: {text}");
    }
    let published: [(&str, Value); 10] = [
        ("activation_function", json!("gelu")),
        ("prenorm", json!(true)),
        ("causal", json!(true)),
        ("use_rms_norm", json!(true)),
        ("parallel_block", json!(true)),
        ("qkv_proj_bias", json!(true)),
        ("rotary_emb_fraction", json!(0.5)),
        ("rotary_emb_interleaved", json!(true)),
        ("rotary_scaling_factor", json!(2.5)),
        ("num_experts", json!(8)),
    ];
    for (field, value) in published {
        let dir = tempfile::tempdir().unwrap();
        folder("nomic-bert", "mean", dir.path());
        rewrite(&dir.path().join("config.json"), published_nomic);
        rewrite(&dir.path().join("config.json"), |config| config[field] = value.clone());
        let text = Encoder::load(dir.path()).unwrap_err().to_string();
        let expected = format!("{field} `{}`", value.as_str().map_or(value.to_string(), str::to_owned));
        assert!(text.contains(&expected), "{text}");
    }
}

/// A missing tensor is named as the file would name it.
#[test]
fn missing_tensors_are_named() {
    for (name, tensor) in [
        ("mpnet", "encoder.relative_attention_bias.weight"),
        ("modernbert", "final_norm.weight"),
        ("modernbert", "layers.2.mlp.Wi.weight"),
        ("nomic-bert", "encoder.layers.1.mlp.fc12.weight"),
        ("roberta", "embeddings.token_type_embeddings.weight"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        folder(name, "mean", dir.path());
        let path = dir.path().join("model.safetensors");
        let bytes = fs::read(&path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let views = file.tensors().into_iter().filter(|(own, _)| own != tensor);
        safetensors::serialize_to_file(views, None, &path).unwrap();
        match Encoder::load(dir.path()).unwrap_err() {
            ModelError::BadTensor { name: found, problem, .. } => {
                assert_eq!((found.as_str(), problem.as_str()), (tensor, "is missing"));
            }
            other => panic!("{other}"),
        }
    }
}
