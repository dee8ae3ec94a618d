//! Every choice of a training run, with its default.

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
/// It is read and written as JSON, a group of settings an object: `{"schedule": {"epochs": 3}}`, or in short
/// `{"schedule.epochs": 3}`. Settings that are not named take their default. `docs/training.md` has them all.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainConfig {
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Fraction of the training queries set aside as dev split, by a seeded hash of their ids.
    pub dev_fraction: f64,
    /// What is trained of the encoder, and what it reads.
    pub encoder: EncoderSettings,
    /// Shape, start and form of the tree.
    pub tree: TreeSettings,
    /// How long a run lasts, in which steps, and how the learning rates change.
    pub schedule: ScheduleSettings,
    /// Terms of the loss.
    pub losses: LossSettings,
    /// Negatives beside those of the batch.
    pub mining: MiningSettings,
    /// Which leaves a text is taught to reach.
    pub distillation: DistillationSettings,
    /// The query encoder that is made in the end ([`distil`](crate::train::distil)); not in the
    /// paper. None is made, with a warning, where the set has too few texts, or the encoder's embeddings have
    /// no unit norm.
    pub query_encoder: QueryEncoderChoice,
}

/// What is trained of the encoder, and what it reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EncoderSettings {
    /// Trainable layers, counted from the top; 0 trains the tree alone.
    pub trainable_layers: usize,
    /// Trains the embedding tables too; needs every layer trainable. The whole encoder, that is.
    pub train_embeddings: bool,
    /// AdamW learning rate of the trainable layers, 0 to 1.
    pub learning_rate: f64,
    /// AdamW decoupled weight decay, encoder only: decay would pull the tree to uniform.
    pub weight_decay: f64,
    /// Number format of the trainable layers' matrix products.
    pub precision: Precision,
    /// Queries are cut at this many tokens in training.
    pub max_query_tokens: usize,
    /// Documents are cut at this many tokens in training; the index itself reads the model's
    /// full length.
    pub max_document_tokens: usize,
}

/// Shape, start and form of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TreeSettings {
    /// Branching factor B; absent, the rule of [`TrainConfig::shape`] chooses it.
    pub branching_factor: Option<u32>,
    /// Height H; the tree has B^H leaves.
    pub height: u32,
    /// Leaves of the coarse tree with which the encoder is trained; the tree proper then starts
    /// anew from the trained embeddings, and is trained alone. Absent, or with no more leaves than
    /// this, there is one tree throughout, as in the paper.
    ///
    /// A batch of some dozens of pairs cannot balance or separate hundreds of leaves, and the
    /// encoder pays for the attempt.
    pub coarse_leaves: Option<u32>,
    /// Leaves per document (d2l, appendix C.4).
    pub leaves_per_document: u32,
    /// Start of the tree.
    pub init: Init,
    /// AdamW learning rate of the tree (the paper's cl_lr), 0 to 1.
    pub learning_rate: f64,
    /// Factor on the tree's logits: unit vectors give logits near 0, where a softmax passes
    /// no useful gradient.
    pub logit_scale: f64,
    /// The logits with which the tree starts are about this many times a cosine, whatever `logit_scale` is:
    /// the classifier's columns have the length `init_scale / logit_scale`. A learning rate means more beside
    /// short ones.
    pub init_scale: f64,
    /// Whether the levels have the paper's hidden transform U; without it F(x) = x, which routes at
    /// a fraction of the cost.
    pub transform: bool,
    /// Width r of a learned projection through which the levels read the embedding; none, as in the
    /// paper, at 0 and from the embedding's own width. Routing costs about r + L r / m document dot products
    /// with it. Absent: 64, or 128 for a tree of more than 1,000 leaves, which 64 values no longer tell
    /// apart.
    pub routing_dim: Option<usize>,
}

/// How long a run lasts, in which steps, and how the learning rates change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScheduleSettings {
    /// Passes over the training pairs; 0 goes straight to [`Self::indexer_epochs`].
    pub epochs: usize,
    /// Training pairs that an epoch takes at most, a fresh sample each time that takes one pair of
    /// each query before a second of any; 0 takes all.
    pub pairs_per_epoch: usize,
    /// Pairs per optimiser step.
    pub batch_size: usize,
    /// Refresh interval r, in epochs: how often the corpus is encoded, routed and mined anew.
    pub refresh_interval: usize,
    /// Passes over the distilled texts at the end, with the encoder as it then is, in which the
    /// tree alone is trained, by distillation and balance; not in the paper.
    pub indexer_epochs: usize,
    /// Fraction of a phase's steps over which the learning rates rise from 0.
    pub warmup_fraction: f64,
    /// How the learning rates fall after that.
    pub decay: Decay,
    /// Learning rates fall to this fraction of their peak by the last step.
    pub final_learning_rate_fraction: f64,
    /// Refreshes without a better dev figure after which the joint training stops and the best
    /// weights come back; 0 never stops early.
    pub early_stopping_patience: usize,
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
    /// Routing distillation; not in the paper. At 0 nothing is distilled, and the phase of the tree alone is
    /// left out.
    pub distillation: f64,
}

/// Negatives beside those of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MiningSettings {
    /// Where hard negatives come from.
    pub negatives: Negatives,
    /// Beam with which the index under training is searched for them (beta, Algorithm 1).
    pub beam: usize,
    /// Nearest documents that exact mining draws from.
    pub depth: usize,
}

/// Which leaves a text is taught to reach: those of its exact nearest documents; not in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DistillationSettings {
    /// Texts for which targets are worked out at a refresh, at most; beyond it a fresh sample each time.
    pub texts: usize,
    /// Sentences of each document that become queries beside its title.
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
            encoder: EncoderSettings::default(),
            tree: TreeSettings::default(),
            schedule: ScheduleSettings::default(),
            losses: LossSettings::default(),
            mining: MiningSettings::default(),
            distillation: DistillationSettings::default(),
            query_encoder: QueryEncoderChoice::default(),
        }
    }
}

impl Default for EncoderSettings {
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
            leaves_per_document: 1,
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
            early_stopping_patience: 0,
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

/// Documents that a leaf should hold where the number of leaves is not given.
const DOCUMENTS_PER_LEAF: usize = 10;

/// Widths of the projection where none is given, and the most leaves of a tree with the narrow one.
const NARROW: usize = 64;
const WIDE: usize = 128;
const NARROW_LEAVES: u32 = 1_000;

impl TrainConfig {
    /// Reads a JSON file; settings that it does not name take their defaults.
    ///
    /// # Errors
    /// [`TrainError::ConfigFile`] for an unreadable file, bad JSON, and a setting that is unknown, given
    /// twice, of the wrong type or no longer there.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let error = |source| TrainError::ConfigFile { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(|e| error(serde_json::Error::io(e).into()))?;
        let given = serde_json::from_reader(std::io::BufReader::new(file)).map_err(|e| error(e.into()))?;
        names::read(given).map_err(error)
    }

    /// Settings from a JSON object, with the names that a file has ([`Self::from_file`]).
    ///
    /// # Errors
    /// Unknown names, values that do not fit, and text that is no JSON.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        names::read(serde_json::from_str(json)?)
    }

    /// The tree for a corpus: B as configured, or else so that a leaf holds about 10 documents,
    /// whatever the height.
    ///
    /// # Errors
    /// [`TrainError::Config`] for an impossible shape.
    pub fn shape(&self, documents: usize) -> Result<TreeShape, TrainError> {
        let height = self.tree.height;
        let branching_factor = self.tree.branching_factor.unwrap_or_else(|| {
            let leaves = (documents / DOCUMENTS_PER_LEAF) as f64;
            // Rounded down, but for the noise of the root: no more leaves than asked for.
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
    fn the_projection_follows_the_leaves() {
        let width = |routing_dim, leaves, dim| {
            let tree = TreeSettings { routing_dim, ..TreeSettings::default() };
            tree.projection(TreeShape::new(leaves, 1).unwrap(), dim)
        };
        assert_eq!((width(None, 518, 384), width(None, 1_001, 384)), (Some(64), Some(128)));
        assert_eq!((width(Some(16), 5_000, 384), width(Some(0), 518, 384)), (Some(16), None));
        // As wide as the embedding it would only cost.
        assert_eq!((width(None, 518, 64), width(Some(400), 518, 384)), (None, None));
    }
}
