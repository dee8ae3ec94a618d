//! Hidden states to one embedding per text: pooling, and the modules after it.
//!
//! As sentence-transformers computes it. [`Pooler::packed`] serves inference, [`Pooler::padded`] training; a
//! test compares the two.

#[cfg(feature = "train")]
use candle_core::{Device, Tensor};
use serde::Serialize;

use super::dense::Dense;
use super::error::ModelError;
use super::kernels;
use super::packed::PackedHidden;

/// How the hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PoolingMode {
    /// The first token.
    Cls,
    /// The largest value of each dimension.
    Max,
    /// The mean over the tokens.
    Mean,
    /// The sum over the tokens divided by the square root of their number.
    MeanSqrtLen,
    /// The mean weighted by the position of the token in the text, from 1.
    WeightedMean,
    /// The last token.
    LastToken,
}

/// A step after the pooling.
#[derive(Clone)]
pub(crate) enum Step {
    /// A linear map with an activation.
    Dense(Dense),
    /// Layer normalisation.
    LayerNorm(LayerNorm),
    /// Unit L2 norm.
    Normalise,
}

/// Layer normalisation of an embedding, without a bias.
#[derive(Clone)]
pub(crate) struct LayerNorm {
    weight: Vec<f32>,
    eps: f32,
    #[cfg(feature = "train")]
    tensor: Tensor,
}

/// Pooling and the steps after it.
#[derive(Clone)]
pub(crate) struct Pooler {
    modes: Vec<PoolingMode>,
    steps: Vec<Step>,
    /// Width of the hidden states.
    hidden: usize,
    /// Width before truncation.
    pub width: usize,
    /// Width of the embeddings.
    pub dim: usize,
}

/// Keeps the gradient of a zero vector's norm finite.
const NORM_EPSILON: f64 = 1e-12;
/// Replaces the values of tokens excluded from a maximum.
#[cfg(feature = "train")]
const NEVER_LARGEST: f32 = -1e9;

impl Pooler {
    /// If `dim` is less than the width, embeddings are truncated to it, and normalised again if they had unit
    /// norm.
    pub(crate) fn new(modes: Vec<PoolingMode>, steps: Vec<Step>, hidden: usize, dim: Option<usize>) -> Self {
        let pooled = modes.len() * hidden;
        let width = steps.iter().fold(pooled, |width, step| match step {
            Step::Dense(dense) => dense.outputs(),
            Step::LayerNorm(_) | Step::Normalise => width,
        });
        Self { modes, steps, hidden, width, dim: dim.map_or(width, |dim| dim.min(width)) }
    }

    /// Whether embeddings have unit norm.
    pub(crate) fn is_unit(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Normalise))
    }

    /// The same steps with tensors that `map` makes from the current ones, given the step's number and the
    /// tensor's name. Only for [`Self::padded`]: [`Self::packed`] keeps using the loaded weights.
    #[cfg(feature = "train")]
    pub(crate) fn map<E>(
        &self,
        map: &mut dyn FnMut(usize, &str, &Tensor) -> Result<Tensor, E>,
    ) -> Result<Self, E> {
        let mut new = self.clone();
        for (number, step) in new.steps.iter_mut().enumerate() {
            match step {
                Step::Dense(dense) => *dense = dense.map(&mut |name, own| map(number, name, own))?,
                Step::LayerNorm(norm) => norm.tensor = map(number, "weight", &norm.tensor)?,
                Step::Normalise => {}
            }
        }
        Ok(new)
    }

    /// Embeddings of packed hidden states; the first `skip` tokens are not pooled.
    ///
    /// # Shapes
    /// Output `[texts, dim]` row by row.
    pub(crate) fn packed(&self, hidden: &PackedHidden, skip: usize) -> Vec<f32> {
        let m = self.hidden;
        let mut out = Vec::with_capacity(hidden.lengths.len() * self.dim);
        let mut rest = hidden.values.as_slice();
        for &length in &hidden.lengths {
            let (text, tail) = rest.split_at(length * m);
            rest = tail;
            let mut row = Vec::with_capacity(self.width);
            for mode in &self.modes {
                mode.pool(text, m, skip, &mut row);
            }
            for step in &self.steps {
                match step {
                    Step::Dense(dense) => row = dense.apply(&row),
                    Step::LayerNorm(norm) => norm.apply(&mut row),
                    Step::Normalise => normalise(&mut row),
                }
            }
            if self.dim < self.width {
                row.truncate(self.dim);
                if self.is_unit() {
                    normalise(&mut row);
                }
            }
            out.extend_from_slice(&row);
        }
        out
    }

    /// Embeddings of a padded batch, every operation differentiable.
    ///
    /// # Shapes
    /// `hidden` `[batch, tokens, m]` f32; output `[batch, dim]`.
    #[cfg(feature = "train")]
    pub(crate) fn padded(
        &self,
        hidden: &Tensor,
        lengths: &[usize],
        skip: usize,
    ) -> candle_core::Result<Tensor> {
        let pooled = self.modes.iter().map(|mode| mode.pool_padded(hidden, lengths, skip));
        let pooled = pooled.collect::<candle_core::Result<Vec<_>>>()?;
        let mut x = match pooled.as_slice() {
            [one] => one.clone(),
            several => Tensor::cat(several, 1)?,
        };
        for step in &self.steps {
            x = match step {
                Step::Dense(dense) => dense.forward(&x)?,
                Step::LayerNorm(norm) => norm.forward(&x)?,
                Step::Normalise => unit_rows(&x)?,
            };
        }
        if self.dim < self.width {
            x = x.narrow(1, 0, self.dim)?;
            if self.is_unit() {
                x = unit_rows(&x)?;
            }
        }
        Ok(x)
    }
}

impl PoolingMode {
    /// Adds the pooled vector of one text to `out`. It is zero if `skip` leaves no token.
    ///
    /// # Shapes
    /// `text` `[tokens, m]`; `m` values are added.
    fn pool(self, text: &[f32], m: usize, skip: usize, out: &mut Vec<f32>) {
        let start = out.len();
        out.resize(start + m, 0.0);
        let row = &mut out[start..];
        let mut tokens = text.chunks_exact(m).skip(skip);
        match self {
            Self::Cls => tokens.next().into_iter().for_each(|token| row.copy_from_slice(token)),
            Self::LastToken => tokens.last().into_iter().for_each(|token| row.copy_from_slice(token)),
            Self::Max => {
                tokens.next().into_iter().for_each(|token| row.copy_from_slice(token));
                for token in tokens {
                    row.iter_mut().zip(token).for_each(|(most, x)| *most = most.max(*x));
                }
            }
            Self::Mean | Self::MeanSqrtLen => {
                let count = tokens.len().max(1) as f32;
                for token in tokens {
                    row.iter_mut().zip(token).for_each(|(sum, x)| *sum += x);
                }
                let by = if self == Self::Mean { count } else { count.sqrt() };
                row.iter_mut().for_each(|sum| *sum /= by);
            }
            Self::WeightedMean => {
                let mut by = 0.0;
                for (token, place) in tokens.zip(skip + 1..) {
                    by += place as f32;
                    row.iter_mut().zip(token).for_each(|(sum, x)| *sum += x * place as f32);
                }
                row.iter_mut().for_each(|sum| *sum /= f32::max(by, 1.0));
            }
        }
    }

    /// The same over a padded batch.
    ///
    /// # Shapes
    /// `hidden` `[batch, tokens, m]`; output `[batch, m]`.
    #[cfg(feature = "train")]
    fn pool_padded(self, hidden: &Tensor, lengths: &[usize], skip: usize) -> candle_core::Result<Tensor> {
        let (batch, tokens, m) = hidden.dims3()?;
        let device = hidden.device();
        let weighted = |weight: &dyn Fn(usize, usize) -> f32| {
            let weights = token_values(lengths, tokens, skip, 0.0, weight, device)?;
            hidden.broadcast_mul(&weights)?.sum(1)
        };
        let at = |place: &dyn Fn(usize) -> usize| {
            let rows =
                lengths.iter().enumerate().map(|(text, &length)| (text * tokens + place(length)) as u32);
            let rows = Tensor::from_vec(rows.collect::<Vec<u32>>(), batch, device)?;
            hidden.contiguous()?.reshape((batch * tokens, m))?.index_select(&rows, 0)
        };
        let count = |length: usize| length.saturating_sub(skip).max(1) as f32;
        match self {
            Self::Cls => at(&|length| skip.min(length.saturating_sub(1))),
            Self::LastToken => at(&|length| length.saturating_sub(1)),
            Self::Max => {
                let mask = token_values(lengths, tokens, skip, NEVER_LARGEST, &|_, _| 0.0, device)?;
                hidden.broadcast_add(&mask)?.max(1)
            }
            Self::Mean => weighted(&|_, length| 1.0 / count(length)),
            Self::MeanSqrtLen => weighted(&|_, length| 1.0 / count(length).sqrt()),
            Self::WeightedMean => weighted(&|place, length| {
                let by: f32 = (skip + 1..=length).map(|place| place as f32).sum();
                (place + 1) as f32 / by.max(1.0)
            }),
        }
    }
}

impl LayerNorm {
    pub(crate) fn new(weight: Vec<f32>, eps: f32) -> Result<Self, ModelError> {
        Ok(Self {
            #[cfg(feature = "train")]
            tensor: Tensor::new(weight.as_slice(), &Device::Cpu)?,
            weight,
            eps,
        })
    }

    fn apply(&self, row: &mut [f32]) {
        let bias = vec![0.0; row.len()];
        kernels::norm(row, &self.weight, &bias, self.eps);
    }

    #[cfg(feature = "train")]
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let weight = self.tensor.to_device(x.device())?;
        candle_nn::ops::layer_norm_slow(x, &weight, &weight.zeros_like()?, self.eps)
    }
}

fn normalise(row: &mut [f32]) {
    let norm = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let inverse = (1.0 / norm.max(NORM_EPSILON)) as f32;
    row.iter_mut().for_each(|x| *x *= inverse);
}

/// Rows scaled to unit L2 norm, differentiable at zero.
#[cfg(feature = "train")]
pub(crate) fn unit_rows(x: &Tensor) -> candle_core::Result<Tensor> {
    let norm = (x.sqr()?.sum_keepdim(1)? + NORM_EPSILON)?.sqrt()?;
    x.broadcast_div(&norm)
}

/// `[batch, tokens, 1]`: `value(place, length)` at the tokens that are pooled, `other` elsewhere.
#[cfg(feature = "train")]
fn token_values(
    lengths: &[usize],
    tokens: usize,
    skip: usize,
    other: f32,
    value: &dyn Fn(usize, usize) -> f32,
    device: &Device,
) -> candle_core::Result<Tensor> {
    let mut values = vec![other; lengths.len() * tokens];
    for (row, &length) in values.chunks_mut(tokens.max(1)).zip(lengths) {
        for (place, own) in row.iter_mut().enumerate().take(length).skip(skip) {
            *own = value(place, length);
        }
    }
    Tensor::from_vec(values, (lengths.len(), tokens, 1), device)
}

#[cfg(all(test, feature = "train"))]
mod tests {
    use super::*;

    const MODES: [PoolingMode; 6] = [
        PoolingMode::Cls,
        PoolingMode::Max,
        PoolingMode::Mean,
        PoolingMode::MeanSqrtLen,
        PoolingMode::WeightedMean,
        PoolingMode::LastToken,
    ];

    /// Packed and padded give the same results, for every mode and for all modes together.
    #[test]
    fn packed_and_padded_agree() {
        let (m, tokens, lengths) = (5, 7, [7, 3, 4]);
        let values: Vec<f32> = (0..lengths.len() * tokens * m).map(|i| (i as f32 * 0.7).sin()).collect();
        let padded = Tensor::from_vec(values.clone(), (lengths.len(), tokens, m), &Device::Cpu).unwrap();
        let rows = values.chunks_exact(tokens * m).zip(&lengths);
        let hidden = PackedHidden {
            values: rows.flat_map(|(row, &length)| row[..length * m].to_vec()).collect(),
            lengths: lengths.to_vec(),
        };
        let each = MODES.iter().map(|&mode| vec![mode]);
        for modes in each.chain([MODES.to_vec()]) {
            for skip in [0, 2] {
                for (steps, dim) in [(0, None), (1, None), (1, Some(3))] {
                    let steps = (0..steps).map(|_| Step::Normalise).collect();
                    let pooler = Pooler::new(modes.clone(), steps, m, dim);
                    let packed = pooler.packed(&hidden, skip);
                    let padded = pooler.padded(&padded, &lengths, skip).unwrap();
                    assert_eq!(padded.dims(), [3, pooler.dim]);
                    let padded: Vec<f32> = padded.flatten_all().unwrap().to_vec1().unwrap();
                    for (a, b) in packed.iter().zip(&padded) {
                        assert!((a - b).abs() < 1e-6, "{modes:?}, {skip}: {packed:?} {padded:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn by_hand() {
        let hidden = PackedHidden { values: vec![1.0, 4.0, 3.0, -2.0, 5.0, 1.0], lengths: vec![3] };
        let pooled = |mode, skip| Pooler::new(vec![mode], Vec::new(), 2, None).packed(&hidden, skip);
        assert_eq!(pooled(PoolingMode::Cls, 0), [1.0, 4.0]);
        assert_eq!(pooled(PoolingMode::Cls, 1), [3.0, -2.0]);
        assert_eq!(pooled(PoolingMode::Max, 0), [5.0, 4.0]);
        assert_eq!(pooled(PoolingMode::Max, 1), [5.0, 1.0]);
        assert_eq!(pooled(PoolingMode::Mean, 0), [3.0, 1.0]);
        assert_eq!(pooled(PoolingMode::Mean, 1), [4.0, -0.5]);
        assert_eq!(pooled(PoolingMode::WeightedMean, 0), [22.0 / 6.0, 0.5]);
        assert_eq!(pooled(PoolingMode::WeightedMean, 1), [21.0 / 5.0, -0.2]);
        assert_eq!(pooled(PoolingMode::LastToken, 0), [5.0, 1.0]);
        assert_eq!(pooled(PoolingMode::Mean, 3), [0.0, 0.0]);
    }
}
