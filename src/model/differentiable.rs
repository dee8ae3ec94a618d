//! The forward pass with gradients.
//!
//! candle's stock models pass no gradient (their fused layer norm and softmax record
//! constants), so this one uses composed operations, or on the CPU the fused ones of
//! [`super::autograd`].

use candle_core::{D, DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::autograd;
use super::config::{Activation, TransformerConfig};
#[cfg(test)]
use super::transformer::Transformer;
use super::transformer::{Embeddings, Layer, LayerNorm, Linear};

/// Added to the attention scores of padding. Finite, so that a row of nothing but
/// padding gives numbers instead of NaN.
const MASKED_SCORE: f32 = -1e9;

/// Number format of the encoder's matrix products in training.
///
/// Weights, residuals, norms, softmax, losses and the optimiser are f32 in either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// Both operands and the result of each product are rounded to bf16: what a GPU's matrix units
    /// are fast at. A CPU is slower with it than without.
    Bf16,
}

impl Precision {
    /// `a b`, f32 in and out.
    fn matmul(self, a: &Tensor, b: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::F32 => a.matmul(b),
            Self::Bf16 => a.to_dtype(DType::BF16)?.matmul(&b.to_dtype(DType::BF16)?)?.to_dtype(DType::F32),
        }
    }
}

/// Which of two programs computes the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// candle's own operations, on any device.
    Composed(Precision),
    /// [`super::autograd`], in f32 on the CPU.
    Fused,
}

fn activate(x: &Tensor, activation: Activation) -> candle_core::Result<Tensor> {
    match activation {
        Activation::GeluErf => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::Relu => x.relu(),
    }
}

/// `ln softmax(scale * x)` over the last dimension, f32.
pub(crate) fn log_softmax(x: &Tensor, scale: f64) -> candle_core::Result<Tensor> {
    if x.device().is_cpu() {
        // candle's makes a dozen passes over memory, forth and back.
        autograd::log_softmax(x, scale as f32)
    } else {
        candle_nn::ops::log_softmax(&(x * scale)?, D::Minus1)
    }
}

/// `x W`, with a gradient for `x` only where one is asked for.
///
/// # Shapes
/// `x` `[n, in]`, `weight` `[in, out]`; output `[n, out]`.
pub(crate) fn product_with_columns(x: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
    if x.device().is_cpu() {
        // candle works out both gradients, one of which is a third of a step of the tree alone.
        autograd::product_with_columns(x, weight)
    } else {
        x.matmul(weight)
    }
}

/// Which tokens of a padded batch are real.
pub(crate) struct AttentionMask {
    lengths: Vec<usize>,
    program: Program,
    /// `[batch, 1, 1, tokens]` f32, 0 at real tokens; for the composed form.
    additive: Option<Tensor>,
}

impl AttentionMask {
    /// The mask of texts of these lengths, padded to `tokens`, with the fastest program that
    /// the device has for this precision.
    pub(crate) fn new(
        lengths: &[usize],
        tokens: usize,
        device: &Device,
        precision: Precision,
    ) -> candle_core::Result<Self> {
        let fused = device.is_cpu() && precision == Precision::F32;
        let program = if fused { Program::Fused } else { Program::Composed(precision) };
        Self::with_program(lengths, tokens, device, program)
    }

    pub(crate) fn with_program(
        lengths: &[usize],
        tokens: usize,
        device: &Device,
        program: Program,
    ) -> candle_core::Result<Self> {
        let additive = match program {
            Program::Fused => None,
            Program::Composed(_) => {
                let mut mask = vec![0f32; lengths.len() * tokens];
                for (row, &length) in mask.chunks_mut(tokens).zip(lengths) {
                    row[length..].fill(MASKED_SCORE);
                }
                Some(Tensor::from_vec(mask, (lengths.len(), 1, 1, tokens), device)?)
            }
        };
        Ok(Self { lengths: lengths.to_vec(), program, additive })
    }

    /// The program that goes with the mask.
    pub(crate) fn program(&self) -> Program {
        self.program
    }

    /// Attention of projected rows.
    ///
    /// # Shapes
    /// `query`, `key`, `value` and the output `[batch, tokens, m]`.
    fn attention(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let (heads, width) = (config.heads, config.head_size());
        let (Some(mask), Program::Composed(precision)) = (&self.additive, self.program) else {
            return autograd::attention(query, key, value, &self.lengths, heads);
        };
        let (batch, tokens, m) = query.dims3()?;
        let split = |t: &Tensor| t.reshape((batch, tokens, heads, width))?.transpose(1, 2)?.contiguous();
        let scores = precision.matmul(&split(query)?, &split(key)?.transpose(2, 3)?)?;
        let scores = (scores / (width as f64).sqrt())?.broadcast_add(mask)?;
        let weights = candle_nn::ops::softmax(&scores, D::Minus1)?;
        let context = precision.matmul(&weights, &split(value)?)?;
        context.transpose(1, 2)?.contiguous()?.reshape((batch, tokens, m))
    }
}

impl Linear {
    /// Shapes: `[batch, tokens, in]` to `[batch, tokens, out]`.
    fn forward(&self, x: &Tensor, program: Program) -> candle_core::Result<Tensor> {
        let Program::Composed(precision) = program else {
            return autograd::linear(x, &self.weight, &self.bias);
        };
        let (batch, tokens, width) = x.dims3()?;
        let y = precision.matmul(&x.reshape((batch * tokens, width))?, &self.weight.t()?)?;
        y.reshape((batch, tokens, ()))?.broadcast_add(&self.bias)
    }

    /// The layer followed by an activation.
    fn forward_activated(
        &self,
        x: &Tensor,
        activation: Activation,
        program: Program,
    ) -> candle_core::Result<Tensor> {
        match program {
            Program::Composed(_) => activate(&self.forward(x, program)?, activation),
            Program::Fused => {
                let product = autograd::product(x, &self.weight)?;
                autograd::bias_activation(&product, &self.bias, activation)
            }
        }
    }
}

impl LayerNorm {
    /// Shapes: `[.., m]` to `[.., m]`.
    fn forward(&self, x: &Tensor, program: Program) -> candle_core::Result<Tensor> {
        if program == Program::Fused {
            return autograd::layer_norm(x, &self.weight, &self.bias, self.eps as f32);
        }
        candle_nn::ops::layer_norm_slow(x, &self.weight, &self.bias, self.eps as f32)
    }
}

impl Layer {
    /// One block over a padded batch, every operation differentiable.
    ///
    /// # Shapes
    /// `x` `[batch, tokens, m]` f32; output as `x`.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let program = mask.program;
        let query = self.query.forward(x, program)?;
        let key = self.key.forward(x, program)?;
        let value = self.value.forward(x, program)?;
        let context = mask.attention(&query, &key, &value, config)?;
        let attended = (self.attention_output.forward(&context, program)? + x)?;
        let x = self.attention_norm.forward(&attended, program)?;
        let inner = self.intermediate.forward_activated(&x, config.activation, program)?;
        let added = self.output.forward(&inner, program)?;
        self.output_norm.forward(&(added + x)?, program)
    }
}

impl Embeddings {
    /// The tables' rows of a padded batch, summed and normalised, every operation differentiable.
    ///
    /// # Shapes
    /// `ids` `[batch, tokens]` u32; output `[batch, tokens, m]`.
    pub(crate) fn forward(&self, ids: &Tensor, program: Program) -> candle_core::Result<Tensor> {
        let (batch, tokens) = ids.dims2()?;
        let words = self.word.index_select(&ids.flatten_all()?, 0)?.reshape((batch, tokens, ()))?;
        let positions = self.position.narrow(0, 0, tokens)?;
        self.norm.forward(&words.broadcast_add(&positions)?, program)
    }
}

#[cfg(test)]
impl Transformer {
    /// Hidden states of a padded batch after the last layer, every operation differentiable.
    ///
    /// # Shapes
    /// `ids` `[batch, tokens]` u32, padded anyhow behind each length; output `[batch, tokens, m]` f32.
    pub(super) fn forward(
        &self,
        ids: &Tensor,
        lengths: &[usize],
        program: Program,
    ) -> candle_core::Result<Tensor> {
        let mask = AttentionMask::with_program(lengths, ids.dim(1)?, ids.device(), program)?;
        let mut x = self.embeddings.forward(ids, program)?;
        for layer in &self.layers {
            x = layer.forward(&x, &mask, &self.config)?;
        }
        Ok(x)
    }
}

#[cfg(test)]
pub(crate) mod tests;
