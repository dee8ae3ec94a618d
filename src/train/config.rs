//! Every choice of a training run, with its default.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::TrainError;
use crate::model::Precision;
use crate::tree::TreeShape;

/// Configuration of a training run; reads and writes as JSON, absent fields take their default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TrainConfig {
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
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Passes over the training pairs; 0 goes straight to [`Self::indexer_epochs`].
    pub epochs: usize,
    /// Training pairs that an epoch takes at most, a fresh sample each time that takes one pair of
    /// each query before a second of any; 0 takes all.
    pub pairs_per_epoch: usize,
    /// Pairs per optimiser step.
    pub batch_size: usize,
    /// AdamW learning rate of the encoder's trainable layers.
    pub encoder_learning_rate: f64,
    /// AdamW learning rate of the indexer (the paper's cl_lr).
    pub indexer_learning_rate: f64,
    /// AdamW decoupled weight decay, encoder only: decay would pull the tree to uniform.
    pub weight_decay: f64,
    /// Fraction of the steps over which the learning rates rise from 0.
    pub warmup_fraction: f64,
    /// How the learning rates fall after that.
    pub schedule: Schedule,
    /// Learning rates fall to this fraction of their peak by the last step.
    pub final_learning_rate_fraction: f64,
    /// Gradients of a step are scaled down to this L2 norm over all tensors; 0 leaves them be.
    pub gradient_clip: f64,
    /// Dropout on what each trainable layer's attention and feed-forward part adds.
    pub dropout: f64,
    /// Number format of the trainable layers' matrix products.
    pub precision: Precision,
    /// Weights of the loss terms.
    pub loss_weights: LossWeights,
    /// Form of the siamese term.
    pub siamese: Siamese,
    /// Temperature T of the contrastive siamese term.
    pub siamese_temperature: f64,
    /// Margin gamma of the triplet loss (Eq. 2).
    pub margin: f64,
    /// Dissimilarity threshold tau (section 3.5): documents at least this similar are not pushed apart.
    pub dissimilarity_threshold: f64,
    /// Form of the intra-leaf term.
    pub intra_leaf: IntraLeaf,
    /// Refresh interval r, in epochs: how often the corpus is encoded, routed and mined anew.
    pub refresh_interval: usize,
    /// Where hard negatives come from.
    pub negatives: Negatives,
    /// Beam with which the index under training is searched for hard negatives (beta, Algorithm 1).
    pub mining_beam: usize,
    /// Nearest documents that exact mining draws from.
    pub mining_depth: usize,
    /// Start of the tree.
    pub init: Init,
    /// Factor on the indexer's logits: unit vectors give logits near 0, where a softmax passes
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
    /// Trainable encoder layers, counted from the top; 0 trains the indexer alone.
    pub trainable_layers: usize,
    /// Trains the embedding tables too; needs every layer trainable. The whole encoder, that is.
    pub train_embeddings: bool,
    /// Queries are cut at this many tokens in training.
    pub max_query_tokens: usize,
    /// Documents are cut at this many tokens in training; the index itself reads the model's
    /// full length.
    pub max_document_tokens: usize,
    /// Pairs made from the documents themselves (title or a sentence as the query) per real pair.
    pub pseudo_pairs_per_pair: f64,
    /// Sentences of each document that become queries beside its title.
    pub pseudo_sentences: usize,
    /// Texts in each step that take part in routing distillation only: queries and documents, with
    /// the embeddings of the last refresh, so that they cost the encoder nothing.
    pub distilled_texts_per_step: usize,
    /// Texts for which distillation targets are worked out at a refresh, at most; beyond it a
    /// fresh sample each time.
    pub distillation_texts: usize,
    /// Exact-search neighbours whose leaves a text is taught to reach (routing distillation).
    pub distillation_depth: usize,
    /// Neighbours weigh `exp(similarity / temperature)`; 0 weighs them all the same.
    pub distillation_temperature: f64,
    /// Share of a real query's target that goes to the leaves of its relevant documents.
    pub distillation_positive_share: f64,
    /// Passes over the distilled texts at the end, with the encoder as it then is, in which the
    /// tree alone is trained, by distillation and balance; not in the paper.
    pub indexer_epochs: usize,
    /// Refreshes without a better dev figure after which the joint training stops and the best
    /// weights come back; 0 never stops early.
    pub early_stopping_patience: usize,
    /// Fraction of the training queries set aside as dev split, by a seeded hash of their ids.
    pub dev_fraction: f64,
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
    /// Routing distillation; not in the paper.
    pub distillation: f64,
}

/// An index stores a document in at most this many leaves.
const MAX_LEAVES_PER_DOCUMENT: u32 = 512;

/// Forms of the siamese term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Siamese {
    /// Eq. 3: a mean of hinges with margin gamma.
    Triplet,
    /// Cross-entropy of the own document among the negatives (InfoNCE); not in the paper.
    Contrastive,
}

/// The two forms that the paper gives the intra-leaf term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IntraLeaf {
    /// Algorithm 1: a triplet loss with the document as anchor and positive at once.
    Triplet,
    /// Eq. 5: the product of the path embeddings.
    Product,
}

/// Where negatives come from beside the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Negatives {
    /// The other pairs of the batch only.
    InBatch,
    /// One more per query, drawn from the leaves that the query's beam reaches, in the siamese
    /// term only, as Algorithm 1 writes it.
    IndexSiamese,
    /// The same, in every term that has a query.
    Index,
    /// One more per query, drawn from its exact nearest documents, in the siamese term only
    /// (ANCE; appendix C.2 compares it).
    ExactSiamese,
    /// The same, in every term that has a query.
    Exact,
}

impl Negatives {
    /// Whether mined negatives also enter the term on path embeddings.
    pub(crate) fn in_every_term(self) -> bool {
        matches!(self, Self::Index | Self::Exact)
    }
}

/// Course of the learning rates after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Schedule {
    /// They stay.
    Constant,
    /// A straight line.
    Linear,
    /// Half a cosine wave.
    Cosine,
}

/// Start of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Init {
    /// Small random weights, as in the paper.
    Random,
    /// k-means of the document embeddings: exact for H = 1, fitted for more.
    #[serde(rename = "kmeans")]
    KMeans,
}

/// The paper's settings per dataset (appendix B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Preset {
    /// SciFact.
    SciFact,
    /// FiQA-2018.
    Fiqa,
    /// MS MARCO passage.
    MsMarco,
    /// NQ320k.
    Nq320k,
}

impl Default for LossWeights {
    fn default() -> Self {
        Self { siamese: 1.0, indexing: 0.8, intra_leaf: 0.2, balance: 0.2, distillation: 0.2 }
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            branching_factor: None,
            height: 1,
            coarse_leaves: Some(64),
            leaves_per_document: 1,
            seed: 0,
            epochs: 10,
            pairs_per_epoch: 0,
            batch_size: 64,
            encoder_learning_rate: 1e-4,
            indexer_learning_rate: 1e-3,
            weight_decay: 0.01,
            warmup_fraction: 0.1,
            schedule: Schedule::Linear,
            final_learning_rate_fraction: 0.1,
            gradient_clip: 0.0,
            dropout: 0.0,
            precision: Precision::F32,
            loss_weights: LossWeights::default(),
            siamese: Siamese::Contrastive,
            siamese_temperature: 0.05,
            margin: 0.3,
            dissimilarity_threshold: 0.9,
            intra_leaf: IntraLeaf::Triplet,
            refresh_interval: 5,
            negatives: Negatives::InBatch,
            mining_beam: 4,
            mining_depth: 64,
            init: Init::KMeans,
            logit_scale: 20.0,
            init_scale: 20.0,
            transform: false,
            routing_dim: None,
            trainable_layers: 1,
            train_embeddings: false,
            max_query_tokens: 64,
            max_document_tokens: 160,
            pseudo_pairs_per_pair: 0.0,
            pseudo_sentences: 1,
            distilled_texts_per_step: 0,
            distillation_texts: 100_000,
            distillation_depth: 100,
            distillation_temperature: 0.05,
            distillation_positive_share: 0.5,
            indexer_epochs: 60,
            early_stopping_patience: 0,
            dev_fraction: 0.1,
        }
    }
}

/// Documents that a leaf should hold where the number of leaves is not given.
const DOCUMENTS_PER_LEAF: usize = 10;

/// Widths of the projection where none is given, and the most leaves of a tree with the narrow one.
const NARROW: usize = 64;
const WIDE: usize = 128;
const NARROW_LEAVES: u32 = 1_000;

impl TrainConfig {
    /// The paper's settings for a dataset: its table in appendix B, 100 epochs, r = 5, no
    /// distillation and no document-made pairs. k-means start and balance term stay on, because
    /// the paper's loss alone collapses (`docs/paper-map.md`).
    pub fn preset(preset: Preset) -> Self {
        let (batch_size, leaves, encoder, indexer, weights) = match preset {
            Preset::SciFact => (64, 40, 4e-4, 0.016, [0.2, 0.8, 0.2]),
            Preset::Fiqa => (64, 5000, 2e-4, 9e-4, [0.03, 0.46, 0.54]),
            Preset::MsMarco => (4096, 7000, 2.5e-8, 8e-3, [0.11, 0.84, 0.60]),
            Preset::Nq320k => (1024, 1000, 1e-4, 4e-4, [0.2, 0.4, 0.11]),
        };
        Self {
            branching_factor: Some(leaves),
            coarse_leaves: None,
            epochs: 100,
            batch_size,
            encoder_learning_rate: encoder,
            indexer_learning_rate: indexer,
            loss_weights: LossWeights {
                siamese: weights[0],
                indexing: weights[1],
                intra_leaf: weights[2],
                distillation: 0.0,
                ..LossWeights::default()
            },
            siamese: Siamese::Triplet,
            refresh_interval: 5,
            negatives: Negatives::Index,
            pseudo_pairs_per_pair: 0.0,
            distilled_texts_per_step: 0,
            indexer_epochs: 0,
            // The paper has no factor on the logits, and its learning rates are meant for columns that make
            // them large.
            logit_scale: 1.0,
            transform: true,
            routing_dim: Some(0),
            ..Self::default()
        }
    }

    /// Reads a JSON file; fields that it does not name take their defaults.
    ///
    /// # Errors
    /// [`TrainError::ConfigFile`] for an unreadable file, bad JSON or an unknown field.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let error = |source| TrainError::ConfigFile { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(|e| error(serde_json::Error::io(e)))?;
        serde_json::from_reader(std::io::BufReader::new(file)).map_err(error)
    }

    /// The tree for a corpus: B as configured, or else so that a leaf holds about 10 documents,
    /// whatever the height.
    ///
    /// # Errors
    /// [`TrainError::Config`] for an impossible shape.
    pub fn shape(&self, documents: usize) -> Result<TreeShape, TrainError> {
        let branching_factor = self.branching_factor.unwrap_or_else(|| {
            let leaves = (documents / DOCUMENTS_PER_LEAF) as f64;
            // Rounded down, but for the noise of the root: no more leaves than asked for.
            (leaves.powf(1.0 / f64::from(self.height.max(1))) + 1e-9).max(2.0) as u32
        });
        TreeShape::new(branching_factor, self.height).map_err(|error| TrainError::Config {
            field: "branching_factor and height",
            found: format!("{branching_factor} and {}", self.height),
            expected: error.to_string(),
        })
    }

    /// Width of the projection in front of a tree for embeddings of `dim` values, if it has one.
    pub(crate) fn projection(&self, shape: TreeShape, dim: usize) -> Option<usize> {
        let by_rule = if shape.leaves() <= NARROW_LEAVES { NARROW } else { WIDE };
        let width = self.routing_dim.unwrap_or(by_rule);
        (1..dim).contains(&width).then_some(width)
    }

    /// The tree with which the encoder is trained, where it is not the one for good: one level of
    /// the paper's form.
    pub(crate) fn coarse_shape(&self, shape: TreeShape) -> Option<TreeShape> {
        let leaves = self.coarse_leaves?;
        let two = self.epochs > 0 && self.indexer_epochs > 0 && self.loss_weights.distillation > 0.0;
        let coarser = leaves < shape.leaves() && self.leaves_per_document <= leaves;
        if two && coarser { TreeShape::new(leaves, 1).ok() } else { None }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first field that is out of range.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |field, found: String, expected: &str| TrainError::Config {
            field,
            found,
            expected: expected.to_owned(),
        };
        for (field, found) in [
            ("epochs", self.epochs.max(self.indexer_epochs)),
            ("refresh_interval", self.refresh_interval),
            ("mining_beam", self.mining_beam),
            ("mining_depth", self.mining_depth),
            ("distillation_depth", self.distillation_depth),
        ] {
            if found == 0 {
                return Err(bad(field, found.to_string(), "at least 1"));
            }
        }
        for (field, found) in [
            ("batch_size", self.batch_size),
            ("max_query_tokens", self.max_query_tokens),
            ("max_document_tokens", self.max_document_tokens),
        ] {
            if found < 2 {
                return Err(bad(field, found.to_string(), "at least 2"));
            }
        }
        if let Some(found) = self.branching_factor.filter(|&b| b < 2) {
            return Err(bad("branching_factor", found.to_string(), "at least 2"));
        }
        if let Some(found) = self.coarse_leaves.filter(|&leaves| leaves < 2) {
            return Err(bad("coarse_leaves", found.to_string(), "at least 2"));
        }
        let leaves = match self.branching_factor {
            Some(_) => self.shape(0)?.leaves(),
            None => MAX_LEAVES_PER_DOCUMENT,
        };
        let most = leaves.min(MAX_LEAVES_PER_DOCUMENT);
        if self.leaves_per_document == 0 || self.leaves_per_document > most {
            let expected = format!("1 to {most}");
            return Err(bad("leaves_per_document", self.leaves_per_document.to_string(), &expected));
        }
        let weights = &self.loss_weights;
        for (field, found, most) in [
            ("encoder_learning_rate", self.encoder_learning_rate, 1.0),
            ("indexer_learning_rate", self.indexer_learning_rate, 1.0),
            ("weight_decay", self.weight_decay, 1.0),
            ("warmup_fraction", self.warmup_fraction, 1.0),
            ("final_learning_rate_fraction", self.final_learning_rate_fraction, 1.0),
            ("loss_weights.siamese", weights.siamese, 1e6),
            ("loss_weights.indexing", weights.indexing, 1e6),
            ("loss_weights.intra_leaf", weights.intra_leaf, 1e6),
            ("loss_weights.balance", weights.balance, 1e6),
            ("loss_weights.distillation", weights.distillation, 1e6),
            ("gradient_clip", self.gradient_clip, 1e6),
            ("dropout", self.dropout, 0.9),
            ("distillation_temperature", self.distillation_temperature, 1e3),
            ("distillation_positive_share", self.distillation_positive_share, 1.0),
            ("margin", self.margin, 2.0),
            ("dissimilarity_threshold", self.dissimilarity_threshold, 2.0),
            ("pseudo_pairs_per_pair", self.pseudo_pairs_per_pair, 1e3),
            ("dev_fraction", self.dev_fraction, 0.9),
        ] {
            if !(0.0..=most).contains(&found) {
                return Err(bad(field, found.to_string(), &format!("0 to {most}")));
            }
        }
        for (field, found) in [("logit_scale", self.logit_scale), ("init_scale", self.init_scale)] {
            if !(1e-3..=1e4).contains(&found) {
                return Err(bad(field, found.to_string(), "0.001 to 10,000"));
            }
        }
        if !(1e-3..=1e3).contains(&self.siamese_temperature) {
            return Err(bad("siamese_temperature", self.siamese_temperature.to_string(), "0.001 to 1,000"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projection_follows_the_leaves() {
        let width = |routing_dim, leaves, dim| {
            let config = TrainConfig { routing_dim, ..TrainConfig::default() };
            config.projection(TreeShape::new(leaves, 1).unwrap(), dim)
        };
        assert_eq!((width(None, 518, 384), width(None, 1_001, 384)), (Some(64), Some(128)));
        assert_eq!((width(Some(16), 5_000, 384), width(Some(0), 518, 384)), (Some(16), None));
        // As wide as the embedding it would only cost.
        assert_eq!((width(None, 518, 64), width(Some(400), 518, 384)), (None, None));
    }
}
