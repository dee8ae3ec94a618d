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
    /// Whether `hybrid` is more than `dense`; `p_value` is its significance.
    pub words_help: bool,
    /// Number of questions that it was learned from.
    pub questions: usize,
    /// Number of judgments in the index when it was learned.
    #[serde(default)]
    pub judgments: usize,
    /// Whether it was learned with the model before, because [`Index::learn`](crate::Index::learn) set too
    /// few questions aside to learn it for this one.
    #[serde(default)]
    pub of_previous_model: bool,
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
    /// How much judgments of near questions count; `None` if that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<LearnedMemory>,
    /// The same for questions read by the fast encoder; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<Box<LearnedFusion>>,
}

/// How much judgments of near questions count in a search, and what it was learned from.
///
/// Figures are mean nDCG@10, each question asked without its own judgments, and with the weights learned on
/// the other four parts of the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnedMemory {
    /// How much a judgment of weight 1 of an all but equal question adds to a score, in units of the range of
    /// the candidates' scores. 0 if judgments do not help near questions.
    pub weight: f64,
    /// A judgment of a question at a cosine `c` counts `c^power` of that.
    pub power: f64,
    /// Without judgments: `hybrid` of the [`LearnedFusion`], or `dense` if words do not help.
    pub without: f64,
    /// With them.
    pub with: f64,
    /// Of `with` against `without`, one-sided: the larger p-value of a paired t-test and a paired bootstrap.
    pub p_value: f64,
    /// The same by how near the nearest judged question is, least near first.
    pub by_nearness: Vec<MemoryByNearness>,
}

/// What judgments change for questions at some distance from the judged ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryByNearness {
    /// Least cosine of the question and the nearest judged one; they reach up to the next.
    pub from: f64,
    /// Number of questions.
    pub questions: usize,
    /// Mean nDCG@10 without judgments.
    pub without: f64,
    /// With them.
    pub with: f64,
}

/// The stored form: with the checksum of the query encoder that `fast` was learned for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptFusion {
    pub fusion: LearnedFusion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_encoder: Option<String>,
}

/// More than any weight or power of memory that is tried.
const MOST_MEMORY: f64 = 100.0;
/// Larger than any number of weights that was ever tried.
const MOST_WEIGHTS: usize = 1_000;

impl LearnedFusion {
    pub(super) fn is_sane(&self) -> bool {
        let Self { alpha, dense, lexical, hybrid, rrf, p_value, ref weights, .. } = *self;
        let shares = [alpha, dense, lexical, hybrid, rrf, p_value];
        // Nested one level deep at most.
        let memory_is_sane = self.memory.as_ref().is_none_or(|memory| {
            (0.0..=MOST_MEMORY).contains(&memory.weight) && (0.0..=MOST_MEMORY).contains(&memory.power)
        });
        let fast_is_sane = self.fast.as_ref().is_none_or(|fast| fast.fast.is_none() && fast.is_sane());
        fast_is_sane
            && memory_is_sane
            && weights.len() <= MOST_WEIGHTS
            && shares.iter().chain(weights).all(|share| (0.0..=1.0).contains(share))
    }
}
