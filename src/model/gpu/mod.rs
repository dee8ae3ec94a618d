//! Fused operations with a backward pass, for training on a GPU.
//!
//! candle's composed operations compute the place of every element by division where a shape is broadcast,
//! sum columns one block a column, and add the rows of an embedding table one after another. The kernels here
//! take a row a warp; they are compiled for the GPU at hand when the first one runs (NVRTC). Sums over the
//! rows of an embedding table are atomic, so two runs may differ in the last bits.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaView, LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::cudarc::nvrtc;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, CustomOp3, D, Error, Layout, Result, Shape, Tensor};

mod reshape;

use reshape::column_sums;
pub(super) use reshape::permute;

/// Layer normalisation over the last dimension.
///
/// # Shapes
/// `x` `[.., m]` and the output; `weight` and `bias` `[m]`; all f32.
pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    x.contiguous()?.apply_op3(weight, bias, LayerNorm(epsilon))
}

/// `softmax(scale * scores + mask)` over the last dimension.
///
/// # Shapes
/// `scores` `[batch, heads, tokens, tokens]` and the output; `mask` `[batch, 1, 1, tokens]`, a constant; all
/// f32.
pub(super) fn softmax(scores: &Tensor, mask: &Tensor, scale: f32) -> Result<Tensor> {
    let (_, heads, tokens, _) = scores.dims4()?;
    scores.contiguous()?.apply_op2(&mask.contiguous()?, Softmax { group: (heads * tokens) as u32, scale })
}

/// `x + bias` over the last dimension, followed by GELU where `gelu`.
pub(super) fn bias(x: &Tensor, bias: &Tensor, gelu: bool) -> Result<Tensor> {
    x.contiguous()?.apply_op2(bias, Bias { gelu })
}

/// Rows of a table.
///
/// # Shapes
/// `table` `[n, m]` f32; `ids` `[k]` u32, each below n; output `[k, m]`.
pub(super) fn rows(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    table.apply_op2(ids, Rows)
}

/// One launch over the rows of the first operand.
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

    fn launch(self, [a, b, c]: [(&CudaStorage, &Layout); 3]) -> Result<(CudaStorage, Shape)> {
        let shape = a.1.shape().clone();
        let (rows, width) = rows_of(&shape)?;
        let device = a.0.device();
        let function = device.get_or_load_custom_func(self.name, "ehi", ptx()?)?;
        // SAFETY: the kernel writes every element, since a warp takes each row whole.
        let mut out = unsafe { device.alloc::<f32>(shape.elem_count())? };
        let (a, b, c) = (view::<f32>(a)?, view::<f32>(b)?, view::<f32>(c)?);
        let mut launch = function.builder();
        launch.arg(&a).arg(&b).arg(&c).arg(&mut out).arg(&rows).arg(&width).arg(&self.group).arg(&self.scale);
        // SAFETY: the signature is that of kernels.cu, and the callers hold operands to the shapes it reads.
        unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
        Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
    }
}

/// A kernel of a backward pass.
impl CustomOp3 for Kernel {
    fn name(&self) -> &'static str {
        self.name
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
        on_cpu(self.name)
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
        self.launch([(s1, l1), (s2, l2), (s3, l3)])
    }
}

struct LayerNorm(f32);

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
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
        on_cpu(self.name())
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
        Kernel::scaled("layer_norm", self.0).launch([(s1, l1), (s2, l2), (s3, l3)])
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
        let of = |name| x.apply_op3_no_bwd(weight, &gradient, &Kernel::scaled(name, self.0));
        let (dx, dw) = (of("layer_norm_gradient")?, of("layer_norm_weight_gradient")?);
        Ok((Some(dx), Some(column_sums(&dw)?), Some(column_sums(&gradient)?)))
    }
}

struct Softmax {
    group: u32,
    scale: f32,
}

impl CustomOp2 for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let kernel = Kernel { group: self.group, ..Kernel::scaled("softmax", self.scale) };
        kernel.launch([(s1, l1), (s2, l2), (s2, l2)])
    }

    fn bwd(
        &self,
        _scores: &Tensor,
        _mask: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let kernel = Kernel::scaled("softmax_gradient", self.scale);
        Ok((Some(y.apply_op3_no_bwd(y, &gradient.contiguous()?, &kernel)?), None))
    }
}

struct Bias {
    gelu: bool,
}

impl CustomOp2 for Bias {
    fn name(&self) -> &'static str {
        if self.gelu { "bias_gelu" } else { "bias" }
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        Kernel::new(self.name()).launch([(s1, l1), (s2, l2), (s2, l2)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = gradient.contiguous()?;
        let dx = match self.gelu {
            true => x.apply_op3_no_bwd(bias, &gradient, &Kernel::new("bias_gelu_gradient"))?,
            false => gradient,
        };
        let db = column_sums(&dx)?;
        Ok((Some(dx), Some(db)))
    }
}

struct Rows;

impl CustomOp2 for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let shape = Shape::from((l2.shape().elem_count(), l1.shape().dim(D::Minus1)?));
        by_ids("gather", (s1, l1), (s2, l2), shape)
    }

    fn bwd(
        &self,
        table: &Tensor,
        ids: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let op = Scatter { table: table.shape().clone() };
        Ok((Some(gradient.contiguous()?.apply_op2_no_bwd(ids, &op)?), None))
    }
}

struct Scatter {
    table: Shape,
}

impl CustomOp2 for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        on_cpu(self.name())
    }

    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        by_ids("scatter", (s1, l1), (s2, l2), self.table.clone())
    }
}

/// Launches a kernel over the rows that `ids` name, with an output of zeros.
fn by_ids(
    name: &'static str,
    x: (&CudaStorage, &Layout),
    ids: (&CudaStorage, &Layout),
    shape: Shape,
) -> Result<(CudaStorage, Shape)> {
    let device = x.0.device();
    let function = device.get_or_load_custom_func(name, "ehi", ptx()?)?;
    let mut out = device.alloc_zeros::<f32>(shape.elem_count())?;
    let (rows, (_, width)) = (ids.1.shape().elem_count() as u32, rows_of(x.1.shape())?);
    let (x, ids) = (view::<f32>(x)?, view::<u32>(ids)?);
    let mut launch = function.builder();
    launch.arg(&x).arg(&ids).arg(&mut out).arg(&rows).arg(&width);
    // SAFETY: the signature is that of kernels.cu; ids are tokens, and the table has a row for each token.
    unsafe { launch.launch(a_warp_each(rows)) }.map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device.clone()), shape))
}

fn rows_of(shape: &Shape) -> Result<(u32, u32)> {
    let width = shape.dim(D::Minus1)?;
    let rows = shape.elem_count() / width.max(1);
    match (u32::try_from(rows), u32::try_from(width)) {
        (Ok(rows), Ok(width)) if rows < u32::MAX - 8 => Ok((rows, width)),
        _ => candle_core::bail!("a tensor of {rows} rows is too large for one launch"),
    }
}

fn a_warp_each(rows: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (rows.div_ceil(8), 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}

fn view<'a, T: candle_core::cuda_backend::CudaDType>(
    (storage, layout): (&'a CudaStorage, &Layout),
) -> Result<CudaView<'a, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => candle_core::bail!("a GPU kernel needs contiguous operands"),
    }
}

fn on_cpu<T>(name: &str) -> Result<T> {
    candle_core::bail!("{name} runs on a GPU")
}

/// The kernels, compiled once in the process.
fn ptx() -> Result<&'static str> {
    static PTX: OnceLock<std::result::Result<String, String>> = OnceLock::new();
    let compiled = PTX.get_or_init(|| {
        nvrtc::compile_ptx(include_str!("kernels.cu")).map(|ptx| ptx.to_src()).map_err(|e| e.to_string())
    });
    compiled.as_deref().map_err(|e| Error::msg(format!("the GPU kernels do not compile: {e}")))
}
