//! What a run leaves on record.

use serde::{Deserialize, Serialize};

use super::config::TrainConfig;
use super::load::{LeafSizes, LoadReport};
use super::verdict::Verdict;

/// The record of a training run, written into the bundle as `training.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainReport {
    /// Version of this crate.
    pub version: String,
    /// The whole configuration.
    pub config: TrainConfig,
    /// Documents in the corpus.
    pub documents: usize,
    /// Queries trained on.
    pub train_queries: usize,
    /// Pairs trained on.
    pub train_pairs: usize,
    /// Queries set aside.
    pub dev_queries: usize,
    /// The base encoder and the start of the tree, before the first step.
    pub before: DevFigures,
    /// One entry per epoch.
    pub epochs: Vec<EpochReport>,
    /// The trained encoder and tree.
    pub after: DevFigures,
    /// Whether training helped; `None` in reports of versions that did not judge.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// The tree's load before the first epoch, at each refresh and at the end.
    #[serde(default)]
    pub loads: Vec<LoadReport>,
    /// Documents and queries of each leaf at the end.
    #[serde(default)]
    pub leaf_sizes: LeafSizes,
    /// Trainable tensors with how far each moved: L2 norm of the change over that of the start.
    pub moved: Vec<MovedTensor>,
    /// Wall-clock seconds of the whole run.
    pub seconds: f64,
}

/// Mean losses of an epoch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EpochReport {
    /// From 1.
    pub epoch: usize,
    /// Weighted sum of the terms.
    pub loss: f64,
    /// L_siamese (Eq. 3).
    pub siamese: f64,
    /// L_indexing (Eq. 4).
    pub indexing: f64,
    /// L_intra-leaf (Eq. 5).
    pub intra_leaf: f64,
    /// KL divergence from uniform load.
    pub balance: f64,
    /// Routing distillation.
    pub distillation: f64,
    /// Wall-clock seconds, refreshes included.
    pub seconds: f64,
}

/// Figures on the dev split and of the tree's load, with documents cut as in training.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DevFigures {
    /// Recall@10 of exact search; fractions in [0, 1], 0 where there is no dev split.
    pub exact_recall_at_10: f64,
    /// Recall@100 of exact search.
    pub exact_recall_at_100: f64,
    /// The tree at beams 1, 2, 4 and so on, and all leaves.
    pub points: Vec<DevPoint>,
    /// Expected documents per leaf, sum of c_i^2 over the number of documents (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Documents over leaves: the value of a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// Leaves without a document.
    pub empty_leaves: usize,
}

/// The tree at one beam size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DevPoint {
    /// Beam size.
    pub beam: usize,
    /// Documents scored over documents.
    pub visited_fraction: f64,
    /// Recall@10.
    pub recall_at_10: f64,
    /// Recall@100.
    pub recall_at_100: f64,
}

/// How far a trainable tensor moved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MovedTensor {
    /// The tensor's name.
    pub name: String,
    /// L2 norm of the change over the L2 norm of the start.
    pub relative_change: f64,
}
