//! The `config.json` of each family of checkpoints, in transformers' terms.
//!
//! Absent settings have transformers' defaults. An unimplemented setting that changes the computation is an
//! error; settings of training (dropout, initialisation) and of unused heads are ignored.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::json::Settings;

use super::{
    Activation, Family, ModelError, Norms, PositionTable, RelativePositions, Sizes, Span, TransformerConfig,
};

/// BERT's default, and the fixed value of DistilBERT.
const BERT_LAYER_NORM_EPS: f64 = 1e-12;
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

/// A file that is being read.
struct File {
    settings: Settings,
    names: Names,
}

/// The settings common to all families, under BERT's names.
#[derive(Deserialize)]
struct Bert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    hidden_act: String,
    pad_token_id: Option<u32>,
    relative_attention_num_buckets: Option<usize>,
}

#[derive(Deserialize)]
struct NomicBert {
    head_dim: Option<usize>,
    rope_parameters: Option<Rope>,
    rope_theta: f64,
}

#[derive(Deserialize)]
struct ModernBert {
    norm_bias: bool,
    attention_bias: bool,
    mlp_bias: bool,
    local_attention: usize,
    layer_types: Option<Vec<String>>,
    global_attn_every_n_layers: usize,
    global_rope_theta: f64,
    local_rope_theta: f64,
    rope_parameters: ModernRope,
}

#[derive(Deserialize)]
struct ModernRope {
    full_attention: Option<Rope>,
    sliding_attention: Option<Rope>,
}

#[derive(Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// The description in a file, with unchecked sizes.
pub(super) fn read(path: &Path) -> Result<TransformerConfig, ModelError> {
    let mut settings = Settings::read(path)?;
    settings.fields.retain(|_, value| !value.is_null());
    let model_type: String = settings.need("model_type")?;
    settings.check(SUPPORTED)?;
    let mut file = File { settings, names: &[] };
    match model_type.as_str() {
        "bert" => file.bert(Family::Bert, false),
        "roberta" | "xlm-roberta" | "camembert" => file.bert(Family::Bert, true),
        "mpnet" => file.bert(Family::MpNet, true),
        "distilbert" => file.distilbert(),
        "nomic_bert" => file.nomic_bert(),
        "modernbert" => file.modernbert(),
        other => Err(file.settings.unsupported(
            "model_type",
            other,
            "bert, roberta, xlm-roberta, camembert, mpnet, distilbert, nomic_bert, modernbert",
        )),
    }
}

impl File {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ModelError> {
        serde_json::from_value(Value::Object(self.settings.fields.clone()))
            .map_err(|source| ModelError::json(&self.settings.path, source))
    }

    /// Renames settings to BERT's names and fills in defaults.
    fn complete(&mut self, names: Names, defaults: Value) {
        self.names = names;
        for (own, name) in names {
            self.settings.fields.remove(*name);
            if let Some(value) = self.settings.fields.remove(*own) {
                self.settings.fields.insert((*name).to_owned(), value);
            }
        }
        for (name, value) in defaults.as_object().into_iter().flatten() {
            self.settings.fields.entry(name).or_insert_with(|| value.clone());
        }
    }

    /// Settings common to every family, and BERT's for the others.
    fn base(&self, family: Family, raw: &Bert) -> Result<TransformerConfig, ModelError> {
        let name =
            self.names.iter().find(|(_, name)| *name == "hidden_act").map_or("hidden_act", |(own, _)| own);
        let mut config = TransformerConfig::new(
            family,
            Sizes {
                vocab_size: raw.vocab_size,
                hidden_size: raw.hidden_size,
                layers: raw.num_hidden_layers,
                heads: raw.num_attention_heads,
                inner_size: raw.intermediate_size,
                max_positions: raw.max_position_embeddings,
            },
        );
        if config.layers == 0 || config.layers > MOST_LAYERS {
            return Err(self.settings.bad("number of layers", config.layers, format!("1 to {MOST_LAYERS}")));
        }
        config.spans = vec![Span::default(); config.layers];
        config.type_vocab_size = raw.type_vocab_size;
        config.layer_norm_eps = raw.layer_norm_eps;
        config.feed_forward.activation = match raw.hidden_act.as_str() {
            "gelu" => Activation::GeluErf,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "silu" | "swish" => Activation::Silu,
            other => {
                let supported = "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish";
                return Err(self.settings.unsupported(name, other, supported));
            }
        };
        Ok(config)
    }

    /// The base of a rotation without scaling.
    fn theta(&self, rope: Option<&Rope>, default: f64) -> Result<Option<f32>, ModelError> {
        let Some(rope) = rope else { return Ok(Some(default as f32)) };
        if let Some(factor) = rope.partial_rotary_factor.filter(|factor| *factor != 1.0) {
            return Err(self.settings.unsupported("partial_rotary_factor", factor, "1"));
        }
        match rope.rope_type.as_deref() {
            None | Some("default") => Ok(Some(rope.rope_theta.unwrap_or(default) as f32)),
            Some(other) => Err(self.settings.unsupported("rope_type", other, "default")),
        }
    }

    fn bert(&mut self, family: Family, from_padding: bool) -> Result<TransformerConfig, ModelError> {
        self.complete(
            &[],
            json!({ "type_vocab_size": 2, "layer_norm_eps": BERT_LAYER_NORM_EPS, "hidden_act": "gelu" }),
        );
        let raw: Bert = self.parse()?;
        let is_mpnet = family == Family::MpNet;
        if let (true, Some(buckets)) = (is_mpnet, raw.relative_attention_num_buckets)
            && buckets != MPNET_POSITIONS.buckets
        {
            // The reference always uses 32.
            return Err(self.settings.unsupported("relative_attention_num_buckets", buckets, "32"));
        }
        // MPNet's padding id is fixed.
        let padding = from_padding.then_some(raw.pad_token_id.filter(|_| !is_mpnet).unwrap_or(1));
        let first = padding.map_or(0, |padding| padding as usize + 1);
        let rows = raw.max_position_embeddings;
        if rows <= first && rows > 0 {
            return Err(self.settings.bad(
                "max_position_embeddings",
                rows,
                format!("more than {first}, where places are numbered from"),
            ));
        }
        Ok(TransformerConfig {
            max_positions: rows.saturating_sub(first),
            position_table: Some(PositionTable { rows, padding }),
            relative_positions: is_mpnet.then_some(MPNET_POSITIONS),
            type_vocab_size: if is_mpnet { 0 } else { raw.type_vocab_size },
            ..self.base(family, &raw)?
        })
    }

    fn distilbert(&mut self) -> Result<TransformerConfig, ModelError> {
        for fixed in ["layer_norm_eps", "type_vocab_size"] {
            self.settings.fields.remove(fixed);
        }
        self.complete(
            DISTILBERT,
            json!({ "type_vocab_size": 0, "layer_norm_eps": BERT_LAYER_NORM_EPS, "hidden_act": "gelu" }),
        );
        let raw: Bert = self.parse()?;
        let position_table = Some(PositionTable { rows: raw.max_position_embeddings, padding: None });
        Ok(TransformerConfig { position_table, ..self.base(Family::DistilBert, &raw)? })
    }

    /// Both the published form, with its own code, and that of transformers from release 5 on.
    fn nomic_bert(&mut self) -> Result<TransformerConfig, ModelError> {
        if let Some(width) = self.settings.fields.get("n_embd").and_then(Value::as_u64) {
            for (name, default) in [("qkv_proj_bias", true), ("mlp_fc1_bias", true), ("mlp_fc2_bias", true)] {
                self.settings.fields.entry(name).or_insert(default.into());
            }
            self.settings.fields.entry("activation_function").or_insert("none".into());
            self.settings.fields.entry("rotary_emb_fraction").or_insert(0.into());
            self.settings.check(SUPPORTED_NOMIC)?;
            let experts = self.settings.fields.get("num_experts").and_then(Value::as_u64);
            if let Some(experts) = experts.filter(|&experts| experts > 1) {
                return Err(self.settings.unsupported("num_experts", experts, "0"));
            }
            for other in ["hidden_act", "head_dim", "rope_parameters"] {
                self.settings.fields.remove(other);
            }
            self.complete(
                PUBLISHED_NOMIC,
                json!({
                    "intermediate_size": width.saturating_mul(4), "type_vocab_size": 0,
                    "layer_norm_eps": 1e-5, "rope_theta": 10_000.0,
                }),
            );
            if self.settings.fields.get("max_position_embeddings").is_none() {
                return Err(self.settings.unsupported("n_positions", "none", "a number"));
            }
        }
        self.complete(
            &[],
            json!({
                "max_position_embeddings": 2048, "type_vocab_size": 2, "layer_norm_eps": BERT_LAYER_NORM_EPS,
                "hidden_act": "silu", "rope_theta": 1000.0,
            }),
        );
        let (raw, own): (Bert, NomicBert) = (self.parse()?, self.parse()?);
        if let Some(width) = own.head_dim
            && Some(width) != raw.hidden_size.checked_div(raw.num_attention_heads)
        {
            return Err(self.settings.unsupported("head_dim", width, "hidden_size / num_attention_heads"));
        }
        let theta = self.theta(own.rope_parameters.as_ref(), own.rope_theta)?;
        let mut config = self.base(Family::NomicBert, &raw)?;
        config.attention_bias = false;
        (config.feed_forward.gated, config.feed_forward.bias) = (true, false);
        config.spans.fill(Span { window: None, theta });
        Ok(config)
    }

    /// The form of transformers 5 and that of earlier releases.
    fn modernbert(&mut self) -> Result<TransformerConfig, ModelError> {
        self.settings.fields.remove("type_vocab_size");
        self.complete(
            MODERNBERT,
            json!({
                "vocab_size": 50_368, "max_position_embeddings": 8192, "type_vocab_size": 0,
                "layer_norm_eps": 1e-5, "hidden_act": "gelu", "norm_bias": false, "attention_bias": false,
                "mlp_bias": false, "local_attention": 128, "global_attn_every_n_layers": 3,
                "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0, "rope_parameters": {},
            }),
        );
        let (raw, own): (Bert, ModernBert) = (self.parse()?, self.parse()?);
        let global = self.theta(own.rope_parameters.full_attention.as_ref(), own.global_rope_theta)?;
        let local = self.theta(own.rope_parameters.sliding_attention.as_ref(), own.local_rope_theta)?;
        let mut config = self.base(Family::ModernBert, &raw)?;
        let is_local: Vec<bool> = match &own.layer_types {
            None => match own.global_attn_every_n_layers {
                0 => return Err(self.settings.unsupported("global_attn_every_n_layers", 0, "1 and more")),
                every => (0..config.layers).map(|layer| layer % every > 0).collect(),
            },
            Some(types) if types.len() == config.layers => types
                .iter()
                .map(|kind| match kind.as_str() {
                    "full_attention" => Ok(false),
                    "sliding_attention" => Ok(true),
                    other => Err(self.settings.unsupported(
                        "layer_types",
                        other,
                        "full_attention, sliding_attention",
                    )),
                })
                .collect::<Result<_, _>>()?,
            Some(types) => {
                return Err(self.settings.unsupported(
                    "number of layer_types",
                    types.len(),
                    "num_hidden_layers",
                ));
            }
        };
        // The window counts both sides together, without the token itself.
        let span = |is_local: bool| match is_local {
            true => Span { window: Some(own.local_attention / 2), theta: local },
            false => Span { window: None, theta: global },
        };
        config.spans = is_local.into_iter().map(span).collect();
        config.norms = Norms::Before;
        (config.norm_bias, config.attention_bias) = (own.norm_bias, own.attention_bias);
        (config.feed_forward.gated, config.feed_forward.bias) = (true, own.mlp_bias);
        Ok(config)
    }
}
