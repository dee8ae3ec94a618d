//! `x W^T + b`, fused with the step that follows.

use pulp::{Arch, Simd, WithSimd};

use super::super::config::{Activation, EncoderPrecision};
use super::super::kernels;
use crate::product::bytes::{ByteKernel, BytePanels, ByteRows};
use crate::product::{BLOCK_ROWS, Block, NO_PRODUCTS, PANEL, Panels, dispatched, put};

/// A linear map, its weights packed.
pub(in crate::model) struct PackedLinear {
    weight: Weight,
    /// `[outputs]`
    bias: Vec<f32>,
}

enum Weight {
    F32(Panels),
    Int8(BytePanels),
}

/// Writes the outputs of a row, activated while they are in the cache.
#[inline(always)]
fn put_activated<S: Simd>(activation: Option<Activation>, products: &mut [f32; PANEL], out: &mut [f32]) {
    if let Some(activation) = activation {
        kernels::activate::<S>(products, activation);
    }
    put(products, out);
}

impl PackedLinear {
    /// Packs maps that are applied one after another, from their weights, `[outputs, inputs]`, and biases,
    /// `[outputs]`, f32.
    pub(in crate::model) fn pack_together<const N: usize>(
        maps: [(Vec<f32>, Vec<f32>); N],
        precision: EncoderPrecision,
    ) -> [Self; N] {
        let weights = maps.each_ref().map(|(weight, bias)| (weight.as_slice(), weight.len() / bias.len()));
        let weights = match precision {
            EncoderPrecision::F32 => Panels::pack_together(weights).map(Weight::F32),
            EncoderPrecision::Int8 => BytePanels::pack_together(weights).map(Weight::Int8),
        };
        let mut biases = maps.into_iter().map(|(_, bias)| bias);
        weights.map(|weight| Self { weight, bias: biases.next().unwrap_or_default() })
    }

    /// The memory that a product with these weights reads first.
    pub(in crate::model) fn first(&self) -> &[f32] {
        match &self.weight {
            Weight::F32(weight) => weight.panels().next().map_or(&[], |panel| panel.values),
            Weight::Int8(_) => &[],
        }
    }

    /// Shapes: `x` `[n, inputs]`; `out` becomes `[n, outputs]`, f32; `next` is the memory read after this.
    /// Runs on the calling thread.
    pub(in crate::model) fn apply(
        &self,
        x: &[f32],
        activation: Option<Activation>,
        next: &[f32],
        bytes: &mut ByteRows,
        out: &mut Vec<f32>,
    ) {
        let bias = &self.bias;
        match &self.weight {
            Weight::F32(weight) => {
                out.resize(x.len() / weight.dim * weight.rows, 0.0);
                Arch::new().dispatch(Apply { weight, bias, x, activation, after: next, out });
            }
            Weight::Int8(weight) => {
                bytes.quantise(x, weight.dim);
                out.resize(bytes.count() * weight.rows, 0.0);
                products_in_bytes(weight, bias, bytes, activation, out);
            }
        }
    }
}

struct Apply<'a> {
    weight: &'a Panels,
    bias: &'a [f32],
    x: &'a [f32],
    activation: Option<Activation>,
    after: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weight, bias, x, activation, after, out } = self;
        let (inputs, outputs) = (weight.dim, weight.rows);
        let mut products = NO_PRODUCTS;
        for panel in weight.panels() {
            let columns = panel.first..panel.first + panel.rows;
            let own = padded(&bias[columns.clone()]);
            let blocks = x.chunks(inputs * BLOCK_ROWS).zip(out.chunks_mut(outputs * BLOCK_ROWS));
            let next = panel.next(after, x.len().div_ceil(inputs * BLOCK_ROWS));
            for ((x, out), next) in blocks.zip(next) {
                simd.vectorize(Block {
                    rows: x,
                    stride: inputs,
                    count: x.len() / inputs,
                    dim: inputs,
                    panel: panel.values,
                    panel_stride: PANEL,
                    columns: panel.rows,
                    next,
                    bias: &own,
                    products: &mut products,
                });
                for (out, products) in out.chunks_exact_mut(outputs).zip(&mut products) {
                    put_activated::<S>(activation, products, &mut out[columns.clone()]);
                }
            }
        }
    }
}

dispatched! {
    /// `x W^T + b` in eight bits, to `out`, `[n, outputs]`. An empty bias is zeros.
    fn products_in_bytes<S>(
        weight: &BytePanels,
        bias: &[f32],
        x: &ByteRows,
        activation: Option<Activation>,
        out: &mut [f32],
    ) {
        let outputs = weight.rows;
        let kernel = ByteKernel::best();
        let mut sums = [[0; PANEL]; BLOCK_ROWS];
        let mut products = [0.0; PANEL];
        for panel in weight.panels() {
            let columns = panel.first..panel.first + panel.rows;
            let own = padded(bias.get(columns.clone()).unwrap_or_default());
            let blocks = out.chunks_mut(outputs * BLOCK_ROWS).zip((0..).step_by(BLOCK_ROWS));
            for (out, first) in blocks {
                kernel.products(x, first, out.len() / outputs, &panel, &mut sums);
                let factors = x.scales[first..].iter().zip(&x.offsets[first..]);
                let rows = out.chunks_exact_mut(outputs).zip(&sums).zip(factors);
                for ((out, sums), (scale, offset)) in rows {
                    let columns_of = sums.iter().zip(panel.scales).zip(panel.sums).zip(&own);
                    for (product, (((&sum, own_scale), own_sum), bias)) in products.iter_mut().zip(columns_of)
                    {
                        *product = own_scale * (scale * sum as f32 + offset * own_sum) + bias;
                    }
                    put_activated::<S>(activation, &mut products, &mut out[columns.clone()]);
                }
            }
        }
    }
}

fn padded(bias: &[f32]) -> [f32; PANEL] {
    let mut own = [0.0; PANEL];
    own[..bias.len()].copy_from_slice(bias);
    own
}
