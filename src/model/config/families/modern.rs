//! ModernBERT's `config.json`, of transformers 5 and before.

use serde::Deserialize;

use super::{Family, FeedForward, File, MOST_LAYERS, ModelError, Norms, Rope, Span, TransformerConfig, gelu};

#[derive(Deserialize)]
struct ModernBert {
    #[serde(default = "modern_vocabulary")]
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    #[serde(default = "modern_positions")]
    max_position_embeddings: usize,
    #[serde(default = "modern_eps")]
    norm_eps: f64,
    #[serde(default)]
    norm_bias: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default = "gelu")]
    hidden_activation: String,
    #[serde(default = "modern_window")]
    local_attention: usize,
    layer_types: Option<Vec<String>>,
    #[serde(default = "modern_every")]
    global_attn_every_n_layers: usize,
    global_rope_theta: Option<f64>,
    local_rope_theta: Option<f64>,
    rope_parameters: Option<ModernRope>,
}

#[derive(Default, Deserialize)]
struct ModernRope {
    full_attention: Option<Rope>,
    sliding_attention: Option<Rope>,
}

fn modern_vocabulary() -> usize {
    50_368
}
fn modern_positions() -> usize {
    8192
}
fn modern_eps() -> f64 {
    1e-5
}
fn modern_window() -> usize {
    128
}
fn modern_every() -> usize {
    3
}

impl File<'_> {
    pub(super) fn modernbert(&self) -> Result<TransformerConfig, ModelError> {
        let raw: ModernBert = self.parse()?;
        let ropes = raw.rope_parameters.unwrap_or_default();
        let global = self.theta(ropes.full_attention.as_ref(), raw.global_rope_theta.unwrap_or(160_000.0))?;
        let local = self.theta(ropes.sliding_attention.as_ref(), raw.local_rope_theta.unwrap_or(10_000.0))?;
        let is_local: Vec<bool> = match &raw.layer_types {
            None => match raw.global_attn_every_n_layers {
                0 => return Err(self.unsupported("global_attn_every_n_layers", 0, "1 and more")),
                every => (0..raw.num_hidden_layers.min(MOST_LAYERS)).map(|layer| layer % every > 0).collect(),
            },
            Some(types) if types.len() == raw.num_hidden_layers => types
                .iter()
                .map(|kind| match kind.as_str() {
                    "full_attention" => Ok(false),
                    "sliding_attention" => Ok(true),
                    other => Err(self.unsupported("layer_types", other, "full_attention, sliding_attention")),
                })
                .collect::<Result<_, _>>()?,
            Some(types) => {
                return Err(self.unsupported("number of layer_types", types.len(), "num_hidden_layers"));
            }
        };
        // The window is what both sides have together, without the token itself.
        let span = |layer: usize| match is_local.get(layer) {
            Some(true) => Span { window: Some(raw.local_attention / 2), theta: Some(local as f32) },
            _ => Span { window: None, theta: Some(global as f32) },
        };
        Ok(TransformerConfig {
            family: Family::ModernBert,
            vocab_size: raw.vocab_size,
            hidden_size: raw.hidden_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            max_positions: raw.max_position_embeddings,
            position_table: None,
            relative_positions: None,
            type_vocab_size: 0,
            embedding_norm: true,
            norms: Norms::Before,
            layer_norm_eps: raw.norm_eps,
            norm_bias: raw.norm_bias,
            attention_bias: raw.attention_bias,
            feed_forward: FeedForward {
                inner_size: raw.intermediate_size,
                activation: self.activation("hidden_activation", &raw.hidden_activation)?,
                gated: true,
                bias: raw.mlp_bias,
            },
            spans: self.spans(raw.num_hidden_layers, span)?,
        })
    }
}
