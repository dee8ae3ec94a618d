//! The tree indexer with gradients: path embeddings and leaf log-probabilities (section 3.3).

use candle_core::{D, Device, Tensor, Var};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::optimizer::Parameter;
use crate::ids::LeafId;
use crate::model::{Indexer, LevelWeights, ModelError};
use crate::tree::TreeShape;

/// The level networks as variables.
pub(crate) struct TrainableIndexer {
    shape: TreeShape,
    dim: usize,
    logit_scale: f64,
    transform: Vec<Var>,
    classifier: Vec<Var>,
}

/// What the most probable path of each row looks like.
pub(crate) struct Paths {
    /// T, `[n, B H]`, level 1 first: children's probabilities times their parent's (Eq. 1).
    pub embedding: Tensor,
    /// Per level the conditional child probabilities p-hat, `[n, B]`.
    pub children: Vec<Tensor>,
}

/// Standard deviation of the random entries of U: small, so that training starts near
/// F(x) = x, but not zero, where the ReLU would pass no gradient.
const TRANSFORM_STD: f32 = 1e-3;

impl TrainableIndexer {
    /// Small random weights: classifier columns about unit length, transforms near zero.
    pub(crate) fn random(
        shape: TreeShape,
        dim: usize,
        logit_scale: f64,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let b = shape.branching_factor() as usize;
        let (mut transform, mut classifier) = (Vec::new(), Vec::new());
        for level in 0..shape.height() as usize {
            let width = dim + b * level;
            let std = 1.0 / (width as f32).sqrt();
            let u = Tensor::from_vec(normal(rng, width * width, TRANSFORM_STD), (width, width), device)?;
            let w = Tensor::from_vec(normal(rng, width * b, std), (width, b), device)?;
            transform.push(Var::from_tensor(&u)?);
            classifier.push(Var::from_tensor(&w)?);
        }
        Ok(Self { shape, dim, logit_scale, transform, classifier })
    }

    /// Makes the columns of the first level's classifier the given unit centroids, so that its
    /// logits are scale times cosine.
    ///
    /// # Shapes
    /// `centroids` `[B, dim]` row-major.
    pub(crate) fn set_centroids(&self, centroids: &[f32]) -> candle_core::Result<()> {
        let b = self.shape.branching_factor() as usize;
        let device = self.classifier[0].device();
        let w = Tensor::from_slice(centroids, (b, self.dim), device)?.t()?.contiguous()?;
        self.classifier[0].set(&w)
    }

    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let name = |level: usize, part: &str| format!("indexer.levels.{level}.{part}");
        let levels = self.transform.iter().zip(&self.classifier).enumerate();
        levels
            .flat_map(|(level, (u, w))| {
                [(name(level, "transform"), u), (name(level, "classifier"), w)]
                    .map(|(name, var)| Parameter { name, var: var.clone() })
            })
            .collect()
    }

    /// A frozen copy for routing.
    pub(crate) fn freeze(&self) -> Result<Indexer, ModelError> {
        let flat = |var: &Var| -> candle_core::Result<Vec<f32>> {
            var.as_tensor().to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
        };
        let levels = self
            .transform
            .iter()
            .zip(&self.classifier)
            .map(|(u, w)| Ok(LevelWeights { transform: flat(u)?, classifier: flat(w)? }))
            .collect::<candle_core::Result<_>>()?;
        Indexer::new(self.shape, self.dim, self.logit_scale as f32, levels)
    }

    /// Conditional log-probabilities of the children at `level`.
    ///
    /// # Shapes
    /// `x` `[n, dim + B level]`: unit embeddings and the one-hots above; output `[n, B]`.
    fn child_log_probabilities(&self, level: usize, x: &Tensor) -> candle_core::Result<Tensor> {
        let hidden = (x + x.matmul(self.transform[level].as_tensor())?.relu()?)?;
        let logits = (hidden.matmul(self.classifier[level].as_tensor())? * self.logit_scale)?;
        candle_nn::ops::log_softmax(&logits, D::Minus1)
    }

    /// Path embeddings along each row's most probable path (Algorithm 2, INDEXER).
    ///
    /// The chosen children enter the next level as constants: no gradient through the choice,
    /// gradient through every probability.
    ///
    /// # Shapes
    /// `unit` `[n, dim]` unit norm.
    pub(crate) fn paths(&self, unit: &Tensor) -> candle_core::Result<Paths> {
        let n = unit.dim(0)?;
        let mut x = unit.clone();
        let mut parent: Option<Tensor> = None;
        let (mut parts, mut children) = (Vec::new(), Vec::new());
        for level in 0..self.shape.height() as usize {
            let conditional = self.child_log_probabilities(level, &x)?.exp()?;
            let absolute = match &parent {
                Some(parent) => conditional.broadcast_mul(parent)?,
                None => conditional.clone(),
            };
            let best = conditional.detach().argmax_keepdim(1)?;
            parent = Some(absolute.gather(&best, 1)?);
            let digits: Vec<u32> = best.flatten_all()?.to_vec1()?;
            x = Tensor::cat(&[&x, &self.one_hot(&digits, n, unit.device())?], 1)?;
            parts.push(absolute);
            children.push(conditional);
        }
        Ok(Paths { embedding: Tensor::cat(&parts, 1)?, children })
    }

    /// Log-probability of reaching a leaf, for pairs of a row of `unit` and a leaf.
    ///
    /// # Shapes
    /// `unit` `[n, dim]` unit norm; output `[entries]`.
    pub(crate) fn leaf_log_probabilities(
        &self,
        unit: &Tensor,
        entries: &[(u32, LeafId)],
    ) -> candle_core::Result<Tensor> {
        let device = unit.device();
        let rows: Vec<u32> = entries.iter().map(|entry| entry.0).collect();
        let rows = Tensor::new(rows.as_slice(), device)?;
        let paths: Vec<Vec<u32>> = entries.iter().map(|entry| self.shape.path(entry.1)).collect();
        let mut total: Option<Tensor> = None;
        let mut x = unit.clone();
        for level in 0..self.shape.height() as usize {
            let digits: Vec<u32> = paths.iter().map(|path| path[level]).collect();
            let logs = self.child_log_probabilities(level, &x)?;
            // The root is the same for every leaf of a row, so it is computed once per row.
            let logs = if level == 0 { logs.index_select(&rows, 0)? } else { logs };
            let chosen = Tensor::new(digits.as_slice(), device)?.unsqueeze(1)?;
            let own = logs.gather(&chosen, 1)?.squeeze(1)?;
            total = Some(match total {
                Some(sum) => (sum + own)?,
                None => own,
            });
            if level + 1 < self.shape.height() as usize {
                let above = if level == 0 { unit.index_select(&rows, 0)? } else { x };
                x = Tensor::cat(&[&above, &self.one_hot(&digits, entries.len(), device)?], 1)?;
            }
        }
        total.ok_or_else(|| candle_core::Error::Msg("a tree has at least one level".to_owned()))
    }

    fn one_hot(&self, digits: &[u32], rows: usize, device: &Device) -> candle_core::Result<Tensor> {
        let b = self.shape.branching_factor() as usize;
        let mut flat = vec![0f32; rows * b];
        for (row, &digit) in flat.chunks_exact_mut(b).zip(digits) {
            row[digit as usize] = 1.0;
        }
        Tensor::from_vec(flat, (rows, b), device)
    }
}

/// Normal values of mean 0 by the Box-Muller transform; candle's own generator cannot be seeded.
pub(crate) fn normal(rng: &mut ChaCha8Rng, count: usize, std: f32) -> Vec<f32> {
    (0..count)
        .map(|_| {
            let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt();
            radius * (std::f32::consts::TAU * rng.random::<f32>()).cos() * std
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::num::NonZeroUsize;

    fn unit_rows(rng: &mut ChaCha8Rng, n: usize, dim: usize) -> Vec<f32> {
        let mut rows = normal(rng, n * dim, 1.0);
        for row in rows.chunks_exact_mut(dim) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
        rows
    }

    /// The trainable and the frozen indexer are two programs for one function.
    #[test]
    fn frozen_copy_routes_as_the_variables_do() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for (b, h) in [(5u32, 1u32), (3, 2), (3, 3)] {
            let shape = TreeShape::new(b, h).unwrap();
            let trainable = TrainableIndexer::random(shape, 8, 20.0, &mut rng, &Device::Cpu).unwrap();
            // Transforms large enough to matter.
            for u in &trainable.transform {
                let w = u.dim(0).unwrap();
                u.set(&Tensor::from_vec(normal(&mut rng, w * w, 0.3), (w, w), &Device::Cpu).unwrap())
                    .unwrap();
            }
            let frozen = trainable.freeze().unwrap();
            let rows = unit_rows(&mut rng, 6, 8);
            let unit = Tensor::from_slice(&rows, (6, 8), &Device::Cpu).unwrap();
            let entries: Vec<(u32, LeafId)> =
                (0..6u32).flat_map(|row| (0..shape.leaves()).map(move |leaf| (row, LeafId(leaf)))).collect();
            let logs: Vec<f32> =
                trainable.leaf_log_probabilities(&unit, &entries).unwrap().to_vec1().unwrap();
            let paths = trainable.paths(&unit).unwrap();
            let embedding: Vec<Vec<f32>> = paths.embedding.to_vec2().unwrap();
            for (row, vector) in rows.chunks(8).enumerate() {
                let full = frozen.route(vector, NonZeroUsize::MAX);
                assert_eq!(full.search.leaves.len(), shape.leaves() as usize);
                for scored in &full.search.leaves {
                    let log = logs[row * shape.leaves() as usize + scored.leaf.index()];
                    assert!((log - scored.log_probability).abs() < 1e-3, "{log} {scored:?}");
                }
                // The last B values of T are the leaf probabilities below the greedy path.
                let greedy = frozen.route(vector, NonZeroUsize::MIN).search.leaves[0];
                let digit = *shape.path(greedy.leaf).last().unwrap() as usize;
                let last = embedding[row][(b * (h - 1)) as usize + digit];
                assert!((last - greedy.probability()).abs() < 1e-4);
            }
        }
    }
}
