//! A norm with its weights packed.

use candle_core::{Device, Tensor};

use super::super::kernels;
use super::super::transformer::Affine;

/// Layer normalisation, its weights in memory.
pub(super) struct PackedNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

/// The values of a tensor.
pub(super) fn to_vec(t: &Tensor) -> candle_core::Result<Vec<f32>> {
    t.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

impl PackedNorm {
    pub(super) fn new(norm: &Affine, eps: f64) -> candle_core::Result<Self> {
        let weight = to_vec(&norm.weight)?;
        let bias = norm.bias.as_ref().map_or_else(|| Ok(vec![0.0; weight.len()]), to_vec)?;
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
