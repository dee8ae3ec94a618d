//! Fused operations with a backward pass, for training on the CPU.
//!
//! candle's composed softmax, GELU and layer norm make many single-threaded passes over
//! memory, and its fused ones have no gradient. On other devices the composed forms of
//! [`super::differentiable`] run; tests hold these to them, values and gradients.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::config::Activation;
use super::kernels;

mod attention;
mod gate;
mod linear;
mod rotate;

pub(crate) use attention::attention;
pub(crate) use gate::gate;
pub(crate) use linear::{linear, product, product_with_columns};
pub(crate) use rotate::rotate;

fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        _ => candle_core::bail!("fused operation needs contiguous f32"),
    }
}

/// Sum over all but the last dimension, as a product with ones: `[.., n]` to `[n]`.
fn column_sums(x: &Tensor) -> Result<Tensor> {
    let n = x.dim(candle_core::D::Minus1)?;
    let flat = x.reshape(((), n))?;
    let ones = Tensor::ones((1, flat.dim(0)?), x.dtype(), x.device())?;
    ones.matmul(&flat)?.squeeze(0)
}

/// `ln softmax(scale * x)` over the last dimension.
pub(crate) fn log_softmax(x: &Tensor, scale: f32) -> Result<Tensor> {
    x.contiguous()?.apply_op1(LogSoftmax { scale })
}

struct LogSoftmax {
    scale: f32,
}

impl CustomOp1 for LogSoftmax {
    fn name(&self) -> &'static str {
        "log-softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = slice(storage, layout)?.to_vec();
        let width = layout.shape().dim(candle_core::D::Minus1)?;
        kernels::scaled_log_softmax(&mut y, width, self.scale);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let width = y.dim(candle_core::D::Minus1)?;
        let kernel =
            |dx: &mut [f32], y: &[f32], _: &[f32]| kernels::log_softmax_gradient(dx, y, width, self.scale);
        let op = GradientKernel { name: "log-softmax-gradient", kernel };
        Ok(Some(y.apply_op3_no_bwd(y, &gradient.contiguous()?, &op)?))
    }
}

/// `activation(x + bias)` over the last dimension.
pub(crate) fn bias_activation(x: &Tensor, bias: &Tensor, activation: Activation) -> Result<Tensor> {
    x.contiguous()?.apply_op2(bias, BiasActivation(activation))
}

struct BiasActivation(Activation);

impl CustomOp2 for BiasActivation {
    fn name(&self) -> &'static str {
        "bias-activation"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut y = slice(s1, l1)?.to_vec();
        kernels::bias_activation(&mut y, slice(s2, l2)?, self.0);
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let kernel =
            |dx: &mut [f32], x: &[f32], bias: &[f32]| kernels::activation_gradient(dx, x, bias, self.0);
        let op = GradientKernel { name: "activation-gradient", kernel };
        let dx = x.apply_op3_no_bwd(bias, &gradient.contiguous()?, &op)?;
        let db = column_sums(&dx)?;
        Ok((Some(dx), Some(db)))
    }
}

/// A kernel of a backward pass: it turns the third argument, a gradient, into another in place, with
/// the other two at hand.
struct GradientKernel<K> {
    name: &'static str,
    kernel: K,
}

impl<K: Fn(&mut [f32], &[f32], &[f32]) + Send + Sync> CustomOp3 for GradientKernel<K> {
    fn name(&self) -> &'static str {
        self.name
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
        let mut dx = slice(s3, l3)?.to_vec();
        (self.kernel)(&mut dx, slice(s1, l1)?, slice(s2, l2)?);
        Ok((CpuStorage::F32(dx), l1.shape().clone()))
    }
}

/// Layer normalisation over the last dimension.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    x.contiguous()?.apply_op3(weight, bias, LayerNorm { eps })
}

struct LayerNorm {
    eps: f32,
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
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
        let mut y = slice(s1, l1)?.to_vec();
        kernels::norm(&mut y, slice(s2, l2)?, slice(s3, l3)?, self.eps);
        Ok((CpuStorage::F32(y), l1.shape().clone()))
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
        let kernel =
            |dx: &mut [f32], x: &[f32], weight: &[f32]| kernels::norm_gradient(dx, x, weight, self.eps);
        let op = GradientKernel { name: "layer-norm-gradient", kernel };
        let dx = x.apply_op3_no_bwd(weight, &gradient, &op)?;
        let dw = x.apply_op2_no_bwd(&gradient, &LayerNormWeightGradient { eps: self.eps })?;
        Ok((Some(dx), Some(dw), Some(column_sums(&gradient)?)))
    }
}

struct LayerNormWeightGradient {
    eps: f32,
}

impl CustomOp2 for LayerNormWeightGradient {
    fn name(&self) -> &'static str {
        "layer-norm-weight-gradient"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = l1.shape().dim(candle_core::D::Minus1)?;
        let mut dw = vec![0f32; width];
        kernels::add_norm_weight_gradient(&mut dw, slice(s1, l1)?, slice(s2, l2)?, self.eps);
        Ok((CpuStorage::F32(dw), Shape::from(width)))
    }
}
