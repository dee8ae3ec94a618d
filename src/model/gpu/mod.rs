//! Fused operations with a backward pass, for training on a GPU.
//!
//! candle's composed operations locate every element of a broadcast shape by division, sum columns with one
//! block per column, and add the rows of an embedding table one after another. The kernels here process one
//! row per warp; they are compiled for the present GPU on first use (NVRTC). Sums over the rows of an
//! embedding table are atomic, so two runs may differ in the last bits.
#![allow(unsafe_code)]

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CudaStorage, D, Error, Layout, Result, Shape, Tensor};

mod adamw;
mod layer;
mod operation;
mod reshape;

use super::autograd::linear as product;
use super::autograd::operation::{GpuOperand as Operand, apply};
pub(crate) use adamw::AdamWStep;
pub(super) use layer::{Aside, attention, layer};
use operation::{OnGpu, apply_without_gradients, ptx, rows_of, view};
use reshape::column_sums;

/// Layer normalisation over the last dimension.
///
/// # Shapes
/// `x` `[.., m]` and the output; `weight` and `bias` `[m]`; all f32.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    let operation = OnGpu(
        "layer_norm",
        move |name, operands: [Operand<'_>; 3]| by_rows(name, operands, 1, epsilon),
        move |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let of = |name| of_rows(name, [x, weight, gradient], epsilon);
            let (dx, dw) = (of("layer_norm_gradient")?, of("layer_norm_weight_gradient")?);
            Ok([Some(dx), Some(column_sums(&dw)?), Some(column_sums(gradient)?)])
        },
    );
    apply([&x.contiguous()?, weight, bias], operation)
}

/// `x W^T + bias`, or without a bias.
///
/// # Shapes
/// `x` `[.., in]`, `weight` `[out, in]`, `bias` `[out]`; output `[.., out]`; all f32.
pub(super) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let has_bias = bias.is_some();
    let operation = OnGpu(
        "bias",
        move |name, [x, weight, bias]: [Operand<'_>; 3]| {
            let (y, shape) = product::forward(x, weight)?;
            if !has_bias {
                return Ok((y, shape));
            }
            by_rows(name, [(&y, &Layout::contiguous(shape)), bias, bias], 1, 1.0)
        },
        move |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let [dx, dw] = product::backward([x, weight], gradient)?;
            Ok([dx, dw, has_bias.then(|| column_sums(gradient)).transpose()?])
        },
    );
    apply([&x.contiguous()?, weight, bias.unwrap_or(weight)], operation)
}

/// GELU of `x + bias` over the last dimension.
pub(super) fn bias_gelu(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let operation = OnGpu(
        "bias_gelu",
        |name, [x, bias, _]: [Operand<'_>; 3]| by_rows(name, [x, bias, bias], 1, 1.0),
        |[x, bias, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let dx = of_rows("bias_gelu_gradient", [x, bias, gradient], 1.0)?;
            let db = column_sums(&dx)?;
            Ok([Some(dx), Some(db), None])
        },
    );
    apply([&x.contiguous()?, bias], operation)
}

/// Rows of a table.
///
/// # Shapes
/// `table` `[n, m]` f32; `ids` `[k]` u32, each below n; output `[k, m]`.
pub(super) fn rows(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    let operation = OnGpu(
        "gather",
        |name, [table, ids, _]: [Operand<'_>; 3]| {
            let shape = Shape::from((ids.1.shape().elem_count(), table.1.shape().dim(D::Minus1)?));
            by_ids(name, table, ids, shape)
        },
        |[table, ids, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let shape = table.shape();
            let sums = apply_without_gradients("scatter", [gradient, ids], |name, [x, ids, _]| {
                by_ids(name, x, ids, shape.clone())
            })?;
            Ok([Some(sums), None, None])
        },
    );
    apply([&table.contiguous()?, ids], operation)
}

/// The output of a kernel by rows, without gradients.
fn of_rows(name: &'static str, operands: [&Tensor; 3], scale: f32) -> Result<Tensor> {
    apply_without_gradients(name, operands, |name, operands| by_rows(name, operands, 1, scale))
}

/// Launches a kernel with one warp per row.
fn by_rows(
    name: &'static str,
    [a, b, c]: [Operand<'_>; 3],
    group: u32,
    scale: f32,
) -> Result<(CudaStorage, Shape)> {
    let shape = a.1.shape().clone();
    let (rows, width) = rows_of(&shape)?;
    let device = a.0.device();
    let function = device.get_or_load_custom_func(name, "ehi", ptx()?)?;
    // SAFETY: the kernel writes every element, because a warp processes a whole row.
    let mut out = unsafe { device.alloc::<f32>(shape.elem_count())? };
    let (a, b, c) = (view::<f32>(a)?, view::<f32>(b)?, view::<f32>(c)?);
    let mut launch = function.builder();
    launch.arg(&a).arg(&b).arg(&c).arg(&mut out).arg(&rows).arg(&width).arg(&group).arg(&scale);
    // SAFETY: the signature matches kernels.cu, and the callers check the shapes of the operands.
    unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
}

/// Launches a kernel over the rows that `ids` name, with an output of zeros.
fn by_ids(name: &str, x: Operand<'_>, ids: Operand<'_>, shape: Shape) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device();
    let function = device.get_or_load_custom_func(name, "ehi", ptx()?)?;
    let mut out = device.alloc_zeros::<f32>(shape.elem_count())?;
    let (rows, (_, width)) = (ids.1.shape().elem_count() as u32, rows_of(x.1.shape())?);
    let (x, ids) = (view::<f32>(x)?, view::<u32>(ids)?);
    let mut launch = function.builder();
    launch.arg(&x).arg(&ids).arg(&mut out).arg(&rows).arg(&width);
    // SAFETY: the signature matches kernels.cu; ids are tokens or places of a batch, and the table has a row
    // for each.
    unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
}

fn a_warp_each(rows: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (rows.div_ceil(8), 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}
