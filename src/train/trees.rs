//! The trees of a run.

use candle_core::Device;
use rand_chacha::ChaCha8Rng;

use super::config::TrainConfig;
use super::indexer::{IndexerOptions, TrainableIndexer};
use super::plan::PhaseName;
use crate::tree::TreeShape;

/// The tree of each phase: one for both, or a coarse one for the joint phase.
pub(crate) struct Trees {
    coarse: Option<TrainableIndexer>,
    /// The tree of the bundle.
    proper: TrainableIndexer,
}

impl Trees {
    /// Random trees for embeddings of `dim` values.
    pub(crate) fn random(
        config: &TrainConfig,
        shape: TreeShape,
        dim: usize,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let tree = &config.tree;
        let options = IndexerOptions {
            shape,
            dim,
            projection: tree.projection(shape, dim),
            transform: tree.transform,
            logit_scale: tree.logit_scale,
            init_length: tree.init_scale / tree.logit_scale,
        };
        let coarse = config.coarse_shape(shape).map(|shape| {
            let coarse = IndexerOptions { shape, projection: None, transform: true, ..options };
            TrainableIndexer::random(coarse, rng, device)
        });
        Ok(Self { coarse: coarse.transpose()?, proper: TrainableIndexer::random(options, rng, device)? })
    }

    /// The tree that a phase trains.
    pub(crate) fn of(&self, phase: PhaseName) -> &TrainableIndexer {
        match (phase, &self.coarse) {
            (PhaseName::Joint, Some(coarse)) => coarse,
            _ => &self.proper,
        }
    }

    /// Whether each phase has its own tree.
    pub(crate) fn are_two(&self) -> bool {
        self.coarse.is_some()
    }
}
