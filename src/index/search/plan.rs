//! The checked parameters of a search.

use std::num::NonZeroUsize;

use tracing::Span;

use super::encode::QueryEncoder;
use crate::filter::Filter;
use crate::ids::LeafId;
use crate::lexical::{Bm25, TermStatistics};
use crate::store::View;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SearchMode {
    /// As far as needed to find this share of exact search's hits; `k` hits if that many exist.
    Recall(f64),
    /// This many of the most probable leaves.
    Beam(NonZeroUsize),
    /// The leaves that the plan names.
    Leaves,
    /// Every document, without the tree.
    Exact,
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
            SearchMode::Beam(beam) => Some(beam.get()),
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
