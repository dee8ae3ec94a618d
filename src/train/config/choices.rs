//! Enumerated settings.

use serde::{Deserialize, Serialize};

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

/// Source of negatives other than the batch.
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

/// How the learning rates fall after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decay {
    /// No decay.
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

/// Whether a model gets a query encoder, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryEncoderChoice {
    /// None; an existing one is removed.
    None,
    /// A vector and a weight for each token, and a small head: microseconds a question.
    #[default]
    Static,
}
