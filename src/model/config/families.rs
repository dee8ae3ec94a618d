//! The `config.json` of each family of checkpoints, in the words of transformers.
//!
//! What is absent has transformers' default. A setting that changes what is computed and is not done here is
//! an error; settings of training (dropout, initialisation) and of heads that are not loaded are left alone.

mod modern;
mod nomic;

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Activation, Family, FeedForward, ModelError, Norms, PositionTable, RelativePositions, Span,
    TransformerConfig,
};

/// BERT's default, and the fixed value of DistilBERT.
const BERT_LAYER_NORM_EPS: f64 = 1e-12;

/// More layers than this no encoder has.
const MOST_LAYERS: usize = 4096;

/// A file that is being read.
struct File<'a> {
    path: &'a Path,
    bytes: &'a [u8],
}

/// What any family may ask for.
#[derive(Deserialize)]
struct Common {
    model_type: String,
    #[serde(default)]
    is_decoder: bool,
    #[serde(default)]
    add_cross_attention: bool,
    position_embedding_type: Option<String>,
    quantization_config: Option<Value>,
    rope_scaling: Option<Value>,
    partial_rotary_factor: Option<f64>,
    pruned_heads: Option<Value>,
}

#[derive(Deserialize)]
struct Bert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "bert_eps")]
    layer_norm_eps: f64,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "one")]
    pad_token_id: u32,
    relative_attention_num_buckets: Option<usize>,
}

#[derive(Deserialize)]
struct DistilBert {
    vocab_size: usize,
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    hidden_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "gelu")]
    activation: String,
}

#[derive(Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

fn one() -> u32 {
    1
}
fn two() -> usize {
    2
}
fn bert_eps() -> f64 {
    BERT_LAYER_NORM_EPS
}
fn gelu() -> String {
    "gelu".to_owned()
}

/// The description in a file, its sizes yet to be checked.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<TransformerConfig, ModelError> {
    let file = File { path, bytes };
    let common: Common = file.parse()?;
    file.check(&common)?;
    match common.model_type.as_str() {
        "bert" => file.bert(Family::Bert, false),
        "roberta" | "xlm-roberta" | "camembert" => file.bert(Family::Bert, true),
        "mpnet" => file.bert(Family::MpNet, true),
        "distilbert" => file.distilbert(),
        "nomic_bert" => file.nomic_bert(),
        "modernbert" => file.modernbert(),
        other => Err(file.unsupported(
            "model_type",
            other,
            "bert, roberta, xlm-roberta, camembert, mpnet, distilbert, nomic_bert, modernbert",
        )),
    }
}

impl File<'_> {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ModelError> {
        serde_json::from_slice(self.bytes)
            .map_err(|source| ModelError::Json { path: self.path.to_owned(), source })
    }

    fn unsupported(&self, what: &'static str, found: impl ToString, supported: &'static str) -> ModelError {
        ModelError::Unsupported { path: self.path.to_owned(), what, found: found.to_string(), supported }
    }

    /// An error unless a setting is `true` or `false` as it must be.
    fn must_be(&self, what: &'static str, found: bool, supported: bool) -> Result<(), ModelError> {
        match found == supported {
            true => Ok(()),
            false => Err(self.unsupported(what, found, if supported { "true" } else { "false" })),
        }
    }

    /// An error where a setting is there and not empty.
    fn must_be_absent(&self, what: &'static str, found: Option<&Value>) -> Result<(), ModelError> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        match found.filter(|value| !is_empty(value)) {
            Some(value) => Err(self.unsupported(what, value, "null")),
            None => Ok(()),
        }
    }

    fn check(&self, common: &Common) -> Result<(), ModelError> {
        self.must_be("is_decoder", common.is_decoder, false)?;
        self.must_be("add_cross_attention", common.add_cross_attention, false)?;
        self.must_be_absent("quantization_config", common.quantization_config.as_ref())?;
        self.must_be_absent("rope_scaling", common.rope_scaling.as_ref())?;
        self.must_be_absent("pruned_heads", common.pruned_heads.as_ref())?;
        self.whole_rotation(common.partial_rotary_factor)?;
        match common.position_embedding_type.as_deref() {
            None | Some("absolute") => Ok(()),
            Some(other) => Err(self.unsupported("position_embedding_type", other, "absolute")),
        }
    }

    fn whole_rotation(&self, factor: Option<f64>) -> Result<(), ModelError> {
        match factor {
            Some(factor) if factor != 1.0 => Err(self.unsupported("partial_rotary_factor", factor, "1")),
            _ => Ok(()),
        }
    }

    /// The base of a rotation without scaling.
    fn theta(&self, rope: Option<&Rope>, default: f64) -> Result<f64, ModelError> {
        let Some(rope) = rope else { return Ok(default) };
        self.whole_rotation(rope.partial_rotary_factor)?;
        match rope.rope_type.as_deref() {
            None | Some("default") => Ok(rope.rope_theta.unwrap_or(default)),
            Some(other) => Err(self.unsupported("rope_type", other, "default")),
        }
    }

    fn activation(&self, field: &'static str, name: &str) -> Result<Activation, ModelError> {
        match name {
            "gelu" => Ok(Activation::GeluErf),
            "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
            "relu" => Ok(Activation::Relu),
            "silu" | "swish" => Ok(Activation::Silu),
            other => {
                Err(self.unsupported(field, other, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"))
            }
        }
    }

    /// One span for each layer.
    fn spans(&self, layers: usize, span: impl Fn(usize) -> Span) -> Result<Vec<Span>, ModelError> {
        if layers == 0 || layers > MOST_LAYERS {
            return Err(ModelError::BadConfig {
                path: self.path.to_owned(),
                what: "number of layers",
                found: layers as u64,
                expected: format!("1 to {MOST_LAYERS}"),
            });
        }
        Ok((0..layers).map(span).collect())
    }

    /// BERT and what differs from it in positions alone.
    fn bert(&self, family: Family, from_padding: bool) -> Result<TransformerConfig, ModelError> {
        let raw: Bert = self.parse()?;
        let is_mpnet = family == Family::MpNet;
        if let (true, Some(buckets)) = (is_mpnet, raw.relative_attention_num_buckets)
            && buckets != MPNET_POSITIONS.buckets
        {
            // The reference takes 32 whatever the file says.
            return Err(self.unsupported("relative_attention_num_buckets", buckets, "32"));
        }
        // MPNet's is fixed.
        let padding = from_padding.then_some(if is_mpnet { 1 } else { raw.pad_token_id });
        let first = padding.map_or(0, |padding| padding as usize + 1);
        let rows = raw.max_position_embeddings;
        if rows <= first && rows > 0 {
            return Err(ModelError::BadConfig {
                path: self.path.to_owned(),
                what: "max_position_embeddings",
                found: rows as u64,
                expected: format!("more than {first}, where places are numbered from"),
            });
        }
        Ok(TransformerConfig {
            family,
            vocab_size: raw.vocab_size,
            hidden_size: raw.hidden_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            max_positions: rows.saturating_sub(first),
            position_table: Some(PositionTable { rows, padding }),
            relative_positions: is_mpnet.then_some(MPNET_POSITIONS),
            type_vocab_size: if is_mpnet { 0 } else { raw.type_vocab_size },
            embedding_norm: true,
            norms: Norms::After,
            layer_norm_eps: raw.layer_norm_eps,
            norm_bias: true,
            attention_bias: true,
            feed_forward: FeedForward {
                inner_size: raw.intermediate_size,
                activation: self.activation("hidden_act", &raw.hidden_act)?,
                gated: false,
                bias: true,
            },
            spans: self.spans(raw.num_hidden_layers, |_| Span::default())?,
        })
    }

    fn distilbert(&self) -> Result<TransformerConfig, ModelError> {
        let raw: DistilBert = self.parse()?;
        Ok(TransformerConfig {
            family: Family::DistilBert,
            vocab_size: raw.vocab_size,
            hidden_size: raw.dim,
            layers: raw.n_layers,
            heads: raw.n_heads,
            max_positions: raw.max_position_embeddings,
            position_table: Some(PositionTable { rows: raw.max_position_embeddings, padding: None }),
            relative_positions: None,
            type_vocab_size: 0,
            embedding_norm: true,
            norms: Norms::After,
            layer_norm_eps: BERT_LAYER_NORM_EPS,
            norm_bias: true,
            attention_bias: true,
            feed_forward: FeedForward {
                inner_size: raw.hidden_dim,
                activation: self.activation("activation", &raw.activation)?,
                gated: false,
                bias: true,
            },
            spans: self.spans(raw.n_layers, |_| Span::default())?,
        })
    }
}

/// MPNet's, whatever its file says of the farthest.
const MPNET_POSITIONS: RelativePositions = RelativePositions { buckets: 32, farthest: 128 };
