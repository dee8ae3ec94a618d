//! The Dense module of sentence-transformers: a linear map of an embedding, and an activation.

#[cfg(feature = "train")]
use candle_core::{Device, Tensor};
use serde::Serialize;

use super::error::ModelError;
use super::weights::Weights;

/// The activation of a Dense module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DenseActivation {
    /// Nothing.
    #[default]
    Identity,
    /// The hyperbolic tangent.
    Tanh,
    /// Rectified linear.
    Relu,
    /// GELU by the error function.
    Gelu,
    /// The logistic function.
    Sigmoid,
    /// `x` times its logistic function.
    Silu,
}

impl DenseActivation {
    pub(super) const NAMES: [(&'static str, Self); 6] = [
        ("Identity", Self::Identity),
        ("Tanh", Self::Tanh),
        ("ReLU", Self::Relu),
        ("GELU", Self::Gelu),
        ("Sigmoid", Self::Sigmoid),
        ("SiLU", Self::Silu),
    ];
    /// Their names, for a message.
    pub(super) const SUPPORTED: &'static str = "torch.nn's Identity, Tanh, ReLU, GELU, Sigmoid, SiLU";

    /// From the class name in a folder.
    pub(super) fn of_class(class: &str) -> Option<Self> {
        let name = class.starts_with("torch.nn.").then(|| class.rsplit('.').next()).flatten()?;
        Self::NAMES.into_iter().find(|(own, _)| *own == name).map(|(_, activation)| activation)
    }

    /// The name of the torch class.
    #[cfg(feature = "train")]
    pub(super) fn class(self) -> String {
        let module = if self == Self::Identity { "linear" } else { "activation" };
        let name = Self::NAMES.into_iter().find(|(_, own)| *own == self).map_or("", |(name, _)| name);
        format!("torch.nn.modules.{module}.{name}")
    }

    pub(super) fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Tanh => x.tanh(),
            Self::Relu => x.max(0.0),
            Self::Gelu => {
                let x = f64::from(x);
                (0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))) as f32
            }
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Silu => x / (1.0 + (-x).exp()),
        }
    }

    #[cfg(feature = "train")]
    fn forward(self, x: &Tensor) -> candle_core::Result<Tensor> {
        match self {
            Self::Identity => Ok(x.clone()),
            Self::Tanh => x.tanh(),
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu_erf(),
            Self::Sigmoid => candle_nn::ops::sigmoid(x),
            Self::Silu => x.silu(),
        }
    }
}

/// A linear map after the pooling, from its folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DenseModule {
    /// Folder inside that of the model.
    #[serde(skip)]
    pub(crate) folder: String,
    /// Dimensions before it.
    pub inputs: usize,
    /// Dimensions after it.
    pub outputs: usize,
    #[serde(skip)]
    pub(crate) bias: bool,
    /// Activation of its outputs.
    pub activation: DenseActivation,
    /// Whether the input is added to the output, through a separate map if the widths differ.
    #[serde(skip)]
    pub(crate) residual: bool,
}

/// A linear map with an activation. Training an encoder does not change it; training a reranker uses its own
/// maps ([`Self::map`]).
#[derive(Clone)]
pub(crate) struct Dense {
    activation: DenseActivation,
    residual: bool,
    linear: Map,
    /// If the input is added and has another width.
    projection: Option<Map>,
}

/// `W x + b`.
#[derive(Clone)]
struct Map {
    /// `[inputs, outputs]`: the transpose of the file's matrix, so that an input's row is contiguous.
    columns: Vec<f32>,
    bias: Vec<f32>,
    /// The columns, and the bias if there is one.
    #[cfg(feature = "train")]
    tensors: (Tensor, Option<Tensor>),
}

impl Dense {
    /// Reads a map from a file by name.
    pub(super) fn of(weights: &Weights, name: &str, config: &DenseModule) -> Result<Self, ModelError> {
        let DenseModule { inputs, outputs, bias, activation, residual, .. } = *config;
        let bias = match bias {
            true => Some(weights.values(&format!("{name}.bias"), &[outputs])?),
            false => None,
        };
        let map =
            |name: &str, bias| Map::new(&weights.values(name, &[outputs, inputs])?, [outputs, inputs], bias);
        let linear = map(&format!("{name}.weight"), bias)?;
        let projection = match residual && inputs != outputs {
            true => Some(map("residual.weight", None)?),
            false => None,
        };
        Ok(Self { activation, residual, linear, projection })
    }

    pub(crate) fn outputs(&self) -> usize {
        self.linear.bias.len()
    }

    /// The same map with tensors that `map` makes from `weight` (its columns, `[inputs, outputs]`) and
    /// `bias`. Only for [`Self::forward`]: [`Self::apply`] keeps using the loaded weights.
    #[cfg(feature = "train")]
    pub(crate) fn map<E>(&self, map: &mut dyn FnMut(&str, &Tensor) -> Result<Tensor, E>) -> Result<Self, E> {
        let mut new = self.clone();
        let (columns, bias) = &mut new.linear.tensors;
        *columns = map("weight", columns)?;
        if let Some(bias) = bias {
            *bias = map("bias", bias)?;
        }
        Ok(new)
    }

    /// Shapes: `[inputs]` to `[outputs]`.
    pub(crate) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut out = self.linear.apply(x);
        out.iter_mut().for_each(|x| *x = self.activation.apply(*x));
        if self.residual {
            let projected = self.projection.as_ref().map(|map| map.apply(x));
            let added = projected.as_deref().unwrap_or(x);
            out.iter_mut().zip(added).for_each(|(out, x)| *out += x);
        }
        out
    }

    /// Shapes: `[batch, inputs]` to `[batch, outputs]`, differentiable.
    #[cfg(feature = "train")]
    pub(crate) fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let out = self.activation.forward(&self.linear.forward(x)?)?;
        match (self.residual, &self.projection) {
            (false, _) => Ok(out),
            (true, None) => out + x,
            (true, Some(map)) => out + map.forward(x)?,
        }
    }
}

impl Map {
    /// Shapes: `weight` `[outputs, inputs]`, `bias` `[outputs]`.
    fn new(
        weight: &[f32],
        [outputs, inputs]: [usize; 2],
        bias: Option<Vec<f32>>,
    ) -> Result<Self, ModelError> {
        let column = |input| weight.chunks_exact(inputs).map(move |row| row[input]);
        let columns: Vec<f32> = (0..inputs).flat_map(column).collect();
        Ok(Self {
            #[cfg(feature = "train")]
            tensors: (
                Tensor::from_slice(&columns, (inputs, outputs), &Device::Cpu)?,
                bias.as_deref().map(|bias| Tensor::new(bias, &Device::Cpu)).transpose()?,
            ),
            columns,
            bias: bias.unwrap_or_else(|| vec![0.0; outputs]),
        })
    }

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut out = self.bias.clone();
        for (x, weights) in x.iter().zip(self.columns.chunks_exact(out.len().max(1))) {
            out.iter_mut().zip(weights).for_each(|(out, weight)| *out += x * weight);
        }
        out
    }

    #[cfg(feature = "train")]
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let (columns, bias) = &self.tensors;
        let device = x.device();
        let product = x.contiguous()?.matmul(&columns.to_device(device)?)?;
        match bias {
            Some(bias) => product.broadcast_add(&bias.to_device(device)?),
            None => Ok(product),
        }
    }
}

#[cfg(all(test, feature = "train"))]
mod tests {
    use super::*;

    fn tensor(shape: &[usize], step: f32) -> Tensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| (i as f32 * step).sin()).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    /// Both implementations agree, and the gradient matches finite differences.
    #[test]
    fn both_passes_agree_and_gradients_are_right() {
        let x = tensor(&[3, 4], 0.9);
        let rows: Vec<Vec<f32>> = x.to_vec2().unwrap();
        for (_, activation) in DenseActivation::NAMES {
            for (outputs, residual) in [(4, false), (4, true), (6, true)] {
                let values = |count, step| tensor(&[count], step).to_vec1().unwrap();
                let map = |step, bias| Map::new(&values(outputs * 4, step), [outputs, 4], bias).unwrap();
                let linear = map(0.37, Some(values(outputs, 0.21)));
                let projection = (residual && outputs != 4).then(|| map(0.53, None));
                let dense = Dense { activation, residual, linear, projection };
                let padded: Vec<Vec<f32>> = dense.forward(&x).unwrap().to_vec2().unwrap();
                for (row, want) in rows.iter().zip(&padded) {
                    let found = dense.apply(row);
                    assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{activation:?}");
                }
                let var = candle_core::Var::from_tensor(&x).unwrap();
                let loss = dense.forward(var.as_tensor()).unwrap().sqr().unwrap().sum_all().unwrap();
                let gradient =
                    loss.backward().unwrap().get(var.as_tensor()).unwrap().to_vec2::<f32>().unwrap();
                let loss_of =
                    |row: &[f32]| -> f64 { dense.apply(row).iter().map(|x| f64::from(*x).powi(2)).sum() };
                for (row, gradient) in rows.iter().zip(&gradient) {
                    for (place, &own) in gradient.iter().enumerate() {
                        let moved = |by: f32| {
                            let mut row = row.clone();
                            row[place] += by;
                            loss_of(&row)
                        };
                        let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                        assert!((f64::from(own) - expected).abs() < 2e-2, "{activation:?}: {own} {expected}");
                    }
                }
            }
        }
    }
}
