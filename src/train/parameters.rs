//! Copies of all trainable tensors, by name.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::error::{TrainError, tensor_error};
use super::optimizer::Parameter;
use super::report::MovedTensor;
use crate::error::Result;

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

/// How far each tensor that `is_trained` is from where it started: L2 norm of the change over that of the
/// start.
///
/// # Errors
/// [`TrainError::NotTrained`] for a tensor that did not move.
pub(crate) fn moved(
    parameters: &[Parameter],
    start: &Weights,
    is_trained: impl Fn(&str) -> bool,
) -> Result<Vec<MovedTensor>> {
    let norm = |t: &Tensor| -> candle_core::Result<f64> {
        Ok(f64::from(t.sqr()?.sum_all()?.to_scalar::<f32>()?).sqrt())
    };
    let now = copy(parameters).map_err(tensor_error)?;
    let relative = |name: &str, start: &Tensor| -> candle_core::Result<f64> {
        Ok(norm(&(&now[name] - start)?)? / norm(start)?.max(f64::from(f32::MIN_POSITIVE)))
    };
    let moved = start.iter().filter(|(name, _)| is_trained(name)).map(|(name, start)| {
        match relative(name, start).map_err(tensor_error)? {
            0.0 => Err(TrainError::NotTrained { tensor: name.clone() }.into()),
            relative_change => Ok(MovedTensor { name: name.clone(), relative_change }),
        }
    });
    moved.collect()
}
