//! The paper's settings.

use serde::{Deserialize, Serialize};

use super::{
    EncoderTraining, LossSettings, LossWeights, MiningSettings, Negatives, QueryEncoderChoice,
    ScheduleSettings, Siamese, TrainConfig, TreeSettings,
};

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

impl TrainConfig {
    /// The paper's settings for a dataset: its table in appendix B, 100 epochs, r = 5, no
    /// distillation. k-means start and balance term stay on, because the paper's loss alone collapses
    /// (`docs/lab/paper-map.md`).
    pub fn preset(preset: Preset) -> Self {
        let (batch_size, leaves, encoder, indexer, weights) = match preset {
            Preset::SciFact => (64, 40, 4e-4, 0.016, [0.2, 0.8, 0.2]),
            Preset::Fiqa => (64, 5000, 2e-4, 9e-4, [0.03, 0.46, 0.54]),
            Preset::MsMarco => (4096, 7000, 2.5e-8, 8e-3, [0.11, 0.84, 0.60]),
            Preset::Nq320k => (1024, 1000, 1e-4, 4e-4, [0.2, 0.4, 0.11]),
        };
        Self {
            encoder: EncoderTraining { learning_rate: encoder, ..EncoderTraining::default() },
            tree: TreeSettings {
                branching_factor: Some(leaves),
                coarse_leaves: None,
                learning_rate: indexer,
                // The paper does not scale the logits; its learning rates are meant for columns long enough
                // to make them large.
                logit_scale: 1.0,
                transform: true,
                routing_dim: Some(0),
                ..TreeSettings::default()
            },
            schedule: ScheduleSettings {
                epochs: 100,
                batch_size,
                refresh_interval: 5,
                indexer_epochs: 0,
                ..ScheduleSettings::default()
            },
            losses: LossSettings {
                weights: LossWeights {
                    siamese: weights[0],
                    indexing: weights[1],
                    intra_leaf: weights[2],
                    distillation: 0.0,
                    ..LossWeights::default()
                },
                siamese: Siamese::Triplet,
                ..LossSettings::default()
            },
            mining: MiningSettings { negatives: Negatives::Index, ..MiningSettings::default() },
            query_encoder: QueryEncoderChoice::None,
            ..Self::default()
        }
    }
}
