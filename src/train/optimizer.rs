//! AdamW with parameter groups and visible moments.

use candle_core::backprop::GradStore;
use candle_core::{D, Tensor, Var};

use super::error::TrainError;
use super::parameters::Weights;
#[cfg(feature = "cuda")]
use crate::model::AdamWStep;

/// A trainable tensor with its name in reports and checkpoints.
#[derive(Clone)]
pub(crate) struct Parameter {
    pub name: String,
    pub var: Var,
}

/// Parameters that share a learning rate and a weight decay.
pub(crate) struct Group {
    pub parameters: Vec<Parameter>,
    pub learning_rate: f64,
    pub weight_decay: f64,
}

struct Moments {
    first: Tensor,
    second: Tensor,
}

/// AdamW with decoupled weight decay (Loshchilov and Hutter 2017).
pub(crate) struct AdamW {
    groups: Vec<Group>,
    moments: Vec<Vec<Moments>>,
    step: i32,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl AdamW {
    pub(crate) fn new(groups: Vec<Group>) -> candle_core::Result<Self> {
        let moments = groups
            .iter()
            .map(|group| {
                let zeros =
                    |p: &Parameter| Ok(Moments { first: p.var.zeros_like()?, second: p.var.zeros_like()? });
                group.parameters.iter().map(zeros).collect()
            })
            .collect::<candle_core::Result<_>>()?;
        Ok(Self { groups, moments, step: 0 })
    }

    /// Checks that every tensor has a gradient: candle drops gradients silently.
    ///
    /// # Errors
    /// [`TrainError::NoGradient`].
    pub(crate) fn check(&self, gradients: &Gradients) -> Result<(), TrainError> {
        let mut all = self.groups.iter().flat_map(|group| &group.parameters);
        match all.find(|parameter| gradients.get(parameter).is_none()) {
            Some(missing) => Err(TrainError::NoGradient { tensor: missing.name.clone() }),
            None => Ok(()),
        }
    }

    /// Steps done, and the first and second moments of every parameter.
    pub(crate) fn state(&self) -> (i32, Weights, Weights) {
        let moments = || {
            self.groups.iter().zip(&self.moments).flat_map(|(group, own)| group.parameters.iter().zip(own))
        };
        let first = moments().map(|(p, m)| (p.name.clone(), m.first.clone())).collect();
        let second = moments().map(|(p, m)| (p.name.clone(), m.second.clone())).collect();
        (self.step, first, second)
    }

    /// Restores the result of [`Self::state`].
    pub(crate) fn restore(
        &mut self,
        step: i32,
        first: &Weights,
        second: &Weights,
    ) -> candle_core::Result<()> {
        self.step = step;
        for (group, own) in self.groups.iter().zip(&mut self.moments) {
            for (Parameter { name, var }, m) in group.parameters.iter().zip(own) {
                if let (Some(first), Some(second)) = (first.get(name), second.get(name)) {
                    m.first = first.to_device(var.device())?;
                    m.second = second.to_device(var.device())?;
                }
            }
        }
        Ok(())
    }

    /// One step with every learning rate times `factor`; a parameter without a gradient is unchanged.
    pub(crate) fn step(&mut self, gradients: &Gradients, factor: f64) -> candle_core::Result<()> {
        self.step += 1;
        let correction1 = 1.0 - BETA1.powi(self.step);
        let correction2 = 1.0 - BETA2.powi(self.step);
        for (group, moments) in self.groups.iter().zip(&mut self.moments) {
            let rate = group.learning_rate * factor;
            for (parameter, m) in group.parameters.iter().zip(moments) {
                let Some(gradient) = gradients.get(parameter) else {
                    continue;
                };
                #[cfg(feature = "cuda")]
                if parameter.var.device().is_cuda() {
                    let (betas, corrections) = ([BETA1, BETA2], [correction1, correction2]);
                    let step = AdamWStep { betas, corrections, rate, weight_decay: group.weight_decay };
                    step.run(&parameter.var, [&m.first, &m.second], gradient)?;
                    continue;
                }
                m.first = ((&m.first * BETA1)? + (gradient * (1.0 - BETA1))?)?;
                m.second = ((&m.second * BETA2)? + (gradient.sqr()? * (1.0 - BETA2))?)?;
                let unbiased = (&m.first / correction1)?;
                let scale = ((&m.second / correction2)?.sqrt()? + EPSILON)?;
                let decayed = (parameter.var.as_tensor() * (1.0 - rate * group.weight_decay))?;
                parameter.var.set(&(decayed - (unbiased / scale)?.affine(rate, 0.0)?)?)?;
            }
        }
        Ok(())
    }
}

/// Gradients of one step, summed over the parts of the batch.
#[derive(Default)]
pub(crate) struct Gradients {
    by_name: std::collections::BTreeMap<String, Tensor>,
}

impl Gradients {
    /// Adds the gradients of one backward pass for `parameters`.
    pub(crate) fn add(&mut self, parameters: &[Parameter], store: &GradStore) -> candle_core::Result<()> {
        for parameter in parameters {
            if let Some(gradient) = store.get(parameter.var.as_tensor()) {
                let sum = match self.by_name.get(&parameter.name) {
                    Some(sum) => (sum + gradient)?,
                    None => gradient.clone(),
                };
                self.by_name.insert(parameter.name.clone(), sum.detach());
            }
        }
        Ok(())
    }

    /// L2 norm over all tensors.
    pub(crate) fn norm(&self) -> candle_core::Result<f64> {
        if self.by_name.is_empty() {
            return Ok(0.0);
        }
        // Row by row first: candle's sum of a whole tensor uses one block of a GPU.
        let squares = self.by_name.values().map(|gradient| gradient.sqr()?.sum(D::Minus1)?.sum_all());
        // Read in one transfer: each read synchronises with the device.
        let squares = Tensor::stack(&squares.collect::<candle_core::Result<Vec<_>>>()?, 0)?;
        Ok(squares.to_vec1::<f32>()?.into_iter().map(f64::from).sum::<f64>().sqrt())
    }

    pub(crate) fn get(&self, parameter: &Parameter) -> Option<&Tensor> {
        self.by_name.get(&parameter.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    /// Three steps against values computed from the definition.
    fn adamw_by_hand(device: &Device) -> candle_core::Result<()> {
        let var = Var::new(&[1f32], device)?;
        let parameter = Parameter { name: "x".to_owned(), var: var.clone() };
        let mut optimizer = AdamW::new(vec![Group {
            parameters: vec![parameter.clone()],
            learning_rate: 0.1,
            weight_decay: 0.5,
        }])?;
        let mut x = 1f64;
        let (mut m, mut v) = (0.0, 0.0);
        for step in 1..=3 {
            let loss = (var.as_tensor() * var.as_tensor())?.sum_all()?;
            let mut gradients = Gradients::default();
            gradients.add(std::slice::from_ref(&parameter), &loss.backward()?)?;
            optimizer.step(&gradients, 0.5)?;
            let g = 2.0 * x;
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let (mh, vh) = (m / (1.0 - 0.9f64.powi(step)), v / (1.0 - 0.999f64.powi(step)));
            x = x * (1.0 - 0.05 * 0.5) - 0.05 * mh / (vh.sqrt() + 1e-8);
            assert!((f64::from(var.to_vec1::<f32>()?[0]) - x).abs() < 1e-5);
        }
        Ok(())
    }

    #[test]
    fn adamw_by_hand_on_the_cpu() -> candle_core::Result<()> {
        adamw_by_hand(&Device::Cpu)
    }

    /// Needs a GPU.
    #[cfg(feature = "cuda")]
    #[test]
    fn adamw_by_hand_on_a_gpu() -> candle_core::Result<()> {
        adamw_by_hand(&Device::new_cuda(0)?)
    }

    #[test]
    fn the_norm_is_over_all_tensors() -> candle_core::Result<()> {
        let var = Var::new(&[3f32, 4.0], &Device::Cpu)?;
        let parameter = Parameter { name: "x".to_owned(), var: var.clone() };
        let mut gradients = Gradients::default();
        let loss = (var.as_tensor() * var.as_tensor())?.sum_all()?;
        gradients.add(std::slice::from_ref(&parameter), &loss.backward()?)?;
        assert!((gradients.norm()? - 10.0).abs() < 1e-6);
        Ok(())
    }
}
