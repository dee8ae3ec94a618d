//! A vector and a weight for each token.

use super::super::error::ModelError;

/// Number of signals of the confidence in an embedding.
pub(crate) const SIGNALS: usize = 5;

/// The signals: a constant, the agreement of the token vectors, the weight share of tokens seen in training,
/// the logarithm of the number of tokens, and the norm of the head's output.
pub(crate) type Signals = [f32; SIGNALS];

/// Vectors of a vocabulary, in eight bits.
pub(super) struct TokenTable {
    /// `[vocabulary, dim]`
    pub values: Vec<i8>,
    /// `[vocabulary]`: factor of each row's values.
    pub scales: Vec<f32>,
    /// `[vocabulary]`, above 0.
    pub weights: Vec<f32>,
    /// `[vocabulary]`: the norms of the vectors.
    pub norms: Vec<f32>,
    /// `[vocabulary]`: whether training saw a token often enough.
    pub seen: Vec<bool>,
    pub dim: usize,
}

/// The weighted mean of the vectors of some tokens.
pub(super) struct Mean {
    /// `[dim]`
    pub row: Vec<f32>,
    agreement: f32,
    seen: f32,
}

impl TokenTable {
    /// # Errors
    /// [`ModelError::OutsideTable`] for an id beyond the vocabulary.
    pub fn mean(&self, tokens: &[u32]) -> Result<Mean, ModelError> {
        let mut row = vec![0.0; self.dim];
        let (mut all, mut seen, mut lengths) = (0.0, 0.0, 0.0);
        for &token in tokens {
            let token = token as usize;
            let Some(&weight) = self.weights.get(token) else {
                return Err(ModelError::OutsideTable {
                    what: "an id",
                    found: token,
                    rows: self.weights.len(),
                });
            };
            let factor = weight * self.scales[token];
            let values = &self.values[token * self.dim..][..self.dim];
            row.iter_mut().zip(values).for_each(|(sum, x)| *sum += factor * f32::from(*x));
            all += weight;
            seen += if self.seen[token] { weight } else { 0.0 };
            lengths += weight * self.norms[token];
        }
        let divide = |x: f32, by: f32| if by > 0.0 { x / by } else { 0.0 };
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x = divide(*x, all));
        Ok(Mean { row, agreement: divide(length, lengths), seen: divide(seen, all) })
    }
}

impl Mean {
    /// The signals for this number of tokens and this norm of the head's output.
    pub fn signals(&self, tokens: usize, norm: f32) -> Signals {
        [1.0, self.agreement, self.seen, (tokens as f32 + 1.0).ln(), norm]
    }
}
