//! Every choice of a reranker's training, with its default.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::train::{SettingsError, TrainError};

/// What a reranker is taught of a question's documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RerankerLoss {
    /// The answer before the others: the cross-entropy of a softmax over it and its negatives. The new
    /// reranker's scores have no bounds.
    #[default]
    Listwise,
    /// Each document right or wrong: binary cross-entropy. The new reranker's scores are from 0 to 1.
    Binary,
}

/// Configuration of a reranker's training. docs/lab/experiments.md says what the defaults were chosen on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RerankerConfig {
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Passes over the training pairs, from 1.
    pub epochs: usize,
    /// Questions of an optimiser step, from 1; each with its answer and its negatives.
    pub batch_size: usize,
    /// Layers trained beside the head, from the top; absent: all. The embedding tables stay as they are.
    pub trainable_layers: Option<usize>,
    /// AdamW learning rate of the layers, 0 to 1.
    pub learning_rate: f64,
    /// AdamW learning rate of the head, 0 to 1.
    pub head_learning_rate: f64,
    /// AdamW decoupled weight decay, 0 to 1.
    pub weight_decay: f64,
    /// Share of the steps over which the learning rates rise from 0, 0 to 1; then they fall in a line.
    pub warmup_fraction: f64,
    /// What is minimised.
    pub loss: RerankerLoss,
    /// Wrong documents beside each answer, drawn anew in each pass from the first search's best.
    pub negatives: usize,
    /// More of them drawn from all documents; with `negatives` from 1.
    pub random_negatives: usize,
    /// The first search's best documents that negatives are drawn from, from 1.
    pub mining_depth: usize,
    /// Tokens of a pair, longer ones are cut; kept in the folder. Absent: what a reranker as base says, 256
    /// for an encoder.
    pub max_tokens: Option<usize>,
    /// Documents of the first search that are read again for the verdict, from 1.
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
    /// Reads a JSON object of settings; those that it does not name take their defaults.
    ///
    /// # Errors
    /// [`TrainError::ConfigFile`] for an unreadable file, bad JSON, and a setting that is unknown, given
    /// twice, or of the wrong type.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let error = |source: SettingsError| TrainError::ConfigFile { path: path.to_owned(), source };
        let json = std::fs::read_to_string(path).map_err(|e| error(serde_json::Error::io(e).into()))?;
        Self::from_json(&json).map_err(error)
    }

    /// Settings from a JSON object, with the names that a file has ([`Self::from_file`]).
    ///
    /// # Errors
    /// Unknown names, names given twice, values that do not fit, and text that is no JSON object.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        // An array would be read as the settings in their order.
        serde_json::from_str::<Map<String, Value>>(json)?;
        Ok(serde_json::from_str(json)?)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first setting that is out of range.
    pub fn check(&self) -> Result<(), TrainError> {
        let bad = |field, found: String, expected: &str| {
            Err(TrainError::Config { field, found, expected: expected.to_owned() })
        };
        for (field, found, least) in [
            ("epochs", self.epochs, 1),
            ("batch_size", self.batch_size, 1),
            ("negatives and random_negatives", self.negatives + self.random_negatives, 1),
            ("mining_depth", self.mining_depth, 1),
            // Three special tokens, and one of each text.
            ("max_tokens", self.max_tokens.unwrap_or(LEAST_TOKENS), LEAST_TOKENS),
            ("depth", self.depth, 1),
        ] {
            if found < least {
                return bad(field, found.to_string(), &format!("at least {least}"));
            }
        }
        for (field, found) in [
            ("learning_rate", self.learning_rate),
            ("head_learning_rate", self.head_learning_rate),
            ("weight_decay", self.weight_decay),
            ("warmup_fraction", self.warmup_fraction),
        ] {
            if !(0.0..=1.0).contains(&found) {
                return bad(field, found.to_string(), "0 to 1");
            }
        }
        Ok(())
    }
}

/// Tokens of the shortest pair.
const LEAST_TOKENS: usize = 8;
