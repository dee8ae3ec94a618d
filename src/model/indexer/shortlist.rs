//! Finds the most probable leaves with products in eight bits.
//!
//! For a query these products alone decide; of many leaves, only those that are near in a few directions get
//! whole products. For a document the exact rounding bound is applied, and the products of all leaves that
//! may be among the most probable are computed in f32. A document's leaves are therefore those that f32 would
//! choose, on every processor.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use super::super::kernels::{log_softmax_entropy, products_of_rows};
use super::LevelWeights;
use super::principal::{Principal, Turned};
use crate::ids::{LeafId, Row};
use crate::model::Role;
use crate::model::packed::products_in_bytes;
use crate::product::bytes::{BytePanels, ByteRows};
use crate::product::dispatched;
use crate::scan::Ranked;
use crate::tree::{Beam, ScoredLeaf};

/// Fewest children for which products in eight bits save time.
const FEWEST_CHILDREN: usize = 256;
/// Fewest children per leaf of a document's beam for which enough are ruled out.
const CHILDREN_PER_LEAF: usize = 8;
/// Generous bound on the f32 rounding error of a product, relative to the norms of its factors.
const SLACK: f32 = 1e-5;
/// Children in a group, represented by its greatest logit when searching for a threshold.
const GROUP: usize = 8;

/// Leaves whose products are computed in all directions, if others have only those in a few: the minimum, and
/// the number for each leaf of the beam.
const FEWEST_NEAR: usize = 128;
const NEAR_PER_LEAF: usize = 3;
/// Fewest children per such leaf.
const CHILDREN_PER_NEAR: usize = 8;

thread_local! {
    /// Memory for the next embedding that this thread routes.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

#[derive(Default)]
struct Scratch {
    /// In eight bits.
    input: ByteRows,
    turned: Turned,
    /// Of all children.
    logits: Vec<f32>,
}

/// The classifier of a tree of one level, in eight bits.
#[derive(Debug)]
pub(super) struct Shortlist {
    bytes: BytePanels,
    /// s W^T minus the mean of its rows, `[B, width]`: the weights of a child are contiguous.
    rows: Vec<f32>,
    /// For each child `[B]`: the norm of its weights, and that of their quantisation error in `bytes`.
    norms: Vec<f32>,
    errors: Vec<f32>,
    /// Made for the first query, if there are many children.
    principal: OnceLock<Option<Principal>>,
}

impl Shortlist {
    /// `None` for a tree that would not profit.
    pub fn new(levels: &[LevelWeights], children: usize, logit_scale: f32) -> Option<Self> {
        let [level] = levels else { return None };
        let finite = level.classifier.iter().all(|x| x.is_finite()) && logit_scale.is_finite();
        if children < FEWEST_CHILDREN || !finite {
            return None;
        }
        let width = level.classifier.len() / children;
        let mut rows = vec![0.0; level.classifier.len()];
        for (i, of_input) in level.classifier.chunks_exact(children).enumerate() {
            let column = rows[i..].iter_mut().step_by(width);
            // An offset common to all logits does not change probabilities, but would make the bytes coarser.
            let mean = of_input.iter().sum::<f32>() / children as f32;
            column.zip(of_input).for_each(|(value, x)| *value = logit_scale * (x - mean));
        }
        let bytes = BytePanels::pack(&rows, width);
        let norms = rows.chunks_exact(width).map(|row| norm(row.iter().copied())).collect();
        let left_out = |(child, row): (usize, &[f32])| norm(bytes.unpack(child).zip(row).map(|(q, x)| x - q));
        let errors = rows.chunks_exact(width).enumerate().map(left_out).collect();
        Some(Self { bytes, rows, norms, errors, principal: OnceLock::new() })
    }

    fn principal(&self) -> Option<&Principal> {
        self.principal.get_or_init(|| Principal::new(&self.rows, self.bytes.dim)).as_ref()
    }

    /// Whether it finds leaves for this beam faster than products in f32.
    pub fn pays(&self, beam: NonZeroUsize, role: Role) -> bool {
        role == Role::Query || beam.get() <= self.norms.len() / CHILDREN_PER_LEAF
    }

    /// The `beam` most probable leaves for an input of the classifier, `[width]` f32, finite; the lower id
    /// first among equals. Also returns the entropy of the choice among all leaves, in nats. Probabilities
    /// and entropy have the small error of the products in eight bits, and of what a query leaves out.
    pub fn best(&self, input: &[f32], beam: NonZeroUsize, role: Role) -> (Beam, f32) {
        let mut scratch = SCRATCH.take();
        let Scratch { input: quantised, turned, logits } = &mut scratch;
        quantised.quantise(input, input.len());
        let all = self.bytes.rows;
        logits.resize(all, 0.0);
        let near = FEWEST_NEAR.max(beam.get().saturating_mul(NEAR_PER_LEAF));
        let near = NonZeroUsize::new(near).filter(|near| near.get() <= all / CHILDREN_PER_NEAR);
        let near = near.filter(|_| role == Role::Query);
        let mut children = match near.and_then(|near| Some((near, self.principal()?))) {
            Some((near, principal)) => {
                principal.products(quantised, turned, logits);
                let near = with_greatest(logits, near);
                principal.add_rest(turned, &near, logits);
                near
            }
            None => {
                products_in_bytes(&self.bytes, &[], quantised, None, logits);
                match role {
                    Role::Document => self.may_be_greatest(logits, quantised, input, beam),
                    Role::Query => with_greatest(logits, beam),
                }
            }
        };
        if children.len() < beam.get().min(all) {
            // Some logits are not numbers.
            logits.iter_mut().filter(|logit| logit.is_nan()).for_each(|logit| *logit = f32::NEG_INFINITY);
            children = (0..all as u32).collect();
        }
        let mut best: Vec<Ranked> =
            children.into_iter().map(|child| Ranked::new(logits[child as usize], Row(child))).collect();
        if best.len() > beam.get() {
            best.select_nth_unstable(beam.get() - 1);
            best.truncate(beam.get());
        }
        best.sort_unstable();
        let mut entropy = 0.0;
        log_softmax_entropy(logits, 1.0, &mut entropy);
        let scored = |child: Row| {
            let own = logits[child.index()];
            let log_probability = if own.is_nan() { f32::NEG_INFINITY } else { own };
            ScoredLeaf { leaf: LeafId(child.0), log_probability }
        };
        let leaves = best.into_iter().map(|child| scored(child.row())).collect();
        SCRATCH.set(scratch);
        (Beam { leaves, expanded: vec![1] }, entropy)
    }

    /// Children among which are those with the `n` greatest products in f32, which replace their logits;
    /// `quantised` was made from `input`.
    fn may_be_greatest(
        &self,
        logits: &mut [f32],
        quantised: &ByteRows,
        input: &[f32],
        n: NonZeroUsize,
    ) -> Vec<u32> {
        let Self { norms, errors, .. } = self;
        // |<w, x> - <w', x'>| <= |w| |x - x'| + |w - w'| |x'|.
        let length = norm(quantised.unpack(0).take(input.len()));
        let left_out = norm(quantised.unpack(0).zip(input).map(|(q, x)| x - q));
        let error = left_out + SLACK * length;
        let children = Bounds { logits, norms, errors, error, length }.may_be_among(n);
        products_of_rows(logits, &self.rows, input, &children);
        children
    }
}

/// The children with the `n` greatest logits, and some more.
fn with_greatest(logits: &[f32], n: NonZeroUsize) -> Vec<u32> {
    let groups = logits.len().div_ceil(GROUP);
    let threshold = match 2 * n.get() <= groups {
        // At least `n` groups have a child whose logit is at least this.
        true => {
            let mut most = vec![f32::NEG_INFINITY; groups];
            greatest_logits(logits, &mut most);
            about_nth_greatest(&most, n.get())
        }
        false => about_nth_greatest(logits, n.get()),
    };
    let mut children = Vec::new();
    put_reaching(logits, threshold, &mut children);
    children
}

/// A number that at least `n` of the values reach, if there are as many, and few more; negative infinity
/// otherwise. Found by bisection, since values are counted much faster than sorted.
fn about_nth_greatest(values: &[f32], n: usize) -> f32 {
    const STEPS: usize = 16;
    let reach = |least: f32| {
        let mut count = 0;
        count_reaching(values, least, &mut count);
        count as usize
    };
    let (mut low, mut high) =
        values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    if reach(low) < n {
        return f32::NEG_INFINITY;
    }
    for _ in 0..STEPS {
        let middle = low + (high - low) / 2.0;
        match reach(middle) {
            count if count < n => high = middle,
            count => {
                low = middle;
                if count <= n + n / 16 {
                    break;
                }
            }
        }
    }
    low
}

fn norm(values: impl Iterator<Item = f32>) -> f32 {
    values.map(|x| x * x).sum::<f32>().sqrt()
}

/// Bounds on the logits of all children: from `logit - bound` to `logit + bound`.
pub(crate) struct Bounds<'a> {
    logits: &'a [f32],
    norms: &'a [f32],
    errors: &'a [f32],
    error: f32,
    length: f32,
}

impl Bounds<'_> {
    #[inline(always)]
    fn of(&self, child: usize) -> [f32; 2] {
        let bound = self.norms[child] * self.error + self.errors[child] * self.length;
        [self.logits[child] - bound, self.logits[child] + bound]
    }

    /// Children that may be among the `n` with the greatest logits, in ascending order.
    fn may_be_among(&self, n: NonZeroUsize) -> Vec<u32> {
        let groups = self.logits.len().div_ceil(GROUP);
        let (mut least, mut most) = (vec![f32::NEG_INFINITY; groups], vec![f32::NEG_INFINITY; groups]);
        greatest_of_groups(self, &mut least, &mut most);
        // `n` groups have a child whose logit is at least this, so at least `n` children do.
        let threshold = nth_greatest(&mut least, n);
        let in_reach = (0..groups).filter(|group| most[*group] >= threshold);
        let children = in_reach.flat_map(|group| (group..self.logits.len()).step_by(groups));
        let mut left: Vec<(u32, [f32; 2])> = children.map(|child| (child as u32, self.of(child))).collect();
        left.retain(|(_, [_, most])| *most >= threshold);
        let threshold = nth_greatest(&mut left.iter().map(|(_, [least, _])| *least).collect::<Vec<_>>(), n);
        left.retain(|(_, [_, most])| *most >= threshold);
        let mut children: Vec<u32> = left.into_iter().map(|(child, _)| child).collect();
        children.sort_unstable();
        children
    }
}

dispatched! {
    /// The greatest logits of the same groups.
    fn greatest_logits<S>(logits: &[f32], most: &mut [f32]) {
        for logits in logits.chunks(most.len()) {
            for (most, &logit) in most.iter_mut().zip(logits) {
                *most = if logit > *most { logit } else { *most };
            }
        }
    }

    fn count_reaching<S>(values: &[f32], least: f32, count: &mut u32) {
        *count = values.iter().map(|value| u32::from(*value >= least)).sum();
    }

    /// Replaces `places` by those of the logits that are at least `least`.
    fn put_reaching<S>(logits: &[f32], least: f32, places: &mut Vec<u32>) {
        // Without branches, which would often be mispredicted.
        places.resize(logits.len() + 1, 0);
        let mut count = 0;
        for (place, logit) in (0..).zip(logits) {
            places[count] = place;
            count += usize::from(*logit >= least);
        }
        places.truncate(count);
    }

    /// The greatest bounds of groups: child c is in group `c % groups`, so that groups are adjacent.
    fn greatest_of_groups<S>(of: &Bounds<'_>, least: &mut [f32], most: &mut [f32]) {
        let groups = least.len();
        let children = of.logits.chunks(groups).zip(of.norms.chunks(groups)).zip(of.errors.chunks(groups));
        for ((logits, norms), errors) in children {
            let children = logits.iter().zip(norms).zip(errors);
            for ((least, most), ((logit, norm), own)) in least.iter_mut().zip(most.iter_mut()).zip(children) {
                let bound = norm * of.error + own * of.length;
                let (low, high) = (logit - bound, logit + bound);
                *least = if low > *least { low } else { *least };
                *most = if high > *most { high } else { *most };
            }
        }
    }
}

/// The `n`th greatest, or a number below all if there are fewer.
fn nth_greatest(values: &mut [f32], n: NonZeroUsize) -> f32 {
    let place = n.get() - 1;
    if place >= values.len() {
        return f32::NEG_INFINITY;
    }
    *values.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1
}

#[cfg(test)]
mod tests {
    use super::super::{Indexer, QueryScorer, TreeWeights};
    use super::*;
    use crate::tree::{TreeShape, beam_search};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::sync::Arc;

    fn values(n: usize, random: &mut ChaCha8Rng) -> Vec<f32> {
        (0..n).map(|_| random.random_range(-1.0..1.0)).collect()
    }

    fn indexer(children: u32, dim: usize, transform: bool, random: &mut ChaCha8Rng) -> Indexer {
        let transform = transform.then(|| values(dim * dim, random));
        let classifier = values(dim * children as usize, random);
        let weights = TreeWeights { projection: None, levels: vec![LevelWeights { transform, classifier }] };
        let mut indexer = Indexer::new(TreeShape::new(children, 1).unwrap(), dim, 3.0, weights).unwrap();
        // Independent of the processor.
        indexer.shortlist = Shortlist::new(&indexer.weights.levels, children as usize, 3.0).map(Arc::new);
        indexer
    }

    #[test]
    fn the_leaves_are_those_of_products_in_f32() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for (children, dim, transform) in
            [(256, 5, false), (300, 64, true), (1000, 384, false), (2100, 130, false)]
        {
            let indexer = indexer(children, dim, transform, &mut random);
            for beam in [1, 2, 8, 31].map(|beam| NonZeroUsize::new(beam).unwrap()) {
                let input = values(dim, &mut random);
                let mut scorer = QueryScorer::new(&indexer, &input);
                let plain = beam_search(indexer.shape, &mut scorer, beam);
                let (cost, (.., entropy)) = (scorer.multiply_adds, scorer.nodes[0]);
                let mut scorer = QueryScorer::new(&indexer, &input);
                let (short, own) = scorer.shortlisted(beam, Role::Document).expect("it pays");
                assert_eq!(scorer.multiply_adds, cost);
                assert!((own - entropy).abs() < 0.05 * entropy.max(0.1), "{own} {entropy}");
                assert_eq!(short.leaves.len(), beam.get());
                for (a, b) in short.leaves.iter().zip(&plain.leaves) {
                    assert_eq!(a.leaf, b.leaf, "{children}, {dim}, {beam}");
                    assert!((a.log_probability - b.log_probability).abs() < 0.02, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn the_leaves_of_a_query_are_those_but_for_equally_probable_ones() {
        let mut random = ChaCha8Rng::seed_from_u64(8);
        for (children, dim) in [(300, 64), (1000, 384), (2049, 33)] {
            let indexer = indexer(children, dim, false, &mut random);
            let all = NonZeroUsize::new(children as usize).unwrap();
            let beam = NonZeroUsize::new(31).unwrap();
            for _ in 0..10 {
                let input = values(dim, &mut random);
                let plain = beam_search(indexer.shape, &mut QueryScorer::new(&indexer, &input), all).leaves;
                let range = plain[0].log_probability - plain[plain.len() - 1].log_probability;
                let least = plain[beam.get() - 1].log_probability;
                let short = QueryScorer::new(&indexer, &input).shortlisted(beam, Role::Query);
                let short = short.expect("it pays").0.leaves;
                assert_eq!(short.len(), beam.get());
                assert!(short.is_sorted_by(|a, b| a.log_probability >= b.log_probability));
                for own in &short {
                    let exact = plain.iter().find(|other| other.leaf == own.leaf).unwrap().log_probability;
                    assert!((own.log_probability - exact).abs() < 0.01 * range, "{own:?} {exact} {range}");
                    assert!(exact > least - 0.01 * range, "{own:?} {exact} {least} {range}");
                }
            }
        }
    }

    #[test]
    fn of_many_leaves_a_query_gets_those_that_are_near_in_few_directions() {
        near_in_few_directions(200);
    }

    /// Directions in which nothing lies do not count.
    #[test]
    fn so_it_does_where_most_dimensions_are_empty() {
        near_in_few_directions(80);
    }

    /// `wide`: the dimensions that are not 0.
    fn near_in_few_directions(wide: usize) {
        let mut random = ChaCha8Rng::seed_from_u64(9);
        let (children, dim, beam) = (4001, 200, NonZeroUsize::new(20).unwrap());
        let centres: Vec<Vec<f32>> = (0..60).map(|_| values(dim, &mut random)).collect();
        let mut near = || -> Vec<f32> {
            let (centre, noise) = (random.random_range(0..centres.len()), values(dim, &mut random));
            let values = centres[centre].iter().zip(noise).map(|(x, y)| 0.1 * (x + 0.5 * y));
            values.enumerate().map(|(i, x)| if i < wide { x } else { 0.0 }).collect()
        };
        let mut classifier = vec![0.0; dim * children];
        for child in 0..children {
            near().into_iter().enumerate().for_each(|(i, x)| classifier[i * children + child] = x);
        }
        let levels = vec![LevelWeights { transform: None, classifier }];
        let weights = TreeWeights { projection: None, levels };
        let mut indexer = Indexer::new(TreeShape::new(4001, 1).unwrap(), dim, 10.0, weights).unwrap();
        indexer.shortlist = Shortlist::new(&indexer.weights.levels, children, 10.0).map(Arc::new);
        assert!(indexer.shortlist.as_ref().unwrap().principal().is_some());
        let (mut same, queries) = (0, 50);
        for _ in 0..queries {
            let input = near();
            let mut scorer = QueryScorer::new(&indexer, &input);
            let plain = beam_search(indexer.shape, &mut scorer, beam);
            let (cost, (.., entropy)) = (scorer.multiply_adds, scorer.nodes[0]);
            let mut scorer = QueryScorer::new(&indexer, &input);
            let (short, own) = scorer.shortlisted(beam, Role::Query).unwrap();
            assert_eq!(scorer.multiply_adds, cost);
            assert!((own - entropy).abs() < 0.3, "{own} {entropy}");
            assert!(short.leaves.is_sorted_by(|a, b| a.log_probability >= b.log_probability));
            for own in &short.leaves {
                let exact = plain.leaves.iter().find(|exact| exact.leaf == own.leaf);
                same += usize::from(exact.is_some());
                assert!(exact.is_none_or(|exact| (exact.log_probability - own.log_probability).abs() < 0.3));
            }
        }
        assert!(same >= 19 * queries, "{same} of {}", 20 * queries);
    }

    #[test]
    fn few_are_left_over() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let children = 4000;
        let logits = values(children, &mut random);
        let (norms, errors) = (vec![1.0; children], vec![0.01; children]);
        let bounds = Bounds { logits: &logits, norms: &norms, errors: &errors, error: 0.01, length: 1.0 };
        let n = NonZeroUsize::new(100).unwrap();
        let found = bounds.may_be_among(n);
        let mut sorted = logits.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let want: Vec<u32> = (0..children as u32)
            .filter(|child| logits[*child as usize] + 0.02 >= sorted[99] - 0.02)
            .collect();
        assert_eq!(found, want);
        assert!(found.len() > 100 && found.len() < 200, "{}", found.len());
    }

    #[test]
    fn equal_leaves_go_by_number_and_small_or_broken_trees_have_none() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let same =
            |children: u32| LevelWeights { transform: None, classifier: vec![0.25; 8 * children as usize] };
        let level = [same(512)];
        let shortlist = Shortlist::new(&level, 512, 1.0).unwrap();
        let (best, entropy) =
            shortlist.best(&values(8, &mut random), NonZeroUsize::new(3).unwrap(), Role::Query);
        assert_eq!(best.leaves.iter().map(|scored| scored.leaf.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!((entropy - 512f32.ln()).abs() < 1e-3);
        assert!(Shortlist::new(&[same(40)], 40, 1.0).is_none());
        let mut broken = same(512);
        broken.classifier[77] = f32::NAN;
        assert!(Shortlist::new(&[broken], 512, 1.0).is_none());
    }
}
