//! Hidden states to one embedding per text.

#[cfg(feature = "train")]
use candle_core::{Device, Tensor};

use super::packed::PackedHidden;

/// How the hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// Mean over the real tokens.
    Mean,
    /// The first token.
    Cls,
}

/// Whether embeddings are scaled to unit length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Normalisation {
    /// Unit L2 norm.
    Unit,
    /// As pooled.
    None,
}

/// Keeps the gradient of a zero vector's norm finite.
const NORM_EPSILON: f64 = 1e-12;

/// Pools packed hidden states.
///
/// # Shapes
/// Output `[texts, m]` row by row.
pub(crate) fn pool_packed(
    hidden: &PackedHidden,
    m: usize,
    pooling: Pooling,
    normalisation: Normalisation,
) -> Vec<f32> {
    let mut out = Vec::with_capacity(hidden.lengths.len() * m);
    let mut rest = hidden.values.as_slice();
    for &length in &hidden.lengths {
        let (text, tail) = rest.split_at(length * m);
        rest = tail;
        let start = out.len();
        match pooling {
            Pooling::Cls => out.extend_from_slice(&text[..m]),
            Pooling::Mean => {
                out.resize(start + m, 0.0);
                let row = &mut out[start..];
                for token in text.chunks_exact(m) {
                    for (sum, x) in row.iter_mut().zip(token) {
                        *sum += x;
                    }
                }
                for sum in row.iter_mut() {
                    *sum /= length as f32;
                }
            }
        }
        if normalisation == Normalisation::Unit {
            let row = &mut out[start..];
            let norm = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
            let inverse = (1.0 / norm.max(NORM_EPSILON)) as f32;
            row.iter_mut().for_each(|x| *x *= inverse);
        }
    }
    out
}

/// Pools a padded batch, every operation differentiable.
///
/// # Shapes
/// `hidden` `[batch, tokens, m]` f32; output `[batch, m]`.
#[cfg(feature = "train")]
pub(crate) fn pool_padded(
    hidden: &Tensor,
    lengths: &[usize],
    pooling: Pooling,
    normalisation: Normalisation,
) -> candle_core::Result<Tensor> {
    let pooled = match pooling {
        Pooling::Cls => hidden.narrow(1, 0, 1)?.squeeze(1)?,
        Pooling::Mean => {
            let weights = mean_weights(lengths, hidden.dim(1)?, hidden.device())?;
            hidden.broadcast_mul(&weights)?.sum(1)?
        }
    };
    match normalisation {
        Normalisation::Unit => unit_rows(&pooled),
        Normalisation::None => Ok(pooled),
    }
}

/// Rows scaled to unit L2 norm, differentiable at zero.
#[cfg(feature = "train")]
pub(crate) fn unit_rows(x: &Tensor) -> candle_core::Result<Tensor> {
    let norm = (x.sqr()?.sum_keepdim(1)? + NORM_EPSILON)?.sqrt()?;
    x.broadcast_div(&norm)
}

/// `[batch, tokens, 1]`: 1 / length at real tokens, 0 at padding.
#[cfg(feature = "train")]
fn mean_weights(lengths: &[usize], tokens: usize, device: &Device) -> candle_core::Result<Tensor> {
    let mut weights = vec![0f32; lengths.len() * tokens];
    for (row, &length) in weights.chunks_mut(tokens).zip(lengths) {
        row[..length].fill(1.0 / length as f32);
    }
    Tensor::from_vec(weights, (lengths.len(), tokens, 1), device)
}
