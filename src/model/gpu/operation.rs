//! Shared parts of GPU operations: views of operands, and the compiled kernels.

use std::sync::OnceLock;

use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::CudaView;
use candle_core::cuda_backend::cudarc::nvrtc;
use candle_core::{D, Error, Result, Shape};

use crate::model::autograd::operation::GpuOperand as Operand;

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
