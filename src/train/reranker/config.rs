//! The settings of a reranker's training and their defaults.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::train::error::check_setting;
use crate::train::{SettingsError, TrainError};

/// The loss of a reranker over a question's documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RerankerLoss {
    /// Ranks the answer first: cross-entropy of a softmax over it and its negatives. The new reranker's
    /// scores are unbounded.
    #[default]
    Listwise,
    /// Classifies each document as right or wrong: binary cross-entropy. The new reranker's scores are from 0
    /// to 1.
    Binary,
}

/// Configuration of a reranker's training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RerankerConfig {
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Passes over the training pairs, from 1.
    pub epochs: usize,
    /// Questions per optimiser step, from 1, each with its answer and its negatives.
    pub batch_size: usize,
    /// Layers trained in addition to the head, from the top; all if absent. The embedding tables are frozen.
    pub trainable_layers: Option<usize>,
    /// AdamW learning rate of the layers, 0 to 1.
    pub learning_rate: f64,
    /// AdamW learning rate of the head, 0 to 1.
    pub head_learning_rate: f64,
    /// AdamW decoupled weight decay, 0 to 1.
    pub weight_decay: f64,
    /// Share of the steps over which the learning rates rise from 0, 0 to 1; they then fall linearly.
    pub warmup_fraction: f64,
    /// The loss.
    pub loss: RerankerLoss,
    /// Wrong documents for each answer, drawn in each pass from the first search's best hits.
    pub negatives: usize,
    /// Additional wrong documents drawn from all documents; at least 1 together with `negatives`.
    pub random_negatives: usize,
    /// Number of the first search's best hits that negatives are drawn from, from 1.
    pub mining_depth: usize,
    /// Longest pair in tokens; longer ones are truncated. Stored in the folder. If absent: that of a reranker
    /// given as base, or 256 for an encoder.
    pub max_tokens: Option<usize>,
    /// Hits of the first search that are reranked for the verdict, from 1.
    pub depth: usize,
}

impl Default for RerankerConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 2,
            batch_size: 16,
            trainable_layers: None,
            learning_rate: 1e-4,
            head_learning_rate: 1e-3,
            weight_decay: 0.01,
            warmup_fraction: 0.1,
            loss: RerankerLoss::default(),
            negatives: 4,
            random_negatives: 1,
            mining_depth: 50,
            max_tokens: None,
            depth: 20,
        }
    }
}

impl RerankerConfig {
    /// Reads a JSON object of settings from a file; omitted ones take their defaults.
    ///
    /// # Errors
    /// [`TrainError::ConfigFile`] for an unreadable file, bad JSON, and a setting that is unknown, given
    /// twice, or of the wrong type.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let error = |source: SettingsError| TrainError::ConfigFile { path: path.to_owned(), source };
        let json = std::fs::read_to_string(path).map_err(|e| error(serde_json::Error::io(e).into()))?;
        Self::from_json(&json).map_err(error)
    }

    /// Reads a JSON object with the names of a file ([`Self::from_file`]).
    ///
    /// # Errors
    /// Unknown names, names given twice, invalid values, and anything but a JSON object.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        // serde would accept an array as the settings in order.
        serde_json::from_str::<Map<String, Value>>(json)?;
        Ok(serde_json::from_str(json)?)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first setting that is out of range.
    pub fn check(&self) -> Result<(), TrainError> {
        for (field, found, least) in [
            ("epochs", self.epochs, 1),
            ("batch_size", self.batch_size, 1),
            ("negatives and random_negatives", self.negatives + self.random_negatives, 1),
            ("mining_depth", self.mining_depth, 1),
            // Three special tokens, and one of each text.
            ("max_tokens", self.max_tokens.unwrap_or(LEAST_TOKENS), LEAST_TOKENS),
            ("depth", self.depth, 1),
        ] {
            check_setting(field, found, least, None)?;
        }
        for (field, found) in [
            ("learning_rate", self.learning_rate),
            ("head_learning_rate", self.head_learning_rate),
            ("weight_decay", self.weight_decay),
            ("warmup_fraction", self.warmup_fraction),
        ] {
            check_setting(field, found, 0.0, Some(1.0))?;
        }
        Ok(())
    }
}

/// Tokens of the shortest pair.
const LEAST_TOKENS: usize = 8;
