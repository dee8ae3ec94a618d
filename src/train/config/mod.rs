//! The settings of a training run and their defaults.

mod check;
mod choices;
mod names;
mod preset;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{SettingsError, TrainError};
use crate::model::Precision;
use crate::tree::TreeShape;

pub use choices::{Decay, Init, IntraLeaf, Negatives, QueryEncoderChoice, Siamese};
pub use preset::Preset;

/// Configuration of a training run.
///
/// Read and written as JSON with one object per group, `{"schedule": {"epochs": 3}}`, or with dotted names,
/// `{"schedule.epochs": 3}`. Omitted settings take their defaults. `docs/training.md` lists all of them.
///
/// ```
/// use ehi::train::TrainConfig;
///
/// let mut config = TrainConfig::default();
/// config.schedule.epochs = 3;
/// config.tree.height = 2;
/// config.check()?;
/// # Ok::<(), ehi::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
#[non_exhaustive]
pub struct TrainConfig {
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Fraction of the training queries set aside as dev split, by a seeded hash of their ids.
    pub dev_fraction: f64,
    /// Which part of the encoder is trained, and how much of a text it reads.
    pub encoder: EncoderTraining,
    /// Shape, start and form of the tree.
    pub tree: TreeSettings,
    /// Length of a run, batch size and learning-rate schedule.
    pub schedule: ScheduleSettings,
    /// Terms of the loss.
    pub losses: LossSettings,
    /// Negatives in addition to those of the batch.
    pub mining: MiningSettings,
    /// Which leaves a text is taught to reach.
    pub distillation: DistillationSettings,
    /// The query encoder made at the end of the run ([`distil`](crate::train::distil)); not in the paper. If
    /// the set has too few texts, or the encoder's embeddings are not of unit norm, none is made and a
    /// warning is given.
    pub query_encoder: QueryEncoderChoice,
}

/// Which part of the encoder is trained, and how much of a text it reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EncoderTraining {
    /// Trainable layers, counted from the top; 0 trains the tree alone.
    pub trainable_layers: usize,
    /// Also trains the embedding tables, that is, the whole encoder; requires all layers to be trainable.
    pub train_embeddings: bool,
    /// AdamW learning rate of the trainable layers, 0 to 1.
    pub learning_rate: f64,
    /// AdamW decoupled weight decay, encoder only: decay would pull the tree to uniform.
    pub weight_decay: f64,
    /// Precision of the trainable layers' matrix products.
    pub precision: Precision,
    /// Longest query in training, in tokens; longer ones are truncated.
    pub max_query_tokens: usize,
    /// Longest document in training, in tokens; longer ones are truncated. The index itself reads the model's
    /// full length.
    pub max_document_tokens: usize,
}

/// Shape, start and form of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TreeSettings {
    /// Branching factor B; chosen by [`TrainConfig::shape`] if absent.
    pub branching_factor: Option<u32>,
    /// Height H; the tree has B^H leaves.
    pub height: u32,
    /// Leaves of the coarse tree that the encoder is trained with. The final tree then starts from the
    /// trained embeddings and is trained alone. If absent, or if the final tree has no more leaves than this,
    /// one tree is used throughout, as in the paper.
    ///
    /// A batch of some dozens of pairs cannot balance or separate hundreds of leaves, and the
    /// encoder pays for the attempt.
    pub coarse_leaves: Option<u32>,
    /// Start of the tree.
    pub init: Init,
    /// AdamW learning rate of the tree (the paper's cl_lr), 0 to 1.
    pub learning_rate: f64,
    /// Factor on the tree's logits: unit vectors give logits near 0, where a softmax passes
    /// no useful gradient.
    pub logit_scale: f64,
    /// The tree's initial logits are about this many times a cosine, whatever `logit_scale` is: the
    /// classifier's columns have length `init_scale / logit_scale`. A learning rate has more effect on short
    /// columns.
    pub init_scale: f64,
    /// Whether the levels have the paper's hidden transform U; without it F(x) = x, which routes at
    /// a fraction of the cost.
    pub transform: bool,
    /// Width r of a learned projection of the embedding that the levels read; 0, or the embedding's width or
    /// more, means no projection, as in the paper. With it, routing costs about r + L r / m document dot
    /// products. If absent: 64, or 128 for a tree of more than 1,000 leaves, which 64 values cannot tell
    /// apart.
    pub routing_dim: Option<usize>,
}

/// Length of a run, batch size and learning-rate schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScheduleSettings {
    /// Passes over the training pairs; 0 goes straight to [`Self::indexer_epochs`].
    pub epochs: usize,
    /// Most training pairs of an epoch, sampled afresh each time, with one pair of every query before a
    /// second of any; 0 takes all.
    pub pairs_per_epoch: usize,
    /// Pairs per optimiser step.
    pub batch_size: usize,
    /// Refresh interval r, in epochs: how often the corpus is encoded, routed and mined again.
    pub refresh_interval: usize,
    /// Final passes over the distilled texts that train only the tree, by distillation and balance, with the
    /// encoder frozen; not in the paper.
    pub indexer_epochs: usize,
    /// Fraction of a phase's steps over which the learning rates rise from 0.
    pub warmup_fraction: f64,
    /// How the learning rates fall after that.
    pub decay: Decay,
    /// Learning rates fall to this fraction of their peak by the last step.
    pub final_learning_rate_fraction: f64,
}

/// Terms of the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LossSettings {
    /// Weights of the terms.
    pub weights: LossWeights,
    /// Form of the siamese term.
    pub siamese: Siamese,
    /// Temperature T of the contrastive siamese term.
    pub siamese_temperature: f64,
    /// Margin gamma of the triplet loss (Eq. 2).
    pub margin: f64,
    /// Form of the intra-leaf term.
    pub intra_leaf: IntraLeaf,
    /// Dissimilarity threshold tau (section 3.5): documents at least this similar are not pushed apart.
    pub dissimilarity_threshold: f64,
}

/// Weights of the terms of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossWeights {
    /// lambda_1, on embeddings (Eq. 3, or its contrastive form).
    pub siamese: f64,
    /// lambda_2, on path embeddings (Eq. 4).
    pub indexing: f64,
    /// lambda_3, between documents on path embeddings (Eq. 5).
    pub intra_leaf: f64,
    /// KL divergence of the mean child distribution from uniform; not in the paper, whose loss
    /// alone lets most leaves die.
    pub balance: f64,
    /// Routing distillation; not in the paper. At 0 nothing is distilled, and the tree-only phase is skipped.
    pub distillation: f64,
}

/// Negatives in addition to those of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MiningSettings {
    /// Where hard negatives come from.
    pub negatives: Negatives,
    /// Beam of the search for them in the index under training (beta, Algorithm 1).
    pub beam: usize,
    /// Nearest documents that exact mining draws from.
    pub depth: usize,
}

/// Which leaves a text is taught to reach: those of its exact nearest documents; not in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DistillationSettings {
    /// Most texts given targets at a refresh; a larger set is sampled afresh each time.
    pub texts: usize,
    /// Sentences of each document that become queries, in addition to its title.
    pub sentences: usize,
    /// Exact nearest documents whose leaves a text is taught to reach.
    pub depth: usize,
    /// Neighbours weigh `exp(similarity / temperature)`; 0 weighs them all the same.
    pub temperature: f64,
    /// Share of a real query's target that goes to the leaves of its relevant documents.
    pub positive_share: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            dev_fraction: 0.1,
            encoder: EncoderTraining::default(),
            tree: TreeSettings::default(),
            schedule: ScheduleSettings::default(),
            losses: LossSettings::default(),
            mining: MiningSettings::default(),
            distillation: DistillationSettings::default(),
            query_encoder: QueryEncoderChoice::default(),
        }
    }
}

impl Default for EncoderTraining {
    fn default() -> Self {
        Self {
            trainable_layers: 1,
            train_embeddings: false,
            learning_rate: 1e-4,
            weight_decay: 0.01,
            precision: Precision::F32,
            max_query_tokens: 64,
            max_document_tokens: 160,
        }
    }
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self {
            branching_factor: None,
            height: 1,
            coarse_leaves: Some(64),
            init: Init::KMeans,
            learning_rate: 1e-3,
            logit_scale: 20.0,
            init_scale: 20.0,
            transform: false,
            routing_dim: None,
        }
    }
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self {
            epochs: 10,
            pairs_per_epoch: 0,
            batch_size: 64,
            refresh_interval: 5,
            indexer_epochs: 60,
            warmup_fraction: 0.1,
            decay: Decay::Linear,
            final_learning_rate_fraction: 0.1,
        }
    }
}

impl Default for LossSettings {
    fn default() -> Self {
        Self {
            weights: LossWeights::default(),
            siamese: Siamese::Contrastive,
            siamese_temperature: 0.05,
            margin: 0.3,
            intra_leaf: IntraLeaf::Triplet,
            dissimilarity_threshold: 0.9,
        }
    }
}

impl Default for LossWeights {
    fn default() -> Self {
        Self { siamese: 1.0, indexing: 0.8, intra_leaf: 0.2, balance: 0.2, distillation: 0.2 }
    }
}

impl Default for MiningSettings {
    fn default() -> Self {
        Self { negatives: Negatives::InBatch, beam: 4, depth: 64 }
    }
}

impl Default for DistillationSettings {
    fn default() -> Self {
        Self { texts: 100_000, sentences: 1, depth: 100, temperature: 0.05, positive_share: 0.5 }
    }
}

/// If the number of leaves is not given: documents per leaf, and for one level the most leaves as a multiple
/// of the square root of the number of documents. In a large collection, routing to more leaves costs more
/// than it saves (`docs/lab/experiments.md`, "Leaves of a large collection").
const DOCUMENTS_PER_LEAF: usize = 10;
const LEAVES_PER_ROOT: f64 = 13.0;

/// The number of leaves of a tree of one level, made from a sample of a collection, if it is not given.
pub(crate) fn default_leaves(sample: usize, collection: usize) -> u32 {
    let most = (LEAVES_PER_ROOT * (collection as f64).sqrt()) as usize;
    (sample / DOCUMENTS_PER_LEAF).min(most).max(2) as u32
}

/// Default widths of the projection, and the most leaves of a tree with the narrow one.
const NARROW: usize = 64;
const WIDE: usize = 128;
const NARROW_LEAVES: u32 = 1_000;

impl TrainConfig {
    /// Reads a JSON file; omitted settings take their defaults.
    ///
    /// # Errors
    /// [`TrainError::ConfigFile`] for an unreadable file, bad JSON, and a setting that is unknown, given
    /// twice, of the wrong type or no longer supported.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let error = |source| TrainError::ConfigFile { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(|e| error(serde_json::Error::io(e).into()))?;
        let given = serde_json::from_reader(std::io::BufReader::new(file)).map_err(|e| error(e.into()))?;
        names::read(given).map_err(error)
    }

    /// Reads a JSON object with the names of a file ([`Self::from_file`]).
    ///
    /// # Errors
    /// Unknown names, invalid values and malformed JSON.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        names::read(serde_json::from_str(json)?)
    }

    /// The tree for a corpus: B as configured, or the largest B from 2 on for which B^H exceeds neither a
    /// tenth of the documents nor, for one level, 13 times the square root of their number.
    ///
    /// # Errors
    /// [`TrainError::Config`] for an impossible shape.
    pub fn shape(&self, documents: usize) -> Result<TreeShape, TrainError> {
        let height = self.tree.height;
        let branching_factor = self.tree.branching_factor.unwrap_or_else(|| {
            let leaves = match height {
                1 => f64::from(default_leaves(documents, documents)),
                _ => (documents / DOCUMENTS_PER_LEAF) as f64,
            };
            // Rounded down, with a tolerance for the error of the root: no more leaves than asked for.
            (leaves.powf(1.0 / f64::from(height.max(1))) + 1e-9).max(2.0) as u32
        });
        TreeShape::new(branching_factor, height).map_err(|error| TrainError::Config {
            field: "tree.branching_factor and tree.height",
            found: format!("{branching_factor} and {height}"),
            expected: error.to_string(),
        })
    }
}

impl TreeSettings {
    /// Width of the projection in front of a tree for embeddings of `dim` values, if it has one.
    pub(crate) fn projection(&self, shape: TreeShape, dim: usize) -> Option<usize> {
        let by_rule = if shape.leaves() <= NARROW_LEAVES { NARROW } else { WIDE };
        let width = self.routing_dim.unwrap_or(by_rule);
        (1..dim).contains(&width).then_some(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_follow_the_documents() {
        let leaves = |documents| TrainConfig::default().shape(documents).unwrap().leaves();
        assert_eq!([5, 20, 5_183, 15_809].map(leaves), [2, 2, 518, 1_580]);
        assert_eq!([60_000, 150_000, 1_000_000].map(leaves), [3_184, 5_034, 13_000]);
        // A sample of a collection has fewer than its documents would.
        assert_eq!(default_leaves(200_000, 10_000_000), 20_000);
        let mut deep = TrainConfig::default();
        deep.tree.height = 2;
        assert_eq!(deep.shape(150_000).unwrap().branching_factor(), 122);
    }

    #[test]
    fn the_projection_follows_the_leaves() {
        let width = |routing_dim, leaves, dim| {
            let tree = TreeSettings { routing_dim, ..TreeSettings::default() };
            tree.projection(TreeShape::new(leaves, 1).unwrap(), dim)
        };
        assert_eq!((width(None, 518, 384), width(None, 1_001, 384)), (Some(64), Some(128)));
        assert_eq!((width(Some(16), 5_000, 384), width(Some(0), 518, 384)), (Some(16), None));
        // A projection as wide as the embedding would only cost time.
        assert_eq!((width(None, 518, 64), width(Some(400), 518, 384)), (None, None));
    }
}
