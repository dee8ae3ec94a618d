//! Multi-head attention over a padded batch as one operation, whose backward pass computes the weights again:
//! they are larger than all other tensors of a layer together.

use candle_core::backend::BackendStorage;
use candle_core::{Layout, Result, Shape, Storage, Tensor};

use super::operation::{OnGpu, apply_without_gradients};
use super::reshape::permuted;
use super::{by_rows, of_rows};
use crate::model::autograd::operation::{GpuOperand as Operand, apply};

/// Between `[texts, tokens, heads, width]` and `[texts, heads, tokens, width]`.
const SWAP: [usize; 4] = [0, 2, 1, 3];

/// `softmax(Q K^T / sqrt(width) + mask) V` for each text and head.
///
/// # Shapes
/// `query`, `key`, `value` and the output `[texts, tokens, heads * width]`; `mask` `[texts, 1, 1, tokens]`, a
/// constant; all f32.
pub(in crate::model) fn attention(
    [query, key, value]: [&Tensor; 3],
    mask: &Tensor,
    heads: usize,
) -> Result<Tensor> {
    let (texts, tokens, m) = query.dims3()?;
    let width = m / heads;
    let scale = 1.0 / (width as f32).sqrt();
    let group = (heads * tokens) as u32;
    let whole = Shape::from((texts, tokens, m));
    let (apart, by_head) = ([texts, tokens, heads, width], [texts, heads, tokens, width]);
    let square = Shape::from((texts, heads, tokens, tokens));
    let sizes = move |n, k| (texts * heads, tokens, n, k);
    let constant = mask.clone();
    let forward = move |_: &'static str, operands: [Operand<'_>; 3]| {
        let split = |(x, layout): Operand<'_>| {
            let layout = Layout::contiguous_with_offset(&apart, layout.start_offset());
            Ok::<_, candle_core::Error>(permuted("permute", (x, &layout), SWAP)?.0)
        };
        let [query, key, value] = operands;
        let (query, key, value) = (split(query)?, split(key)?, split(value)?);
        let rows = Layout::contiguous(&by_head);
        let scores = query.matmul(&key, sizes(tokens, width), &rows, &rows.transpose(2, 3)?)?;
        let square = Layout::contiguous(&square);
        let (mask, layout) = constant.storage_and_layout();
        let Storage::Cuda(mask) = &*mask else { candle_core::bail!("the mask is not on the GPU") };
        let mask = (mask, layout);
        let (weights, _) = by_rows("softmax", [(&scores, &square), mask, mask], group, scale)?;
        let context = weights.matmul(&value, sizes(width, tokens), &square, &rows)?;
        Ok((permuted("permute", (&context, &rows), SWAP)?.0, whole.clone()))
    };
    let mask = mask.clone();
    let backward = move |operands: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
        let swapped =
            |x: &Tensor| apply_without_gradients("permute", [x], |name, [x, ..]| permuted(name, x, SWAP));
        let split = |x: &Tensor| swapped(&x.detach().reshape(&apart)?);
        let join = |x: Tensor| Ok::<_, candle_core::Error>(Some(swapped(&x)?.reshape((texts, tokens, m))?));
        let [query, key, value] = operands;
        let (query, key, value, gradient) = (split(query)?, split(key)?, split(value)?, split(gradient)?);
        let scores = query.matmul(&key.t()?)?;
        let weights = apply_without_gradients("softmax", [&scores, &mask], |name, [scores, mask, _]| {
            by_rows(name, [scores, mask, mask], group, scale)
        })?;
        let dv = weights.t()?.matmul(&gradient)?;
        let dw = gradient.matmul(&value.t()?)?;
        let ds = of_rows("softmax_gradient", [&weights, &weights, &dw], scale)?;
        Ok([join(ds.matmul(&key)?)?, join(ds.t()?.matmul(&query)?)?, join(dv)?])
    };
    apply(
        [&query.contiguous()?, &key.contiguous()?, &value.contiguous()?],
        OnGpu("attention", forward, backward),
    )
}
