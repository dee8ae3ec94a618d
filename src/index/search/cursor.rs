//! The leaves of the tree for one query, most probable first.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::plan::Limits;
use crate::ids::LeafId;
use crate::model::{Indexer, Role, RoutingSample};
use crate::tree::ScoredLeaf;

/// Number of leaves with which an adaptive search of a tree of several levels begins; it widens later.
const FIRST_WIDTH: usize = 16;
/// Factor of each widening, large enough that finding leaves again costs little.
const WIDENING: usize = 4;

/// Yields the leaves of a query on demand, most probable first.
pub(super) struct LeafCursor<'a> {
    indexer: &'a Indexer,
    unit: &'a [f32],
    limits: Limits,
    /// The width of the beam search that found the pending leaves; 0 before the first.
    width: usize,
    pending: std::vec::IntoIter<ScoredLeaf>,
    /// The leaves visited. A wider beam finds them again.
    pub visited: Vec<ScoredLeaf>,
    /// For a wider beam, the leaves visited before it.
    returned: HashSet<LeafId>,
    /// Probability of the visited leaves, and how many of the last ones yielded no hit.
    mass: f64,
    without_hit: usize,
    pub multiply_adds: u64,
    pub sample: Option<RoutingSample>,
    /// Time of the beam searches.
    pub beam: Duration,
}

impl<'a> LeafCursor<'a> {
    /// `unit` `[dim]`, of unit norm.
    pub fn new(indexer: &'a Indexer, unit: &'a [f32], limits: Limits) -> Self {
        Self {
            indexer,
            unit,
            limits,
            width: 0,
            pending: Vec::new().into_iter(),
            visited: Vec::new(),
            returned: HashSet::new(),
            mass: 0.0,
            without_hit: 0,
            multiply_adds: 0,
            sample: None,
            beam: Duration::ZERO,
        }
    }

    /// For given leaves, each once. `unit` `[dim]`, of unit norm.
    pub fn of(indexer: &'a Indexer, unit: &'a [f32], leaves: &[LeafId]) -> Self {
        let mut once = HashSet::new();
        // Their probability is not needed.
        let scored = |&leaf: &LeafId| ScoredLeaf { leaf, log_probability: f32::NEG_INFINITY };
        let pending: Vec<ScoredLeaf> = leaves.iter().filter(|leaf| once.insert(**leaf)).map(scored).collect();
        let most = NonZeroUsize::new(pending.len()).unwrap_or(NonZeroUsize::MIN);
        let all = indexer.shape().leaves() as usize;
        Self { pending: pending.into_iter(), width: all, ..Self::new(indexer, unit, Limits::beam(most)) }
    }

    /// Whether a limit is reached. The caller checks limits on documents.
    pub fn is_over(&self) -> bool {
        self.visited.len() >= self.limits.leaves.get()
            || self.mass >= self.limits.mass
            || self.without_hit >= self.limits.patience
    }

    /// Whether all leaves were visited.
    pub fn is_exhausted(&self) -> bool {
        self.visited.len() >= self.leaves()
    }

    /// The next leaf, even beyond the limits.
    pub fn advance(&mut self) -> Option<ScoredLeaf> {
        loop {
            if let Some(scored) = self.pending.find(|scored| !self.returned.contains(&scored.leaf)) {
                return Some(scored);
            }
            if self.width >= self.leaves() {
                return None;
            }
            self.widen();
        }
    }

    /// Marks a leaf as visited; `hit` says whether one of its documents was among the best so far.
    pub fn visit(&mut self, scored: ScoredLeaf, hit: bool) {
        self.mass += f64::from(scored.log_probability.exp());
        self.without_hit = if hit { 0 } else { self.without_hit + 1 };
        self.visited.push(scored);
    }

    fn leaves(&self) -> usize {
        self.indexer.shape().leaves() as usize
    }

    fn widen(&mut self) {
        let adaptive = self.limits.is_adaptive();
        let one_level = self.indexer.shape().height() == 1;
        let width = match self.width {
            // A tree of one level scores every leaf anyway, or the cheapest number that it can.
            0 if adaptive && one_level => self.indexer.cheap_width().unwrap_or(self.leaves()),
            0 if adaptive => FIRST_WIDTH,
            0 => self.limits.leaves.get(),
            _ if one_level => self.leaves(),
            width => width.saturating_mul(WIDENING),
        };
        self.width = width.min(self.leaves());
        self.returned.extend(self.visited.iter().map(|scored| scored.leaf));
        let started = Instant::now();
        let beam = NonZeroUsize::new(self.width).unwrap_or(NonZeroUsize::MIN);
        let routing = self.indexer.route(self.unit, beam, Role::Query);
        self.beam += started.elapsed();
        // For a tree of one level, any width costs one product.
        match one_level {
            true => self.multiply_adds = routing.multiply_adds,
            false => self.multiply_adds += routing.multiply_adds,
        }
        self.sample.get_or_insert(routing.sample);
        self.pending = routing.search.leaves.into_iter();
    }
}
