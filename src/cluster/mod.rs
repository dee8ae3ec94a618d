//! Grouping embeddings: "which of these rows belong together, and which centroid
//! is nearest to each?"
//!
//! [`spherical_kmeans`] provides the first leaves of a new tree, and the k-means lists that evaluation
//! compares it with. Its tiled product also serves exact search for blocks of f32 queries. Everything is f32
//! in memory and has the same result on any number of threads.

mod balance;
mod kmeans;
mod product;
mod seeding;

pub(crate) use kmeans::{KMeans, KMeansOptions, spherical_kmeans, spherical_kmeans_with};
pub(crate) use product::Panels;

/// Why rows could not be clustered.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Rows without dimensions.
    #[error("rows have no dimensions; pass the width of the embeddings")]
    ZeroDim,
    /// The number of values is not a multiple of `dim`.
    #[error("{values} values are no whole number of rows of {dim} dimensions")]
    RaggedRows {
        /// Values given.
        values: usize,
        /// Dimensions of a row.
        dim: usize,
    },
    /// The number of clusters is 0.
    #[error("no clusters were asked for; ask for at least 1")]
    NoClusters,
    /// Fewer rows than clusters, so that some cluster would be empty.
    #[error("{rows} rows cannot fill {clusters} clusters; ask for at most {rows}")]
    MoreClustersThanRows {
        /// Requested number of clusters.
        clusters: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A row holds NaN or infinity.
    #[error("row {row} holds a value that is not finite")]
    NonFinite {
        /// Position of the row, from 0.
        row: usize,
    },
    /// A row is not of unit norm.
    #[error("row {row} has norm {norm}; normalise rows to 1 before clustering")]
    NotUnit {
        /// Position of the row, from 0.
        row: usize,
        /// Its Euclidean norm.
        norm: f32,
    },
}
