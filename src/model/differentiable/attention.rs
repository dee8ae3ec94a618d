//! Attention over a padded batch, with position encodings.

use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{D, Device, Tensor};

use super::Program;
use crate::model::autograd;
#[cfg(feature = "cuda")]
use crate::model::config::{Activation, Norms};
use crate::model::config::{RelativePositions, TransformerConfig};
#[cfg(feature = "cuda")]
use crate::model::gpu;
use crate::model::rotation::Rotation;
#[cfg(feature = "cuda")]
use crate::model::transformer::Layer;

/// Added to the attention scores of masked tokens. Finite, so that a row of padding does not give NaN.
const MASKED_SCORE: f32 = -1e9;

/// Which tokens of a padded batch are real.
pub(crate) struct AttentionMask {
    lengths: Vec<usize>,
    program: Program,
    /// `[batch, 1, 1, tokens]` f32, 0 at real tokens; for the composed form.
    additive: Option<Tensor>,
    /// Gradients that whole layers leave for [`Self::backward`].
    #[cfg(feature = "cuda")]
    aside: gpu::Aside,
}

impl AttentionMask {
    /// The mask of texts of these lengths, padded to `tokens`, with the fastest program of the device.
    pub(crate) fn new(lengths: &[usize], tokens: usize, device: &Device) -> candle_core::Result<Self> {
        let program = if device.is_cpu() { Program::Fused } else { Program::Composed };
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
            Program::Composed => {
                let mut mask = vec![0f32; lengths.len() * tokens];
                for (row, &length) in mask.chunks_mut(tokens).zip(lengths) {
                    row[length..].fill(MASKED_SCORE);
                }
                Some(Tensor::from_vec(mask, (lengths.len(), 1, 1, tokens), device)?)
            }
        };
        Ok(Self {
            lengths: lengths.to_vec(),
            program,
            additive,
            #[cfg(feature = "cuda")]
            aside: gpu::Aside::default(),
        })
    }

    /// The program that the mask is made for.
    pub(crate) fn program(&self) -> Program {
        self.program
    }

    /// The backward pass of what was computed with this mask.
    pub(crate) fn backward(&self, loss: &Tensor) -> candle_core::Result<GradStore> {
        #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "completed after a pass on a GPU"))]
        let mut store = loss.backward()?;
        #[cfg(feature = "cuda")]
        self.aside.move_to(&mut store);
        Ok(store)
    }

    /// A layer as one operation, on a GPU and if it is of the kind that has one.
    #[cfg(feature = "cuda")]
    pub(super) fn whole_layer(
        &self,
        layer: &Layer<Tensor>,
        x: &Tensor,
        bias: Option<&Tensor>,
        config: &TransformerConfig,
    ) -> candle_core::Result<Option<Tensor>> {
        let step = config.feed_forward;
        let is_plain = config.norms == Norms::After
            && bias.is_none()
            && (layer.span.theta, layer.span.window) == (None, None)
            && (step.gated, step.activation) == (false, Activation::GeluErf);
        match &self.additive {
            Some(mask) if is_plain && x.device().is_cuda() => {
                gpu::layer(x, layer, mask, (config.heads, config.layer_norm_eps as f32), &self.aside)
            }
            _ => Ok(None),
        }
    }

    /// Attention of projected rows, to tokens at most `window` away, if there is one.
    ///
    /// # Shapes
    /// `query`, `key`, `value` and the output `[batch, tokens, m]`; `bias` `[heads, tokens, tokens]`.
    pub(super) fn attention(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        window: Option<usize>,
        bias: Option<&Tensor>,
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let (heads, width) = (config.heads, config.head_size());
        let Some(mask) = &self.additive else {
            return autograd::attention(query, key, value, bias, &self.lengths, heads, window);
        };
        let (batch, tokens, m) = query.dims3()?;
        #[cfg(feature = "cuda")]
        if query.device().is_cuda() && bias.is_none() && window.is_none() {
            return gpu::attention([query, key, value], mask, heads);
        }
        let split = |t: &Tensor| t.reshape((batch, tokens, heads, width))?.transpose(1, 2)?.contiguous();
        let scores = split(query)?.matmul(&split(key)?.transpose(2, 3)?)?;
        let mut scores = (scores / (width as f64).sqrt())?.broadcast_add(mask)?;
        if let Some(bias) = bias {
            scores = scores.broadcast_add(&bias.unsqueeze(0)?)?;
        }
        if let Some(window) = window {
            scores = scores.broadcast_add(&window_mask(tokens, window, query.device())?)?;
        }
        let weights = candle_nn::ops::softmax(&scores, D::Minus1)?;
        let context = weights.matmul(&split(value)?)?;
        context.transpose(1, 2)?.contiguous()?.reshape((batch, tokens, m))
    }
}

/// `[tokens, tokens]` f32, 0 at visible positions.
fn window_mask(tokens: usize, window: usize, device: &Device) -> candle_core::Result<Tensor> {
    let seen = |at: usize| (at / tokens).abs_diff(at % tokens) <= window;
    let mask: Vec<f32> = (0..tokens * tokens).map(|at| if seen(at) { 0.0 } else { MASKED_SCORE }).collect();
    Tensor::from_vec(mask, (tokens, tokens), device)
}

/// The bias added to the scores of each head, differentiable in the table.
///
/// # Shapes
/// `table` `[buckets, heads]`; output `[heads, tokens, tokens]`.
pub(super) fn relative_bias(
    table: &Tensor,
    relative: RelativePositions,
    tokens: usize,
) -> candle_core::Result<Tensor> {
    let bucket = |at: usize| relative.bucket((at % tokens) as isize - (at / tokens) as isize) as u32;
    let buckets: Vec<u32> = (0..tokens * tokens).map(bucket).collect();
    let buckets = Tensor::from_vec(buckets, tokens * tokens, table.device())?;
    table.index_select(&buckets, 0)?.t()?.contiguous()?.reshape(((), tokens, tokens))
}

/// Rotates queries or keys by position, differentiably.
///
/// # Shapes
/// `x` and the output `[batch, tokens, m]`; the rotation has `tokens` positions.
pub(super) fn rotate(
    x: &Tensor,
    rotation: &Arc<Rotation>,
    width: usize,
    program: Program,
) -> candle_core::Result<Tensor> {
    if program == Program::Fused {
        return autograd::rotate(x, rotation);
    }
    let (batch, tokens, m) = x.dims3()?;
    let table = Tensor::from_slice(&rotation.table, (tokens, 1, width), x.device())?;
    let (cosines, sines) = (table.narrow(2, 0, width / 2)?, table.narrow(2, width / 2, width / 2)?);
    let x = x.reshape((batch, tokens, m / width, width))?;
    let (first, second) = (x.narrow(3, 0, width / 2)?, x.narrow(3, width / 2, width / 2)?);
    let turned = [
        (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?,
        (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?,
    ];
    Tensor::cat(&turned, 3)?.reshape((batch, tokens, m))
}
