//! Sums of columns, and copies whose axes are permuted.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CudaStorage, D, Error, Result, Shape, Tensor};

use super::operation::{apply_without_gradients, ptx, rows_of, view};
use crate::model::autograd::operation::GpuOperand as Operand;

/// Rows that one thread block sums.
const ROWS_PER_BLOCK: u32 = 512;

/// Sum over all but the last dimension, in an order that depends only on the shape: `[.., m]` to `[m]`.
pub(super) fn column_sums(x: &Tensor) -> Result<Tensor> {
    let mut x = x.reshape(((), x.dim(D::Minus1)?))?;
    while x.dim(0)? > 1 {
        x = apply_without_gradients("column_sums", [&x], |name, [x, ..]| sums_of_blocks(name, x))?;
    }
    x.squeeze(0)
}

fn sums_of_blocks(name: &str, x: Operand<'_>) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device();
    let function = device.get_or_load_custom_func(name, "ehi", ptx()?)?;
    let (rows, width) = rows_of(x.1.shape())?;
    let blocks = rows.div_ceil(ROWS_PER_BLOCK);
    // SAFETY: the kernel writes every element: each column of each block of rows.
    let mut out = unsafe { device.alloc::<f32>(blocks as usize * width as usize)? };
    let x = view::<f32>(x)?;
    let mut launch = function.builder();
    launch.arg(&x).arg(&mut out).arg(&rows).arg(&width).arg(&ROWS_PER_BLOCK);
    let grid_dim = (width.div_ceil(32), blocks, 1);
    let config = LaunchConfig { grid_dim, block_dim: (32, 8, 1), shared_mem_bytes: 0 };
    // SAFETY: the signature matches kernels.cu; threads beyond the rows and columns read nothing.
    unsafe { launch.launch(config) }.map_err(Error::wrap)?;
    let out = CudaStorage::wrap_cuda_slice(out, device.clone());
    Ok((out, Shape::from((blocks as usize, width as usize))))
}

/// A contiguous copy of `x` whose axis i is axis `axes[i]` of `x`, which has four.
pub(super) fn permuted(name: &str, x: Operand<'_>, axes: [usize; 4]) -> Result<(CudaStorage, Shape)> {
    let shape = x.1.shape();
    let n = shape.elem_count();
    let Ok(elements) = u32::try_from(n) else {
        candle_core::bail!("a tensor of {n} elements is too large for one launch");
    };
    let from: [usize; 4] = shape.dims4()?.into();
    let strides = [from[1] * from[2] * from[3], from[2] * from[3], from[3], 1];
    let dims = axes.map(|axis| from[axis]);
    let [_, d1, d2, d3] = dims.map(|dim| dim as u32);
    let [s0, s1, s2, s3] = axes.map(|axis| strides[axis] as u32);
    let device = x.0.device();
    let function = device.get_or_load_custom_func(name, "ehi", ptx()?)?;
    // SAFETY: the kernel writes every element, one per thread.
    let mut out = unsafe { device.alloc::<f32>(n)? };
    let x = view::<f32>(x)?;
    let mut launch = function.builder();
    launch.arg(&x).arg(&mut out).arg(&elements).arg(&d1).arg(&d2).arg(&d3);
    launch.arg(&s0).arg(&s1).arg(&s2).arg(&s3);
    let grid_dim = (elements.div_ceil(256), 1, 1);
    let config = LaunchConfig { grid_dim, block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the signature matches kernels.cu; permuted strides of x stay within its elements.
    unsafe { launch.launch(config) }.map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), Shape::from(dims.to_vec())))
}
