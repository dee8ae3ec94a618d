//! The ranges of the settings.

use super::TrainConfig;
use crate::train::error::{TrainError, check_setting};

impl TrainConfig {
    /// Whether a run changes encoder weights.
    pub(crate) fn trains_encoder(&self) -> bool {
        self.encoder.trainable_layers > 0 || self.encoder.train_embeddings
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first setting that is out of range.
    pub fn check(&self) -> Result<(), TrainError> {
        let Self { encoder, tree, schedule, losses, mining, distillation, .. } = self;
        for (field, found, least) in [
            ("schedule.epochs", schedule.epochs.max(schedule.indexer_epochs), 1),
            ("schedule.refresh_interval", schedule.refresh_interval, 1),
            ("schedule.batch_size", schedule.batch_size, 2),
            ("encoder.max_query_tokens", encoder.max_query_tokens, 2),
            ("encoder.max_document_tokens", encoder.max_document_tokens, 2),
            ("mining.beam", mining.beam, 1),
            ("mining.depth", mining.depth, 1),
            ("distillation.depth", distillation.depth, 1),
        ] {
            check_setting(field, found, least, None)?;
        }
        for (field, found) in
            [("tree.branching_factor", tree.branching_factor), ("tree.coarse_leaves", tree.coarse_leaves)]
        {
            check_setting(field, found.unwrap_or(2), 2, None)?;
        }
        if tree.branching_factor.is_some() {
            self.shape(0)?;
        }
        let weights = &losses.weights;
        for (field, found, least, most) in [
            ("encoder.learning_rate", encoder.learning_rate, 0.0, 1.0),
            ("encoder.weight_decay", encoder.weight_decay, 0.0, 1.0),
            ("tree.learning_rate", tree.learning_rate, 0.0, 1.0),
            ("tree.logit_scale", tree.logit_scale, 1e-3, 1e4),
            ("tree.init_scale", tree.init_scale, 1e-3, 1e4),
            ("schedule.warmup_fraction", schedule.warmup_fraction, 0.0, 1.0),
            ("schedule.final_learning_rate_fraction", schedule.final_learning_rate_fraction, 0.0, 1.0),
            ("losses.weights.siamese", weights.siamese, 0.0, 1e6),
            ("losses.weights.indexing", weights.indexing, 0.0, 1e6),
            ("losses.weights.intra_leaf", weights.intra_leaf, 0.0, 1e6),
            ("losses.weights.balance", weights.balance, 0.0, 1e6),
            ("losses.weights.distillation", weights.distillation, 0.0, 1e6),
            ("losses.siamese_temperature", losses.siamese_temperature, 1e-3, 1e3),
            ("losses.margin", losses.margin, 0.0, 2.0),
            ("losses.dissimilarity_threshold", losses.dissimilarity_threshold, 0.0, 2.0),
            ("distillation.temperature", distillation.temperature, 0.0, 1e3),
            ("distillation.positive_share", distillation.positive_share, 0.0, 1.0),
            ("dev_fraction", self.dev_fraction, 0.0, 0.9),
        ] {
            check_setting(field, found, least, Some(most))?;
        }
        Ok(())
    }
}
