//! Multi-head attention over a padded batch as one operation.
//!
//! Heads are strided views of the projected rows, so nothing is split, transposed or padded; the attention
//! weights are recomputed in the backward pass, which costs less than keeping them and their many views in
//! the graph.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Layout, Result, Shape, Tensor};

use super::operation::{Gradients, OnCpu, Operand, apply};
use super::{on_cpu, slice};
use crate::model::kernels;

/// `softmax(Q K^T / sqrt(width) + bias) V` for each text and head, over the text's own tokens at most
/// `window` away.
///
/// # Shapes
/// `query`, `key`, `value` and the output `[texts, tokens, heads * width]`; rows beyond a text's length are
/// 0. `bias` `[heads, tokens, tokens]`.
pub(crate) fn attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    bias: Option<&Tensor>,
    lengths: &[usize],
    heads: usize,
    window: Option<usize>,
) -> Result<Tensor> {
    let attention =
        Arc::new(Attention { lengths: lengths.to_vec(), heads, window, is_biased: bias.is_some() });
    let again = Arc::clone(&attention);
    let operation = OnCpu(
        "attention",
        move |operands: [Operand<'_>; 3]| {
            let out = attention.forward(&attention.operands(operands)?)?;
            Ok((CpuStorage::F32(out), operands[0].1.shape().clone()))
        },
        move |operands: [&Tensor; 3], _: &Tensor, gradient: &Tensor| again.backward(operands, gradient),
    );
    let query = query.contiguous()?;
    match bias {
        None => apply([&query, &key.contiguous()?, &value.contiguous()?], operation),
        // An operation has at most three operands.
        Some(bias) => apply([&query, &Tensor::cat(&[key, value], 2)?, bias], operation),
    }
}

/// The operation, on queries, keys and values, or on queries, concatenated keys and values, and a bias.
struct Attention {
    lengths: Vec<usize>,
    heads: usize,
    window: Option<usize>,
    is_biased: bool,
}

/// The rows of a batch, or some columns of them.
#[derive(Clone, Copy)]
struct Rows<'a> {
    storage: &'a CpuStorage,
    /// Offset of the first row.
    offset: usize,
    /// Distance between rows.
    stride: usize,
}

/// Queries, keys and values.
struct Operands<'a> {
    query: Rows<'a>,
    key: Rows<'a>,
    value: Rows<'a>,
    /// `[heads, tokens, tokens]`
    bias: Option<&'a [f32]>,
    texts: usize,
    tokens: usize,
    width: usize,
}

/// Views of one text's rows by head: `[heads, length, width]`, and transposed, `[heads, width, length]`.
type Heads = [Layout; 2];

/// Sizes of one text's attention.
#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    /// Position of the text in the batch.
    text: usize,
    /// Tokens of the padded batch.
    tokens: usize,
    length: usize,
    width: usize,
    window: Option<usize>,
}

impl<'a> Rows<'a> {
    fn new((storage, layout): Operand<'a>) -> Result<Self> {
        slice((storage, layout))?;
        let stride = layout.shape().dim(2)?;
        Ok(Self { storage, offset: layout.start_offset(), stride })
    }

    /// The first or the second half of the columns.
    fn half(self, second: bool) -> Self {
        Self { offset: self.offset + if second { self.stride / 2 } else { 0 }, ..self }
    }
}

impl Sizes {
    fn views(self, rows: Rows<'_>) -> Heads {
        let Self { heads, text, tokens, length, width, .. } = self;
        let (stride, offset) = (rows.stride, rows.offset + text * tokens * rows.stride);
        [
            Layout::new(Shape::from((heads, length, width)), vec![width, stride, 1], offset),
            Layout::new(Shape::from((heads, width, length)), vec![width, 1, stride], offset),
        ]
    }

    fn scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Attention weights `[heads, length, length]`.
    fn weights(self, of: &Operands<'_>, [q, _]: &Heads, [_, k]: &Heads) -> Result<CpuStorage> {
        let Self { heads, length, width, tokens, window, .. } = self;
        let shape = (heads, length, length, width);
        let mut scores = of.query.storage.matmul(of.key.storage, shape, q, k)?;
        let values = values_mut(&mut scores)?;
        let mut scale = self.scale();
        if let Some(bias) = of.bias {
            let bias =
                bias.chunks_exact(tokens * tokens).flat_map(|head| head.chunks_exact(tokens).take(length));
            for (row, bias) in values.chunks_exact_mut(length.max(1)).zip(bias) {
                row.iter_mut().zip(bias).for_each(|(score, bias)| *score = *score * scale + bias);
            }
            scale = 1.0;
        }
        if let Some(window) = window {
            for (at, row) in values.chunks_exact_mut(length.max(1)).enumerate() {
                let at = at % length;
                row[..at.saturating_sub(window)].fill(f32::NEG_INFINITY);
                row[length.min(at.saturating_add(window + 1))..].fill(f32::NEG_INFINITY);
            }
        }
        kernels::scaled_softmax(values, length, scale);
        Ok(scores)
    }

    /// `weights` as `[heads, length, length]`, and transposed.
    fn square(self) -> Heads {
        let Self { heads, length, .. } = self;
        let rows = Layout::contiguous((heads, length, length));
        let transposed =
            Layout::new(Shape::from((heads, length, length)), vec![length * length, 1, length], 0);
        [rows, transposed]
    }

    /// Writes `[heads, length, width]` to the text's rows of `out`, `[texts, tokens, heads * width]`.
    fn put(self, part: &CpuStorage, out: &mut [f32]) -> Result<()> {
        let Self { heads, text, tokens, length, width, .. } = self;
        let out = &mut out[text * tokens * heads * width..];
        let part = part.as_slice::<f32>()?;
        for (head, rows) in part.chunks_exact((length * width).max(1)).enumerate() {
            for (row, values) in rows.chunks_exact(width).enumerate() {
                out[row * heads * width + head * width..][..width].copy_from_slice(values);
            }
        }
        Ok(())
    }

    /// Adds `[heads, length, length]` times `factor` to `total`, `[heads, tokens, tokens]`.
    fn add_to_bias(self, scores: &[f32], factor: f32, total: &mut [f32]) {
        let Self { length, tokens, .. } = self;
        let heads =
            scores.chunks_exact((length * length).max(1)).zip(total.chunks_exact_mut(tokens * tokens));
        for (scores, total) in heads {
            for (row, total) in scores.chunks_exact(length).zip(total.chunks_exact_mut(tokens)) {
                row.iter().zip(total).for_each(|(score, total)| *total += factor * score);
            }
        }
    }
}

fn values_mut(storage: &mut CpuStorage) -> Result<&mut [f32]> {
    match storage {
        CpuStorage::F32(values) => Ok(values),
        _ => candle_core::bail!("attention needs f32"),
    }
}

impl Attention {
    fn operands<'a>(&self, [query, second, third]: [Operand<'a>; 3]) -> Result<Operands<'a>> {
        let (texts, tokens, m) = query.1.shape().dims3()?;
        let (query, second_rows) = (Rows::new(query)?, Rows::new(second)?);
        let (key, value, bias) = match self.is_biased {
            true => (second_rows.half(false), second_rows.half(true), Some(slice(third)?)),
            false => (second_rows, Rows::new(third)?, None),
        };
        Ok(Operands { query, key, value, bias, texts, tokens, width: m / self.heads })
    }

    fn sizes(&self, of: &Operands<'_>) -> impl Iterator<Item = Sizes> {
        let &Operands { tokens, width, .. } = of;
        let (heads, window) = (self.heads, self.window);
        let sizes = move |(text, &length)| Sizes { heads, text, tokens, length, width, window };
        self.lengths.iter().enumerate().map(sizes)
    }

    fn forward(&self, of: &Operands<'_>) -> Result<Vec<f32>> {
        let mut out = vec![0f32; of.texts * of.tokens * self.heads * of.width];
        for sizes in self.sizes(of) {
            let [q, k, v] = [of.query, of.key, of.value].map(|rows| sizes.views(rows));
            let Sizes { heads, length, width, .. } = sizes;
            let weights = sizes.weights(of, &q, &k)?;
            let [square, _] = sizes.square();
            let context = weights.matmul(of.value.storage, (heads, length, width, length), &square, &v[0])?;
            sizes.put(&context, &mut out)?;
        }
        Ok(out)
    }

    /// The gradients of queries, keys and values, `[texts, tokens, m]`, and of the bias.
    #[allow(clippy::type_complexity, reason = "used once")]
    fn gradients(&self, of: &Operands<'_>, gradient: Rows<'_>) -> Result<([Vec<f32>; 3], Option<Vec<f32>>)> {
        let mut rows: [Vec<f32>; 3] =
            std::array::from_fn(|_| vec![0f32; of.texts * of.tokens * self.heads * of.width]);
        let mut bias = of.bias.map(|bias| vec![0f32; bias.len()]);
        for sizes in self.sizes(of) {
            let [q, k, v, g] = [of.query, of.key, of.value, gradient].map(|rows| sizes.views(rows));
            let Sizes { heads, length, width, .. } = sizes;
            let [square, transposed] = sizes.square();
            let (wide, narrow) = ((heads, length, length, width), (heads, length, width, length));
            let weights = sizes.weights(of, &q, &k)?;
            let dv = weights.matmul(gradient.storage, narrow, &transposed, &g[0])?;
            let mut scores = gradient.storage.matmul(of.value.storage, wide, &g[0], &v[1])?;
            let own = weights.as_slice::<f32>()?;
            kernels::softmax_gradient(values_mut(&mut scores)?, own, length, sizes.scale());
            if let Some(total) = &mut bias {
                sizes.add_to_bias(scores.as_slice::<f32>()?, 1.0 / sizes.scale(), total);
            }
            let dq = scores.matmul(of.key.storage, narrow, &square, &k[0])?;
            let dk = scores.matmul(of.query.storage, narrow, &transposed, &q[0])?;
            for (part, out) in [dq, dk, dv].iter().zip(&mut rows) {
                sizes.put(part, out)?;
            }
        }
        Ok((rows, bias))
    }

    fn backward(&self, [query, second, third]: [&Tensor; 3], gradient: &Tensor) -> Result<Gradients> {
        let guards = [query, second, third, gradient].map(|tensor| tensor.storage_and_layout());
        let operand =
            |at: usize| Ok::<Operand<'_>, candle_core::Error>((on_cpu(&guards[at].0)?, guards[at].1));
        let of = self.operands([operand(0)?, operand(1)?, operand(2)?])?;
        let ([dq, dk, dv], bias) = self.gradients(&of, Rows::new(operand(3)?)?)?;
        let tensor = |values: Vec<f32>| Tensor::from_vec(values, query.shape(), query.device());
        let (dk, dv) = (tensor(dk)?, tensor(dv)?);
        let (second, third) = match bias {
            Some(bias) => {
                (Tensor::cat(&[dk, dv], 2)?, Tensor::from_vec(bias, third.shape(), third.device())?)
            }
            None => (dk, dv),
        };
        Ok([Some(tensor(dq)?), Some(second), Some(third)])
    }
}
