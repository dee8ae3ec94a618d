//! The leaves of the tree for one query, most probable first.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::ids::LeafId;
use crate::model::{Indexer, Role, RoutingSample};
use crate::tree::ScoredLeaf;

/// Factor of each widening beyond the beam, large enough that finding leaves again costs little.
const WIDENING: usize = 4;

/// Yields the leaves of a query on demand, most probable first.
pub(super) struct LeafCursor<'a> {
    indexer: &'a Indexer,
    unit: &'a [f32],
    /// Number of leaves to visit.
    beam: NonZeroUsize,
    /// The width of the beam search that found the pending leaves; 0 before the first.
    width: usize,
    pending: std::vec::IntoIter<ScoredLeaf>,
    /// The leaves visited. A wider beam finds them again.
    pub visited: Vec<ScoredLeaf>,
    /// For a wider beam, the leaves visited before it.
    returned: HashSet<LeafId>,
    pub multiply_adds: u64,
    pub sample: Option<RoutingSample>,
    /// Time of the beam searches.
    pub elapsed: Duration,
}

impl<'a> LeafCursor<'a> {
    /// `unit` `[dim]`, of unit norm.
    pub fn new(indexer: &'a Indexer, unit: &'a [f32], beam: NonZeroUsize) -> Self {
        Self {
            indexer,
            unit,
            beam,
            width: 0,
            pending: Vec::new().into_iter(),
            visited: Vec::new(),
            returned: HashSet::new(),
            multiply_adds: 0,
            sample: None,
            elapsed: Duration::ZERO,
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
        Self { pending: pending.into_iter(), width: all, ..Self::new(indexer, unit, most) }
    }

    /// Whether the leaves of the beam were visited.
    pub fn is_over(&self) -> bool {
        self.visited.len() >= self.beam.get()
    }

    /// Whether all leaves were visited.
    pub fn is_exhausted(&self) -> bool {
        self.visited.len() >= self.leaves()
    }

    /// The next leaf, which becomes a visited one, even beyond the beam.
    pub fn advance(&mut self) -> Option<LeafId> {
        loop {
            if let Some(scored) = self.pending.find(|scored| !self.returned.contains(&scored.leaf)) {
                self.visited.push(scored);
                return Some(scored.leaf);
            }
            if self.width >= self.leaves() {
                return None;
            }
            self.widen();
        }
    }

    fn leaves(&self) -> usize {
        self.indexer.shape().leaves() as usize
    }

    fn widen(&mut self) {
        let one_level = self.indexer.shape().height() == 1;
        let width = match self.width {
            0 => self.beam.get(),
            _ if one_level => self.leaves(),
            width => width.saturating_mul(WIDENING),
        };
        self.width = width.min(self.leaves());
        self.returned.extend(self.visited.iter().map(|scored| scored.leaf));
        let started = Instant::now();
        let beam = NonZeroUsize::new(self.width).unwrap_or(NonZeroUsize::MIN);
        let routing = self.indexer.route(self.unit, beam, Role::Query);
        self.elapsed += started.elapsed();
        // For a tree of one level, any width costs one product.
        match one_level {
            true => self.multiply_adds = routing.multiply_adds,
            false => self.multiply_adds += routing.multiply_adds,
        }
        self.sample.get_or_insert(routing.sample);
        self.pending = routing.search.leaves.into_iter();
    }
}
