//! How far a search goes in the tree, and the way there.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::stop::Stop;
use crate::error::InputError;
use crate::ids::LeafId;
use crate::model::{Indexer, RoutingSample};
use crate::tree::ScoredLeaf;

/// Leaves with which an adaptive search of a tree of several levels begins; it widens as it goes on.
const FIRST_WIDTH: usize = 16;
/// How much wider it grows at a time, so that what is found twice costs little.
const WIDENING: usize = 4;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    /// Leaves of the tree.
    Tree(Limits),
    /// Every document, past the tree.
    Exact,
}

impl Reach {
    pub fn beam(leaves: NonZeroUsize) -> Self {
        Self::Tree(Limits::beam(leaves))
    }
}

/// Where a search of the tree ends: at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub leaves: NonZeroUsize,
    documents: usize,
    fraction: f64,
    mass: f64,
    patience: usize,
}

impl Limits {
    pub fn beam(leaves: NonZeroUsize) -> Self {
        Self {
            leaves,
            documents: usize::MAX,
            fraction: f64::INFINITY,
            mass: f64::INFINITY,
            patience: usize::MAX,
        }
    }

    /// With one rule more; of two of a kind the stricter one counts.
    pub fn with(mut self, stop: Stop) -> Result<Self, InputError> {
        stop.check()?;
        match stop {
            Stop::Patience(leaves) => self.patience = self.patience.min(leaves),
            Stop::Mass(share) => self.mass = self.mass.min(share),
            Stop::Documents(count) => self.documents = self.documents.min(count),
            Stop::Fraction(share) => self.fraction = self.fraction.min(share),
        }
        Ok(self)
    }

    /// Whether a rule may end the search before all these leaves.
    pub fn is_adaptive(&self) -> bool {
        *self != Self::beam(self.leaves)
    }

    /// Documents to score at most, of so many live ones.
    pub fn documents_of(&self, live: usize) -> usize {
        // A share beyond every document, infinity too, saturates.
        self.documents.min((self.fraction * live as f64) as usize)
    }
}

/// The way of a query through the leaves, most probable first, as far as it is asked.
pub(super) struct Course<'a> {
    indexer: &'a Indexer,
    unit: &'a [f32],
    limits: Limits,
    /// Of the beam search that found the leaves at hand; 0 before the first.
    width: usize,
    at_hand: std::vec::IntoIter<ScoredLeaf>,
    /// Those that were scored, which a wider beam finds again.
    pub leaves: Vec<ScoredLeaf>,
    /// Of a wider beam, those that were handed out before it.
    given: HashSet<LeafId>,
    /// Their probability together, and how many of the last ones brought nothing.
    mass: f64,
    quiet: usize,
    pub multiply_adds: u64,
    pub sample: Option<RoutingSample>,
    /// Time of the beam searches.
    pub beam: Duration,
}

impl<'a> Course<'a> {
    pub fn new(indexer: &'a Indexer, unit: &'a [f32], limits: Limits) -> Self {
        Self {
            indexer,
            unit,
            limits,
            width: 0,
            at_hand: Vec::new().into_iter(),
            leaves: Vec::new(),
            given: HashSet::new(),
            mass: 0.0,
            quiet: 0,
            multiply_adds: 0,
            sample: None,
            beam: Duration::ZERO,
        }
    }

    /// Whether the limits are reached, but for those that count documents.
    pub fn is_over(&self) -> bool {
        self.leaves.len() >= self.limits.leaves.get()
            || self.mass >= self.limits.mass
            || self.quiet >= self.limits.patience
    }

    /// Whether all leaves were handed out.
    pub fn is_exhausted(&self) -> bool {
        self.leaves.len() >= self.all()
    }

    /// The next leaf, also beyond the limits.
    pub fn advance(&mut self) -> Option<ScoredLeaf> {
        loop {
            if let Some(scored) = self.at_hand.find(|scored| !self.given.contains(&scored.leaf)) {
                return Some(scored);
            }
            if self.width >= self.all() {
                return None;
            }
            self.widen();
        }
    }

    /// Counts a leaf that was scored.
    pub fn scored(&mut self, scored: ScoredLeaf, accepted: bool) {
        self.mass += f64::from(scored.log_probability.exp());
        self.quiet = if accepted { 0 } else { self.quiet + 1 };
        self.leaves.push(scored);
    }

    /// Leaves of the tree.
    pub fn all(&self) -> usize {
        self.indexer.shape().leaves() as usize
    }

    fn widen(&mut self) {
        let adaptive = self.limits.is_adaptive();
        let one_level = self.indexer.shape().height() == 1;
        let width = match self.width {
            // A tree of one level scores every leaf anyway, or as few as it can.
            0 if adaptive && one_level => self.indexer.cheap_width().unwrap_or(self.all()),
            0 if adaptive => FIRST_WIDTH,
            0 => self.limits.leaves.get(),
            _ if one_level => self.all(),
            width => width.saturating_mul(WIDENING),
        };
        self.width = width.min(self.all());
        self.given.extend(self.leaves.iter().map(|scored| scored.leaf));
        let started = Instant::now();
        let beam = NonZeroUsize::new(self.width).unwrap_or(NonZeroUsize::MIN);
        let (routing, sample) = self.indexer.route_observed(self.unit, beam);
        self.beam += started.elapsed();
        // One level is one product, whichever of its leaves are asked for first.
        match one_level {
            true => self.multiply_adds = routing.multiply_adds,
            false => self.multiply_adds += routing.multiply_adds,
        }
        self.sample.get_or_insert(sample);
        self.at_hand = routing.search.leaves.into_iter();
    }
}
