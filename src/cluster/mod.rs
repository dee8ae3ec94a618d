//! Grouping embeddings: "which of these rows belong together, and which centroid
//! is nearest to each?"
//!
//! [`spherical_kmeans`] gives a new tree its first leaves (and the evaluation its
//! opponent, k-means lists). The tiled product under it also serves exact search of
//! blocks of f32 queries. Everything is f32 in memory and gives the same result on
//! any number of threads.

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
    /// The values are not a whole number of rows.
    #[error("{values} values are no whole number of rows of {dim} dimensions")]
    RaggedRows {
        /// Values given.
        values: usize,
        /// Dimensions of a row.
        dim: usize,
    },
    /// No clusters asked for.
    #[error("no clusters were asked for; ask for at least 1")]
    NoClusters,
    /// Fewer rows than clusters, so that some cluster would be empty.
    #[error("{rows} rows cannot fill {clusters} clusters; ask for at most {rows}")]
    MoreClustersThanRows {
        /// Clusters asked for.
        clusters: usize,
        /// Rows given.
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
