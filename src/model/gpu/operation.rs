//! Shared parts of GPU operations: the interface to candle, views of operands, and the compiled kernels.

use std::sync::OnceLock;

use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::CudaView;
use candle_core::cuda_backend::cudarc::nvrtc;
use candle_core::{CpuStorage, CudaStorage, CustomOp3, D, Error, Layout, Result, Shape, Tensor};

use crate::model::autograd::operation::{GpuOperand as Operand, Gradients, filled};

/// An operation on a GPU: its name, its output by its name and operands, and the gradients of its operands
/// from its output and the gradient of that, which is contiguous.
pub(super) struct OnGpu<F, B>(pub &'static str, pub F, pub B);

impl<F, B> CustomOp3 for OnGpu<F, B>
where
    F: Fn(&'static str, [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)>,
    B: Fn([&Tensor; 3], &Tensor, &Tensor) -> Result<Gradients>,
{
    fn name(&self) -> &'static str {
        self.0
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
        candle_core::bail!("{} runs on a GPU", self.0)
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
        (self.1)(self.0, [(s1, l1), (s2, l2), (s3, l3)])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok((self.2)([a, b, c], y, &gradient.contiguous()?)?.into())
    }
}

/// The output of an operation of a backward pass.
pub(super) fn apply_without_gradients<const N: usize>(
    name: &'static str,
    operands: [&Tensor; N],
    forward: impl Fn(&'static str, [Operand<'_>; 3]) -> Result<(CudaStorage, Shape)>,
) -> Result<Tensor> {
    let [a, b, c] = filled(operands);
    let none = |_: [&Tensor; 3], _: &Tensor, _: &Tensor| Err(Error::BackwardNotSupported { op: name });
    a.apply_op3_no_bwd(b, c, &OnGpu(name, forward, none))
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

/// The kernels, compiled once per process.
pub(super) fn ptx() -> Result<&'static str> {
    static PTX: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    let compiled = PTX.get_or_init(|| {
        nvrtc::compile_ptx(include_str!("kernels.cu")).map(|ptx| ptx.to_src()).map_err(|e| e.to_string())
    });
    compiled.as_deref().map_err(|e| Error::msg(format!("the GPU kernels do not compile: {e}")))
}
