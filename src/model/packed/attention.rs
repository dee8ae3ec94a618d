//! Self-attention of packed texts, a block of queries at a time: scores never leave the cache.

use pulp::{Arch, Simd, WithSimd};

use super::super::kernels;
use crate::product::{BLOCK_ROWS, Block, NO_BIAS, NO_PRODUCTS, PAD, PANEL, interleave, put};

/// Every token's mean of its text's values, weighted by the softmax of its scaled scores.
///
/// # Shapes
/// `qkv` `[tokens, 3m]`: query, key and value side by side, each of them head by head; `context` becomes
/// `[tokens, m]`.
pub(super) fn attend(qkv: &[f32], lengths: &[usize], heads: usize, context: &mut Vec<f32>) {
    let tokens: usize = lengths.iter().sum();
    if tokens == 0 {
        return context.clear();
    }
    let m = qkv.len() / tokens / 3;
    context.resize(tokens * m, 0.0);
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let width = m / heads;
    let mut keys = vec![0.0; longest.next_multiple_of(PANEL) * width];
    let mut values = vec![0.0; longest * width.next_multiple_of(PAD)];
    let mut scores = vec![0.0; longest * BLOCK_ROWS];
    let mut start = 0;
    for &length in lengths {
        let qkv = &qkv[start * 3 * m..][..length * 3 * m];
        let context = &mut context[start * m..][..length * m];
        for first in (0..m).step_by(width) {
            let head = Head {
                qkv,
                m,
                first,
                width,
                keys: &mut keys,
                values: &mut values,
                scores: &mut scores,
                context,
            };
            Arch::new().dispatch(head);
        }
        start += length;
    }
}

/// One head over one text.
struct Head<'a> {
    qkv: &'a [f32],
    m: usize,
    /// The head's columns begin here in each of query, key, value and context.
    first: usize,
    width: usize,
    /// Scratch: the keys as panels, the values one row after another, the scores of a block of queries.
    keys: &'a mut [f32],
    values: &'a mut [f32],
    scores: &'a mut [f32],
    context: &'a mut [f32],
}

impl WithSimd for Head<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { qkv, m, first, width, keys, values, scores, context } = self;
        let (stride, length) = (3 * m, context.len() / m);
        let scale = 1.0 / (width as f32).sqrt();
        let rows = qkv[m + first..].chunks(PANEL * stride);
        for (panel, rows) in keys.chunks_exact_mut(PANEL * width).zip(rows) {
            interleave(rows, stride, width, panel);
        }
        let padded = width.next_multiple_of(PAD);
        for (values, row) in values.chunks_exact_mut(padded).zip(qkv.chunks_exact(stride)) {
            let own = &row[2 * m + first..][..width];
            values.iter_mut().zip(own).for_each(|(value, own)| *value = *own);
        }
        let mut products = NO_PRODUCTS;
        for query in (0..length).step_by(BLOCK_ROWS) {
            let count = BLOCK_ROWS.min(length - query);
            for (panel, key) in keys.chunks_exact(PANEL * width).zip((0..length).step_by(PANEL)) {
                let columns = PANEL.min(length - key);
                simd.vectorize(Block {
                    rows: &qkv[query * stride + first..],
                    stride,
                    count,
                    dim: width,
                    panel,
                    panel_stride: PANEL,
                    columns,
                    next: &[],
                    bias: NO_BIAS,
                    products: &mut products,
                });
                for (scores, products) in scores.chunks_exact_mut(length).zip(&products).take(count) {
                    put(products, &mut scores[key..][..columns]);
                }
            }
            for scores in scores.chunks_exact_mut(length).take(count) {
                kernels::softmax::<S>(scores, scale);
            }
            for column in (0..width).step_by(PANEL) {
                let columns = PANEL.min(width - column);
                simd.vectorize(Block {
                    rows: scores,
                    stride: length,
                    count,
                    dim: length,
                    panel: &values[column..],
                    panel_stride: padded,
                    columns,
                    next: &[],
                    bias: NO_BIAS,
                    products: &mut products,
                });
                let context = context[query * m..].chunks_exact_mut(m).zip(&products).take(count);
                for (context, products) in context {
                    put(products, &mut context[first + column..][..columns]);
                }
            }
        }
    }
}
