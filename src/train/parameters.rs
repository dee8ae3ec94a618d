//! Copies of all trainable tensors, by name.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::optimizer::Parameter;

/// A snapshot of the trainable tensors, on the CPU.
pub(crate) type Weights = BTreeMap<String, Tensor>;

/// Copies the current values.
pub(crate) fn copy(parameters: &[Parameter]) -> candle_core::Result<Weights> {
    parameters
        .iter()
        .map(|p| {
            let now = p.var.as_tensor().detach();
            Ok((p.name.clone(), now.to_device(&candle_core::Device::Cpu)?.copy()?))
        })
        .collect()
}

/// Restores values.
pub(crate) fn restore(parameters: &[Parameter], weights: &Weights) -> candle_core::Result<()> {
    parameters.iter().try_for_each(|p| match weights.get(&p.name) {
        Some(tensor) => p.var.set(&tensor.to_device(p.var.device())?),
        None => candle_core::bail!("no values for {}", p.name),
    })
}

/// How far each tensor is from where it started: L2 norm of the change over that of the start.
pub(crate) fn moved(parameters: &[Parameter], start: &Weights) -> candle_core::Result<Vec<(String, f64)>> {
    let norm = |t: &Tensor| -> candle_core::Result<f64> {
        Ok(f64::from(t.sqr()?.sum_all()?.to_scalar::<f32>()?).sqrt())
    };
    let now = copy(parameters)?;
    start
        .iter()
        .map(|(name, start)| {
            let change = norm(&(&now[name] - start)?)?;
            Ok((name.clone(), change / norm(start)?.max(f64::from(f32::MIN_POSITIVE))))
        })
        .collect()
}
