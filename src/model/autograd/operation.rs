//! candle's interface to the operations of this crate.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp3, Error, Layout, Result, Shape, Tensor};

/// Storage in main memory, and the layout of a tensor in it.
pub(super) type Operand<'a> = (&'a CpuStorage, &'a Layout);
/// Likewise on a GPU.
#[cfg(feature = "cuda")]
pub(in crate::model) type GpuOperand<'a> = (&'a CudaStorage, &'a Layout);

/// The gradients of three operands.
pub(in crate::model) type Gradients = [Option<Tensor>; 3];

/// An operation on up to three operands, on the CPU or on a GPU. Missing operands are filled with the first
/// one.
pub(in crate::model) trait Operation: Send + Sync {
    fn name(&self) -> &'static str;

    fn on_cpu(&self, _operands: [Operand<'_>; 3]) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("{} runs on a GPU", self.name())
    }

    #[cfg(feature = "cuda")]
    fn on_gpu(&self, _operands: [GpuOperand<'_>; 3]) -> Result<(CudaStorage, Shape)> {
        candle_core::bail!("{} runs on the CPU", self.name())
    }

    /// Gradients of the operands from that of the output `y`, which is contiguous.
    fn backward(&self, _operands: [&Tensor; 3], _y: &Tensor, _gradient: &Tensor) -> Result<Gradients> {
        Err(Error::BackwardNotSupported { op: self.name() })
    }
}

/// The output of an operation, with gradients.
pub(in crate::model) fn apply<const N: usize>(
    operands: [&Tensor; N],
    operation: impl Operation + 'static,
) -> Result<Tensor> {
    let [a, b, c] = filled(operands);
    a.apply_op3(b, c, AsCandle(operation))
}

/// The output of an operation of a backward pass.
#[cfg(feature = "cuda")]
pub(in crate::model) fn apply_without_gradients<const N: usize>(
    operands: [&Tensor; N],
    operation: impl Operation,
) -> Result<Tensor> {
    let [a, b, c] = filled(operands);
    a.apply_op3_no_bwd(b, c, &AsCandle(operation))
}

fn filled<const N: usize>(operands: [&Tensor; N]) -> [&Tensor; 3] {
    std::array::from_fn(|at| operands.get(at).copied().unwrap_or(operands[0]))
}

/// An operation on the CPU: its name, its output and the gradients of its operands.
pub(super) struct OnCpu<F, B>(pub &'static str, pub F, pub B);

impl<F, B> Operation for OnCpu<F, B>
where
    F: Fn([Operand<'_>; 3]) -> Result<(CpuStorage, Shape)> + Send + Sync,
    B: Fn([&Tensor; 3], &Tensor, &Tensor) -> Result<Gradients> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn on_cpu(&self, operands: [Operand<'_>; 3]) -> Result<(CpuStorage, Shape)> {
        (self.1)(operands)
    }

    fn backward(&self, operands: [&Tensor; 3], y: &Tensor, gradient: &Tensor) -> Result<Gradients> {
        (self.2)(operands, y, gradient)
    }
}

struct AsCandle<T>(T);

impl<T: Operation> CustomOp3 for AsCandle<T> {
    fn name(&self) -> &'static str {
        self.0.name()
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
        self.0.on_cpu([(s1, l1), (s2, l2), (s3, l3)])
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
        s3: &CudaStorage,
        l3: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.0.on_gpu([(s1, l1), (s2, l2), (s3, l3)])
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
