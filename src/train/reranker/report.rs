//! The report and the events of a reranker's training.

use serde::{Deserialize, Serialize};

use super::config::RerankerConfig;
use crate::train::{Difference, MovedTensor};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RerankerEvent {
    /// Negatives are drawn.
    Started {
        /// Documents of the set.
        documents: usize,
        /// Questions to train on.
        train_queries: usize,
        /// Held-out questions.
        dev_queries: usize,
        /// Distinct text pairs.
        pairs: usize,
        /// Optimiser steps in all.
        steps: usize,
    },
    /// An epoch is over.
    Epoch(RerankerEpoch),
    /// The folder is written.
    Finished {
        /// Wall-clock seconds of the whole run.
        seconds: f64,
    },
}

/// An epoch of a reranker's training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RerankerEpoch {
    /// From 1.
    pub epoch: usize,
    /// Mean loss of its questions, before their steps.
    pub loss: f64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// The report of a run, `training.json` in the folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RerankerReport {
    /// Version of this crate.
    pub version: String,
    /// The settings, with absent ones filled in.
    pub config: RerankerConfig,
    /// Documents of the set.
    pub documents: usize,
    /// Questions trained on.
    pub train_queries: usize,
    /// Pairs of a question and its answer.
    pub train_pairs: usize,
    /// Held-out questions.
    pub dev_queries: usize,
    /// Each pass.
    pub epochs: Vec<RerankerEpoch>,
    /// Whether the reranker helps.
    pub verdict: RerankerVerdict,
    /// How far each trained tensor moved.
    pub moved: Vec<MovedTensor>,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// What to do with a trained reranker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RerankerRecommendation {
    /// It orders hits better than the first search.
    Use,
    /// Neither a gain nor a loss was shown.
    NoGainShown,
    /// It orders them worse.
    DoNotUse,
    /// Fewer than [`FEWEST_QUERIES`](crate::train::FEWEST_QUERIES) questions are held out.
    CannotSay,
}

/// Whether a reranker, read back from its folder, helps on the held-out questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RerankerVerdict {
    /// What to do.
    pub recommendation: RerankerRecommendation,
    /// The same with its reason, in one sentence.
    pub sentence: String,
    /// Held-out questions.
    pub queries: usize,
    /// Reranked hits of the first search.
    pub depth: usize,
    /// Share of the answers among them, an upper bound for any order.
    pub within_depth: f64,
    /// nDCG@10 (binary) with the reranker, against the first search alone; `None` without such questions.
    pub ndcg_at_10: Option<Difference>,
    /// Time to rerank one question's hits, in milliseconds, on all cores.
    pub question_ms: f64,
}
