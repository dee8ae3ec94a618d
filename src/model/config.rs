//! Configuration of a transformer encoder, as `config.json` gives it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;

use super::error::ModelError;

/// The two checkpoint layouts that this crate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// `model_type: bert` (BERT, MiniLM).
    Bert,
    /// `model_type: distilbert`.
    DistilBert,
}

/// The feed-forward activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// Exact GELU, by the error function, as the reference computes `"gelu"`.
    GeluErf,
    /// The tanh approximation (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// Rectified linear.
    Relu,
}

/// In what numbers the matrix products of the encoder are computed when texts are embedded. Training is apart
/// from this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncoderPrecision {
    /// 32-bit floating point: what training and every published figure of a model mean.
    #[default]
    F32,
    /// Weights and what they are multiplied with in 8 bits, with a scale for each output and each token:
    /// faster, and a quarter of the memory to read. Embeddings turn by a few degrees at most;
    /// `docs/benchmarks.md` says what that does to retrieval.
    Int8,
}

impl fmt::Display for EncoderPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
        })
    }
}

/// A text that is no [`EncoderPrecision`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is neither f32 nor int8")]
#[non_exhaustive]
pub struct ParsePrecisionError {
    /// The text given.
    pub got: String,
}

impl FromStr for EncoderPrecision {
    type Err = ParsePrecisionError;

    fn from_str(text: &str) -> Result<Self, ParsePrecisionError> {
        match text.trim() {
            "f32" => Ok(Self::F32),
            "int8" => Ok(Self::Int8),
            other => Err(ParsePrecisionError { got: other.to_owned() }),
        }
    }
}

/// Sizes of an encoder, the same for both architectures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransformerConfig {
    pub architecture: Architecture,
    pub vocab_size: usize,
    /// Width m of every hidden state and, by mean or cls pooling, of the embedding.
    pub hidden_size: usize,
    pub layers: usize,
    pub heads: usize,
    pub intermediate_size: usize,
    pub max_positions: usize,
    /// 0 where the architecture has no token types.
    pub type_vocab_size: usize,
    pub layer_norm_eps: f64,
    pub activation: Activation,
}

#[derive(Deserialize)]
struct RawBert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "default_type_vocab")]
    type_vocab_size: usize,
    #[serde(default = "default_eps")]
    layer_norm_eps: f64,
    #[serde(default = "default_activation")]
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

#[derive(Deserialize)]
struct RawDistilBert {
    vocab_size: usize,
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    hidden_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "default_activation")]
    activation: String,
}

#[derive(Deserialize)]
struct ModelType {
    model_type: String,
}

fn default_type_vocab() -> usize {
    2
}
fn default_eps() -> f64 {
    DEFAULT_LAYER_NORM_EPS
}
fn default_activation() -> String {
    "gelu".to_owned()
}

/// BERT's default, and DistilBERT's fixed value.
pub(crate) const DEFAULT_LAYER_NORM_EPS: f64 = 1e-12;

impl TransformerConfig {
    /// Reads a `config.json`.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ModelError> {
        let bytes = super::files::read(path, super::files::JSON_BYTES)?;
        let json_error = |source| ModelError::Json { path: path.to_owned(), source };
        let kind: ModelType = serde_json::from_slice(&bytes).map_err(json_error)?;
        let config = match kind.model_type.as_str() {
            "bert" => {
                let raw: RawBert = serde_json::from_slice(&bytes).map_err(json_error)?;
                if let Some(kind) = &raw.position_embedding_type
                    && kind != "absolute"
                {
                    return Err(ModelError::Unsupported {
                        path: path.to_owned(),
                        what: "position_embedding_type",
                        found: kind.clone(),
                        supported: "absolute",
                    });
                }
                Self {
                    architecture: Architecture::Bert,
                    vocab_size: raw.vocab_size,
                    hidden_size: raw.hidden_size,
                    layers: raw.num_hidden_layers,
                    heads: raw.num_attention_heads,
                    intermediate_size: raw.intermediate_size,
                    max_positions: raw.max_position_embeddings,
                    type_vocab_size: raw.type_vocab_size,
                    layer_norm_eps: raw.layer_norm_eps,
                    activation: parse_activation(path, &raw.hidden_act)?,
                }
            }
            "distilbert" => {
                let raw: RawDistilBert = serde_json::from_slice(&bytes).map_err(json_error)?;
                Self {
                    architecture: Architecture::DistilBert,
                    vocab_size: raw.vocab_size,
                    hidden_size: raw.dim,
                    layers: raw.n_layers,
                    heads: raw.n_heads,
                    intermediate_size: raw.hidden_dim,
                    max_positions: raw.max_position_embeddings,
                    type_vocab_size: 0,
                    layer_norm_eps: DEFAULT_LAYER_NORM_EPS,
                    activation: parse_activation(path, &raw.activation)?,
                }
            }
            other => {
                return Err(ModelError::Unsupported {
                    path: path.to_owned(),
                    what: "model_type",
                    found: other.to_owned(),
                    supported: "bert, distilbert",
                });
            }
        };
        config.check(path)?;
        Ok(config)
    }

    fn check(&self, path: &Path) -> Result<(), ModelError> {
        let bad = |what, found: usize, expected: &str| ModelError::BadConfig {
            path: path.to_owned(),
            what,
            found: found as u64,
            expected: expected.to_owned(),
        };
        for (what, found) in [
            ("vocab_size", self.vocab_size),
            ("hidden size", self.hidden_size),
            ("number of layers", self.layers),
            ("number of heads", self.heads),
            ("intermediate size", self.intermediate_size),
            ("max_position_embeddings", self.max_positions),
        ] {
            if found == 0 || found > MAX_CONFIG_VALUE {
                return Err(bad(what, found, "1 to 16777216"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.heads) {
            return Err(bad("hidden size", self.hidden_size, "a multiple of the number of heads"));
        }
        Ok(())
    }

    /// Width of one attention head.
    #[cfg(feature = "train")]
    pub(crate) fn head_size(&self) -> usize {
        self.hidden_size / self.heads
    }
}

/// No size of a real encoder comes near; larger values are damage, and would only exhaust memory.
const MAX_CONFIG_VALUE: usize = 1 << 24;

fn parse_activation(path: &Path, name: &str) -> Result<Activation, ModelError> {
    match name {
        "gelu" => Ok(Activation::GeluErf),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        other => Err(ModelError::Unsupported {
            path: path.to_owned(),
            what: "activation",
            found: other.to_owned(),
            supported: "gelu, gelu_new, gelu_pytorch_tanh, relu",
        }),
    }
}
