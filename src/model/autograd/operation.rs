//! candle's interface to the operations of this crate.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};

/// Storage in main memory, and the layout of a tensor in it.
pub(super) type Operand<'a> = (&'a CpuStorage, &'a Layout);
/// Likewise on a GPU.
#[cfg(feature = "cuda")]
pub(in crate::model) type GpuOperand<'a> = (&'a CudaStorage, &'a Layout);

/// The gradients of three operands.
pub(in crate::model) type Gradients = [Option<Tensor>; 3];

/// The output of an operation on up to three operands, with gradients. Missing operands are filled with the
/// first one.
pub(in crate::model) fn apply<const N: usize>(
    operands: [&Tensor; N],
    operation: impl CustomOp3 + Send + Sync + 'static,
) -> Result<Tensor> {
    let [a, b, c] = filled(operands);
    a.apply_op3(b, c, operation)
}

pub(in crate::model) fn filled<const N: usize>(operands: [&Tensor; N]) -> [&Tensor; 3] {
    std::array::from_fn(|at| operands.get(at).copied().unwrap_or(operands[0]))
}

/// An operation on the CPU: its name, its output, and the gradients of its operands from its output and the
/// gradient of that, which is contiguous.
pub(super) struct OnCpu<F, B>(pub &'static str, pub F, pub B);

impl<F, B> CustomOp3 for OnCpu<F, B>
where
    F: Fn([Operand<'_>; 3]) -> Result<(CpuStorage, Shape)>,
    B: Fn([&Tensor; 3], &Tensor, &Tensor) -> Result<Gradients>,
{
    fn name(&self) -> &'static str {
        self.0
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
        (self.1)([(s1, l1), (s2, l2), (s3, l3)])
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
