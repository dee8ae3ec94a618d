//! The tree indexer with gradients: path embeddings and leaf log-probabilities (section 3.3).

use candle_core::{Device, Tensor, Var};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::optimizer::Parameter;
use crate::ids::LeafId;
use crate::model::{Indexer, LevelWeights, ModelError, TreeWeights, log_softmax, product_with_columns};
use crate::tree::TreeShape;

/// Shape and form of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexerOptions {
    pub shape: TreeShape,
    /// Width m of the embeddings.
    pub dim: usize,
    /// Width r of the projection P in front of the levels, if any.
    pub projection: Option<usize>,
    /// Whether the levels have a transform U; without it F(x) = x.
    pub transform: bool,
    pub logit_scale: f64,
    /// Length of the classifier's columns at the start.
    pub init_length: f64,
}

/// The level networks as variables.
pub(crate) struct TrainableIndexer {
    options: IndexerOptions,
    projection: Option<Var>,
    /// U of each level; empty if the tree has none.
    transform: Vec<Var>,
    classifier: Vec<Var>,
}

/// Projected rows, with the probabilities of the root's children.
pub(crate) struct AtRoot {
    /// `[n, r]`
    read: Tensor,
    /// Log-probabilities `[n, B]`.
    logs: Tensor,
}

/// The most probable path of each row.
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
    /// Random weights: classifier columns of about the given length, transforms near zero, and a projection
    /// that preserves lengths on average.
    pub(crate) fn random(
        options: IndexerOptions,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let b = options.shape.branching_factor() as usize;
        let mut variable = |rows: usize, columns: usize, std: f32| {
            Var::from_tensor(&Tensor::from_vec(normal(rng, rows * columns, std), (rows, columns), device)?)
        };
        let read = options.projection.unwrap_or(options.dim);
        let projection = match options.projection {
            Some(r) => Some(variable(options.dim, r, 1.0 / (r as f32).sqrt())?),
            None => None,
        };
        let (mut transform, mut classifier) = (Vec::new(), Vec::new());
        for level in 0..options.shape.height() as usize {
            let width = read + b * level;
            if options.transform {
                transform.push(variable(width, width, TRANSFORM_STD)?);
            }
            classifier.push(variable(width, b, options.init_length as f32 / (width as f32).sqrt())?);
        }
        Ok(Self { options, projection, transform, classifier })
    }

    pub(crate) fn options(&self) -> &IndexerOptions {
        &self.options
    }

    /// Sets the columns of the first level's classifier to the given unit centroids times `init_length`, so
    /// that its logits are `logit_scale * init_length` times the cosine.
    ///
    /// # Shapes
    /// `centroids` `[B, dim]` row-major.
    pub(crate) fn set_centroids(&self, centroids: &[f32]) -> candle_core::Result<()> {
        let b = self.options.shape.branching_factor() as usize;
        let device = self.classifier[0].device();
        let centroids = Tensor::from_slice(centroids, (b, self.options.dim), device)?;
        let centroids = (centroids * self.options.init_length)?;
        let read = match &self.projection {
            Some(projection) => centroids.matmul(projection.as_tensor())?,
            None => centroids,
        };
        self.classifier[0].set(&read.t()?.contiguous()?)
    }

    /// Sets the projection's columns to the given orthonormal basis; no effect without a projection.
    ///
    /// # Shapes
    /// `basis` `[dim, r]` row-major.
    pub(crate) fn set_projection(&self, basis: &[f32]) -> candle_core::Result<()> {
        match &self.projection {
            Some(projection) => {
                projection.set(&Tensor::from_slice(basis, projection.shape(), projection.device())?)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        let mut add = |name: String, var: &Var| {
            all.push(Parameter { name: format!("indexer.{name}"), var: var.clone() });
        };
        if let Some(projection) = &self.projection {
            add("projection".to_owned(), projection);
        }
        for (level, classifier) in self.classifier.iter().enumerate() {
            if let Some(transform) = self.transform.get(level) {
                add(format!("levels.{level}.transform"), transform);
            }
            add(format!("levels.{level}.classifier"), classifier);
        }
        all
    }

    /// A frozen copy for routing.
    pub(crate) fn freeze(&self) -> Result<Indexer, ModelError> {
        let flat = |var: &Var| -> candle_core::Result<Vec<f32>> {
            var.as_tensor().to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
        };
        let levels = self
            .classifier
            .iter()
            .enumerate()
            .map(|(level, w)| {
                let transform = self.transform.get(level).map(flat).transpose()?;
                Ok(LevelWeights { transform, classifier: flat(w)? })
            })
            .collect::<candle_core::Result<_>>()?;
        let projection = self.projection.as_ref().map(flat).transpose()?;
        let IndexerOptions { shape, dim, logit_scale, .. } = self.options;
        Indexer::new(shape, dim, logit_scale as f32, TreeWeights { projection, levels })
    }

    /// The input of the levels: the unit embeddings, projected if the tree has a projection.
    ///
    /// # Shapes
    /// `unit` `[n, dim]`; output `[n, r]`.
    fn project(&self, unit: &Tensor) -> candle_core::Result<Tensor> {
        match &self.projection {
            Some(projection) => unit.matmul(projection.as_tensor()),
            None => Ok(unit.clone()),
        }
    }

    /// The output of the root, which both [`Self::paths`] and [`Self::leaf_log_probabilities`] start from.
    ///
    /// # Shapes
    /// `unit` `[n, dim]` unit norm.
    pub(crate) fn at_root(&self, unit: &Tensor) -> candle_core::Result<AtRoot> {
        let read = self.project(unit)?;
        let logs = self.child_log_probabilities(0, &read)?;
        Ok(AtRoot { read, logs })
    }

    /// Conditional log-probabilities of the children at `level`.
    ///
    /// # Shapes
    /// `x` `[n, r + B level]`: the output of [`Self::project`] and the one-hot choices above; output `[n,
    /// B]`.
    fn child_log_probabilities(&self, level: usize, x: &Tensor) -> candle_core::Result<Tensor> {
        let hidden = match self.transform.get(level) {
            Some(transform) => (x + x.matmul(transform.as_tensor())?.relu()?)?,
            None => x.clone(),
        };
        let logits = product_with_columns(&hidden, self.classifier[level].as_tensor())?;
        log_softmax(&logits, self.options.logit_scale)
    }

    /// Path embeddings along each row's most probable path (Algorithm 2, INDEXER).
    ///
    /// The chosen children enter the next level as constants: no gradient through the choice,
    /// gradient through every probability.
    pub(crate) fn paths(&self, root: &AtRoot) -> candle_core::Result<Paths> {
        let mut x = root.read.clone();
        let (n, device) = (x.dim(0)?, x.device().clone());
        let mut parent: Option<Tensor> = None;
        let (mut parts, mut children) = (Vec::new(), Vec::new());
        for level in 0..self.options.shape.height() as usize {
            let conditional = match level {
                0 => root.logs.exp()?,
                _ => self.child_log_probabilities(level, &x)?.exp()?,
            };
            let absolute = match &parent {
                Some(parent) => conditional.broadcast_mul(parent)?,
                None => conditional.clone(),
            };
            if level + 1 < self.options.shape.height() as usize {
                let best = conditional.detach().argmax_keepdim(1)?;
                parent = Some(absolute.gather(&best, 1)?);
                let digits: Vec<u32> = best.flatten_all()?.to_vec1()?;
                x = Tensor::cat(&[&x, &self.one_hot(&digits, n, &device)?], 1)?;
            }
            parts.push(absolute);
            children.push(conditional);
        }
        Ok(Paths { embedding: Tensor::cat(&parts, 1)?, children })
    }

    /// Log-probability of reaching a leaf, for pairs of a row and a leaf.
    ///
    /// # Shapes
    /// Output `[entries]`.
    pub(crate) fn leaf_log_probabilities(
        &self,
        root: &AtRoot,
        entries: &[(u32, LeafId)],
    ) -> candle_core::Result<Tensor> {
        let device = root.read.device();
        let rows: Vec<u32> = entries.iter().map(|entry| entry.0).collect();
        let rows = Tensor::new(rows.as_slice(), device)?;
        let paths: Vec<Vec<u32>> = entries.iter().map(|entry| self.options.shape.path(entry.1)).collect();
        let mut total: Option<Tensor> = None;
        let mut x = root.read.clone();
        for level in 0..self.options.shape.height() as usize {
            let digits: Vec<u32> = paths.iter().map(|path| path[level]).collect();
            let own = if level == 0 {
                // The root is the same for every leaf of a row, so it is computed once per row and one value
                // is picked for each entry; a row per entry would cost many times as much.
                let b = self.options.shape.branching_factor();
                let flat: Vec<u32> =
                    entries.iter().zip(&digits).map(|(entry, digit)| entry.0 * b + digit).collect();
                root.logs.flatten_all()?.index_select(&Tensor::new(flat.as_slice(), device)?, 0)?
            } else {
                let chosen = Tensor::new(digits.as_slice(), device)?.unsqueeze(1)?;
                self.child_log_probabilities(level, &x)?.gather(&chosen, 1)?.squeeze(1)?
            };
            total = Some(match total {
                Some(sum) => (sum + own)?,
                None => own,
            });
            if level + 1 < self.options.shape.height() as usize {
                let above = if level == 0 { x.index_select(&rows, 0)? } else { x };
                x = Tensor::cat(&[&above, &self.one_hot(&digits, entries.len(), device)?], 1)?;
            }
        }
        total.ok_or_else(|| candle_core::Error::Msg("a tree has at least one level".to_owned()))
    }

    fn one_hot(&self, digits: &[u32], rows: usize, device: &Device) -> candle_core::Result<Tensor> {
        let b = self.options.shape.branching_factor() as usize;
        let mut flat = vec![0f32; rows * b];
        for (row, &digit) in flat.chunks_exact_mut(b).zip(digits) {
            row[digit as usize] = 1.0;
        }
        Tensor::from_vec(flat, (rows, b), device)
    }
}

/// Normal values with mean 0 by the Box-Muller transform; candle's own generator cannot be seeded.
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
    use crate::model::Role;
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

    /// A scale of 20 on short columns and none on long ones are the same tree.
    #[test]
    fn a_kmeans_start_is_the_same_at_any_logit_scale() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let (centroids, rows) = (unit_rows(&mut rng, 5, 8), unit_rows(&mut rng, 6, 8));
        let shape = TreeShape::new(5, 1).unwrap();
        let probabilities = |logit_scale: f64| -> Vec<f32> {
            let init_length = 20.0 / logit_scale;
            let options = IndexerOptions {
                shape,
                dim: 8,
                projection: None,
                transform: false,
                logit_scale,
                init_length,
            };
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let indexer = TrainableIndexer::random(options, &mut rng, &Device::Cpu).unwrap();
            let norm = indexer.classifier[0].sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
            assert!((f64::from(norm) / 5.0).sqrt() / init_length > 0.5, "random columns have the length too");
            indexer.set_centroids(&centroids).unwrap();
            let unit = Tensor::from_slice(&rows, (6, 8), &Device::Cpu).unwrap();
            indexer
                .paths(&indexer.at_root(&unit).unwrap())
                .unwrap()
                .embedding
                .flatten_all()
                .unwrap()
                .to_vec1()
                .unwrap()
        };
        let (scaled, long) = (probabilities(20.0), probabilities(1.0));
        assert!(scaled.iter().zip(&long).all(|(a, b)| (a - b).abs() < 1e-5), "{scaled:?} {long:?}");
        assert!(scaled.iter().any(|&p| p > 0.5), "cosines alone would be near a fifth each");
    }

    /// The trainable and the frozen indexer compute the same function.
    #[test]
    fn frozen_copy_routes_as_the_variables_do() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for (b, h, projection, transform) in [
            (5u32, 1u32, None, true),
            (3, 2, None, true),
            (3, 3, None, true),
            (5, 1, Some(3), false),
            (3, 2, Some(4), true),
            (3, 3, None, false),
        ] {
            let shape = TreeShape::new(b, h).unwrap();
            let options =
                IndexerOptions { shape, dim: 8, projection, transform, logit_scale: 20.0, init_length: 1.0 };
            let trainable = TrainableIndexer::random(options, &mut rng, &Device::Cpu).unwrap();
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
            let root = trainable.at_root(&unit).unwrap();
            let logs: Vec<f32> =
                trainable.leaf_log_probabilities(&root, &entries).unwrap().to_vec1().unwrap();
            let paths = trainable.paths(&root).unwrap();
            let embedding: Vec<Vec<f32>> = paths.embedding.to_vec2().unwrap();
            for (row, vector) in rows.chunks(8).enumerate() {
                let full = frozen.route(vector, NonZeroUsize::MAX, Role::Query);
                assert_eq!(full.search.leaves.len(), shape.leaves() as usize);
                for scored in &full.search.leaves {
                    let log = logs[row * shape.leaves() as usize + scored.leaf.index()];
                    assert!((log - scored.log_probability).abs() < 1e-3, "{log} {scored:?}");
                }
                // The last B values of T are the leaf probabilities below the greedy path.
                let greedy = frozen.route(vector, NonZeroUsize::MIN, Role::Query).search.leaves[0];
                let digit = *shape.path(greedy.leaf).last().unwrap() as usize;
                let last = embedding[row][(b * (h - 1)) as usize + digit];
                assert!((last - greedy.probability()).abs() < 1e-4);
            }
        }
    }
}
