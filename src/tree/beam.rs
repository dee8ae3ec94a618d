//! Beam search: the most probable leaves, without scoring every leaf.

use super::{MAX_HEIGHT, TreeShape};
use crate::ids::{LeafId, Row};
use crate::scan::Ranked;
use std::num::NonZeroUsize;

/// Supplies the probabilities on the edges of the tree to beam search.
pub trait LevelScorer {
    /// Writes the conditional log-probabilities of the `B` children of one node.
    ///
    /// `path` leads to the node, root first; its length is the level, so it is empty at the root. `out` has
    /// `B` values, all to be overwritten. Logarithms, because products of small probabilities would underflow
    /// into ties. A NaN counts as a probability of 0.
    fn child_log_probabilities(&mut self, path: &[u32], out: &mut [f32]);
}

/// A leaf with its probability for the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredLeaf {
    /// The leaf.
    pub leaf: LeafId,
    /// Natural logarithm of the probability of reaching the leaf; never NaN.
    pub log_probability: f32,
}

impl ScoredLeaf {
    /// The probability of reaching the leaf, from 0 to 1; may underflow to 0.
    #[cfg(test)]
    pub fn probability(self) -> f32 {
        self.log_probability.exp()
    }
}

/// The result of a beam search, and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// The leaves to visit, without duplicates: most probable first, the lower id first among equals.
    pub leaves: Vec<ScoredLeaf>,
    /// Nodes whose children were scored, for each of the `H` levels; each node costs
    /// one call of the scorer, which scores `B` children.
    pub expanded: Vec<u32>,
}

/// Finds up to `beam` of the most probable leaves, level by level.
///
/// On each level, the `beam` nodes with the highest summed log-probability are kept, so at most `beam * B`
/// nodes are held at a time. With height 1 the result is exact; with more levels, it can miss a leaf below a
/// node that left the beam. A beam of at least [`TreeShape::leaves`] returns every leaf exactly once,
/// whatever the scores.
///
/// # Paper
/// Section 3.4 and Algorithm 2 (`TOPK-INDEXER`); deviation: sums of logarithms instead of products, and ties
/// go to the lower leaf id.
pub fn beam_search(shape: TreeShape, scorer: &mut impl LevelScorer, beam: NonZeroUsize) -> Beam {
    let beam = beam.get();
    let branching_factor = shape.branching_factor();
    let mut path = [0; MAX_HEIGHT as usize];
    let mut children = vec![0.0; branching_factor as usize];
    // Nodes have the numbers of their paths.
    let mut nodes = vec![Ranked::new(0.0, Row(0))];
    let mut next = Vec::new();
    let mut expanded = Vec::with_capacity(shape.height() as usize);

    for level in 0..shape.height() as usize {
        next.clear();
        for parent in &nodes {
            let (number, log_probability) = (parent.row().0, parent.score());
            let path = &mut path[..level];
            shape.write_digits(number, path);
            scorer.child_log_probabilities(path, &mut children);
            let first = number * branching_factor;
            let ranked = |(place, &child): (usize, &f32)| {
                let log_probability = add_log_probabilities(log_probability, child);
                Ranked::new(log_probability, Row(first + place as u32))
            };
            next.extend(children.iter().enumerate().map(ranked));
        }
        expanded.push(nodes.len() as u32);
        if next.len() > beam {
            next.select_nth_unstable(beam - 1);
            next.truncate(beam);
        }
        std::mem::swap(&mut nodes, &mut next);
    }

    nodes.sort_unstable();
    let leaf = |node: Ranked| ScoredLeaf { leaf: LeafId(node.row().0), log_probability: node.score() };
    Beam { leaves: nodes.into_iter().map(leaf).collect(), expanded }
}

/// Never NaN, whose rank is below that of negative infinity.
fn add_log_probabilities(parent: f32, child: f32) -> f32 {
    let sum = parent + child;
    if sum.is_nan() { f32::NEG_INFINITY } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Conditional log-probabilities of every edge, level by level, and a record of the calls.
    struct Table {
        shape: TreeShape,
        levels: Vec<Vec<f32>>,
        calls: usize,
    }

    impl Table {
        fn new(shape: TreeShape, mut log_probability: impl FnMut() -> f32) -> Self {
            let width = |level| shape.branching_factor().pow(level + 1);
            let levels = (0..shape.height())
                .map(|level| (0..width(level)).map(|_| log_probability()).collect())
                .collect();
            Self { shape, levels, calls: 0 }
        }

        /// Every leaf, best first, by walking every path.
        fn brute_force(&self) -> Vec<ScoredLeaf> {
            self.best_nodes(self.shape.height(), usize::MAX, |_| true)
        }

        /// The `keep` best of the nodes at `level` whose parents pass `admit`.
        fn best_nodes(&self, level: u32, keep: usize, admit: impl Fn(u32) -> bool) -> Vec<ScoredLeaf> {
            let branching_factor = self.shape.branching_factor();
            let mut nodes: Vec<ScoredLeaf> = (0..branching_factor.pow(level))
                .filter(|node| admit(node / branching_factor))
                .map(|node| {
                    let log_probability = (1..=level).fold(0.0, |sum: f32, depth| {
                        let ancestor = node / branching_factor.pow(level - depth);
                        let sum = sum + self.levels[depth as usize - 1][ancestor as usize];
                        if sum.is_nan() { f32::NEG_INFINITY } else { sum }
                    });
                    ScoredLeaf { leaf: LeafId(node), log_probability }
                })
                .collect();
            // Stable, so equal scores stay in id order.
            nodes.sort_by(|a, b| b.log_probability.partial_cmp(&a.log_probability).unwrap());
            nodes.truncate(keep);
            nodes
        }

        /// Beam search by definition: all children of the kept nodes, sorted and cut.
        fn beam_by_definition(&self, beam: usize) -> Vec<ScoredLeaf> {
            let mut kept = vec![ScoredLeaf { leaf: LeafId(0), log_probability: 0.0 }];
            for level in 1..=self.shape.height() {
                kept = self.best_nodes(level, beam, |parent| kept.iter().any(|node| node.leaf.0 == parent));
            }
            kept
        }
    }

    impl LevelScorer for Table {
        fn child_log_probabilities(&mut self, path: &[u32], out: &mut [f32]) {
            self.calls += 1;
            let node = path.iter().fold(0, |node, child| node * self.shape.branching_factor() + child);
            let first = node as usize * out.len();
            out.copy_from_slice(&self.levels[path.len()][first..first + out.len()]);
        }
    }

    fn beam(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    fn ids(leaves: &[ScoredLeaf]) -> Vec<u32> {
        leaves.iter().map(|scored| scored.leaf.0).collect()
    }

    #[test]
    fn greedy_misses_the_best_leaf_that_a_wider_beam_finds() {
        // The root prefers child 0 (0.6 to 0.4), whose children share it evenly;
        // child 1 puts everything on its first leaf, which is therefore the best.
        let shape = TreeShape::new(2, 2).unwrap();
        let mut table = Table::new(shape, || 0.0);
        table.levels = [vec![0.6f32, 0.4], vec![0.5, 0.5, 1.0, 0.0]]
            .map(|level| level.into_iter().map(f32::ln).collect())
            .to_vec();

        let greedy = beam_search(shape, &mut table, beam(1));
        assert_eq!(ids(&greedy.leaves), [0]);
        assert_eq!(greedy.expanded, [1, 1]);
        let wide = beam_search(shape, &mut table, beam(2));
        assert_eq!(ids(&wide.leaves), [2, 0]);
        assert_eq!(wide.expanded, [1, 2]);
        assert!((wide.leaves[0].probability() - 0.4).abs() < 1e-6);
        assert_eq!(ids(&beam_search(shape, &mut table, beam(4)).leaves), [2, 0, 1, 3]);
    }

    #[test]
    fn ties_go_to_the_lower_leaf() {
        let shape = TreeShape::new(3, 3).unwrap();
        let mut signs = [0.0f32, -0.0].into_iter().cycle();
        let mut table = Table::new(shape, || signs.next().unwrap());
        assert_eq!(ids(&beam_search(shape, &mut table, beam(5)).leaves), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn improbable_leaves_stay_distinguishable() {
        // e^-600 is 0 in f32; the sums still rank the leaves.
        let shape = TreeShape::new(2, 2).unwrap();
        let mut table = Table::new(shape, || 0.0);
        table.levels = vec![vec![-300.0, -301.0], vec![-302.0, -300.0, -298.0, -303.0]];
        let found = beam_search(shape, &mut table, beam(4));
        assert_eq!(ids(&found.leaves), [2, 1, 0, 3]);
        assert_eq!(found.leaves[0].probability(), 0.0);
    }

    #[test]
    fn a_single_leaf_is_found() {
        let shape = TreeShape::new(1, 1).unwrap();
        let found = beam_search(shape, &mut Table::new(shape, || 0.0), beam(usize::MAX));
        assert_eq!(ids(&found.leaves), [0]);
    }

    fn tree() -> impl Strategy<Value = (TreeShape, Vec<f32>)> {
        (2u32..=5, 1u32..=4).prop_flat_map(|(branching_factor, height)| {
            let shape = TreeShape::new(branching_factor, height).unwrap();
            let edges = (1..=height).map(|level| branching_factor.pow(level)).sum::<u32>() as usize;
            // Coarse values cause ties; the special ones must not lose or repeat a leaf.
            let edge = prop_oneof![
                4 => (0i8..8).prop_map(|n| -f32::from(n) / 4.0),
                8 => -20.0f32..0.0,
                1 => prop_oneof![Just(f32::NAN), Just(f32::NEG_INFINITY), Just(f32::INFINITY), Just(-0.0)],
            ];
            (Just(shape), prop::collection::vec(edge, edges))
        })
    }

    proptest! {
        #[test]
        fn agrees_with_beam_search_by_definition((shape, edges) in tree(), width in 1usize..40) {
            let mut edges = edges.into_iter();
            let mut table = Table::new(shape, || edges.next().unwrap());
            let found = beam_search(shape, &mut table, beam(width));
            prop_assert_eq!(&found.leaves, &table.beam_by_definition(width));
            prop_assert_eq!(found.expanded.iter().sum::<u32>() as usize, table.calls);
        }

        #[test]
        fn full_beam_and_height_one_are_exact((shape, edges) in tree(), width in 1usize..40) {
            let mut edges = edges.into_iter();
            let mut table = Table::new(shape, || edges.next().unwrap());
            let best = table.brute_force();
            let all = beam_search(shape, &mut table, beam(shape.leaves() as usize));
            prop_assert_eq!(&all.leaves, &best);
            if shape.height() == 1 {
                let found = beam_search(shape, &mut table, beam(width));
                prop_assert_eq!(&found.leaves[..], &best[..width.min(best.len())]);
            }
        }
    }
}
