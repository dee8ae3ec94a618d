//! candle's interface to the operations of this crate.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Error, Layout, Result, Shape, Tensor};

/// Storage in main memory, and how a tensor lies in it.
pub(super) type Operand<'a> = (&'a CpuStorage, &'a Layout);
/// Likewise on a GPU.
#[cfg(feature = "cuda")]
pub(in crate::model) type GpuOperand<'a> = (&'a CudaStorage, &'a Layout);

/// An operation of `N` operands, on the CPU or on a GPU.
pub(in crate::model) trait Operation<const N: usize> {
    fn name(&self) -> &'static str;

    fn on_cpu(&self, _operands: [Operand<'_>; N]) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("{} runs on a GPU", self.name())
    }

    #[cfg(feature = "cuda")]
    fn on_gpu(&self, _operands: [GpuOperand<'_>; N]) -> Result<(CudaStorage, Shape)> {
        candle_core::bail!("{} runs on the CPU", self.name())
    }

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

/// An operation on the CPU, made of two functions.
struct Functions<F, B> {
    name: &'static str,
    forward: F,
    backward: B,
}

/// An operation on the CPU: its name, its output and the gradients of its operands.
pub(super) fn operation<const N: usize, F, B>(
    name: &'static str,
    forward: F,
    backward: B,
) -> Op<impl Operation<N> + Send + Sync>
where
    F: Fn([Operand<'_>; N]) -> Result<(CpuStorage, Shape)> + Send + Sync,
    B: Fn([&Tensor; N], &Tensor, &Tensor) -> Result<[Option<Tensor>; N]> + Send + Sync,
{
    Op(Functions { name, forward, backward })
}

impl<const N: usize, F, B> Operation<N> for Functions<F, B>
where
    F: Fn([Operand<'_>; N]) -> Result<(CpuStorage, Shape)>,
    B: Fn([&Tensor; N], &Tensor, &Tensor) -> Result<[Option<Tensor>; N]>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_cpu(&self, operands: [Operand<'_>; N]) -> Result<(CpuStorage, Shape)> {
        (self.forward)(operands)
    }

    fn backward(&self, of: [&Tensor; N], y: &Tensor, gradient: &Tensor) -> Result<[Option<Tensor>; N]> {
        (self.backward)(of, y, gradient)
    }
}

/// An [`Operation`] as candle takes it.
pub(in crate::model) struct Op<T>(pub T);

impl<T: Operation<1> + Send + Sync> CustomOp1 for Op<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout) -> Result<(CpuStorage, Shape)> {
        self.0.on_cpu([(s1, l1)])
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, s1: &CudaStorage, l1: &Layout) -> Result<(CudaStorage, Shape)> {
        self.0.on_gpu([(s1, l1)])
    }

    fn bwd(&self, a: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [a] = self.0.backward([a], y, &gradient.contiguous()?)?;
        Ok(a)
    }
}

impl<T: Operation<2> + Send + Sync> CustomOp2 for Op<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.0.on_cpu([(s1, l1), (s2, l2)])
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        s1: &CudaStorage,
        l1: &Layout,
        s2: &CudaStorage,
        l2: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.0.on_gpu([(s1, l1), (s2, l2)])
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

impl<T: Operation<3> + Send + Sync> CustomOp3 for Op<T> {
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
