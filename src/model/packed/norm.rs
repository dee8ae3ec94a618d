//! A norm with its weights packed.

use super::super::error::ModelError;
use super::super::kernels;
use super::super::transformer::Affine;
use super::super::weights::Weight;

/// Layer normalisation, its weights in memory.
pub(super) struct PackedNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

impl PackedNorm {
    pub(super) fn new(norm: &Affine<impl Weight>, eps: f64) -> Result<Self, ModelError> {
        let weight = norm.weight.values()?.into_owned();
        let bias = match &norm.bias {
            Some(bias) => bias.values()?.into_owned(),
            None => vec![0.0; weight.len()],
        };
        Ok(Self { weight, bias, eps: eps as f32 })
    }

    /// `x = norm(x + residual)`.
    pub(super) fn apply_to_sum(&self, x: &mut [f32], residual: &[f32]) {
        kernels::add_norm(x, residual, &self.weight, &self.bias, self.eps);
    }

    pub(super) fn apply_in_place(&self, x: &mut [f32]) {
        kernels::norm(x, &self.weight, &self.bias, self.eps);
    }

    /// `out = norm(x)`.
    pub(super) fn apply<'a>(&self, x: &[f32], out: &'a mut Vec<f32>) -> &'a [f32] {
        out.clear();
        out.extend_from_slice(x);
        self.apply_in_place(out);
        out
    }
}
