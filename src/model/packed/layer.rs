//! One encoder layer, its weights packed.

use std::sync::Arc;

use super::super::config::{EncoderPrecision, FeedForward, Norms, TransformerConfig};
use super::super::error::ModelError;
use super::super::kernels;
use super::super::rotation::Rotation;
use super::super::transformer::{Affine, Layer};
use super::super::weights::Weight;
use super::attention::{Attention, attend};
use super::linear::PackedLinear;
use super::norm::PackedNorm;
use super::places::PlaceBias;
use crate::product::bytes::ByteRows;

pub(super) struct PackedLayer {
    /// `[3m, m]`: query, key and value stacked.
    qkv: PackedLinear,
    attention_output: PackedLinear,
    attention_norm: Option<PackedNorm>,
    /// If gated, the activated map with the multiplying map stacked below.
    inner: PackedLinear,
    output: PackedLinear,
    output_norm: PackedNorm,
    heads: usize,
    window: Option<usize>,
    rotation: Option<Arc<Rotation>>,
    norms: Norms,
    feed_forward: FeedForward,
}

/// Matrices that the layers of one pass share.
#[derive(Default)]
pub(super) struct Scratch {
    qkv: Vec<f32>,
    context: Vec<f32>,
    wide: Vec<f32>,
    inner: Vec<f32>,
    output: Vec<f32>,
    normed: Vec<f32>,
    bytes: ByteRows,
}

impl PackedLayer {
    pub(super) fn new<W: Weight>(
        layer: &Layer<W>,
        rotation: Option<Arc<Rotation>>,
        config: &TransformerConfig,
        precision: EncoderPrecision,
    ) -> Result<Self, ModelError> {
        let linear = |linears: &[Affine<W>]| {
            let (mut weight, mut bias) = (Vec::new(), Vec::new());
            for linear in linears {
                weight.extend_from_slice(&linear.weight.values()?);
                match &linear.bias {
                    Some(own) => bias.extend_from_slice(&own.values()?),
                    None => bias.resize(bias.len() + linear.outputs, 0.0),
                }
            }
            Ok::<_, ModelError>((weight, bias))
        };
        let (one, eps) = (std::slice::from_ref, config.layer_norm_eps);
        let maps = [
            linear(&layer.projections)?,
            linear(one(&layer.attention_output))?,
            linear(&layer.inner)?,
            linear(one(&layer.output))?,
        ];
        let [qkv, attention_output, inner, output] = PackedLinear::pack_together(maps, precision);
        Ok(Self {
            qkv,
            attention_output,
            attention_norm: layer
                .attention_norm
                .as_ref()
                .map(|norm| PackedNorm::new(norm, eps))
                .transpose()?,
            inner,
            output,
            output_norm: PackedNorm::new(&layer.output_norm, eps)?,
            heads: config.heads,
            window: layer.span.window,
            rotation,
            norms: config.norms,
            feed_forward: config.feed_forward,
        })
    }

    /// The memory that [`Self::forward`] reads first.
    pub(super) fn first(&self) -> &[f32] {
        self.qkv.first()
    }

    /// `next` is the memory read after the layer, to be prefetched.
    ///
    /// # Shapes
    /// `x` `[sum of lengths, m]`, f32, replaced.
    pub(super) fn forward(
        &self,
        x: &mut Vec<f32>,
        lengths: &[usize],
        bias: Option<&PlaceBias>,
        next: &[f32],
        scratch: &mut Scratch,
    ) {
        match self.norms {
            Norms::After => {
                self.attend(x, lengths, bias, scratch);
                let Scratch { wide, inner, output, bytes, .. } = scratch;
                if let Some(norm) = &self.attention_norm {
                    norm.apply_to_sum(output, x);
                }
                // `output` is now the residual, and `x` receives the value to add.
                self.feed(output, next, wide, inner, bytes, x);
                self.output_norm.apply_to_sum(x, output);
            }
            Norms::Before => {
                let mut normed = std::mem::take(&mut scratch.normed);
                let read = match &self.attention_norm {
                    Some(norm) => norm.apply(x, &mut normed),
                    None => x.as_slice(),
                };
                self.attend(read, lengths, bias, scratch);
                kernels::add(x, &scratch.output);
                let read = self.output_norm.apply(x, &mut normed);
                let Scratch { wide, inner, output, bytes, .. } = scratch;
                self.feed(read, next, wide, inner, bytes, output);
                kernels::add(x, output);
                scratch.normed = normed;
            }
        }
    }

    /// Writes the attention of `x` to `scratch.output`.
    fn attend(&self, x: &[f32], lengths: &[usize], bias: Option<&PlaceBias>, scratch: &mut Scratch) {
        let Scratch { qkv, context, output, bytes, .. } = scratch;
        self.qkv.apply(x, None, self.attention_output.first(), bytes, qkv);
        if let Some(rotation) = &self.rotation {
            let m = self.heads * rotation.width;
            rotation.turn(qkv, 3 * m, 2 * m, lengths, 1.0);
        }
        let attention = Attention { heads: self.heads, window: self.window, bias };
        attend(qkv, lengths, attention, context);
        self.attention_output.apply(context, None, self.inner.first(), bytes, output);
    }

    /// Writes the feed-forward step of `x` to `out`.
    fn feed(
        &self,
        x: &[f32],
        next: &[f32],
        wide: &mut Vec<f32>,
        inner: &mut Vec<f32>,
        bytes: &mut ByteRows,
        out: &mut Vec<f32>,
    ) {
        let FeedForward { activation, inner_size, gated, .. } = self.feed_forward;
        let output = self.output.first();
        if gated {
            self.inner.apply(x, None, output, bytes, wide);
            inner.resize(wide.len() / 2, 0.0);
            kernels::gate_rows(wide, inner_size, activation, inner);
        } else {
            self.inner.apply(x, Some(activation), output, bytes, inner);
        }
        self.output.apply(inner, None, next, bytes, out);
    }
}
