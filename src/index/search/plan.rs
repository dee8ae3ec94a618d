//! A search for one question, as a checked request asks for it.

use std::num::NonZeroUsize;

use tracing::Span;

use super::request::{DEFAULT_RECALL, GroupBy, RankBy, Reach, SearchRequest};
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::index::Index;
use crate::lexical::Bm25;
use crate::store::View;

static DEFAULT_REACH: Reach = Reach::Recall(DEFAULT_RECALL);

/// A search for one question, as a checked request asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    /// Hits to find: more than the request's if a reranker reads more.
    pub k: NonZeroUsize,
    /// Whether to run on the current rayon pool instead of the calling thread.
    pub parallel: bool,
    /// What the filter is made of, if part of it is a scope.
    pub scope: Option<Scope<'a>>,
    pub request: &'a SearchRequest,
}

/// A filter whose other documents nothing is said of, and the one that the caller gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub filter: &'a Filter,
    pub asked: Option<&'a Filter>,
}

impl<'a> Plan<'a> {
    /// Only for values that the caller has chosen itself: nothing is checked.
    pub fn new(k: NonZeroUsize, request: &'a SearchRequest) -> Self {
        Self { k, parallel: request.parallel, scope: None, request }
    }

    /// How far embeddings are searched.
    pub fn reach(&self) -> &'a Reach {
        self.request.reach.as_ref().unwrap_or(&DEFAULT_REACH)
    }

    pub fn filter(&self) -> Option<&'a Filter> {
        self.request.filter.as_deref()
    }

    /// Parameters of the lexical score.
    pub fn bm25(&self) -> Bm25 {
        self.request.bm25.map_or_else(Bm25::default, |(k1, b)| Bm25 { k1, b })
    }

    /// The tracing span of a search of one view for `queries` queries; contains no user text.
    pub fn span(&self, queries: usize, view: &View) -> Span {
        let beam = match self.reach() {
            Reach::Beam(beam) => Some(*beam),
            Reach::Leaves(leaves) => Some(leaves.len()),
            Reach::Recall(_) | Reach::Exact => None,
        };
        tracing::debug_span!(
            "search",
            queries,
            k = self.k.get(),
            beam,
            filtered = self.filter().is_some(),
            generation = view.generation().0,
            documents = view.live(),
        )
    }
}

impl SearchRequest {
    /// Options that a search by words has no use for, and whether each is given.
    fn of_embeddings(&self) -> [(&'static str, bool); 4] {
        [
            ("encoder", self.encoder.is_some()),
            (self.reach.as_ref().map_or("", Reach::name), self.reach.is_some()),
            ("codes", self.codes.is_some()),
            ("parallel", self.parallel),
        ]
    }

    /// Refuses a text that cannot be searched by words, where there is no encoder.
    pub(super) fn check_by_words(&self, mode: RankBy, view: &View) -> Result<()> {
        match mode {
            RankBy::Lexical => return Ok(()),
            RankBy::Best if view.is_lexical() => {}
            _ => return Err(InputError::NoEncoder.into()),
        }
        match self.of_embeddings().into_iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                let call = "a text in an index without an encoder, which is searched by words alone";
                Err(InputError::InapplicableOption { option, call }.into())
            }
            None => Ok(()),
        }
    }

    /// The plan of this request for an index.
    ///
    /// # Errors
    /// [`InputError::OutOfRange`], [`InputError::Conflict`],
    /// [`InputError::OtherTerms`], [`InputError::InapplicableOption`].
    pub(in crate::index) fn plan(&self, index: &Index) -> Result<Plan<'_>> {
        let mut k = NonZeroUsize::new(self.k).ok_or(InputError::zero("k"))?;
        if let Some(rerank) = &self.rerank {
            k = k.max(NonZeroUsize::new(rerank.depth).ok_or(InputError::zero("the depth of the reranker"))?);
        }
        let of_words = [("bm25", self.bm25.is_some()), ("statistics", self.statistics.is_some())];
        let idle = match self.mode {
            RankBy::Lexical => self.of_embeddings().into_iter().find(|(_, given)| *given),
            RankBy::Dense => of_words.into_iter().find(|(_, given)| *given),
            _ => None,
        };
        if let Some((option, _)) = idle {
            return Err(InputError::Conflict { options: [self.mode.name(), option] }.into());
        }
        if let RankBy::Hybrid(fusion) = self.mode {
            fusion.check()?;
        }
        let plan = Plan::new(k, self);
        let Bm25 { k1, b } = plan.bm25();
        if !(k1.is_finite() && k1 >= 0.0) {
            return Err(InputError::OutOfRange { what: "k1", found: k1.into(), expected: "0 or more" }.into());
        }
        if !(0.0..=1.0).contains(&b) {
            return Err(InputError::OutOfRange { what: "b", found: b.into(), expected: "from 0 to 1" }.into());
        }
        if let Some(given) = &self.statistics {
            given.check_kind(&index.serving().term_kind()).map_err(InputError::from)?;
        }
        if let Some(GroupBy { per_group, .. }) = &self.group_by {
            if *per_group == 0 {
                return Err(InputError::zero("the hits of a group").into());
            }
            if self.rerank.is_some() {
                return Err(InputError::Conflict { options: ["group_by", "rerank"] }.into());
            }
        }
        if self.passages.is_some() && index.passages().is_none() {
            let call = "an index without passages";
            return Err(InputError::InapplicableOption { option: "passages", call }.into());
        }
        match plan.reach() {
            // Rejects NaN too.
            Reach::Recall(found) if !(*found > 0.0 && *found <= 1.0) => {
                let expected = "above 0 and at most 1";
                Err(InputError::OutOfRange { what: "the recall", found: *found, expected }.into())
            }
            Reach::Beam(0) => Err(InputError::zero("the beam").into()),
            Reach::Leaves(leaves) if leaves.is_empty() => Err(InputError::zero("the beam").into()),
            _ => Ok(plan),
        }
    }
}
