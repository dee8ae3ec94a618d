//! Routing with details: the confidence of the tree, and the probabilities along the paths.

use std::num::NonZeroUsize;

use super::{Indexer, QueryScorer, Routing};
use crate::ids::LeafId;
use crate::model::Role;
use crate::tree::{LevelScorer, beam_search};

/// The tree's confidence for one embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoutingSample {
    /// Entropy of the choice among the children, in nats, summed over the nodes on the path to `leaf`: the
    /// entropy of the distribution over leaves for a tree of one level, and an estimate from one path for
    /// more. From 0 to the logarithm of the number of leaves.
    pub entropy: f32,
    /// Probability of `leaf`.
    pub top_probability: f32,
    /// The most probable leaf reached.
    pub leaf: LeafId,
}

impl Indexer {
    /// The most probable `beam` leaves for a unit embedding (Algorithm 2, TOPK-INDEXER). On a level with many
    /// children, a query may get a leaf that is only nearly as probable; a document gets exact results.
    pub(crate) fn route(&self, unit: &[f32], beam: NonZeroUsize, role: Role) -> Routing {
        let mut scorer = QueryScorer::new(self, unit);
        let (search, entropy) = scorer.shortlisted(beam, role).unwrap_or_else(|| {
            let search = beam_search(self.shape, &mut scorer, beam);
            let mut number = search.leaves.first().map_or(0, |best| best.leaf.0);
            let mut entropy = 0.0;
            for level in (0..self.shape.height() as usize).rev() {
                number /= self.shape.branching_factor();
                // The children of every node above a reached leaf were scored.
                let node = scorer.nodes.iter().find(|node| (node.0, node.1) == (level, number));
                entropy += node.map_or(0.0, |node| node.2);
            }
            (search, entropy)
        });
        let best = search.leaves.first();
        let top_probability = best.map_or(0.0, |best| best.log_probability.exp());
        let sample =
            RoutingSample { entropy, top_probability, leaf: best.map_or(LeafId(0), |best| best.leaf) };
        Routing { search, sample, multiply_adds: scorer.multiply_adds }
    }

    /// The probability of each node on the path to each leaf, starting below the root: products of the
    /// choices so far, so that the last one is the leaf's (Eq. 1).
    ///
    /// # Panics
    /// If the tree does not have a leaf.
    pub(crate) fn level_probabilities(&self, unit: &[f32], leaves: &[LeafId]) -> Vec<Vec<f32>> {
        let mut scorer = QueryScorer::new(self, unit);
        let mut children = vec![0f32; self.shape.branching_factor() as usize];
        let mut of_leaf = |leaf: LeafId| {
            let path = self.shape.path(leaf);
            let mut log_probability = 0f32;
            let mut probabilities = Vec::with_capacity(path.len());
            for (level, &child) in path.iter().enumerate() {
                scorer.child_log_probabilities(&path[..level], &mut children);
                log_probability += children[child as usize];
                probabilities.push(log_probability.exp());
            }
            probabilities
        };
        leaves.iter().map(|&leaf| of_leaf(leaf)).collect()
    }
}
