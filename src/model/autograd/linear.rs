//! Products with a weight as one operation each.
//!
//! Composed of reshape, transposed view, product and bias, each would take five graph nodes, and candle's
//! backward pass allocates zeros for every node's gradient.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Layout, Result, Shape, Tensor};

use super::operation::{OnCpu, Operand, apply};
use super::{column_sums, slice};
use crate::model::kernels;

/// `x W^T`.
///
/// # Shapes
/// `x` `[.., in]`, `weight` `[out, in]`; output `[.., out]`.
pub(crate) fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let operation = OnCpu(
        "product",
        |[x, w, _]: [Operand<'_>; 3]| forward(x, w),
        |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let [dx, dw] = backward([x, weight], gradient)?;
            Ok([dx, dw, None])
        },
    );
    apply([&x.contiguous()?, weight], operation)
}

/// `x W^T + b`.
///
/// # Shapes
/// As [`product`]; `bias` `[out]`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let operation = OnCpu(
        "linear",
        |[x, w, bias]: [Operand<'_>; 3]| {
            let (mut y, shape) = forward(x, w)?;
            if let CpuStorage::F32(y) = &mut y {
                kernels::add_bias(y, slice(bias)?, None);
            }
            Ok((y, shape))
        },
        |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let [dx, dw] = backward([x, weight], gradient)?;
            Ok([dx, dw, Some(column_sums(gradient)?)])
        },
    );
    apply([&x.contiguous()?, weight, bias], operation)
}

/// `x W`, with a gradient for `x` only if one is needed: constant rows have none.
///
/// # Shapes
/// `x` `[n, in]`, `weight` `[in, out]`; output `[n, out]`.
pub(crate) fn product_with_columns(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let operation = OnCpu(
        "product-with-columns",
        |[(x, lx), (w, lw), _]: [Operand<'_>; 3]| {
            let ((rows, width), (_, out)) = (lx.shape().dims2()?, lw.shape().dims2()?);
            Ok((x.matmul(w, (1, rows, out, width), lx, lw)?, Shape::from((rows, out))))
        },
        |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let dx = x.track_op().then(|| gradient.matmul(&weight.t()?)).transpose()?;
            Ok([dx, Some(x.t()?.matmul(gradient)?), None])
        },
    );
    apply([&x.contiguous()?, weight], operation)
}

/// `x W^T` on any device.
pub(in crate::model) fn forward<S: BackendStorage>(
    (x, lx): (&S, &Layout),
    (w, lw): (&S, &Layout),
) -> Result<(S, Shape)> {
    let (out, width) = lw.shape().dims2()?;
    let rows = lx.shape().elem_count() / width;
    let flat = Layout::contiguous_with_offset((rows, width), lx.start_offset());
    let y = x.matmul(w, (1, rows, out, width), &flat, &lw.transpose(0, 1)?)?;
    let mut dims = lx.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = out;
    }
    Ok((y, Shape::from(dims)))
}

/// Gradients with respect to `x` and `weight`.
pub(in crate::model) fn backward(
    [x, weight]: [&Tensor; 2],
    gradient: &Tensor,
) -> Result<[Option<Tensor>; 2]> {
    let (out, width) = weight.dims2()?;
    let rows = gradient.reshape(((), out))?;
    let dx = rows.matmul(weight)?.reshape(x.shape())?;
    let dw = rows.t()?.matmul(&x.reshape(((), width))?)?;
    Ok([Some(dx), Some(dw)])
}
