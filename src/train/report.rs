//! The report and the events of a run.

use serde::{Deserialize, Serialize};

use super::config::TrainConfig;
use super::verdict::{Figures, MeasuredPoint, Verdict};
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
    pub indexer_epochs: Vec<EpochReport>,
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

/// Mean losses of a pass over the pairs, or over the distilled texts in which only the tree learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EpochReport {
    /// From 1.
    pub epoch: usize,
    /// Means over its steps.
    #[serde(flatten)]
    pub losses: LossParts,
    /// Wall-clock seconds, refreshes included.
    pub seconds: f64,
}

/// The terms of a loss, before their weights; 0 for those that are not trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LossParts {
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
}

impl LossParts {
    pub(super) fn add(&mut self, parts: &Self, weight: f64) {
        self.loss += parts.loss * weight;
        self.siamese += parts.siamese * weight;
        self.indexing += parts.indexing * weight;
        self.intra_leaf += parts.intra_leaf * weight;
        self.balance += parts.balance * weight;
        self.distillation += parts.distillation * weight;
    }

    /// The first term that is NaN or infinite.
    pub(super) fn first_non_finite(&self) -> Option<(&'static str, f64)> {
        [
            ("siamese", self.siamese),
            ("indexing", self.indexing),
            ("intra-leaf", self.intra_leaf),
            ("balance", self.balance),
            ("distillation", self.distillation),
            ("total", self.loss),
        ]
        .into_iter()
        .find(|(_, value)| !value.is_finite())
    }
}

/// An event of a run.
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
    IndexerEpoch(EpochReport),
    /// A checkpoint is on disk.
    Checkpoint {
        /// Optimiser steps done.
        step: usize,
    },
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
    /// Exact search; fractions in [0, 1], 0 without a dev split.
    pub exact: Figures,
    /// The tree at beams 1, 2, 4 and so on, and all leaves.
    pub points: Vec<MeasuredPoint>,
    /// The tree's load.
    #[serde(flatten)]
    pub load: LoadReport,
}

/// The tree's load at a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadReport {
    /// Epochs finished; passes of the tree alone count too.
    pub epoch: usize,
    /// Expected documents per leaf, sum of c_i^2 over the number of documents (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Documents over leaves: the value of a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// Leaves without a document.
    pub empty_leaves: usize,
}

impl DevFigures {
    /// The tree's recall@100 at a visited fraction, by linear interpolation between beams; `None` if even the
    /// smallest beam visits more.
    pub fn recall_at_100(&self, visited_fraction: f64) -> Option<f64> {
        let points = self
            .points
            .iter()
            .map(|p| CurvePoint { fraction: p.visited_fraction, value: p.figures.recall_at_100 });
        value_at(points.collect(), visited_fraction)
    }
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
