//! Fused operations with a backward pass, for training on a GPU.
//!
//! candle's composed operations locate every element of a broadcast shape by division, sum columns with one
//! block per column, and add the rows of an embedding table one after another. The kernels here process one
//! row per warp; they are compiled for the present GPU on first use (NVRTC). Sums over the rows of an
//! embedding table are atomic, so two runs may differ in the last bits.
#![allow(unsafe_code)]

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CudaStorage, D, Error, Result, Shape, Tensor};

mod operation;
mod reshape;

use super::autograd::operation::{
    GpuOperand as Operand, Gradients, Operation, apply, apply_without_gradients,
};
use operation::{ptx, rows_of, view};
use reshape::column_sums;
pub(super) use reshape::permute;

/// Layer normalisation over the last dimension.
///
/// # Shapes
/// `x` `[.., m]` and the output; `weight` and `bias` `[m]`; all f32.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    apply([&x.contiguous()?, weight, bias], LayerNorm(epsilon))
}

/// `softmax(scale * scores + mask)` over the last dimension.
///
/// # Shapes
/// `scores` `[batch, heads, tokens, tokens]` and the output; `mask` `[batch, 1, 1, tokens]`, a constant; all
/// f32.
pub(super) fn softmax(scores: &Tensor, mask: &Tensor, scale: f32) -> Result<Tensor> {
    let (_, heads, tokens, _) = scores.dims4()?;
    let softmax = Softmax { group: (heads * tokens) as u32, scale };
    apply([&scores.contiguous()?, &mask.contiguous()?], softmax)
}

/// `x + bias` over the last dimension, followed by GELU if `gelu`.
pub(super) fn bias(x: &Tensor, bias: &Tensor, gelu: bool) -> Result<Tensor> {
    apply([&x.contiguous()?, bias], Bias { gelu })
}

/// Rows of a table.
///
/// # Shapes
/// `table` `[n, m]` f32; `ids` `[k]` u32, each below n; output `[k, m]`.
pub(super) fn rows(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    apply([table, ids], Rows)
}

/// Launches a kernel with one warp per row.
#[derive(Clone, Copy)]
struct Kernel {
    name: &'static str,
    group: u32,
    scale: f32,
}

impl Kernel {
    fn new(name: &'static str) -> Self {
        Self { name, group: 1, scale: 1.0 }
    }

    fn scaled(name: &'static str, scale: f32) -> Self {
        Self { scale, ..Self::new(name) }
    }
}

impl Operation for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_gpu(&self, [a, b, c]: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        let shape = a.1.shape().clone();
        let (rows, width) = rows_of(&shape)?;
        let device = a.0.device();
        let function = device.get_or_load_custom_func(self.name, "ehi", ptx()?)?;
        // SAFETY: the kernel writes every element, because a warp processes a whole row.
        let mut out = unsafe { device.alloc::<f32>(shape.elem_count())? };
        let (a, b, c) = (view::<f32>(a)?, view::<f32>(b)?, view::<f32>(c)?);
        let mut launch = function.builder();
        launch.arg(&a).arg(&b).arg(&c).arg(&mut out).arg(&rows).arg(&width).arg(&self.group).arg(&self.scale);
        // SAFETY: the signature matches kernels.cu, and the callers check the shapes of the operands.
        unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
    }
}

struct LayerNorm(f32);

impl Operation for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn on_gpu(&self, operands: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        Kernel::scaled(self.name(), self.0).on_gpu(operands)
    }

    fn backward(&self, [x, weight, _]: [&Tensor; 3], _y: &Tensor, gradient: &Tensor) -> Result<Gradients> {
        let of = |name| apply_without_gradients([x, weight, gradient], Kernel::scaled(name, self.0));
        let (dx, dw) = (of("layer_norm_gradient")?, of("layer_norm_weight_gradient")?);
        Ok([Some(dx), Some(column_sums(&dw)?), Some(column_sums(gradient)?)])
    }
}

struct Softmax {
    group: u32,
    scale: f32,
}

impl Operation for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn on_gpu(&self, [scores, mask, _]: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        let kernel = Kernel { group: self.group, ..Kernel::scaled(self.name(), self.scale) };
        kernel.on_gpu([scores, mask, mask])
    }

    fn backward(&self, _: [&Tensor; 3], y: &Tensor, gradient: &Tensor) -> Result<Gradients> {
        let kernel = Kernel::scaled("softmax_gradient", self.scale);
        Ok([Some(apply_without_gradients([y, y, gradient], kernel)?), None, None])
    }
}

struct Bias {
    gelu: bool,
}

impl Operation for Bias {
    fn name(&self) -> &'static str {
        if self.gelu { "bias_gelu" } else { "bias" }
    }

    fn on_gpu(&self, [x, bias, _]: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        Kernel::new(self.name()).on_gpu([x, bias, bias])
    }

    fn backward(&self, [x, bias, _]: [&Tensor; 3], _y: &Tensor, gradient: &Tensor) -> Result<Gradients> {
        let dx = match self.gelu {
            true => apply_without_gradients([x, bias, gradient], Kernel::new("bias_gelu_gradient"))?,
            false => gradient.clone(),
        };
        let db = column_sums(&dx)?;
        Ok([Some(dx), Some(db), None])
    }
}

struct Rows;

impl Operation for Rows {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn on_gpu(&self, [table, ids, _]: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        let shape = Shape::from((ids.1.shape().elem_count(), table.1.shape().dim(D::Minus1)?));
        by_ids(self.name(), table, ids, shape)
    }

    fn backward(&self, [table, ids, _]: [&Tensor; 3], _y: &Tensor, gradient: &Tensor) -> Result<Gradients> {
        let scatter = Scatter { table: table.shape().clone() };
        Ok([Some(apply_without_gradients([gradient, ids], scatter)?), None, None])
    }
}

struct Scatter {
    table: Shape,
}

impl Operation for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn on_gpu(&self, [x, ids, _]: [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        by_ids(self.name(), x, ids, self.table.clone())
    }
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
    // SAFETY: the signature matches kernels.cu; ids are tokens, and the table has a row for each token.
    unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
}

fn a_warp_each(rows: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (rows.div_ceil(8), 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}
