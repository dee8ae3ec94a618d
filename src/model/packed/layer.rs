//! One encoder layer, its weights packed.

use super::super::config::{Activation, EncoderPrecision, TransformerConfig};
use super::super::kernels;
use super::super::transformer::{Layer, Linear};
use super::attention::attend;
use super::linear::{PackedLinear, Then};
use super::{PackedNorm, to_vec};
use crate::product::bytes::ByteRows;

pub(super) struct PackedLayer {
    /// `[3m, m]`: query, key and value one under another.
    qkv: PackedLinear,
    attention_output: PackedLinear,
    attention_norm: PackedNorm,
    intermediate: PackedLinear,
    output: PackedLinear,
    output_norm: PackedNorm,
    heads: usize,
    activation: Activation,
}

/// Matrices that the layers of one pass share.
#[derive(Default)]
pub(super) struct Scratch {
    qkv: Vec<f32>,
    context: Vec<f32>,
    inner: Vec<f32>,
    output: Vec<f32>,
    bytes: ByteRows,
}

impl PackedLayer {
    pub(super) fn new(
        layer: &Layer,
        config: &TransformerConfig,
        precision: EncoderPrecision,
    ) -> candle_core::Result<Self> {
        let linear = |linears: &[&Linear]| {
            let (mut weight, mut bias) = (Vec::new(), Vec::new());
            for linear in linears {
                weight.extend(to_vec(&linear.weight)?);
                bias.extend(to_vec(&linear.bias)?);
            }
            Ok::<_, candle_core::Error>((weight, bias))
        };
        let maps = [
            linear(&[&layer.query, &layer.key, &layer.value])?,
            linear(&[&layer.attention_output])?,
            linear(&[&layer.intermediate])?,
            linear(&[&layer.output])?,
        ];
        let [qkv, attention_output, intermediate, output] = PackedLinear::pack_together(maps, precision);
        Ok(Self {
            qkv,
            attention_output,
            attention_norm: PackedNorm::new(&layer.attention_norm)?,
            intermediate,
            output,
            output_norm: PackedNorm::new(&layer.output_norm)?,
            heads: config.heads,
            activation: config.activation,
        })
    }

    /// What [`Self::forward`] reads first.
    pub(super) fn first(&self) -> &[f32] {
        self.qkv.first()
    }

    /// Shapes: `x` `[sum of lengths, m]`, f32, replaced; `next` is what is read after this.
    pub(super) fn forward(&self, x: &mut Vec<f32>, lengths: &[usize], next: &[f32], scratch: &mut Scratch) {
        let Scratch { qkv, context, inner, output, bytes } = scratch;
        self.qkv.apply(x, Then::Nothing, self.attention_output.first(), bytes, qkv);
        attend(qkv, lengths, self.heads, context);
        self.attention_output.apply(context, Then::Nothing, self.intermediate.first(), bytes, output);
        add_norm(output, x, &self.attention_norm);
        let activation = Then::Activation(self.activation);
        self.intermediate.apply(output, activation, self.output.first(), bytes, inner);
        self.output.apply(inner, Then::Nothing, next, bytes, x);
        add_norm(x, output, &self.output_norm);
    }
}

fn add_norm(x: &mut [f32], residual: &[f32], norm: &PackedNorm) {
    kernels::add_norm(x, residual, &norm.weight, &norm.bias, norm.eps);
}
