//! The `config.json` of each family of checkpoints, in transformers' terms.
//!
//! Absent settings have transformers' defaults. An unimplemented setting that changes the computation is an
//! error; settings of training (dropout, initialisation) and of unused heads are ignored.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::model::json::Settings;

use super::{
    Activation, Family, ModelError, Norms, PositionTable, RelativePositions, Span, TransformerConfig,
};

/// Most layers; no encoder has more.
const MOST_LAYERS: usize = 4096;
/// MPNet's buckets; the distance in its file is ignored.
const MPNET_POSITIONS: RelativePositions = RelativePositions { buckets: 32, farthest: 128 };

/// Settings that must have these values in any family, or be absent.
const SUPPORTED: &[(&str, &str)] = &[
    ("is_decoder", "false"),
    ("add_cross_attention", "false"),
    ("quantization_config", "null"),
    ("rope_scaling", "null"),
    ("pruned_heads", "null"),
    ("partial_rotary_factor", "1"),
    ("position_embedding_type", "absolute"),
];
/// Settings of the published NomicBERT that must have these values.
const SUPPORTED_NOMIC: &[(&str, &str)] = &[
    ("rotary_emb_interleaved", "false"),
    ("prenorm", "false"),
    ("parallel_block", "false"),
    ("use_rms_norm", "false"),
    ("causal", "false"),
    ("qkv_proj_bias", "false"),
    ("mlp_fc1_bias", "false"),
    ("mlp_fc2_bias", "false"),
    ("activation_function", "swiglu"),
    ("rotary_emb_fraction", "1"),
    ("rotary_emb_scale_base", "null"),
    ("rotary_scaling_factor", "null"),
];

/// A family's names of settings, with BERT's names for them.
type Names = &'static [(&'static str, &'static str)];

const DISTILBERT: Names = &[
    ("dim", "hidden_size"),
    ("n_layers", "num_hidden_layers"),
    ("n_heads", "num_attention_heads"),
    ("hidden_dim", "intermediate_size"),
    ("activation", "hidden_act"),
];
const MODERNBERT: Names = &[("norm_eps", "layer_norm_eps"), ("hidden_activation", "hidden_act")];
/// The published checkpoints, which came with their own code.
const PUBLISHED_NOMIC: Names = &[
    ("n_embd", "hidden_size"),
    ("n_layer", "num_hidden_layers"),
    ("n_head", "num_attention_heads"),
    ("n_inner", "intermediate_size"),
    ("n_positions", "max_position_embeddings"),
    ("layer_norm_epsilon", "layer_norm_eps"),
    ("rotary_emb_base", "rope_theta"),
];

#[derive(Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// The description in a file, with unchecked sizes.
pub(super) fn read(path: &Path) -> Result<TransformerConfig, ModelError> {
    let mut file = Settings::read(path)?;
    file.fields.retain(|_, value| !value.is_null());
    let model_type: String = file.need("model_type")?;
    file.check(SUPPORTED)?;
    match model_type.as_str() {
        "bert" => bert(file, Family::Bert, false),
        "roberta" | "xlm-roberta" | "camembert" => bert(file, Family::Bert, true),
        "mpnet" => bert(file, Family::MpNet, true),
        "distilbert" => distilbert(file),
        "nomic_bert" => nomic_bert(file),
        "modernbert" => modernbert(file),
        other => Err(file.unsupported(
            "model_type",
            other,
            "bert, roberta, xlm-roberta, camembert, mpnet, distilbert, nomic_bert, modernbert",
        )),
    }
}

/// Gives settings BERT's names.
fn rename(file: &mut Settings, names: Names) {
    for (own, name) in names {
        file.fields.remove(*name);
        if let Some(value) = file.fields.remove(*own) {
            file.fields.insert((*name).to_owned(), value);
        }
    }
}

/// Reads the settings common to all families into `config`, which has the family's defaults, or 0 for a
/// required size. `activation`: the family's default, and its name for the setting.
fn common(
    file: &mut Settings,
    mut config: TransformerConfig,
    activation: (&'static str, &'static str),
) -> Result<TransformerConfig, ModelError> {
    for (name, size) in [
        ("vocab_size", &mut config.vocab_size),
        ("hidden_size", &mut config.hidden_size),
        ("num_hidden_layers", &mut config.layers),
        ("num_attention_heads", &mut config.heads),
        ("intermediate_size", &mut config.feed_forward.inner_size),
        ("max_position_embeddings", &mut config.max_positions),
    ] {
        *size = if *size == 0 { file.need(name)? } else { file.or(name, *size)? };
    }
    if config.layers == 0 || config.layers > MOST_LAYERS {
        return Err(file.bad("number of layers", config.layers, format!("1 to {MOST_LAYERS}")));
    }
    config.spans = vec![Span::default(); config.layers];
    config.type_vocab_size = file.or("type_vocab_size", config.type_vocab_size)?;
    config.layer_norm_eps = file.or("layer_norm_eps", config.layer_norm_eps)?;
    let (default, name) = activation;
    config.feed_forward.activation = match file.or("hidden_act", default.to_owned())?.as_str() {
        "gelu" => Activation::GeluErf,
        "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        other => {
            let supported = "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish";
            return Err(file.unsupported(name, other, supported));
        }
    };
    Ok(config)
}

/// The base of a rotation without scaling.
fn theta(file: &Settings, rope: Option<&Rope>, default: f64) -> Result<Option<f32>, ModelError> {
    let Some(rope) = rope else { return Ok(Some(default as f32)) };
    if let Some(factor) = rope.partial_rotary_factor.filter(|factor| *factor != 1.0) {
        return Err(file.unsupported("partial_rotary_factor", factor, "1"));
    }
    match rope.rope_type.as_deref() {
        None | Some("default") => Ok(Some(rope.rope_theta.unwrap_or(default) as f32)),
        Some(other) => Err(file.unsupported("rope_type", other, "default")),
    }
}

fn bert(mut file: Settings, family: Family, from_padding: bool) -> Result<TransformerConfig, ModelError> {
    let default = TransformerConfig { type_vocab_size: 2, ..TransformerConfig::new(family) };
    let mut config = common(&mut file, default, ("gelu", "hidden_act"))?;
    let mut padding = file.or("pad_token_id", 1)?;
    if family == Family::MpNet {
        // The reference always uses these buckets, and this padding id.
        let buckets = file.or("relative_attention_num_buckets", MPNET_POSITIONS.buckets)?;
        if buckets != MPNET_POSITIONS.buckets {
            return Err(file.unsupported("relative_attention_num_buckets", buckets, "32"));
        }
        (config.relative_positions, config.type_vocab_size, padding) = (Some(MPNET_POSITIONS), 0, 1);
    }
    let padding = from_padding.then_some(padding);
    let first = padding.map_or(0, |padding: u32| padding as usize + 1);
    let rows = config.max_positions;
    if rows <= first && rows > 0 {
        return Err(file.bad(
            "max_position_embeddings",
            rows,
            format!("more than {first}, where places are numbered from"),
        ));
    }
    config.max_positions = rows.saturating_sub(first);
    config.position_table = Some(PositionTable { rows, padding });
    Ok(config)
}

fn distilbert(mut file: Settings) -> Result<TransformerConfig, ModelError> {
    for fixed in ["layer_norm_eps", "type_vocab_size"] {
        file.fields.remove(fixed);
    }
    rename(&mut file, DISTILBERT);
    let default = TransformerConfig::new(Family::DistilBert);
    let mut config = common(&mut file, default, ("gelu", "activation"))?;
    config.position_table = Some(PositionTable { rows: config.max_positions, padding: None });
    Ok(config)
}

/// Both the published form, with its own code, and that of transformers from release 5 on.
fn nomic_bert(mut file: Settings) -> Result<TransformerConfig, ModelError> {
    let mut default = TransformerConfig {
        max_positions: 2048,
        type_vocab_size: 2,
        ..TransformerConfig::new(Family::NomicBert)
    };
    let mut rotation = 1000.0;
    if let Some(width) = file.fields.get("n_embd").and_then(Value::as_u64) {
        for name in ["qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"] {
            file.fields.entry(name).or_insert(true.into());
        }
        file.fields.entry("activation_function").or_insert("none".into());
        file.fields.entry("rotary_emb_fraction").or_insert(0.into());
        file.check(SUPPORTED_NOMIC)?;
        let experts = file.fields.get("num_experts").and_then(Value::as_u64);
        if let Some(experts) = experts.filter(|&experts| experts > 1) {
            return Err(file.unsupported("num_experts", experts, "0"));
        }
        for other in ["hidden_act", "head_dim", "rope_parameters"] {
            file.fields.remove(other);
        }
        rename(&mut file, PUBLISHED_NOMIC);
        if file.fields.get("max_position_embeddings").is_none() {
            return Err(file.unsupported("n_positions", "none", "a number"));
        }
        default.feed_forward.inner_size = width.saturating_mul(4) as usize;
        (default.type_vocab_size, default.layer_norm_eps, rotation) = (0, 1e-5, 10_000.0);
    }
    let mut config = common(&mut file, default, ("silu", "hidden_act"))?;
    let width = config.hidden_size.checked_div(config.heads);
    if let Some(own) = file.take::<usize>("head_dim")?.filter(|own| Some(*own) != width) {
        return Err(file.unsupported("head_dim", own, "hidden_size / num_attention_heads"));
    }
    let rope: Option<Rope> = file.take("rope_parameters")?;
    let rotation = file.or("rope_theta", rotation)?;
    let theta = theta(&file, rope.as_ref(), rotation)?;
    config.attention_bias = false;
    (config.feed_forward.gated, config.feed_forward.bias) = (true, false);
    config.spans.fill(Span { window: None, theta });
    Ok(config)
}

/// The form of transformers 5 and that of earlier releases.
fn modernbert(mut file: Settings) -> Result<TransformerConfig, ModelError> {
    file.fields.remove("type_vocab_size");
    rename(&mut file, MODERNBERT);
    let default = TransformerConfig {
        vocab_size: 50_368,
        max_positions: 8192,
        layer_norm_eps: 1e-5,
        norms: Norms::Before,
        ..TransformerConfig::new(Family::ModernBert)
    };
    let mut config = common(&mut file, default, ("gelu", "hidden_activation"))?;
    let ropes = file.take("rope_parameters")?.unwrap_or_default();
    let mut ropes = Settings { path: file.path.clone(), fields: ropes };
    let mut rotation = |kind: &str, name: &str, default: f64| {
        let own = file.or(name, default)?;
        theta(&file, ropes.take(kind)?.as_ref(), own)
    };
    let global = rotation("full_attention", "global_rope_theta", 160_000.0)?;
    let local = rotation("sliding_attention", "local_rope_theta", 10_000.0)?;
    let every = file.or("global_attn_every_n_layers", 3)?;
    let is_local: Vec<bool> = match file.take::<Vec<String>>("layer_types")? {
        None if every == 0 => return Err(file.unsupported("global_attn_every_n_layers", 0, "1 and more")),
        None => (0..config.layers).map(|layer| layer % every > 0).collect(),
        Some(types) if types.len() == config.layers => types
            .iter()
            .map(|kind| match kind.as_str() {
                "full_attention" => Ok(false),
                "sliding_attention" => Ok(true),
                other => Err(file.unsupported("layer_types", other, "full_attention, sliding_attention")),
            })
            .collect::<Result<_, _>>()?,
        Some(types) => {
            return Err(file.unsupported("number of layer_types", types.len(), "num_hidden_layers"));
        }
    };
    // The window counts both sides together, without the token itself.
    let window = file.or("local_attention", 128)? / 2;
    let span = |is_local: bool| match is_local {
        true => Span { window: Some(window), theta: local },
        false => Span { window: None, theta: global },
    };
    config.spans = is_local.into_iter().map(span).collect();
    config.norm_bias = file.or("norm_bias", false)?;
    config.attention_bias = file.or("attention_bias", false)?;
    (config.feed_forward.gated, config.feed_forward.bias) = (true, file.or("mlp_bias", false)?);
    Ok(config)
}
