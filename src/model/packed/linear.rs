//! `x W^T + b`, and what follows it at once.

use pulp::{Arch, Simd, WithSimd};

use super::super::config::Activation;
use super::super::kernels;
use crate::product::{BLOCK_ROWS, Block, NO_PRODUCTS, PANEL, Panels, put};

/// A linear map, its weights packed.
pub(super) struct PackedLinear {
    weight: Panels,
    /// `[outputs]`
    bias: Vec<f32>,
}

/// What is done to the outputs while they are in the cache.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Nothing,
    Activation(Activation),
}

impl PackedLinear {
    /// Shapes: `weight` `[outputs, inputs]`, `bias` `[outputs]`, f32.
    pub(super) fn new(weight: &[f32], bias: Vec<f32>) -> Self {
        Self { weight: Panels::pack(weight, weight.len() / bias.len()), bias }
    }

    /// Shapes: `x` `[n, inputs]`; `out` becomes `[n, outputs]`, f32. On the calling thread.
    pub(super) fn apply(&self, x: &[f32], then: Then, out: &mut Vec<f32>) {
        out.resize(x.len() / self.weight.dim() * self.weight.rows(), 0.0);
        Arch::new().dispatch(Apply { linear: self, x, then, out });
    }
}

struct Apply<'a> {
    linear: &'a PackedLinear,
    x: &'a [f32],
    then: Then,
    out: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { linear: PackedLinear { weight, bias }, x, then, out } = self;
        let (inputs, outputs) = (weight.dim(), weight.rows());
        let mut products = NO_PRODUCTS;
        for panel in weight.panels() {
            let columns = panel.first..panel.first + panel.rows;
            let mut own = [0.0; PANEL];
            own[..panel.rows].copy_from_slice(&bias[columns.clone()]);
            let blocks = x.chunks(inputs * BLOCK_ROWS).zip(out.chunks_mut(outputs * BLOCK_ROWS));
            for (x, out) in blocks {
                simd.vectorize(Block {
                    rows: x,
                    stride: inputs,
                    count: x.len() / inputs,
                    dim: inputs,
                    panel: panel.values,
                    panel_stride: PANEL,
                    columns: panel.rows,
                    bias: &own,
                    products: &mut products,
                });
                for (out, products) in out.chunks_exact_mut(outputs).zip(&mut products) {
                    if let Then::Activation(activation) = then {
                        kernels::activate::<S>(products, activation);
                    }
                    put(products, &mut out[columns.clone()]);
                }
            }
        }
    }
}
