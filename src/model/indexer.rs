//! The tree indexer I_phi: one small network per level, evaluated in plain f32.
//!
//! Level h (0-based) reads x = [u; o(i^1); ..; o(i^h)], the unit embedding followed by the one-hot children
//! chosen above it, and computes the children's log-probabilities `log softmax(s W^T F(x))` with `F(x) = x +
//! ReLU(U^T x)` (section 3.3, Eq. 1). The paper puts the one-hots first; the order is a permutation of rows.
//!
//! Two additions make routing cheap and are absent from a tree trained as in the paper: a projection P, with
//! which every level reads `[P^T u; ..]` instead of `[u; ..]`, and `F(x) = x`, without U.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::encoder::Role;
use super::error::ModelError;
use super::kernels::{add_weighted_rows, log_softmax_entropy};
use crate::ids::LeafId;
use crate::product::bytes::ByteKernel;
use crate::tree::{Beam, LevelScorer, TreeShape};
use shortlist::Shortlist;

mod observe;
mod principal;
mod shortlist;

pub(crate) use observe::RoutingSample;

/// Parameters of one level, of width r + B * level, where r is the width of its input: that of the
/// projection, or m without one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LevelWeights {
    /// U, `[width, width]` row-major by input; absent if F(x) = x.
    pub transform: Option<Vec<f32>>,
    /// W, `[width, B]` row-major by input.
    pub classifier: Vec<f32>,
}

/// All parameters of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeWeights {
    /// P, `[m, r]` row-major by input.
    pub projection: Option<Vec<f32>>,
    /// Root first.
    pub levels: Vec<LevelWeights>,
}

/// The trained tree: routes an embedding to leaves.
#[derive(Clone, Debug)]
pub struct Indexer {
    shape: TreeShape,
    dim: usize,
    /// Width r of the levels' input.
    routing_dim: usize,
    logit_scale: f32,
    weights: TreeWeights,
    /// Derived from the weights; also `None` if the processor has no fast products in eight bits.
    shortlist: Option<Arc<Shortlist>>,
}

impl PartialEq for Indexer {
    fn eq(&self, other: &Self) -> bool {
        (self.shape, self.dim, self.logit_scale, &self.weights)
            == (other.shape, other.dim, other.logit_scale, &other.weights)
    }
}

/// The leaves that an embedding reaches, and the cost of finding them.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    pub search: Beam,
    pub sample: RoutingSample,
    /// Multiply-adds spent in the level networks.
    pub multiply_adds: u64,
}

impl Indexer {
    /// Builds an indexer.
    ///
    /// # Errors
    /// [`ModelError::BadTensor`] for a wrong length.
    pub(crate) fn new(
        shape: TreeShape,
        dim: usize,
        logit_scale: f32,
        weights: TreeWeights,
    ) -> Result<Self, ModelError> {
        let b = shape.branching_factor() as usize;
        let check = |name: String, found: usize, expected: [usize; 2]| {
            if found == expected[0] * expected[1] && found > 0 {
                return Ok(());
            }
            Err(ModelError::tensor_shape(super::files::INDEXER_FILE, name, &[found], &expected))
        };
        let routing_dim = weights.projection.as_ref().map_or(dim, |p| p.len() / dim);
        if let Some(projection) = &weights.projection {
            check(PROJECTION.to_owned(), projection.len(), [dim, routing_dim])?;
        }
        for (level, own) in weights.levels.iter().enumerate() {
            let width = routing_dim + b * level;
            if let Some(transform) = &own.transform {
                check(tensor_name(level, TRANSFORM), transform.len(), [width, width])?;
            }
            check(tensor_name(level, CLASSIFIER), own.classifier.len(), [width, b])?;
        }
        let shortlist = ByteKernel::best().is_fast().then(|| Shortlist::new(&weights.levels, b, logit_scale));
        let shortlist = shortlist.flatten().map(Arc::new);
        Ok(Self { shape, dim, routing_dim, logit_scale, weights, shortlist })
    }

    /// The tree of one leaf, which holds every document.
    pub(crate) fn single_leaf(dim: usize) -> Result<Self, ModelError> {
        let level = LevelWeights { transform: None, classifier: vec![0.0; dim] };
        let weights = TreeWeights { projection: None, levels: vec![level] };
        Self::new(TreeShape::SINGLE_LEAF, dim, 1.0, weights)
    }

    /// Whether there is more than one leaf.
    pub fn has_tree(&self) -> bool {
        self.shape != TreeShape::SINGLE_LEAF
    }

    /// Branching factor and height.
    pub fn shape(&self) -> TreeShape {
        self.shape
    }

    /// Width m of the embeddings that it routes.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Width r of the levels' input: that of the projection, or m without one.
    pub fn routing_dim(&self) -> usize {
        self.routing_dim
    }

    pub(crate) fn logit_scale(&self) -> f32 {
        self.logit_scale
    }

    /// The most probable leaf of each row: where documents are stored.
    ///
    /// # Shapes
    /// `rows` `[n, dim]` unit norm.
    pub(crate) fn route_rows(&self, rows: &[f32]) -> Vec<LeafId> {
        let best = |row| self.route(row, NonZeroUsize::MIN, Role::Document).search.leaves[0].leaf;
        rows.par_chunks_exact(self.dim).map(best).collect()
    }

    /// Reads the level networks of a tree of the given shape.
    pub(crate) fn load(
        path: &Path,
        shape: TreeShape,
        dim: usize,
        logit_scale: f32,
    ) -> Result<Self, ModelError> {
        let weights = super::weights::Weights::from_file(path)?;
        let b = shape.branching_factor() as usize;
        let routing_dim = match weights.shape(PROJECTION).as_deref() {
            Some([_, columns]) => *columns,
            Some(_) => 0,
            None => dim,
        };
        let optional = |name: &str, shape: [usize; 2]| {
            weights.shape(name).map(|_| weights.values(name, &shape)).transpose()
        };
        let level = |level: usize| -> Result<_, ModelError> {
            let width = routing_dim + b * level;
            let transform = optional(&tensor_name(level, TRANSFORM), [width, width])?;
            let classifier = weights.values(&tensor_name(level, CLASSIFIER), &[width, b])?;
            Ok(LevelWeights { transform, classifier })
        };
        let projection = optional(PROJECTION, [dim, routing_dim])?;
        let levels = (0..shape.height() as usize).map(level).collect::<Result<_, _>>()?;
        Self::new(shape, dim, logit_scale, TreeWeights { projection, levels })
    }

    /// The leaves as rows `[leaves, dim]`, whose products with a unit embedding are their logits divided by
    /// [`Self::logit_scale`]; `None` unless the tree is a single linear map.
    #[cfg(feature = "train")]
    pub(crate) fn leaf_rows(&self) -> Option<Vec<f32>> {
        let [LevelWeights { transform: None, classifier }] = &*self.weights.levels else { return None };
        let (leaves, width) = (self.shape.branching_factor() as usize, self.routing_dim);
        let mut rows = vec![0.0; leaves * self.dim];
        for input in 0..self.dim {
            let mut logits = vec![0.0; leaves];
            match &self.weights.projection {
                None => logits.copy_from_slice(&classifier[input * leaves..][..leaves]),
                Some(projection) => {
                    add_weighted_rows(&mut logits, classifier, &projection[input * width..][..width]);
                }
            }
            logits.iter().enumerate().for_each(|(leaf, logit)| rows[leaf * self.dim + input] = *logit);
        }
        Some(rows)
    }

    /// Writes the tree as f32 safetensors.
    #[cfg(feature = "train")]
    pub(crate) fn save(&self, path: &Path) -> Result<(), ModelError> {
        let b = self.shape.branching_factor() as usize;
        let mut tensors = std::collections::HashMap::new();
        let mut add = |name: String, values: &[f32], shape: (usize, usize)| -> candle_core::Result<()> {
            tensors.insert(name, candle_core::Tensor::from_slice(values, shape, &candle_core::Device::Cpu)?);
            Ok(())
        };
        if let Some(projection) = &self.weights.projection {
            add(PROJECTION.to_owned(), projection, (self.dim, self.routing_dim))?;
        }
        for (level, weights) in self.weights.levels.iter().enumerate() {
            let width = self.routing_dim + b * level;
            if let Some(transform) = &weights.transform {
                add(tensor_name(level, TRANSFORM), transform, (width, width))?;
            }
            add(tensor_name(level, CLASSIFIER), &weights.classifier, (width, b))?;
        }
        candle_core::safetensors::save(&tensors, path)?;
        Ok(())
    }
}

/// Names of the tensors in a bundle; those of a level are prefixed by [`tensor_name`].
const PROJECTION: &str = "projection";
const TRANSFORM: &str = "transform";
const CLASSIFIER: &str = "classifier";

fn tensor_name(level: usize, part: &str) -> String {
    format!("levels.{level}.{part}")
}

/// Scores the children of tree nodes for one embedding.
///
/// The part that depends only on the embedding is the same for all nodes of a level and is computed once per
/// level and query: `U^T [z; 0]`, or without U the logits themselves.
struct QueryScorer<'a> {
    indexer: &'a Indexer,
    /// z: the embedding, projected if the tree has a projection.
    input: Cow<'a, [f32]>,
    /// Per level, missing or empty until first needed.
    bases: Vec<Vec<f32>>,
    hidden: Vec<f32>,
    multiply_adds: u64,
    /// Level and number of each node whose children were scored, and the entropy of the choice among them, in
    /// nats.
    nodes: Vec<(usize, u32, f32)>,
}

impl<'a> QueryScorer<'a> {
    fn new(indexer: &'a Indexer, unit: &'a [f32]) -> Self {
        let mut multiply_adds = 0;
        let input = match &indexer.weights.projection {
            None => Cow::Borrowed(unit),
            Some(projection) => {
                let mut input = vec![0f32; indexer.routing_dim];
                add_weighted_rows(&mut input, projection, unit);
                multiply_adds += projection.len() as u64;
                Cow::Owned(input)
            }
        };
        Self { indexer, input, bases: Vec::new(), hidden: Vec::new(), multiply_adds, nodes: Vec::new() }
    }

    /// The most probable leaves from the shortlist, if that is faster, and the entropy of the choice.
    fn shortlisted(&mut self, beam: NonZeroUsize, role: Role) -> Option<(Beam, f32)> {
        let shortlist = self.indexer.shortlist.as_ref().filter(|own| own.pays(beam, role))?;
        let level = self.indexer.weights.levels.first()?;
        let hidden = match &level.transform {
            None => &*self.input,
            Some(transform) => {
                self.hide(&[], transform);
                &self.hidden
            }
        };
        let best = shortlist.best(hidden, beam, role);
        // Skipped products count too: the cost of routing is a property of the tree.
        self.multiply_adds += level.classifier.len() as u64;
        Some(best)
    }

    /// `M^T [z; one-hots]`, for a matrix with a column for each value of `out`.
    fn product(&mut self, path: &[u32], matrix: &[f32], out: &mut [f32]) {
        let (level, r, width) = (path.len(), self.input.len(), out.len());
        let b = self.indexer.shape.branching_factor() as usize;
        if self.bases.len() <= level {
            self.bases.resize(level + 1, Vec::new());
        }
        if self.bases[level].is_empty() {
            let mut base = vec![0f32; width];
            add_weighted_rows(&mut base, matrix, &self.input);
            self.multiply_adds += (r * width) as u64;
            self.bases[level] = base;
        }
        out.copy_from_slice(&self.bases[level]);
        for (above, &digit) in path.iter().enumerate() {
            let row = &matrix[(r + b * above + digit as usize) * width..][..width];
            out.iter_mut().zip(row).for_each(|(o, w)| *o += w);
        }
        self.multiply_adds += (level * width) as u64;
    }

    /// `F([z; one-hots])`, to `hidden`.
    fn hide(&mut self, path: &[u32], transform: &[f32]) {
        let r = self.input.len();
        let b = self.indexer.shape.branching_factor() as usize;
        let mut hidden = std::mem::take(&mut self.hidden);
        hidden.resize(r + b * path.len(), 0.0);
        self.product(path, transform, &mut hidden);
        hidden.iter_mut().for_each(|h| *h = h.max(0.0));
        hidden.iter_mut().zip(self.input.iter()).for_each(|(h, u)| *h += u);
        for (above, &digit) in path.iter().enumerate() {
            hidden[r + b * above + digit as usize] += 1.0;
        }
        self.hidden = hidden;
    }
}

impl LevelScorer for QueryScorer<'_> {
    fn child_log_probabilities(&mut self, path: &[u32], out: &mut [f32]) {
        let weights = &self.indexer.weights.levels[path.len()];
        match &weights.transform {
            Some(transform) => {
                self.hide(path, transform);
                out.fill(0.0);
                add_weighted_rows(out, &weights.classifier, &self.hidden);
                self.multiply_adds += weights.classifier.len() as u64;
            }
            None => self.product(path, &weights.classifier, out),
        }
        let mut entropy = 0.0;
        log_softmax_entropy(out, self.indexer.logit_scale, &mut entropy);
        let b = self.indexer.shape.branching_factor();
        self.nodes.push((path.len(), path.iter().fold(0, |node, &child| node * b + child), entropy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// m = 2, B = 2, H = 2, computed by hand.
    #[test]
    fn two_levels_match_equation_1() -> Result<(), Box<dyn std::error::Error>> {
        let shape = TreeShape::new(2, 2)?;
        let level0 =
            LevelWeights { transform: Some(vec![0.0, 1.0, 0.0, 0.0]), classifier: vec![1.0, 0.0, 0.0, 1.0] };
        // Width 4: inputs u0 u1 and the one-hot of the child above.
        let mut transform = vec![0.0; 16];
        transform[2 * 4] = -1.0; // child 0 above lowers hidden 0, which the ReLU cuts off
        transform[3 * 4 + 1] = 2.0; // child 1 above raises hidden 1
        let level1 = LevelWeights {
            transform: Some(transform),
            classifier: vec![1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.5],
        };
        let weights = TreeWeights { projection: None, levels: vec![level0, level1] };
        let indexer = Indexer::new(shape, 2, 2.0, weights)?;
        let unit = [0.6f32, 0.8];
        // Level 0: U^T u = [0, 0.6]; F = [0.6, 1.4]; logits 2 * F = [1.2, 2.8].
        let p0 = |logits: [f64; 2], i: usize| logits[i].exp() / (logits[0].exp() + logits[1].exp());
        let first = [1.2, 2.8];
        // Below child 0: F = [0.6, 0.8, 1, 0]; logits 2 * [0.6 + 0.5, 0.8].
        // Below child 1: F = [0.6, 0.8 + 2, 0, 1]; logits 2 * [0.6, 2.8 + 0.5].
        let below = [[2.2, 1.6], [1.2, 6.6]];
        let routing = indexer.route(&unit, NonZeroUsize::new(4).ok_or("zero")?, Role::Query);
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
    /// m = 2 projected to 1, B = 2, H = 2, no U, computed by hand.
    #[test]
    fn projection_and_plain_levels_match_their_definition() -> Result<(), Box<dyn std::error::Error>> {
        let shape = TreeShape::new(2, 2)?;
        let level0 = LevelWeights { transform: None, classifier: vec![1.0, -1.0] };
        // Rows: z, child 0 above, child 1 above.
        let level1 = LevelWeights { transform: None, classifier: vec![2.0, 0.0, 0.5, 0.0, 0.0, 3.0] };
        let weights = TreeWeights { projection: Some(vec![1.0, 0.5]), levels: vec![level0, level1] };
        let indexer = Indexer::new(shape, 2, 1.0, weights)?;
        assert_eq!(indexer.routing_dim(), 1);
        // z = 0.6 + 0.4 = 1.
        let routing = indexer.route(&[0.6, 0.8], NonZeroUsize::new(4).ok_or("zero")?, Role::Query);
        let p = |logits: [f64; 2], i: usize| logits[i].exp() / (logits[0].exp() + logits[1].exp());
        let below = [[2.5, 0.0], [2.0, 3.0]];
        for scored in &routing.search.leaves {
            let (i, j) = ((scored.leaf.0 / 2) as usize, (scored.leaf.0 % 2) as usize);
            let want = p([1.0, -1.0], i) * p(below[i], j);
            assert!((f64::from(scored.probability()) - want).abs() < 1e-6, "{:?}", scored.leaf);
        }
        // 2*1 to project; 1*2 at the root; 1*2 once below and 2 for each of two nodes.
        assert_eq!(routing.multiply_adds, 2 + 2 + 2 + 4);
        Ok(())
    }
}
