//! How an index combines scores by embeddings and by words, as learned by
//! [`Index::fuse`](crate::Index::fuse).

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use super::Index;
use super::active_model::ActiveModel;
#[cfg(feature = "train")]
use super::measured;
#[cfg(feature = "train")]
use crate::error::Result;
use crate::search::{DEFAULT_ALPHA, QueryEncoder};

/// The learned weight of a hybrid search, and what it was learned from.
///
/// Figures are mean nDCG@10 over the questions; every document is a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnedFusion {
    /// Weight of the dense score, from 0 to 1; 1 if words do not help.
    pub alpha: f64,
    /// Whether a hybrid search is better on average than one by embeddings alone; `p_value` is its
    /// significance.
    pub words_help: bool,
    /// Number of questions that it was learned from.
    pub questions: usize,
    /// By embeddings alone.
    pub dense: f64,
    /// By words alone.
    pub lexical: f64,
    /// By both: the questions are split into five parts, and each part is searched with the weight learned on
    /// the other four.
    pub hybrid: f64,
    /// By reciprocal rank fusion with k = 60.
    pub rrf: f64,
    /// Of `hybrid` against `dense`, one-sided: the larger p-value of a paired t-test and a paired bootstrap.
    pub p_value: f64,
    /// By both, with each of 21 weights from 0 to 1.
    pub weights: Vec<f64>,
    /// The same for questions read by the fast encoder; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<Box<LearnedFusion>>,
}

/// The stored form: with the checksum of the query encoder that `fast` was learned for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptFusion {
    pub fusion: LearnedFusion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_encoder: Option<String>,
}

/// Larger than any number of weights that was ever tried.
const MOST_WEIGHTS: usize = 1_000;

impl LearnedFusion {
    pub(super) fn is_sane(&self) -> bool {
        let Self { alpha, dense, lexical, hybrid, rrf, p_value, ref weights, .. } = *self;
        let shares = [alpha, dense, lexical, hybrid, rrf, p_value];
        // Nested one level deep at most.
        let fast_is_sane = self.fast.as_ref().is_none_or(|fast| fast.fast.is_none() && fast.is_sane());
        fast_is_sane
            && weights.len() <= MOST_WEIGHTS
            && shares.iter().chain(weights).all(|share| (0.0..=1.0).contains(share))
    }
}

impl Index {
    /// How this index combines scores by embeddings and by words; `None` before [`Index::fuse`].
    pub fn fusion(&self) -> Option<LearnedFusion> {
        self.serving().fusion()
    }

    /// Stores what was learned for the model in service; durable once this has returned.
    #[cfg(feature = "train")]
    pub(crate) fn set_fusion(&self, serving: &ActiveModel, fusion: LearnedFusion) -> Result<()> {
        let kept = serving.to_keep(fusion);
        let dir = self.root.model_dir(serving.number);
        measured::FUSION.write(&*self.root.backend(), &dir, &serving.origin(), &kept)?;
        serving.put_fusion(Some(kept));
        Ok(self.root.note_measured(measured::FUSION, true)?)
    }

    /// Refuses a file that the result could not replace.
    #[cfg(feature = "train")]
    pub(crate) fn check_fusion(&self, serving: &ActiveModel) -> Result<()> {
        Ok(measured::FUSION.check(&*self.root.backend(), &self.root.model_dir(serving.number))?)
    }
}

impl ActiveModel {
    /// What was learned, with the fast encoder's weights if they belong to the current one.
    pub(super) fn fusion(&self) -> Option<LearnedFusion> {
        let mut kept = self.kept_fusion()?;
        if !self.has_query_encoder(kept.query_encoder.as_deref()) {
            kept.fusion.fast = None;
        }
        Some(kept.fusion)
    }

    #[cfg(feature = "train")]
    fn to_keep(&self, fusion: LearnedFusion) -> KeptFusion {
        let query_encoder = self.bundle().fast().map(|fast| fast.entry().sha256.clone());
        KeptFusion { fusion, query_encoder }
    }

    /// What was learned for a model that is not yet in service; it is kept with the model.
    #[cfg(feature = "train")]
    pub(crate) fn put_learned_fusion(&self, fusion: LearnedFusion) {
        self.put_fusion(Some(self.to_keep(fusion)));
    }

    pub(super) fn kept_fusion(&self) -> Option<KeptFusion> {
        self.fusion.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn put_fusion(&self, fusion: Option<KeptFusion>) {
        *self.fusion.write().unwrap_or_else(PoisonError::into_inner) = fusion;
    }

    /// Whether the query encoder is the one with this checksum.
    fn has_query_encoder(&self, sum: Option<&str>) -> bool {
        self.bundle.fast().is_some_and(|fast| sum == Some(&fast.entry().sha256))
    }

    /// Weight of the dense score in a hybrid search, by the encoder that gave the embedding; `None`: the
    /// default encoder.
    pub(crate) fn alpha(&self, encoder: Option<QueryEncoder>) -> f64 {
        self.learned(encoder, |fusion| fusion.alpha).unwrap_or(DEFAULT_ALPHA)
    }

    /// Whether searches should use words.
    pub(crate) fn words_help(&self, encoder: Option<QueryEncoder>) -> bool {
        self.learned(encoder, |fusion| fusion.words_help).unwrap_or(false)
    }

    /// A value learned for an encoder; for the fast one, falls back to the full one's.
    fn learned<T>(&self, encoder: Option<QueryEncoder>, of: impl Fn(&LearnedFusion) -> T) -> Option<T> {
        let kept = self.fusion.read().unwrap_or_else(PoisonError::into_inner);
        let KeptFusion { fusion: full, query_encoder } = kept.as_ref()?;
        let for_fast = || full.fast.as_deref().filter(|_| self.has_query_encoder(query_encoder.as_deref()));
        Some(match encoder.unwrap_or_else(|| self.default_encoder()) {
            QueryEncoder::Fast => of(for_fast().unwrap_or(full)),
            QueryEncoder::Full => of(full),
        })
    }
}
