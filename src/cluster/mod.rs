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

/// A row that is not of unit norm.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("row {row} has norm {norm}; normalise rows to 1 before clustering")]
#[non_exhaustive]
pub struct ClusterError {
    /// Position of the row, from 0.
    pub row: usize,
    /// Its Euclidean norm.
    pub norm: f32,
}
