//! The tree indexer I_phi: one small network per level, evaluated in plain f32.
//!
//! Level h (0-based) reads x = [u; o(i^1); ..; o(i^h)], the unit embedding followed by
//! the one-hot children chosen above it, and gives the children's log-probabilities
//! `log softmax(s W^T F(x))` with `F(x) = x + ReLU(U^T x)` (section 3.3, Eq. 1). The
//! paper puts the one-hots first; the order is a permutation of rows.

use std::num::NonZeroUsize;
use std::path::Path;

use pulp::Arch;
use rayon::prelude::*;

use super::error::ModelError;
use crate::ids::LeafId;
use crate::tree::{Beam, LevelScorer, TreeShape, beam_search};

mod observe;

pub(crate) use observe::RoutingSample;

/// Parameters of one level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LevelWeights {
    /// U, `[width, width]` row-major by input, where width = m + B * level.
    pub transform: Vec<f32>,
    /// W, `[width, B]` row-major by input.
    pub classifier: Vec<f32>,
}

/// The trained tree: routes an embedding to leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexer {
    shape: TreeShape,
    dim: usize,
    logit_scale: f32,
    levels: Vec<LevelWeights>,
}

/// The leaves that an embedding reaches, and what finding them cost.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    pub search: Beam,
    /// Multiply-adds spent in the level networks.
    pub multiply_adds: u64,
}

impl Indexer {
    /// Puts an indexer together.
    ///
    /// # Errors
    /// [`candle_core::Error`] never; a wrong length is [`ModelError::TensorShape`].
    pub(crate) fn new(
        shape: TreeShape,
        dim: usize,
        logit_scale: f32,
        levels: Vec<LevelWeights>,
    ) -> Result<Self, ModelError> {
        let b = shape.branching_factor() as usize;
        for (level, weights) in levels.iter().enumerate() {
            let width = dim + b * level;
            for (part, found, expected) in [
                ("transform", weights.transform.len(), [width, width]),
                ("classifier", weights.classifier.len(), [width, b]),
            ] {
                if found != expected[0] * expected[1] {
                    return Err(ModelError::TensorShape {
                        path: super::bundle::INDEXER_FILE.into(),
                        name: tensor_name(level, part),
                        found: vec![found],
                        expected: expected.to_vec(),
                    });
                }
            }
        }
        Ok(Self { shape, dim, logit_scale, levels })
    }

    /// Branching factor and height.
    pub fn shape(&self) -> TreeShape {
        self.shape
    }

    /// Width m of the embeddings that it routes.
    pub fn dim(&self) -> usize {
        self.dim
    }

    #[cfg(feature = "train")]
    pub(crate) fn logit_scale(&self) -> f32 {
        self.logit_scale
    }

    /// The most probable `beam` leaves for a unit embedding (Algorithm 2, TOPK-INDEXER).
    pub(crate) fn route(&self, unit: &[f32], beam: NonZeroUsize) -> Routing {
        let mut scorer = QueryScorer::new(self, unit);
        let search = beam_search(self.shape, &mut scorer, beam);
        Routing { search, multiply_adds: scorer.multiply_adds }
    }

    /// The best `count` leaves of each row, best first: where documents are stored.
    ///
    /// # Shapes
    /// `rows` `[n, dim]` unit norm; output n lists of `count` leaves.
    pub(crate) fn route_rows(&self, rows: &[f32], count: NonZeroUsize) -> Vec<Vec<LeafId>> {
        rows.par_chunks_exact(self.dim)
            .map(|row| {
                let routing = self.route(row, count);
                routing.search.leaves.iter().map(|scored| scored.leaf).collect()
            })
            .collect()
    }

    /// Reads the level networks of a tree of the given shape.
    pub(crate) fn load(
        path: &Path,
        shape: TreeShape,
        dim: usize,
        logit_scale: f32,
    ) -> Result<Self, ModelError> {
        let weights = super::weights::Weights::from_file(path, &candle_core::Device::Cpu)?;
        let b = shape.branching_factor() as usize;
        let levels = (0..shape.height() as usize)
            .map(|level| {
                let width = dim + b * level;
                let read = |part: &str, shape: [usize; 2]| -> Result<Vec<f32>, ModelError> {
                    let tensor = weights.get(&tensor_name(level, part), &shape)?;
                    Ok(tensor.flatten_all()?.to_vec1()?)
                };
                Ok(LevelWeights {
                    transform: read("transform", [width, width])?,
                    classifier: read("classifier", [width, b])?,
                })
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        Self::new(shape, dim, logit_scale, levels)
    }

    /// Writes the level networks as f32 safetensors.
    #[cfg(feature = "train")]
    pub(crate) fn save(&self, path: &Path) -> Result<(), ModelError> {
        let b = self.shape.branching_factor() as usize;
        let mut tensors = std::collections::HashMap::new();
        for (level, weights) in self.levels.iter().enumerate() {
            let width = self.dim + b * level;
            let device = &candle_core::Device::Cpu;
            let transform = candle_core::Tensor::from_slice(&weights.transform, (width, width), device)?;
            let classifier = candle_core::Tensor::from_slice(&weights.classifier, (width, b), device)?;
            tensors.insert(tensor_name(level, "transform"), transform);
            tensors.insert(tensor_name(level, "classifier"), classifier);
        }
        candle_core::safetensors::save(&tensors, path)?;
        Ok(())
    }
}

fn tensor_name(level: usize, part: &str) -> String {
    format!("levels.{level}.{part}")
}

/// Scores the children of tree nodes for one embedding.
///
/// The part of `U^T x` that comes from the embedding is the same for all nodes of a
/// level, so it is computed once per level and query.
struct QueryScorer<'a> {
    indexer: &'a Indexer,
    unit: &'a [f32],
    /// Per level `U^T [u; 0]`, empty until first needed.
    bases: Vec<Vec<f32>>,
    hidden: Vec<f32>,
    multiply_adds: u64,
}

impl<'a> QueryScorer<'a> {
    fn new(indexer: &'a Indexer, unit: &'a [f32]) -> Self {
        Self {
            indexer,
            unit,
            bases: vec![Vec::new(); indexer.levels.len()],
            hidden: Vec::new(),
            multiply_adds: 0,
        }
    }
}

impl LevelScorer for QueryScorer<'_> {
    fn child_log_probabilities(&mut self, path: &[u32], out: &mut [f32]) {
        let level = path.len();
        let weights = &self.indexer.levels[level];
        let (m, b) = (self.indexer.dim, out.len());
        let width = m + b * level;
        if self.bases[level].is_empty() {
            let mut base = vec![0f32; width];
            add_rows(&mut base, &weights.transform, self.unit);
            self.multiply_adds += (m * width) as u64;
            self.bases[level] = base;
        }
        let hidden = &mut self.hidden;
        hidden.clear();
        hidden.extend_from_slice(&self.bases[level]);
        for (above, &digit) in path.iter().enumerate() {
            let row = &weights.transform[(m + b * above + digit as usize) * width..][..width];
            hidden.iter_mut().zip(row).for_each(|(h, u)| *h += u);
        }
        hidden.iter_mut().for_each(|h| *h = h.max(0.0));
        hidden.iter_mut().zip(self.unit).for_each(|(h, u)| *h += u);
        for (above, &digit) in path.iter().enumerate() {
            hidden[m + b * above + digit as usize] += 1.0;
        }
        out.fill(0.0);
        add_rows(out, &weights.classifier, hidden);
        self.multiply_adds += (level * width + width * b) as u64;
        let scale = self.indexer.logit_scale;
        out.iter_mut().for_each(|logit| *logit *= scale);
        let max = out.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let log_sum = max + out.iter().map(|logit| (logit - max).exp()).sum::<f32>().ln();
        out.iter_mut().for_each(|logit| *logit -= log_sum);
    }
}

/// `out += sum_i factors[i] * matrix[i, :]`: a transposed product, row by row.
fn add_rows(out: &mut [f32], matrix: &[f32], factors: &[f32]) {
    let width = out.len();
    Arch::new().dispatch(|| {
        for (row, &factor) in matrix.chunks_exact(width).zip(factors) {
            for (o, x) in out.iter_mut().zip(row) {
                *o += factor * x;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// m = 2, B = 2, H = 2, worked by hand.
    #[test]
    fn two_levels_match_equation_1() -> Result<(), Box<dyn std::error::Error>> {
        let shape = TreeShape::new(2, 2)?;
        let level0 =
            LevelWeights { transform: vec![0.0, 1.0, 0.0, 0.0], classifier: vec![1.0, 0.0, 0.0, 1.0] };
        // Width 4: inputs u0 u1 and the one-hot of the child above.
        let mut transform = vec![0.0; 16];
        transform[2 * 4] = -1.0; // child 0 above lowers hidden 0, which the ReLU cuts off
        transform[3 * 4 + 1] = 2.0; // child 1 above raises hidden 1
        let level1 = LevelWeights { transform, classifier: vec![1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.5] };
        let indexer = Indexer::new(shape, 2, 2.0, vec![level0, level1])?;
        let unit = [0.6f32, 0.8];
        // Level 0: U^T u = [0, 0.6]; F = [0.6, 1.4]; logits 2 * F = [1.2, 2.8].
        let p0 = |logits: [f64; 2], i: usize| logits[i].exp() / (logits[0].exp() + logits[1].exp());
        let first = [1.2, 2.8];
        // Below child 0: F = [0.6, 0.8, 1, 0]; logits 2 * [0.6 + 0.5, 0.8].
        // Below child 1: F = [0.6, 0.8 + 2, 0, 1]; logits 2 * [0.6, 2.8 + 0.5].
        let below = [[2.2, 1.6], [1.2, 6.6]];
        let routing = indexer.route(&unit, NonZeroUsize::new(4).ok_or("zero")?);
        assert_eq!(routing.search.leaves.len(), 4);
        for scored in &routing.search.leaves {
            let (i, j) = ((scored.leaf.0 / 2) as usize, (scored.leaf.0 % 2) as usize);
            let want = p0(first, i) * p0(below[i], j);
            assert!((f64::from(scored.probability()) - want).abs() < 1e-6, "{:?}", scored.leaf);
        }
        assert_eq!(routing.search.leaves[0].leaf, LeafId(3));
        // 2*2 + 2*2 at the root; 2*4 once and (4 + 8) for each of two nodes below.
        assert_eq!(routing.multiply_adds, 8 + 8 + 24);
        Ok(())
    }
}
