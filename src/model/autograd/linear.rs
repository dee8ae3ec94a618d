//! Products with a weight as one operation each.
//!
//! Composed of reshape, transposed view, product and bias they are five nodes of the graph, and
//! candle's backward pass adds every node's gradient into zeros of its own.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, CustomOp3, D, Layout, Result, Shape, Tensor};

use super::{column_sums, slice};
use crate::model::kernels;

/// `x W^T`.
///
/// # Shapes
/// `x` `[.., in]`, `weight` `[out, in]`; output `[.., out]`.
pub(crate) fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op2(weight, Product)
}

/// `x W^T + b`.
///
/// # Shapes
/// As [`product`]; `bias` `[out]`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op3(weight, bias, Linear)
}

/// `x W`, with a gradient for `x` only where one is asked for: rows that are given have none.
///
/// # Shapes
/// `x` `[n, in]`, `weight` `[in, out]`; output `[n, out]`.
pub(crate) fn product_with_columns(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op2(weight, ProductWithColumns)
}

struct Product;

struct ProductWithColumns;

struct Linear;

fn forward(x: &CpuStorage, lx: &Layout, w: &CpuStorage, lw: &Layout) -> Result<(CpuStorage, Shape)> {
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
fn backward(x: &Tensor, weight: &Tensor, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, width) = weight.dims2()?;
    let rows = gradient.reshape(((), out))?;
    let dx = rows.matmul(weight)?.reshape(x.shape())?;
    let dw = rows.t()?.matmul(&x.reshape(((), width))?)?;
    Ok((dx, dw))
}

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        forward(s1, l1, s2, l2)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (dx, dw) = backward(x, weight, &gradient.contiguous()?)?;
        Ok((Some(dx), Some(dw)))
    }
}

impl CustomOp2 for ProductWithColumns {
    fn name(&self) -> &'static str {
        "product-with-columns"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((rows, width), (_, out)) = (lx.shape().dims2()?, lw.shape().dims2()?);
        Ok((x.matmul(w, (1, rows, out, width), lx, lw)?, Shape::from((rows, out))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = gradient.contiguous()?;
        let dx = x.track_op().then(|| gradient.matmul(&weight.t()?)).transpose()?;
        Ok((dx, Some(x.t()?.matmul(&gradient)?)))
    }
}

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (mut y, shape) = forward(s1, l1, s2, l2)?;
        if let CpuStorage::F32(y) = &mut y {
            kernels::add_bias(y, slice(s3, l3)?);
        }
        Ok((y, shape))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = gradient.contiguous()?;
        debug_assert_eq!(gradient.dim(D::Minus1)?, weight.dim(0)?);
        let (dx, dw) = backward(x, weight, &gradient)?;
        Ok((Some(dx), Some(dw), Some(column_sums(&gradient)?)))
    }
}
