//! Fused operations with a backward pass, for training on the CPU.
//!
//! candle's composed softmax, GELU and layer norm make many single-threaded passes over memory, and its fused
//! ones have no gradient. Other devices run the composed forms of [`super::differentiable`]; tests compare
//! values and gradients of both.

use std::sync::Arc;

use candle_core::{CpuStorage, D, Result, Shape, Storage, Tensor};

use super::config::Activation;
use super::kernels;
use super::rotation::Rotation;
use operation::{OnCpu, Operand, apply};

mod attention;
pub(super) mod linear;
pub(super) mod operation;

pub(crate) use attention::attention;
pub(crate) use linear::{linear, product, product_with_columns};

fn slice<'a>((storage, layout): Operand<'a>) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        _ => candle_core::bail!("fused operation needs contiguous f32"),
    }
}

fn on_cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => candle_core::bail!("a fused operation runs on the CPU"),
    }
}

/// A copy of an operand, modified by a kernel.
fn changed(x: Operand<'_>, kernel: impl FnOnce(&mut [f32])) -> Result<(CpuStorage, Shape)> {
    let mut y = slice(x)?.to_vec();
    kernel(&mut y);
    Ok((CpuStorage::F32(y), x.1.shape().clone()))
}

/// A gradient modified by a kernel that also reads two tensors.
fn gradient_by(
    gradient: &Tensor,
    tensors: [&Tensor; 2],
    kernel: impl FnOnce(&mut [f32], &[f32], &[f32]),
) -> Result<Tensor> {
    let guards = [gradient, tensors[0], tensors[1]].map(Tensor::storage_and_layout);
    let mut values = [&[][..]; 3];
    for (values, (storage, layout)) in values.iter_mut().zip(&guards) {
        *values = slice((on_cpu(storage)?, layout))?;
    }
    let mut changed = values[0].to_vec();
    kernel(&mut changed, values[1], values[2]);
    Tensor::from_vec(changed, gradient.shape(), gradient.device())
}

/// Sum over all but the last dimension, as a product with ones: `[.., n]` to `[n]`.
fn column_sums(x: &Tensor) -> Result<Tensor> {
    let n = x.dim(D::Minus1)?;
    let flat = x.reshape(((), n))?;
    let ones = Tensor::ones((1, flat.dim(0)?), x.dtype(), x.device())?;
    ones.matmul(&flat)?.squeeze(0)
}

/// `ln softmax(scale * x)` over the last dimension.
pub(crate) fn log_softmax(x: &Tensor, scale: f32) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    let operation = OnCpu(
        "log-softmax",
        move |[x, ..]: [Operand<'_>; 3]| changed(x, |y| kernels::scaled_log_softmax(y, width, scale)),
        move |_: [&Tensor; 3], y: &Tensor, gradient: &Tensor| {
            let kernel = |dx: &mut [f32], y: &[f32], _: &[f32]| {
                kernels::log_softmax_gradient(dx, y, width, scale);
            };
            Ok([Some(gradient_by(gradient, [y, y], kernel)?), None, None])
        },
    );
    apply([&x.contiguous()?], operation)
}

/// `activation(x + bias)` over the last dimension.
pub(crate) fn bias_activation(x: &Tensor, bias: &Tensor, activation: Activation) -> Result<Tensor> {
    let operation = OnCpu(
        "bias-activation",
        move |[x, bias, _]: [Operand<'_>; 3]| {
            let bias = slice(bias)?;
            changed(x, |y| kernels::add_bias(y, bias, Some(activation)))
        },
        move |[x, bias, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let kernel = |dx: &mut [f32], x: &[f32], bias: &[f32]| {
                kernels::activation_gradient(dx, x, bias, activation);
            };
            let dx = gradient_by(gradient, [x, bias], kernel)?;
            let db = column_sums(&dx)?;
            Ok([Some(dx), Some(db), None])
        },
    );
    apply([&x.contiguous()?, bias], operation)
}

/// `activation(x) * y`, value by value: the gate of a feed-forward step.
///
/// # Shapes
/// All the same.
pub(crate) fn gate(x: &Tensor, y: &Tensor, activation: Activation) -> Result<Tensor> {
    let operation = OnCpu(
        "gate",
        move |[x, y, _]: [Operand<'_>; 3]| {
            let y = slice(y)?;
            changed(x, |out| kernels::gate(out, y, activation))
        },
        move |[x, y, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let kernel = |g: &mut [f32], x: &[f32], y: &[f32]| kernels::gate_gradient(g, x, y, activation);
            let dx = gradient_by(gradient, [x, y], kernel)?;
            // The product is commutative.
            let dy = gradient_by(x, [gradient, gradient], |out, g, _| kernels::gate(out, g, activation))?;
            Ok([Some(dx), Some(dy), None])
        },
    );
    apply([&x.contiguous()?, &y.contiguous()?], operation)
}

/// Rotates the heads of each token by its position.
///
/// # Shapes
/// `x` and the output `[texts, tokens, heads * width]`; the rotation has `tokens` positions.
pub(crate) fn rotate(x: &Tensor, rotation: &Arc<Rotation>) -> Result<Tensor> {
    let (texts, tokens, m) = x.dims3()?;
    let lengths = vec![tokens; texts];
    let rotation = rotation.clone();
    let turn = Arc::new(move |x: &mut [f32], way: f32| rotation.turn(x, m, m, &lengths, way));
    let back = turn.clone();
    let operation = OnCpu(
        "rotate",
        move |[x, ..]: [Operand<'_>; 3]| changed(x, |y| turn(y, 1.0)),
        move |_: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            // The transpose of a rotation is its inverse.
            Ok([Some(gradient_by(gradient, [gradient, gradient], |g, _, _| back(g, -1.0))?), None, None])
        },
    );
    apply([&x.contiguous()?], operation)
}

/// Layer normalisation over the last dimension.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    let operation = OnCpu(
        "layer-norm",
        move |[x, weight, bias]: [Operand<'_>; 3]| {
            let (weight, bias) = (slice(weight)?, slice(bias)?);
            changed(x, |y| kernels::norm(y, weight, bias, eps))
        },
        move |[x, weight, _]: [&Tensor; 3], _: &Tensor, gradient: &Tensor| {
            let kernel =
                |dx: &mut [f32], x: &[f32], weight: &[f32]| kernels::norm_gradient(dx, x, weight, eps);
            let dx = gradient_by(gradient, [x, weight], kernel)?;
            let zeros = weight.zeros_like()?;
            let kernel = |dw: &mut [f32], x: &[f32], g: &[f32]| {
                kernels::add_norm_weight_gradient(dw, x, g, eps);
            };
            let dw = gradient_by(&zeros, [x, gradient], kernel)?;
            Ok([Some(dx), Some(dw), Some(column_sums(gradient)?)])
        },
    );
    apply([&x.contiguous()?, weight, bias], operation)
}
