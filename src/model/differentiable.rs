//! The forward pass with gradients.
//!
//! candle's stock models pass no gradient (their fused layer norm and softmax record constants), so this one
//! uses composed operations or, on the CPU, the fused ones of [`super::autograd`].

use std::sync::Arc;

use candle_core::{D, DType, Tensor};
use serde::{Deserialize, Serialize};

mod attention;

use super::autograd;
use super::config::{self, Activation, Norms, TransformerConfig};
use super::rotation::Rotation;
use super::transformer::{Affine, Embeddings, Layer, Stack};
pub(crate) use attention::AttentionMask;

/// Precision of the encoder's matrix products in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// On a GPU, the operands of a product are rounded to TF32, with 10 bits after the point, which its
    /// matrix units process several times as fast. On a CPU this is f32.
    Tf32,
}

/// Which implementation computes the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// candle's own operations, on any device.
    Composed,
    /// [`super::autograd`], in f32 on the CPU.
    Fused,
}

fn activate(x: &Tensor, activation: Activation) -> candle_core::Result<Tensor> {
    match activation {
        Activation::GeluErf => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::Relu => x.relu(),
        Activation::Silu => x.silu(),
    }
}

/// `ln softmax(scale * x)` over the last dimension, f32.
pub(crate) fn log_softmax(x: &Tensor, scale: f64) -> candle_core::Result<Tensor> {
    if x.device().is_cpu() {
        // candle's makes a dozen passes over memory, forward and backward.
        autograd::log_softmax(x, scale as f32)
    } else {
        candle_nn::ops::log_softmax(&(x * scale)?, D::Minus1)
    }
}

/// `x W`, with a gradient for `x` only if one is needed.
///
/// # Shapes
/// `x` `[n, in]`, `weight` `[in, out]`; output `[n, out]`.
pub(crate) fn product_with_columns(x: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
    if x.device().is_cpu() {
        // candle computes both gradients, and one of them would take a third of a tree-only step.
        autograd::product_with_columns(x, weight)
    } else {
        x.matmul(weight)
    }
}

/// Rows of a matrix.
///
/// # Shapes
/// `table` `[n, m]`; `ids` `[k]` u32, each below n; output `[k, m]`.
pub(crate) fn rows(table: &Tensor, ids: &Tensor) -> candle_core::Result<Tensor> {
    #[cfg(feature = "cuda")]
    if table.device().is_cuda() && table.dtype() == DType::F32 {
        return super::gpu::rows(table, ids);
    }
    table.index_select(ids, 0)
}

impl Affine<Tensor> {
    /// Shapes: `[batch, tokens, in]` to `[batch, tokens, out]`.
    fn forward(&self, x: &Tensor, program: Program) -> candle_core::Result<Tensor> {
        if program == Program::Fused {
            return match &self.bias {
                Some(bias) => autograd::linear(x, &self.weight, bias),
                None => autograd::product(x, &self.weight),
            };
        }
        #[cfg(feature = "cuda")]
        if x.device().is_cuda() {
            return super::gpu::linear(x, &self.weight, self.bias.as_ref());
        }
        let (batch, tokens, width) = x.dims3()?;
        let y =
            x.reshape((batch * tokens, width))?.matmul(&self.weight.t()?)?.reshape((batch, tokens, ()))?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }

    /// The layer followed by an activation.
    fn forward_activated(
        &self,
        x: &Tensor,
        activation: Activation,
        program: Program,
    ) -> candle_core::Result<Tensor> {
        match (program, &self.bias) {
            (Program::Fused, Some(bias)) => {
                autograd::bias_activation(&autograd::product(x, &self.weight)?, bias, activation)
            }
            #[cfg(feature = "cuda")]
            (Program::Composed, Some(bias)) if x.device().is_cuda() && activation == Activation::GeluErf => {
                super::gpu::bias_gelu(&super::gpu::linear(x, &self.weight, None)?, bias)
            }
            _ => activate(&self.forward(x, program)?, activation),
        }
    }
}

/// The outputs of several maps, or of one map with their stacked rows.
///
/// # Shapes
/// `x` `[batch, tokens, in]`; outputs `[batch, tokens, out]`.
fn forward_all<const N: usize>(
    maps: &[Affine<Tensor>],
    x: &Tensor,
    program: Program,
) -> candle_core::Result<[Tensor; N]> {
    let outputs = match maps {
        [joined] => joined.forward(x, program)?.chunk(N, D::Minus1)?,
        separate => separate.iter().map(|map| map.forward(x, program)).collect::<Result<_, _>>()?,
    };
    outputs.try_into().map_err(|_| candle_core::Error::msg("a layer has too many or too few maps"))
}

impl Affine<Tensor> {
    /// Layer normalisation.
    ///
    /// # Shapes
    /// `[.., m]` to `[.., m]`.
    fn norm(&self, x: &Tensor, eps: f64, program: Program) -> candle_core::Result<Tensor> {
        let bias = match &self.bias {
            Some(bias) => bias.clone(),
            None => self.weight.zeros_like()?,
        };
        if program == Program::Fused {
            return autograd::layer_norm(x, &self.weight, &bias, eps as f32);
        }
        #[cfg(feature = "cuda")]
        if x.device().is_cuda() {
            return super::gpu::layer_norm(x, &self.weight, &bias, eps as f32);
        }
        candle_nn::ops::layer_norm_slow(x, &self.weight, &bias, eps as f32)
    }
}

impl Layer<Tensor> {
    /// One block over a padded batch, every operation differentiable.
    ///
    /// # Shapes
    /// `x` `[batch, tokens, m]` f32; `bias` `[heads, tokens, tokens]`; output as `x`.
    fn forward(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        bias: Option<&Tensor>,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        #[cfg(feature = "cuda")]
        if let Some(y) = mask.whole_layer(self, x, bias, config)? {
            return Ok(y);
        }
        let (program, eps) = (mask.program(), config.layer_norm_eps);
        match config.norms {
            Norms::After => {
                let attended = (self.attend(x, mask, bias, config)? + x)?;
                let x = match &self.attention_norm {
                    Some(norm) => norm.norm(&attended, eps, program)?,
                    None => attended,
                };
                let added = self.feed(&x, program, config)?;
                self.output_norm.norm(&(added + x)?, eps, program)
            }
            Norms::Before => {
                let normed =
                    self.attention_norm.as_ref().map(|norm| norm.norm(x, eps, program)).transpose()?;
                let x = (self.attend(normed.as_ref().unwrap_or(x), mask, bias, config)? + x)?;
                let added = self.feed(&self.output_norm.norm(&x, eps, program)?, program, config)?;
                added + x
            }
        }
    }

    fn attend(
        &self,
        x: &Tensor,
        mask: &AttentionMask,
        bias: Option<&Tensor>,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let program = mask.program();
        let [mut query, mut key, value] = forward_all(&self.projections, x, program)?;
        if let Some(theta) = self.span.theta {
            let width = config.head_size();
            let rotation = Arc::new(Rotation::new(theta, width, x.dim(1)?));
            query = attention::rotate(&query, &rotation, width, program)?;
            key = attention::rotate(&key, &rotation, width, program)?;
        }
        let context = mask.attention(&query, &key, &value, self.span.window, bias, config)?;
        self.attention_output.forward(&context, program)
    }

    fn feed(&self, x: &Tensor, program: Program, config: &TransformerConfig) -> candle_core::Result<Tensor> {
        let activation = config.feed_forward.activation;
        let inner = match (config.feed_forward.gated, self.inner.as_slice()) {
            (false, [map]) => map.forward_activated(x, activation, program)?,
            _ => {
                let [gate, value] = forward_all(&self.inner, x, program)?;
                match program {
                    Program::Fused => autograd::gate(&gate, &value, activation)?,
                    Program::Composed => (activate(&gate, activation)? * value)?,
                }
            }
        };
        self.output.forward(&inner, program)
    }
}

impl Stack<Tensor> {
    /// All layers and what follows them over a padded batch, every operation differentiable.
    ///
    /// # Shapes
    /// `x` `[batch, tokens, m]` f32; output as `x`.
    pub(crate) fn forward(
        &self,
        mut x: Tensor,
        mask: &AttentionMask,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let bias = match (&self.relative_bias, config.relative_positions) {
            (Some(table), Some(relative)) if !self.layers.is_empty() => {
                Some(attention::relative_bias(table, relative, x.dim(1)?)?)
            }
            _ => None,
        };
        for layer in &self.layers {
            x = layer.forward(&x, mask, bias.as_ref(), config)?;
        }
        match &self.final_norm {
            Some(norm) => norm.norm(&x, config.layer_norm_eps, mask.program()),
            None => Ok(x),
        }
    }
}

impl Embeddings<Tensor> {
    /// The tables' rows of a padded batch, summed and normalised, every operation differentiable.
    ///
    /// # Shapes
    /// `ids` `[batch, tokens]` u32; output `[batch, tokens, m]`.
    pub(crate) fn forward(
        &self,
        ids: &Tensor,
        program: Program,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let (batch, tokens) = ids.dims2()?;
        let flat = ids.flatten_all()?;
        let rows = |table: &Tensor, of: &Tensor| rows(table, of)?.reshape((batch, tokens, ()));
        let words = rows(&self.word.tensor()?, &flat)?.to_dtype(DType::F32)?;
        let normed = |x: Tensor| {
            self.norm.as_ref().map_or(Ok(x.clone()), |norm| norm.norm(&x, config.layer_norm_eps, program))
        };
        let Some(position) = &self.position else { return normed(words) };
        let x = match config.position_table {
            None => words.broadcast_add(position)?,
            Some(config::PositionTable { padding: None, .. }) => {
                words.broadcast_add(&position.narrow(0, 0, tokens)?)?
            }
            Some(_) => {
                let mut places = Vec::with_capacity(batch * tokens);
                for text in ids.to_vec2::<u32>()? {
                    // Padding may be any token; its position is within the table.
                    places.extend(config::places(config.position_table, &text).map(|place| place as u32));
                }
                (words + rows(position, &Tensor::from_vec(places, batch * tokens, ids.device())?)?)?
            }
        };
        normed(x)
    }
}

#[cfg(test)]
pub(crate) mod tests;
