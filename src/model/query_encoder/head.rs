//! `A p + b + C relu(D p + e)`, in eight bits.

use super::super::config::{Activation, EncoderPrecision};
use super::super::packed::PackedLinear;
use super::weights::HeadWeights;
use crate::product::bytes::ByteRows;

/// A head with its weights packed.
///
/// Always in eight bits: the sums are integers, so a question has the same embedding on every processor, up
/// to the rounding of a few sums in f32.
pub(super) struct Head {
    linear: PackedLinear,
    hidden: PackedLinear,
    output: PackedLinear,
}

impl Head {
    pub fn new(weights: HeadWeights) -> Self {
        let HeadWeights { linear, bias, hidden, hidden_bias, output } = weights;
        let no_bias = vec![0.0; bias.len()];
        let maps = [(linear, bias), (hidden, hidden_bias), (output, no_bias)];
        let [linear, hidden, output] = PackedLinear::pack_together(maps, EncoderPrecision::Int8);
        Self { linear, hidden, output }
    }

    /// Shapes: `mean` `[dim]`; the result `[dim]`, f32.
    pub fn apply(&self, mean: &[f32]) -> Vec<f32> {
        let mut bytes = ByteRows::default();
        let (mut out, mut hidden, mut more) = (Vec::new(), Vec::new(), Vec::new());
        self.linear.apply(mean, None, &[], &mut bytes, &mut out);
        self.hidden.apply(mean, Some(Activation::Relu), &[], &mut bytes, &mut hidden);
        self.output.apply(&hidden, None, &[], &mut bytes, &mut more);
        out.iter_mut().zip(&more).for_each(|(x, y)| *x += y);
        out
    }
}
