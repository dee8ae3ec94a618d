//! The plan of a run, made before it starts: the trees of each phase, and the texts that are taught.

use serde::{Deserialize, Serialize};

use super::config::TrainConfig;
use crate::tree::TreeShape;

/// The phases of a run, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PhaseName {
    /// Encoder and tree.
    #[default]
    Joint,
    /// The tree alone.
    Indexer,
}

/// The texts of routing distillation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taught {
    Nothing,
    /// The training queries.
    TrainQueries,
    /// The training queries, the documents, and the queries made from documents. The latter two need no
    /// labels.
    Everything,
}

impl TrainConfig {
    /// What a phase distils.
    pub(crate) fn taught(&self, phase: PhaseName) -> Taught {
        match phase {
            _ if self.losses.weights.distillation <= 0.0 => Taught::Nothing,
            PhaseName::Joint => Taught::TrainQueries,
            PhaseName::Indexer if self.schedule.indexer_epochs == 0 => Taught::Nothing,
            PhaseName::Indexer => Taught::Everything,
        }
    }

    /// Whether queries are made from documents.
    pub(crate) fn makes_queries(&self) -> bool {
        self.taught(PhaseName::Indexer) == Taught::Everything
    }

    /// Shape of the joint phase's tree, if it differs from the final one: one level, as in the paper. Without
    /// a phase of its own the final tree would not be trained.
    pub(crate) fn coarse_shape(&self, shape: TreeShape) -> Option<TreeShape> {
        let fewer = self.tree.coarse_leaves.filter(|&leaves| leaves < shape.leaves())?;
        let has_both = self.schedule.epochs > 0 && self.makes_queries();
        has_both.then(|| TreeShape::new(fewer, 1).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_distilled_follows_weight_and_passes() {
        let plan = |weight, epochs, indexer_epochs| {
            let mut config = TrainConfig::default();
            config.losses.weights.distillation = weight;
            (config.schedule.epochs, config.schedule.indexer_epochs) = (epochs, indexer_epochs);
            let coarse = config.coarse_shape(TreeShape::new(518, 1).unwrap()).map(TreeShape::leaves);
            (
                config.taught(PhaseName::Joint),
                config.taught(PhaseName::Indexer),
                config.makes_queries(),
                coarse,
            )
        };
        let (queries, everything) = (Taught::TrainQueries, Taught::Everything);
        assert_eq!(plan(0.2, 10, 60), (queries, everything, true, Some(64)));
        assert_eq!(plan(0.2, 0, 60), (queries, everything, true, None));
        assert_eq!(plan(0.2, 10, 0), (queries, Taught::Nothing, false, None));
        assert_eq!(plan(0.0, 10, 60), (Taught::Nothing, Taught::Nothing, false, None));
    }

    #[test]
    fn a_coarse_tree_has_fewer_leaves_than_the_tree_proper() {
        let plan = |coarse_leaves| {
            let mut config = TrainConfig::default();
            config.tree.coarse_leaves = coarse_leaves;
            config.coarse_shape(TreeShape::new(8, 2).unwrap()).map(TreeShape::leaves)
        };
        assert_eq!((plan(Some(63)), plan(Some(64)), plan(None)), (Some(63), None, None));
    }
}
