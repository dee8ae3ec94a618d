//! AdamW in place: composed of candle's operations, a step would be fifteen kernels for each parameter.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CpuStorage, CudaStorage, Error, InplaceOp3, Layout, Result, Tensor};

use super::operation::{ptx, view};

/// A step of one parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamWStep {
    /// Decays of the means of gradients and of their squares.
    pub betas: [f64; 2],
    /// What the means are divided by, because they start at 0.
    pub corrections: [f64; 2],
    pub rate: f64,
    pub weight_decay: f64,
}

impl AdamWStep {
    /// Changes a parameter and the means of its gradient and of the gradient's square, all f32 on a GPU.
    pub(crate) fn run(self, var: &Tensor, means: [&Tensor; 2], gradient: &Tensor) -> Result<()> {
        let Self { betas: [b1, b2], corrections: [c1, c2], rate, weight_decay } = self;
        let gradient = gradient.contiguous()?;
        means[0].inplace_op3(&gradient, &gradient, &InPlace("mean", [b1, 1.0 - b1, 0.0]))?;
        means[1].inplace_op3(&gradient, &gradient, &InPlace("mean_of_squares", [b2, 1.0 - b2, 0.0]))?;
        var.inplace_op3(means[0], means[1], &InPlace("descend", [1.0 - rate * weight_decay, rate / c1, c2]))
    }
}

/// A kernel that changes its first operand, with three scalars.
struct InPlace(&'static str, [f64; 3]);

impl InplaceOp3 for InPlace {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(
        &self,
        _: &mut CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<()> {
        candle_core::bail!("{} runs on a GPU", self.0)
    }

    fn cuda_fwd(
        &self,
        a: &mut CudaStorage,
        layout: &Layout,
        b: &CudaStorage,
        lb: &Layout,
        c: &CudaStorage,
        lc: &Layout,
    ) -> Result<()> {
        let function = a.device().get_or_load_custom_func(self.0, "ehi", ptx()?)?;
        let (b, c) = (view::<f32>((b, lb))?, view::<f32>((c, lc))?);
        let Some((start, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("a GPU kernel needs contiguous operands");
        };
        let n = end - start;
        let Ok(elements) = u32::try_from(n) else {
            candle_core::bail!("a tensor of {n} elements is too large for one launch");
        };
        let mut a = a.as_cuda_slice_mut::<f32>()?.slice_mut(start..end);
        let [s, t, u] = self.1.map(|scalar| scalar as f32);
        let mut launch = function.builder();
        launch.arg(&mut a).arg(&b).arg(&c).arg(&elements).arg(&s).arg(&t).arg(&u);
        let grid_dim = (elements.div_ceil(256), 1, 1);
        let config = LaunchConfig { grid_dim, block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the signature matches kernels.cu, and the three operands have the same shape.
        unsafe { launch.launch(config) }.map_err(Error::wrap)?;
        Ok(())
    }
}
