//! The forward pass of an encoder as described by its `config.json`.
//!
//! One description for every family of checkpoints: how positions enter, the span of attention, the form of
//! the feed-forward step, and the place of the norms. The packed pass ([`super::packed`]) and the
//! differentiable one ([`super::differentiable`]) are built from it and do not depend on the family.

mod families;
mod relative;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};

use super::error::ModelError;
use crate::product::bytes::ByteKernel;
pub(crate) use relative::RelativePositions;

/// Largest maximum length. The cost of attention grows with its square.
pub(super) const MOST_TOKENS: usize = 8192;

/// How a checkpoint's tensors are named; the rest of [`TransformerConfig`] describes the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// BERT, MiniLM, RoBERTa, XLM-RoBERTa.
    Bert,
    DistilBert,
    MpNet,
    NomicBert,
    ModernBert,
    /// Only a table of words, as model2vec writes it.
    Model2vec,
    /// Only a table of words, as sentence-transformers' StaticEmbedding.
    StaticEmbedding,
}

/// The feed-forward activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// Exact GELU with the error function, as the reference computes `"gelu"`.
    GeluErf,
    /// The tanh approximation (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// Rectified linear.
    Relu,
    /// `x / (1 + e^-x)` (`silu`, `swish`).
    Silu,
}

/// Number format of the encoder's matrix products when texts are embedded. It does not affect training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EncoderPrecision {
    /// 32-bit floating point, as in training and in every published figure of a model.
    #[default]
    F32,
    /// Weights and activations in 8 bits, with a scale for each output and each token: faster, with a quarter
    /// of the memory traffic. Embeddings rotate by a few degrees at most; `docs/lab/benchmarks.md` gives the
    /// effect on retrieval.
    Int8,
}

impl EncoderPrecision {
    /// The fastest one on this processor.
    pub(crate) fn fastest() -> Self {
        if ByteKernel::best().is_fast() { Self::Int8 } else { Self::F32 }
    }
}

impl fmt::Display for EncoderPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for EncoderPrecision {
    type Err = serde::de::value::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::deserialize(text.trim().into_deserializer())
    }
}

/// Rows added to the word embeddings by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionTable {
    pub rows: usize,
    /// RoBERTa numbers positions from the id of its padding token on, and skips padding tokens.
    pub padding: Option<u32>,
}

/// Where the norms of a layer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norms {
    /// `x = norm(x + f(x))`, as in BERT.
    After,
    /// `x = x + f(norm(x))`, and one norm after the last layer. The first layer's attention has none: the
    /// embeddings were normalised just before.
    Before,
}

/// The span of a layer's attention and its position encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    /// The farthest visible token on either side; `None` if the whole text is visible.
    pub window: Option<usize>,
    /// Base of the rotation of queries and keys: angles fall from the position itself to the position divided
    /// by this.
    pub theta: Option<f32>,
}

/// The feed-forward step of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedForward {
    pub inner_size: usize,
    pub activation: Activation,
    /// `W (activation(A x) * B x)` instead of `W activation(A x)`.
    pub gated: bool,
    pub bias: bool,
}

/// The description of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransformerConfig {
    pub family: Family,
    pub vocab_size: usize,
    /// Width m of every hidden state and, by mean or cls pooling, of the embedding.
    pub hidden_size: usize,
    pub layers: usize,
    pub heads: usize,
    /// Tokens of the longest text.
    pub max_positions: usize,
    pub position_table: Option<PositionTable>,
    /// Added to the scores of attention, the same in every layer.
    pub relative_positions: Option<RelativePositions>,
    /// 0 if the architecture has no token types.
    pub type_vocab_size: usize,
    /// Whether the embeddings have a norm before the first layer.
    pub embedding_norm: bool,
    pub norms: Norms,
    pub layer_norm_eps: f64,
    pub norm_bias: bool,
    pub attention_bias: bool,
    pub feed_forward: FeedForward,
    /// One per layer.
    pub spans: Vec<Span>,
}

impl TransformerConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// [`ModelError::BadSetting`] for a setting that is not implemented, [`ModelError::BadSetting`] for
    /// impossible sizes.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ModelError> {
        let config = families::read(path)?;
        config.check(path)?;
        Ok(config)
    }

    /// A BERT without sizes, positions and token types.
    fn new(family: Family) -> Self {
        let activation = Activation::GeluErf;
        Self {
            family,
            vocab_size: 0,
            hidden_size: 0,
            layers: 0,
            heads: 0,
            max_positions: 0,
            position_table: None,
            relative_positions: None,
            type_vocab_size: 0,
            embedding_norm: true,
            norms: Norms::After,
            layer_norm_eps: 1e-12,
            norm_bias: true,
            attention_bias: true,
            feed_forward: FeedForward { inner_size: 0, activation, gated: false, bias: true },
            spans: Vec::new(),
        }
    }

    /// The description of a table of vectors of tokens, `[tokens, width]`, whose file is `path`.
    ///
    /// # Errors
    /// [`ModelError::BadSetting`].
    pub(crate) fn of_table(
        path: &Path,
        family: Family,
        [vocab_size, hidden_size]: [usize; 2],
        max_positions: usize,
    ) -> Result<Self, ModelError> {
        let base = Self { embedding_norm: false, heads: 1, ..Self::new(family) };
        let mut config = Self { vocab_size, hidden_size, max_positions, ..base };
        config.feed_forward.inner_size = 1;
        config.check(path)?;
        Ok(config)
    }

    fn check(&self, path: &Path) -> Result<(), ModelError> {
        let bad = |what, found: usize, expected: &str| ModelError::bad_config(path, what, found, expected);
        for (what, found) in [
            ("vocab_size", self.vocab_size),
            ("hidden size", self.hidden_size),
            ("number of heads", self.heads),
            ("intermediate size", self.feed_forward.inner_size),
            ("max_position_embeddings", self.max_positions),
        ] {
            if found == 0 || found > MAX_CONFIG_VALUE {
                return Err(bad(what, found, "1 to 16777216"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.heads) {
            return Err(bad("hidden size", self.hidden_size, "a multiple of the number of heads"));
        }
        let rotates = self.spans.iter().any(|span| span.theta.is_some());
        if rotates && !self.head_size().is_multiple_of(2) {
            return Err(bad("width of a head", self.head_size(), "an even number"));
        }
        Ok(())
    }

    /// Width of one attention head.
    pub(crate) fn head_size(&self) -> usize {
        self.hidden_size / self.heads
    }

    /// Number of positions with precomputed rotations; no text is longer.
    pub(crate) fn rotated_positions(&self) -> usize {
        self.max_positions.min(MOST_TOKENS)
    }

    /// Whether a layer's attention has its own norm.
    pub(crate) fn has_attention_norm(&self, layer: usize) -> bool {
        self.norms == Norms::After || layer > 0
    }
}

/// The row of the position table for each token of a text; 0 for all without a table.
pub(crate) fn places(table: Option<PositionTable>, ids: &[u32]) -> impl Iterator<Item = usize> + use<'_> {
    let padding = table.and_then(|table| table.padding);
    let mut next = padding.map_or(0, |padding| padding as usize + 1);
    ids.iter().map(move |&id| {
        if padding == Some(id) {
            return id as usize;
        }
        let own = next;
        next += usize::from(table.is_some());
        own
    })
}

/// Far above the sizes of real encoders; larger values mean a damaged file and would only exhaust memory.
pub(super) const MAX_CONFIG_VALUE: usize = 1 << 24;
