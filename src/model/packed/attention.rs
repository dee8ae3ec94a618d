//! Self-attention of packed texts, a block of queries at a time: scores never leave the cache.

use pulp::{Arch, Simd, WithSimd};

use super::super::kernels;
use super::places::PlaceBias;
use crate::product::{BLOCK_ROWS, Block, NO_BIAS, NO_PRODUCTS, PAD, PANEL, interleave, put};

/// Settings of a layer's attention.
#[derive(Clone, Copy)]
pub(super) struct Attention<'a> {
    pub heads: usize,
    /// The farthest visible token on either side; `None` if all are visible.
    pub window: Option<usize>,
    /// Added to the scaled scores.
    pub bias: Option<&'a PlaceBias>,
}

/// Computes for every token the mean of the visible values, weighted by the softmax of its scaled scores.
///
/// # Shapes
/// `qkv` `[tokens, 3m]`: query, key and value concatenated, each head by head; `context` becomes `[tokens,
/// m]`.
pub(super) fn attend(qkv: &[f32], lengths: &[usize], attention: Attention<'_>, context: &mut Vec<f32>) {
    let heads = attention.heads;
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
                attention,
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
    attention: Attention<'a>,
    qkv: &'a [f32],
    m: usize,
    /// First column of the head in each of query, key, value and context.
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
        let Self { attention, qkv, m, first, width, keys, values, scores, context } = self;
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
            // The keys visible to any query of the block, aligned to a panel.
            let (begin, end) = match attention.window {
                Some(window) => {
                    let begin = query.saturating_sub(window) / PANEL * PANEL;
                    (begin, length.min((query + count).saturating_add(window)))
                }
                None => (0, length),
            };
            let seen = end - begin;
            let panels = keys.chunks_exact(PANEL * width).zip((0..end).step_by(PANEL));
            for (panel, key) in panels.skip(begin / PANEL) {
                let columns = PANEL.min(end - key);
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
                for (scores, products) in scores.chunks_exact_mut(seen).zip(&products).take(count) {
                    put(products, &mut scores[key - begin..][..columns]);
                }
            }
            for (row, scores) in scores.chunks_exact_mut(seen).take(count).enumerate() {
                let own = match attention.window {
                    Some(window) => {
                        let first = (query + row).saturating_sub(window).max(begin) - begin;
                        let last = end.min((query + row).saturating_add(window + 1)) - begin;
                        scores[..first].fill(0.0);
                        scores[last..].fill(0.0);
                        first..last
                    }
                    None => 0..seen,
                };
                let from = begin + own.start;
                let scores = &mut scores[own];
                match attention.bias {
                    Some(bias) => {
                        let bias = bias.row(first / width, query + row, from, scores.len());
                        scores.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * scale + bias);
                        kernels::softmax::<S>(scores, 1.0);
                    }
                    None => kernels::softmax::<S>(scores, scale),
                }
            }
            for column in (0..width).step_by(PANEL) {
                let columns = PANEL.min(width - column);
                simd.vectorize(Block {
                    rows: scores,
                    stride: seen,
                    count,
                    dim: seen,
                    panel: &values[begin * padded + column..],
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

#[cfg(test)]
mod tests {
    use super::super::super::config::RelativePositions;
    use super::*;

    /// Against the definition, in f64, for windows, biases and lengths around the sizes of blocks and panels.
    #[test]
    fn windows_and_biases_are_what_they_say() {
        let (heads, width, positions) = (2, 8, 210);
        let m = heads * width;
        let lengths = [1usize, 7, 48, 49, 200, 97];
        let tokens: usize = lengths.iter().sum();
        let value = |i: usize| ((i * 7919) % 1009) as f32 / 400.0 - 1.2;
        let qkv: Vec<f32> = (0..tokens * 3 * m).map(value).collect();
        let relative = RelativePositions { buckets: 8, farthest: 100 };
        let table: Vec<f32> = (0..8 * heads).map(|i| value(i + 5)).collect();
        let bias = PlaceBias::new(&table, relative, heads, positions);
        for window in [None, Some(0), Some(1), Some(8), Some(47), Some(64), Some(1000)] {
            for bias in [None, Some(&bias)] {
                let mut context = vec![f32::NAN; 3];
                attend(&qkv, &lengths, Attention { heads, window, bias }, &mut context);
                assert_eq!(context.len(), tokens * m);
                let mut start = 0;
                for &length in &lengths {
                    let row = |token: usize, part: usize| &qkv[(start + token) * 3 * m + part * m..][..m];
                    for (query, head) in (0..length).flat_map(|query| [(query, 0), (query, 1)]) {
                        let own = head * width..(head + 1) * width;
                        let seen = |&key: &usize| window.is_none_or(|window| key.abs_diff(query) <= window);
                        let keys: Vec<usize> = (0..length).filter(seen).collect();
                        let weight = |&key: &usize| {
                            let pairs = row(query, 0)[own.clone()].iter().zip(&row(key, 1)[own.clone()]);
                            let product: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                            let bucket = relative.bucket(key as isize - query as isize);
                            let bias = bias.map_or(0.0, |_| table[bucket * heads + head]);
                            (product / (width as f64).sqrt() + f64::from(bias)).exp()
                        };
                        let weights: Vec<f64> = keys.iter().map(weight).collect();
                        let total: f64 = weights.iter().sum();
                        for column in own {
                            let values = keys.iter().map(|&key| f64::from(row(key, 2)[column]));
                            let want = weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>() / total;
                            let found = f64::from(context[(start + query) * m + column]);
                            assert!(
                                (found - want).abs() < 1e-5,
                                "{window:?} {length} {query}: {found} {want}"
                            );
                        }
                    }
                    start += length;
                }
            }
        }
    }
}
