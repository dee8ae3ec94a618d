//! NomicBERT's `config.json`: as published, with code of its own, and as transformers writes it.

use serde::Deserialize;
use serde_json::Value;

use super::{Family, FeedForward, File, ModelError, Norms, Rope, Span, TransformerConfig, bert_eps, two};

/// As transformers writes it from release 5 on.
#[derive(Deserialize)]
struct NomicBert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    #[serde(default = "nomic_positions")]
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "bert_eps")]
    layer_norm_eps: f64,
    #[serde(default = "silu")]
    hidden_act: String,
    head_dim: Option<usize>,
    rope_parameters: Option<Rope>,
    rope_theta: Option<f64>,
}

/// As the published checkpoints have it, whose code came with them.
#[derive(Deserialize)]
struct PublishedNomicBert {
    vocab_size: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    n_positions: usize,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default = "nomic_eps")]
    layer_norm_epsilon: f64,
    #[serde(default)]
    activation_function: String,
    #[serde(default)]
    rotary_emb_fraction: f64,
    #[serde(default = "nomic_theta")]
    rotary_emb_base: f64,
    #[serde(default)]
    rotary_emb_interleaved: bool,
    rotary_emb_scale_base: Option<f64>,
    rotary_scaling_factor: Option<f64>,
    #[serde(default)]
    prenorm: bool,
    #[serde(default)]
    parallel_block: bool,
    #[serde(default)]
    use_rms_norm: bool,
    #[serde(default)]
    causal: bool,
    #[serde(default = "yes")]
    qkv_proj_bias: bool,
    #[serde(default = "yes")]
    mlp_fc1_bias: bool,
    #[serde(default = "yes")]
    mlp_fc2_bias: bool,
    #[serde(default)]
    num_experts: usize,
}

fn yes() -> bool {
    true
}
fn silu() -> String {
    "silu".to_owned()
}
fn nomic_positions() -> usize {
    2048
}
fn nomic_eps() -> f64 {
    1e-5
}
fn nomic_theta() -> f64 {
    10_000.0
}

impl File<'_> {
    pub(super) fn nomic_bert(&self) -> Result<TransformerConfig, ModelError> {
        let fields: serde_json::Map<String, Value> = self.parse()?;
        let raw = match fields.contains_key("n_embd") {
            true => self.published_nomic_bert()?,
            false => self.parse()?,
        };
        if let Some(width) = raw.head_dim
            && Some(width) != raw.hidden_size.checked_div(raw.num_attention_heads)
        {
            return Err(self.unsupported("head_dim", width, "hidden_size / num_attention_heads"));
        }
        let theta = self.theta(raw.rope_parameters.as_ref(), raw.rope_theta.unwrap_or(1000.0))? as f32;
        Ok(TransformerConfig {
            family: Family::NomicBert,
            vocab_size: raw.vocab_size,
            hidden_size: raw.hidden_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            max_positions: raw.max_position_embeddings,
            position_table: None,
            relative_positions: None,
            type_vocab_size: raw.type_vocab_size,
            embedding_norm: true,
            norms: Norms::After,
            layer_norm_eps: raw.layer_norm_eps,
            norm_bias: true,
            attention_bias: false,
            feed_forward: FeedForward {
                inner_size: raw.intermediate_size,
                activation: self.activation("hidden_act", &raw.hidden_act)?,
                gated: true,
                bias: false,
            },
            spans: self.spans(raw.num_hidden_layers, |_| Span { window: None, theta: Some(theta) })?,
        })
    }

    /// The published form in the words of the other.
    fn published_nomic_bert(&self) -> Result<NomicBert, ModelError> {
        let raw: PublishedNomicBert = self.parse()?;
        for (what, found) in [
            ("rotary_emb_interleaved", raw.rotary_emb_interleaved),
            ("prenorm", raw.prenorm),
            ("parallel_block", raw.parallel_block),
            ("use_rms_norm", raw.use_rms_norm),
            ("causal", raw.causal),
            ("qkv_proj_bias", raw.qkv_proj_bias),
            ("mlp_fc1_bias", raw.mlp_fc1_bias),
            ("mlp_fc2_bias", raw.mlp_fc2_bias),
        ] {
            self.must_be(what, found, false)?;
        }
        if raw.activation_function != "swiglu" {
            return Err(self.unsupported("activation_function", raw.activation_function, "swiglu"));
        }
        if raw.rotary_emb_fraction != 1.0 {
            return Err(self.unsupported("rotary_emb_fraction", raw.rotary_emb_fraction, "1"));
        }
        if let Some(base) = raw.rotary_emb_scale_base {
            return Err(self.unsupported("rotary_emb_scale_base", base, "null"));
        }
        if let Some(factor) = raw.rotary_scaling_factor {
            return Err(self.unsupported("rotary_scaling_factor", factor, "null"));
        }
        if raw.num_experts > 1 {
            return Err(self.unsupported("num_experts", raw.num_experts, "0"));
        }
        Ok(NomicBert {
            vocab_size: raw.vocab_size,
            hidden_size: raw.n_embd,
            num_hidden_layers: raw.n_layer,
            num_attention_heads: raw.n_head,
            intermediate_size: raw.n_inner.unwrap_or(4 * raw.n_embd),
            max_position_embeddings: raw.n_positions,
            type_vocab_size: raw.type_vocab_size,
            layer_norm_eps: raw.layer_norm_epsilon,
            hidden_act: silu(),
            head_dim: None,
            rope_parameters: None,
            rope_theta: Some(raw.rotary_emb_base),
        })
    }
}
