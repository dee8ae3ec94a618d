//! The checked parameters of a search.

use std::num::NonZeroUsize;

use tracing::Span;

use super::encode::QueryEncoder;
use crate::error::InputError;
use crate::filter::Filter;
use crate::ids::LeafId;
use crate::lexical::{Bm25, TermStatistics};
use crate::stop::{BadStop, Stop};
use crate::store::View;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SearchMode {
    /// As far as needed to find this share of exact search's hits; `k` hits if that many exist.
    Recall(f64),
    /// Leaves of the tree.
    Tree(Limits),
    /// The leaves that the plan names.
    Leaves,
    /// Every document, without the tree.
    Exact,
}

impl SearchMode {
    pub fn beam(leaves: NonZeroUsize) -> Self {
        Self::Tree(Limits::beam(leaves))
    }
}

/// A checked request: a search for one question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub k: NonZeroUsize,
    /// Parameters of the lexical score.
    pub bm25: Bm25,
    /// How far embeddings are searched.
    pub mode: SearchMode,
    /// The leaves of [`SearchMode::Leaves`].
    pub leaves: &'a [LeafId],
    /// Statistics of words that replace the index's own.
    pub statistics: Option<&'a TermStatistics>,
    pub filter: Option<&'a Filter>,
    /// Whether codes may rule rows out. By default they may, unless every document was requested.
    pub codes: Option<bool>,
    /// Whether to run on the current rayon pool instead of the calling thread.
    pub parallel: bool,
    /// Which encoder reads the question; by default, as the model's verdict says.
    pub encoder: Option<QueryEncoder>,
    /// Whether hits contain ids only.
    pub ids_only: bool,
    /// Maximum passages per hit; 1 by default if there are any.
    pub passages: Option<usize>,
}

impl Plan<'_> {
    /// The tracing span of a search of one view for `queries` queries; contains no user text.
    pub fn span(&self, queries: usize, view: &View) -> Span {
        let beam = match self.mode {
            SearchMode::Tree(limits) => Some(limits.leaves.get()),
            SearchMode::Leaves => Some(self.leaves.len()),
            SearchMode::Recall(_) | SearchMode::Exact => None,
        };
        tracing::debug_span!(
            "search",
            queries,
            k = self.k.get(),
            beam,
            filtered = self.filter.is_some(),
            generation = view.generation().0,
            documents = view.live(),
        )
    }

    pub fn new(k: NonZeroUsize, mode: SearchMode) -> Self {
        Self {
            k,
            bm25: Bm25::default(),
            mode,
            leaves: &[],
            statistics: None,
            filter: None,
            codes: None,
            parallel: false,
            encoder: None,
            ids_only: false,
            passages: None,
        }
    }
}

/// Where a search of the tree ends: at whichever limit comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub leaves: NonZeroUsize,
    documents: usize,
    fraction: f64,
    pub mass: f64,
    pub patience: usize,
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

    /// With one more rule; of two rules of the same kind, the stricter one applies.
    pub fn with(mut self, stop: Stop) -> Result<Self, InputError> {
        if !stop.is_valid() {
            return Err(BadStop { found: stop.to_string() }.into());
        }
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

    /// Whether a rule needs the scores of each leaf before the next one.
    pub fn needs_scores(&self) -> bool {
        self.patience != usize::MAX
    }

    /// Maximum number of documents to score, of `live` live ones.
    pub fn documents_of(&self, live: usize) -> usize {
        // Shares above 1 saturate, even infinity.
        self.documents.min((self.fraction * live as f64) as usize)
    }
}
