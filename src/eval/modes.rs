//! Searches by embeddings, by words and by both, every document a candidate.

use serde::Serialize;

use super::quality::Quality;
use crate::search::{Fusion, RankBy};

/// How documents are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvalMode {
    /// Their embeddings.
    Dense,
    /// The words of the question.
    Lexical,
    /// Both, with the weight learned by the index, or 0.7.
    Hybrid,
    /// Both, by reciprocal rank fusion with k = 60.
    Rrf,
    /// As [`Self::Hybrid`], with the judgments of the index.
    Memory,
    /// The first of the other modes, reranked ([`EvalOptions::rerank`](super::EvalOptions::rerank)).
    Reranked,
}

impl std::fmt::Display for EvalMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl EvalMode {
    pub(super) fn name(self) -> &'static str {
        ["dense", "lexical", "hybrid", "rrf", "memory", "reranked"][self as usize]
    }

    pub(super) fn rank_by(self) -> RankBy {
        match self {
            Self::Dense | Self::Reranked => RankBy::Dense,
            Self::Lexical => RankBy::Lexical,
            Self::Hybrid | Self::Memory => RankBy::Hybrid(Fusion::Learned),
            Self::Rrf => RankBy::Hybrid(Fusion::Rrf { k: 60.0 }),
        }
    }
}

/// One mode of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModePoint {
    /// How documents are ranked.
    pub mode: EvalMode,
    /// Weight of the dense score, for [`EvalMode::Hybrid`].
    pub alpha: Option<f64>,
    /// Quality of the results.
    #[serde(flatten)]
    pub quality: Quality,
}

/// Significance of the difference between two modes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModeDifference {
    /// The two modes.
    pub modes: [EvalMode; 2],
    /// For each metric, the larger p-value of a paired t-test and a paired bootstrap, both two-sided.
    pub p_value: Quality,
}
