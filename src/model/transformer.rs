//! The weights of BERT and DistilBERT as one post-norm transformer.
//!
//! Training runs [`super::differentiable`] over them, inference on the CPU
//! [`super::packed`]; tests hold the two together within 1e-5.

use candle_core::Tensor;

use super::config::{Architecture, TransformerConfig};
use super::error::ModelError;
use super::weights::Weights;

/// `y = x W^T + b`, with W as checkpoints store it: `[out, in]`.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub weight: Tensor,
    pub bias: Tensor,
}

/// Layer normalisation over the last dimension.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    pub weight: Tensor,
    pub bias: Tensor,
    pub eps: f64,
}

/// One transformer block: attention, then feed-forward, each with residual and norm.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub attention_output: Linear,
    pub attention_norm: LayerNorm,
    pub intermediate: Linear,
    pub output: Linear,
    pub output_norm: LayerNorm,
}

/// Word, position and (BERT only) token type tables, summed and normalised.
#[derive(Clone, Debug)]
pub(crate) struct Embeddings {
    /// `[vocab, m]`
    pub word: Tensor,
    /// `[positions, m]`, with the row of token type 0 already added: every text is one segment.
    pub position: Tensor,
    /// The tables as loaded, by name, so that a bundle is saved as it came.
    #[cfg(feature = "train")]
    pub raw: Vec<(&'static str, Tensor)>,
    pub norm: LayerNorm,
}

/// The weights of an encoder, f32 on one device.
#[derive(Clone, Debug)]
pub(crate) struct Transformer {
    pub config: TransformerConfig,
    pub embeddings: Embeddings,
    pub layers: Vec<Layer>,
}

impl Linear {
    fn load(weights: &Weights, name: &str, output: usize, input: usize) -> Result<Self, ModelError> {
        Ok(Self {
            weight: weights.get(&format!("{name}.weight"), &[output, input])?,
            bias: weights.get(&format!("{name}.bias"), &[output])?,
        })
    }
}

impl LayerNorm {
    fn load(weights: &Weights, name: &str, size: usize, eps: f64) -> Result<Self, ModelError> {
        Ok(Self {
            weight: weights.get(&format!("{name}.weight"), &[size])?,
            bias: weights.get(&format!("{name}.bias"), &[size])?,
            eps,
        })
    }
}

/// The names of a layer's parts in a checkpoint.
struct LayerNames {
    prefix: String,
    query: &'static str,
    key: &'static str,
    value: &'static str,
    attention_output: &'static str,
    attention_norm: &'static str,
    intermediate: &'static str,
    output: &'static str,
    output_norm: &'static str,
}

impl LayerNames {
    fn new(architecture: Architecture, layer: usize) -> Self {
        match architecture {
            Architecture::Bert => Self {
                prefix: format!("encoder.layer.{layer}"),
                query: "attention.self.query",
                key: "attention.self.key",
                value: "attention.self.value",
                attention_output: "attention.output.dense",
                attention_norm: "attention.output.LayerNorm",
                intermediate: "intermediate.dense",
                output: "output.dense",
                output_norm: "output.LayerNorm",
            },
            Architecture::DistilBert => Self {
                prefix: format!("transformer.layer.{layer}"),
                query: "attention.q_lin",
                key: "attention.k_lin",
                value: "attention.v_lin",
                attention_output: "attention.out_lin",
                attention_norm: "sa_layer_norm",
                intermediate: "ffn.lin1",
                output: "ffn.lin2",
                output_norm: "output_layer_norm",
            },
        }
    }

    fn full(&self, part: &str) -> String {
        format!("{}.{part}", self.prefix)
    }
}

impl Layer {
    fn load(weights: &Weights, config: &TransformerConfig, layer: usize) -> Result<Self, ModelError> {
        let names = LayerNames::new(config.architecture, layer);
        let (m, inner, eps) = (config.hidden_size, config.intermediate_size, config.layer_norm_eps);
        Ok(Self {
            query: Linear::load(weights, &names.full(names.query), m, m)?,
            key: Linear::load(weights, &names.full(names.key), m, m)?,
            value: Linear::load(weights, &names.full(names.value), m, m)?,
            attention_output: Linear::load(weights, &names.full(names.attention_output), m, m)?,
            attention_norm: LayerNorm::load(weights, &names.full(names.attention_norm), m, eps)?,
            intermediate: Linear::load(weights, &names.full(names.intermediate), inner, m)?,
            output: Linear::load(weights, &names.full(names.output), m, inner)?,
            output_norm: LayerNorm::load(weights, &names.full(names.output_norm), m, eps)?,
        })
    }

    /// The layer's tensors under their checkpoint names.
    #[cfg(feature = "train")]
    pub(crate) fn named(&self, architecture: Architecture, layer: usize) -> Vec<(String, Tensor)> {
        let names = LayerNames::new(architecture, layer);
        let mut all = Vec::new();
        for (part, linear) in [
            (names.query, &self.query),
            (names.key, &self.key),
            (names.value, &self.value),
            (names.attention_output, &self.attention_output),
            (names.intermediate, &self.intermediate),
            (names.output, &self.output),
        ] {
            all.push((format!("{}.weight", names.full(part)), linear.weight.clone()));
            all.push((format!("{}.bias", names.full(part)), linear.bias.clone()));
        }
        for (part, norm) in
            [(names.attention_norm, &self.attention_norm), (names.output_norm, &self.output_norm)]
        {
            all.push((format!("{}.weight", names.full(part)), norm.weight.clone()));
            all.push((format!("{}.bias", names.full(part)), norm.bias.clone()));
        }
        all
    }
}

impl Embeddings {
    fn load(weights: &Weights, config: &TransformerConfig) -> Result<Self, ModelError> {
        let m = config.hidden_size;
        let table = |name: &'static str, rows: usize| -> Result<(&'static str, Tensor), ModelError> {
            Ok((name, weights.get(name, &[rows, m])?))
        };
        let word = table("embeddings.word_embeddings.weight", config.vocab_size)?;
        let mut raw = vec![table("embeddings.position_embeddings.weight", config.max_positions)?];
        let mut position = raw[0].1.clone();
        if config.type_vocab_size > 0 {
            let types = table("embeddings.token_type_embeddings.weight", config.type_vocab_size)?;
            position = position.broadcast_add(&types.1.narrow(0, 0, 1)?)?;
            raw.push(types);
        }
        Ok(Self {
            word: word.1,
            position,
            #[cfg(feature = "train")]
            raw,
            norm: LayerNorm::load(weights, "embeddings.LayerNorm", m, config.layer_norm_eps)?,
        })
    }

    /// Makes the raw position table what a trained `position` says: it without the row of token
    /// type 0.
    #[cfg(feature = "train")]
    pub(crate) fn take_position_apart(&mut self) -> candle_core::Result<()> {
        let position = self.position.to_device(&candle_core::Device::Cpu)?;
        self.raw[0].1 = match self.raw.get(1) {
            Some((_, types)) => position.broadcast_sub(&types.narrow(0, 0, 1)?)?,
            None => position,
        };
        Ok(())
    }
}

impl Transformer {
    pub(crate) fn load(weights: &Weights, config: TransformerConfig) -> Result<Self, ModelError> {
        let embeddings = Embeddings::load(weights, &config)?;
        let layers =
            (0..config.layers).map(|layer| Layer::load(weights, &config, layer)).collect::<Result<_, _>>()?;
        Ok(Self { config, embeddings, layers })
    }

    /// Every tensor under its checkpoint name, without a model prefix.
    #[cfg(feature = "train")]
    pub(crate) fn named(&self) -> Vec<(String, Tensor)> {
        let e = &self.embeddings;
        let mut all = vec![
            ("embeddings.word_embeddings.weight".to_owned(), e.word.clone()),
            ("embeddings.LayerNorm.weight".to_owned(), e.norm.weight.clone()),
            ("embeddings.LayerNorm.bias".to_owned(), e.norm.bias.clone()),
        ];
        all.extend(e.raw.iter().map(|(name, table)| ((*name).to_owned(), table.clone())));
        for (index, layer) in self.layers.iter().enumerate() {
            all.extend(layer.named(self.config.architecture, index));
        }
        all
    }
}
