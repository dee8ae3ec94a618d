//! Attention, and a whole layer of the BERT kind, as one operation each.
//!
//! For every operand of an operation, candle's backward pass makes zeros and adds the gradient to them. Over
//! the dozen operations of a layer, that takes longer than the products in TF32.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::backprop::GradStore;
use candle_core::{Result, Storage, Tensor, TensorId};

use super::operation::{OnGpu, apply_without_gradients};
use super::reshape::{column_sums, permuted};
use super::{by_rows, of_rows};
use crate::model::autograd::operation::{GpuOperand as Operand, Gradients, apply};
use crate::model::transformer::{Affine, Layer};

/// Gradients of the weights of whole layers, which are more than the operands of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aside(Arc<Mutex<Vec<(TensorId, Tensor)>>>);

impl Aside {
    /// Completes the backward pass that left gradients here.
    pub(crate) fn move_to(&self, store: &mut GradStore) {
        for (weight, gradient) in lock(&self.0).drain(..) {
            store.insert_id(weight, gradient);
        }
    }

    fn leave(&self, weight: &Tensor, gradient: Tensor) {
        lock(&self.0).push((weight.id(), gradient));
    }

    /// The gradient of `x` from that of `x W^T + b`.
    fn affine(&self, x: &Tensor, map: &Affine<Tensor>, gradient: &Tensor) -> Result<Tensor> {
        self.leave(&map.weight, gradient.t()?.matmul(x)?);
        if let Some(bias) = &map.bias {
            self.leave(bias, column_sums(gradient)?);
        }
        gradient.matmul(&map.weight.detach())
    }

    /// The gradient of `x` from that of its norm.
    fn norm(&self, x: &Tensor, norm: &Affine<Tensor>, epsilon: f32, gradient: &Tensor) -> Result<Tensor> {
        let of = |name| of_rows(name, [x, &norm.weight, gradient], epsilon);
        self.leave(&norm.weight, column_sums(&of("layer_norm_weight_gradient")?)?);
        if let Some(bias) = &norm.bias {
            self.leave(bias, column_sums(gradient)?);
        }
        of("layer_norm_gradient")
    }
}

/// A layer with norms after its sums, plain GELU and biases, and no positions in its attention; `None` if it
/// has other parts. The gradients of its weights go to `aside`.
///
/// # Shapes
/// `x` `[texts, tokens, m]` and the output; `mask` `[texts, 1, 1, tokens]`, a constant; all f32.
pub(in crate::model) fn layer(
    x: &Tensor,
    layer: &Layer<Tensor>,
    mask: &Tensor,
    (heads, epsilon): (usize, f32),
    aside: &Aside,
) -> Result<Option<Tensor>> {
    let ([_, _, _], [inner], Some(first_norm)) = (&*layer.projections, &*layer.inner, &layer.attention_norm)
    else {
        return Ok(None);
    };
    let Some(inner_bias) = inner.bias.clone() else { return Ok(None) };
    let (_, tokens, m) = x.dims3()?;
    let rows = x.detach().reshape(((), m))?;
    let attention = Attention::of(tokens, heads, m);
    let projected = |at: usize| attention.split(&affine(&rows, &layer.projections[at])?);
    let (attended, operands) = attention.forward([projected(0)?, projected(1)?, projected(2)?], mask)?;
    let added = (affine(&attended, &layer.attention_output)? + &rows)?;
    let normed = norm(&added, first_norm, epsilon)?;
    let before = normed.matmul(&inner.weight.detach().t()?)?;
    let activated = of_rows("bias_gelu", [&before, &inner_bias, &inner_bias], 1.0)?;
    let fed = (affine(&activated, &layer.output)? + &normed)?;
    let out = norm(&fed, &layer.output_norm, epsilon)?.reshape(x.shape())?;

    let (own, first_norm, aside) = (layer.clone(), first_norm.clone(), aside.clone());
    let backward = move |[x, ..]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
        let d_fed = aside.norm(&fed, &own.output_norm, epsilon, &gradient.reshape(((), m))?)?;
        let d_activated = aside.affine(&activated, &own.output, &d_fed)?;
        let d_before = of_rows("bias_gelu_gradient", [&before, &inner_bias, &d_activated], 1.0)?;
        let d_normed = (aside.affine(&normed, &own.inner[0], &d_before)? + d_fed)?;
        let mut dx = aside.norm(&added, &first_norm, epsilon, &d_normed)?;
        let d_attended = aside.affine(&attended, &own.attention_output, &dx)?;
        for (map, gradient) in own.projections.iter().zip(attention.backward(&operands, &d_attended)?) {
            dx = (dx + aside.affine(&rows, map, &gradient)?)?;
        }
        Ok([Some(dx.reshape(x.shape())?), None, None])
    };
    // The second operand is a variable, so that there is a backward pass even if `x` is a constant.
    given("layer", out, [x, &layer.output_norm.weight], backward).map(Some)
}

/// `softmax(Q K^T / sqrt(width) + mask) V` for each text and head.
///
/// # Shapes
/// `operands` (query, key, value) and the output `[texts, tokens, heads * width]`; `mask` `[texts, 1, 1,
/// tokens]`, a constant; all f32.
pub(in crate::model) fn attention(operands: [&Tensor; 3], mask: &Tensor, heads: usize) -> Result<Tensor> {
    let (_, tokens, m) = operands[0].dims3()?;
    let attention = Attention::of(tokens, heads, m);
    let split = |at: usize| attention.split(&operands[at].detach().contiguous()?);
    let (out, own) = attention.forward([split(0)?, split(1)?, split(2)?], mask)?;
    let backward = move |[x, ..]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
        let [dq, dk, dv] = attention.backward(&own, gradient)?;
        Ok([Some(dq.reshape(x.shape())?), Some(dk.reshape(x.shape())?), Some(dv.reshape(x.shape())?)])
    };
    given("attention", out.reshape(operands[0].shape())?, operands, backward)
}

#[derive(Clone, Copy)]
struct Attention {
    tokens: usize,
    heads: usize,
    width: usize,
    scale: f32,
}

impl Attention {
    fn of(tokens: usize, heads: usize, m: usize) -> Self {
        let width = m / heads;
        Self { tokens, heads, width, scale: 1.0 / (width as f32).sqrt() }
    }

    /// `[texts * tokens, m]`, in any shape, to `[texts, heads, tokens, width]`.
    fn split(&self, rows: &Tensor) -> Result<Tensor> {
        swapped(&rows.reshape(((), self.tokens, self.heads, self.width))?)
    }

    /// The reverse of [`Self::split`].
    fn join(&self, by_head: &Tensor) -> Result<Tensor> {
        swapped(by_head)?.reshape(((), self.heads * self.width))
    }

    /// The output `[texts * tokens, m]`, and the operands with the attention weights.
    fn forward(&self, [query, key, value]: [Tensor; 3], mask: &Tensor) -> Result<(Tensor, [Tensor; 4])> {
        let scores = query.matmul(&key.t()?)?;
        let (group, scale) = ((self.heads * self.tokens) as u32, self.scale);
        let softmax =
            |name, [scores, mask, _]: [Operand<'_>; 3]| by_rows(name, [scores, mask, mask], group, scale);
        let weights = apply_without_gradients("softmax", [&scores, mask], softmax)?;
        let out = self.join(&weights.matmul(&value)?)?;
        Ok((out, [query, key, value, weights]))
    }

    /// The gradients of query, key and value `[texts * tokens, m]` from that of the output.
    fn backward(&self, [query, key, value, weights]: &[Tensor; 4], gradient: &Tensor) -> Result<[Tensor; 3]> {
        let gradient = self.split(gradient)?;
        let dv = weights.t()?.matmul(&gradient)?;
        let dw = gradient.matmul(&value.t()?)?;
        let ds = of_rows("softmax_gradient", [weights, weights, &dw], self.scale)?;
        Ok([self.join(&ds.matmul(key)?)?, self.join(&ds.t()?.matmul(query)?)?, self.join(&dv)?])
    }
}

/// A tensor as the output of an operation with these operands.
fn given<const N: usize, B>(
    name: &'static str,
    out: Tensor,
    operands: [&Tensor; N],
    backward: B,
) -> Result<Tensor>
where
    B: Fn([&Tensor; 3], &Tensor, &Tensor) -> Result<Gradients> + Send + Sync + 'static,
{
    let out = Mutex::new(Some(out));
    let forward = move |name: &'static str, _: [Operand<'_>; 3]| {
        let Some(out) = lock(&out).take() else { candle_core::bail!("{name} runs once") };
        let (storage, layout) = out.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => candle_core::bail!("{name} runs on a GPU"),
        }
    };
    apply(operands, OnGpu(name, forward, backward))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `x W^T + b` of rows.
fn affine(x: &Tensor, map: &Affine<Tensor>) -> Result<Tensor> {
    let y = x.matmul(&map.weight.detach().t()?)?;
    match &map.bias {
        Some(bias) => of_rows("bias", [&y, bias, bias], 1.0),
        None => Ok(y),
    }
}

/// Layer normalisation of rows.
fn norm(x: &Tensor, norm: &Affine<Tensor>, epsilon: f32) -> Result<Tensor> {
    let bias = norm.bias.as_ref().map_or_else(|| norm.weight.zeros_like(), |bias| Ok(bias.clone()))?;
    of_rows("layer_norm", [x, &norm.weight, &bias], epsilon)
}

/// Between `[texts, tokens, heads, width]` and `[texts, heads, tokens, width]`.
fn swapped(x: &Tensor) -> Result<Tensor> {
    apply_without_gradients("permute", [x], |name, [x, ..]| permuted(name, x, [0, 2, 1, 3]))
}
