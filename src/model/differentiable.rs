//! The forward pass with gradients.
//!
//! candle's stock models pass no gradient (their fused layer norm and softmax record
//! constants), so this one uses composed operations, or on the CPU the fused ones of
//! [`super::autograd`].

use std::cell::Cell;

use candle_core::{D, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::autograd;
use super::config::{Activation, TransformerConfig};
#[cfg(test)]
use super::transformer::Transformer;
use super::transformer::{Embeddings, Layer, LayerNorm, Linear};

/// Added to the attention scores of padding. Finite, so that a row of nothing but
/// padding gives numbers instead of NaN.
const MASKED_SCORE: f32 = -1e9;

/// Which of two programs computes the element-wise steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fusion {
    /// candle's own operations, on any device.
    Composed,
    /// [`super::autograd`], on the CPU.
    Fused,
}

fn activate(x: &Tensor, activation: Activation) -> candle_core::Result<Tensor> {
    match activation {
        Activation::GeluErf => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::Relu => x.relu(),
    }
}

/// Which tokens of a padded batch are real.
pub(crate) struct AttentionMask {
    lengths: Vec<usize>,
    fusion: Fusion,
    /// `[batch, 1, 1, tokens]` f32, 0 at real tokens; for the composed form.
    additive: Option<Tensor>,
}

impl AttentionMask {
    /// The mask of texts of these lengths, padded to `tokens`, with the fastest program that
    /// the device has.
    pub(crate) fn new(lengths: &[usize], tokens: usize, device: &Device) -> candle_core::Result<Self> {
        let fusion = if device.is_cpu() { Fusion::Fused } else { Fusion::Composed };
        Self::with_fusion(lengths, tokens, device, fusion)
    }

    pub(crate) fn with_fusion(
        lengths: &[usize],
        tokens: usize,
        device: &Device,
        fusion: Fusion,
    ) -> candle_core::Result<Self> {
        let additive = match fusion {
            Fusion::Fused => None,
            Fusion::Composed => {
                let mut mask = vec![0f32; lengths.len() * tokens];
                for (row, &length) in mask.chunks_mut(tokens).zip(lengths) {
                    row[length..].fill(MASKED_SCORE);
                }
                Some(Tensor::from_vec(mask, (lengths.len(), 1, 1, tokens), device)?)
            }
        };
        Ok(Self { lengths: lengths.to_vec(), fusion, additive })
    }

    /// The program that goes with the mask.
    pub(crate) fn fusion(&self) -> Fusion {
        self.fusion
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
        let Some(mask) = &self.additive else {
            return autograd::attention(query, key, value, &self.lengths, heads);
        };
        let (batch, tokens, m) = query.dims3()?;
        let split = |t: &Tensor| t.reshape((batch, tokens, heads, width))?.transpose(1, 2)?.contiguous();
        let scores = split(query)?.matmul(&split(key)?.transpose(2, 3)?)?;
        let scores = (scores / (width as f64).sqrt())?.broadcast_add(mask)?;
        let context = candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&split(value)?)?;
        context.transpose(1, 2)?.contiguous()?.reshape((batch, tokens, m))
    }
}

/// Dropout in training: each value is zeroed at this rate and the rest scaled up.
///
/// The masks follow from the seed and the order of the calls, so that a pass can be repeated.
pub(crate) struct Dropout {
    rate: f32,
    seed: u64,
    calls: Cell<u64>,
}

impl Dropout {
    pub(crate) fn new(rate: f64, seed: u64) -> Self {
        Self { rate: rate as f32, seed, calls: Cell::new(0) }
    }

    fn apply(&self, x: Tensor) -> candle_core::Result<Tensor> {
        if self.rate == 0.0 {
            return Ok(x);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.calls.replace(self.calls.get() + 1));
        let kept = 1.0 / (1.0 - self.rate);
        let mask: Vec<f32> =
            (0..x.elem_count()).map(|_| if rng.random::<f32>() < self.rate { 0.0 } else { kept }).collect();
        let mask = Tensor::from_vec(mask, x.shape(), x.device())?;
        x * mask
    }
}

impl Linear {
    /// Shapes: `[batch, tokens, in]` to `[batch, tokens, out]`.
    fn forward(&self, x: &Tensor, fusion: Fusion) -> candle_core::Result<Tensor> {
        if fusion == Fusion::Fused {
            return autograd::linear(x, &self.weight, &self.bias);
        }
        let (batch, tokens, width) = x.dims3()?;
        let y = x.reshape((batch * tokens, width))?.matmul(&self.weight.t()?)?;
        y.reshape((batch, tokens, ()))?.broadcast_add(&self.bias)
    }

    /// The layer followed by an activation.
    fn forward_activated(
        &self,
        x: &Tensor,
        activation: Activation,
        fusion: Fusion,
    ) -> candle_core::Result<Tensor> {
        match fusion {
            Fusion::Composed => activate(&self.forward(x, fusion)?, activation),
            Fusion::Fused => {
                let product = autograd::product(x, &self.weight)?;
                autograd::bias_activation(&product, &self.bias, activation)
            }
        }
    }
}

impl LayerNorm {
    /// Shapes: `[.., m]` to `[.., m]`.
    fn forward(&self, x: &Tensor, fusion: Fusion) -> candle_core::Result<Tensor> {
        if fusion == Fusion::Fused {
            return autograd::layer_norm(x, &self.weight, &self.bias, self.eps as f32);
        }
        candle_nn::ops::layer_norm_slow(x, &self.weight, &self.bias, self.eps as f32)
    }
}

impl Layer {
    /// One block over a padded batch, every operation differentiable; dropout on what its two
    /// parts add to their residuals.
    ///
    /// # Shapes
    /// `x` `[batch, tokens, m]` f32; output as `x`.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        config: &TransformerConfig,
        dropout: &Dropout,
    ) -> candle_core::Result<Tensor> {
        let fusion = mask.fusion;
        let query = self.query.forward(x, fusion)?;
        let key = self.key.forward(x, fusion)?;
        let value = self.value.forward(x, fusion)?;
        let context = mask.attention(&query, &key, &value, config)?;
        let attended = (dropout.apply(self.attention_output.forward(&context, fusion)?)? + x)?;
        let x = self.attention_norm.forward(&attended, fusion)?;
        let inner = self.intermediate.forward_activated(&x, config.activation, fusion)?;
        let added = dropout.apply(self.output.forward(&inner, fusion)?)?;
        self.output_norm.forward(&(added + x)?, fusion)
    }
}

impl Embeddings {
    /// The tables' rows of a padded batch, summed and normalised, every operation differentiable.
    ///
    /// # Shapes
    /// `ids` `[batch, tokens]` u32; output `[batch, tokens, m]`.
    pub(crate) fn forward(&self, ids: &Tensor, fusion: Fusion) -> candle_core::Result<Tensor> {
        let (batch, tokens) = ids.dims2()?;
        let words = self.word.index_select(&ids.flatten_all()?, 0)?.reshape((batch, tokens, ()))?;
        let positions = self.position.narrow(0, 0, tokens)?;
        self.norm.forward(&words.broadcast_add(&positions)?, fusion)
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
        fusion: Fusion,
    ) -> candle_core::Result<Tensor> {
        let mask = AttentionMask::with_fusion(lengths, ids.dim(1)?, ids.device(), fusion)?;
        let mut x = self.embeddings.forward(ids, fusion)?;
        for layer in &self.layers {
            x = layer.forward(&x, &mask, &self.config, &Dropout::new(0.0, 0))?;
        }
        Ok(x)
    }
}

#[cfg(test)]
pub(crate) mod tests;
