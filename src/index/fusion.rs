//! How an index combines scores by embeddings and by words, as learned by
//! [`Index::fuse`](crate::Index::fuse).

use serde::{Deserialize, Serialize};

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
