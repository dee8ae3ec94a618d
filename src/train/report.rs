//! The report and the events of a run.

use serde::{Deserialize, Serialize};

use super::balance::LoadReport;
use super::config::TrainConfig;
use super::verdict::Verdict;
use crate::measure::{CurvePoint, value_at};
use crate::model::RoutingProfiles;

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
    /// Held-out queries.
    pub dev_queries: usize,
    /// The base encoder and the start of the tree, before the first step.
    pub before: DevFigures,
    /// One entry per epoch.
    pub epochs: Vec<EpochReport>,
    /// One entry per pass over the distilled texts in which the tree alone was trained.
    pub indexer_epochs: Vec<IndexerEpochReport>,
    /// The epoch after which the joint training stopped early, and the epoch whose weights it restored.
    pub stopped_early: Option<EarlyStop>,
    /// The trained encoder and tree.
    pub after: DevFigures,
    /// Confidence of the trained tree on its corpus and its training queries.
    pub routing: RoutingProfiles,
    /// Whether training helped.
    pub verdict: Verdict,
    /// The tree's load before the first epoch, at each refresh and at the end.
    pub loads: Vec<LoadReport>,
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

impl EpochReport {
    pub(super) fn add(&mut self, parts: &LossParts, weight: f64) {
        self.loss += f64::from(parts.total) * weight;
        self.siamese += f64::from(parts.siamese) * weight;
        self.indexing += f64::from(parts.indexing) * weight;
        self.intra_leaf += f64::from(parts.intra_leaf) * weight;
        self.balance += f64::from(parts.balance) * weight;
        self.distillation += f64::from(parts.distillation) * weight;
    }
}

/// The terms of one step's loss, before their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LossParts {
    /// Weighted sum of the terms.
    pub total: f32,
    /// L_siamese (Eq. 3).
    pub siamese: f32,
    /// L_indexing (Eq. 4).
    pub indexing: f32,
    /// L_intra-leaf (Eq. 5).
    pub intra_leaf: f32,
    /// KL divergence from uniform load.
    pub balance: f32,
    /// Routing distillation.
    pub distillation: f32,
}

impl LossParts {
    /// The first term that is NaN or infinite.
    pub(super) fn first_non_finite(&self) -> Option<(&'static str, f32)> {
        [
            ("siamese", self.siamese),
            ("indexing", self.indexing),
            ("intra-leaf", self.intra_leaf),
            ("balance", self.balance),
            ("distillation", self.distillation),
            ("total", self.total),
        ]
        .into_iter()
        .find(|(_, value)| !value.is_finite())
    }
}

/// Mean losses of a pass that trained only the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexerEpochReport {
    /// From 1.
    pub epoch: usize,
    /// Routing distillation.
    pub distillation: f64,
    /// KL divergence from uniform load.
    pub balance: f64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Early stopping of the joint training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EarlyStop {
    /// Epochs trained.
    pub stopped_after: usize,
    /// Epochs after which the weights were best.
    pub best_after: usize,
}

/// An event of a run, and a line of its log.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrainEvent {
    /// Everything is loaded.
    Started {
        /// Documents in the corpus.
        documents: usize,
        /// Queries to train on.
        train_queries: usize,
        /// Held-out queries.
        dev_queries: usize,
        /// Leaves of the tree.
        leaves: u32,
    },
    /// The run resumes from a checkpoint.
    Resumed {
        /// Epochs finished.
        epochs: usize,
        /// Optimiser steps done.
        step: usize,
    },
    /// The corpus was encoded and routed again.
    Refreshed {
        /// Epochs finished.
        epochs: usize,
        /// Recall on the dev split, and the tree's load.
        figures: DevFigures,
        /// Wall-clock seconds it took.
        seconds: f64,
    },
    /// An optimiser step is done.
    Step {
        /// Optimiser steps done, including this one.
        step: usize,
        /// Optimiser steps in all.
        steps: usize,
        /// The terms of its loss.
        losses: LossParts,
        /// L2 norm of the gradients, before clipping.
        gradient_norm: f64,
        /// Factor of the schedule on the learning rates.
        learning_rate_factor: f64,
        /// Pairs per second since this process began to train.
        pairs_per_second: f64,
        /// Estimated seconds until the end of the joint training.
        seconds_left: f64,
    },
    /// An epoch is over.
    Epoch(EpochReport),
    /// A pass of the tree alone is over.
    IndexerEpoch(IndexerEpochReport),
    /// A checkpoint is on disk.
    Checkpoint {
        /// Optimiser steps done.
        step: usize,
    },
    /// Early stopping ended the joint training.
    StoppedEarly(EarlyStop),
    /// The bundle is written.
    Finished {
        /// Wall-clock seconds of the whole run.
        seconds: f64,
    },
}

/// Dev figures and the tree's load, with documents truncated as in training.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DevFigures {
    /// Recall@10 of exact search; fractions in [0, 1], 0 without a dev split.
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

impl DevFigures {
    /// The load after `epoch` epochs.
    pub(crate) fn load(&self, epoch: usize) -> LoadReport {
        LoadReport {
            epoch,
            expected_documents_per_leaf: self.expected_documents_per_leaf,
            ideal_documents_per_leaf: self.ideal_documents_per_leaf,
            empty_leaves: self.empty_leaves,
        }
    }

    /// The tree's recall@100 at a visited fraction, by linear interpolation between beams; `None` if even the
    /// smallest beam visits more.
    pub fn recall_at_100(&self, visited_fraction: f64) -> Option<f64> {
        let points =
            self.points.iter().map(|p| CurvePoint { fraction: p.visited_fraction, value: p.recall_at_100 });
        value_at(points.collect(), visited_fraction)
    }

    /// What early stopping watches: recall@100 at a visited fraction. If even the smallest beam visits more,
    /// its recall is scaled down in proportion, so that an uneven tree does not look better.
    pub(crate) fn watched(&self, visited_fraction: f64) -> Option<f64> {
        let smallest = || {
            let first =
                self.points.iter().min_by(|a, b| a.visited_fraction.total_cmp(&b.visited_fraction))?;
            let share = visited_fraction / first.visited_fraction;
            (share < 1.0).then_some(first.recall_at_100 * share)
        };
        self.recall_at_100(visited_fraction).or_else(smallest)
    }
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MovedTensor {
    /// The tensor's name.
    pub name: String,
    /// L2 norm of the change over the L2 norm of the start.
    pub relative_change: f64,
}
