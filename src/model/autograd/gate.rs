//! The gate of a feed-forward step as one operation.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::{GradientKernel, slice};
use crate::model::config::Activation;
use crate::model::kernels;

/// `activation(x) * y`, value by value.
///
/// # Shapes
/// All the same.
pub(crate) fn gate(x: &Tensor, y: &Tensor, activation: Activation) -> Result<Tensor> {
    x.contiguous()?.apply_op2(&y.contiguous()?, Gate(activation))
}

struct Gate(Activation);

impl CustomOp2 for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut out = slice(s1, l1)?.to_vec();
        kernels::gate(&mut out, slice(s2, l2)?, self.0);
        Ok((CpuStorage::F32(out), l1.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        _out: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = gradient.contiguous()?;
        let kernel = |g: &mut [f32], x: &[f32], y: &[f32]| kernels::gate_gradient(g, x, y, self.0);
        let dx = GradientKernel { name: "gate-gradient", kernel };
        let dx = x.apply_op3_no_bwd(y, &gradient, &dx)?;
        // The product is the same with the factors' places changed.
        let dy = x.apply_op2_no_bwd(&gradient, &Gate(self.0))?;
        Ok((Some(dx), Some(dy)))
    }
}
