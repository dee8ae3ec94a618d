//! What every operation on a GPU shares: candle's interface, operands, and the compiled kernels.

use std::sync::OnceLock;

use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::CudaView;
use candle_core::cuda_backend::cudarc::nvrtc;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, D, Error, Layout, Result, Shape, Tensor,
};

/// Storage on the device, and how a tensor lies in it.
pub(super) type Operand<'a> = (&'a CudaStorage, &'a Layout);

/// An operation of `N` contiguous operands.
pub(super) trait Operation<const N: usize> {
    fn name(&self) -> &'static str;

    fn launch(&self, operands: [Operand<'_>; N]) -> Result<(CudaStorage, Shape)>;

    /// Gradients of the operands from that of the output `y`, which is contiguous.
    fn backward(
        &self,
        _operands: [&Tensor; N],
        _y: &Tensor,
        _gradient: &Tensor,
    ) -> Result<[Option<Tensor>; N]> {
        Err(Error::BackwardNotSupported { op: self.name() })
    }
}

/// An [`Operation`] as candle takes it.
pub(super) struct OnGpu<T>(pub T);

impl<T: Operation<1> + Send + Sync> CustomOp1 for OnGpu<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.0.name())
    }

    fn cuda_fwd(&self, s1: &CudaStorage, l1: &Layout) -> Result<(CudaStorage, Shape)> {
        self.0.launch([(s1, l1)])
    }

    fn bwd(&self, a: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [a] = self.0.backward([a], y, &gradient.contiguous()?)?;
        Ok(a)
    }
}

impl<T: Operation<2> + Send + Sync> CustomOp2 for OnGpu<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.0.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.0.launch([(s1, l1), (s2, l2)])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok(self.0.backward([a, b], y, &gradient.contiguous()?)?.into())
    }
}

impl<T: Operation<3> + Send + Sync> CustomOp3 for OnGpu<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.0.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
        s3: &CudaStorage,
        l3: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.0.launch([(s1, l1), (s2, l2), (s3, l3)])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok(self.0.backward([a, b, c], y, &gradient.contiguous()?)?.into())
    }
}

fn on_cpu<T>(name: &str) -> Result<T> {
    candle_core::bail!("{name} runs on a GPU")
}

/// Rows and width of a tensor, for a launch.
pub(super) fn rows_of(shape: &Shape) -> Result<(u32, u32)> {
    let width = shape.dim(D::Minus1)?;
    let rows = shape.elem_count() / width.max(1);
    match (u32::try_from(rows), u32::try_from(width)) {
        (Ok(rows), Ok(width)) if rows < u32::MAX - 8 => Ok((rows, width)),
        _ => candle_core::bail!("a tensor of {rows} rows is too large for one launch"),
    }
}

pub(super) fn view<T: CudaDType>((storage, layout): Operand<'_>) -> Result<CudaView<'_, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => candle_core::bail!("a GPU kernel needs contiguous operands"),
    }
}

/// The kernels, compiled once in the process.
pub(super) fn ptx() -> Result<&'static str> {
    static PTX: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    let compiled = PTX.get_or_init(|| {
        nvrtc::compile_ptx(include_str!("kernels.cu")).map(|ptx| ptx.to_src()).map_err(|e| e.to_string())
    });
    compiled.as_deref().map_err(|e| Error::msg(format!("the GPU kernels do not compile: {e}")))
}
