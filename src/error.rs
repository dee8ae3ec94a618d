//! The error of the public API: one variant per area, each of which preserves its cause.

use crate::data::DataError;
pub use crate::input::InputError;
use crate::model::ModelError;
use crate::progress::Cancelled;
use crate::store::StoreError;

/// Any error of an operation of this crate.
///
/// Errors that the caller can fix with other input are [`Self::Input`] or [`Self::Filter`], and for training,
/// evaluation and data files the errors of those. [`Self::Store`] and [`Self::Model`] concern files on disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory on disk.
    #[error(transparent)]
    Store(StoreError),
    /// Encoder, indexer or bundle.
    #[error(transparent)]
    Model(ModelError),
    /// A dataset or an input file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A document, a query or an option that cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A filter's JSON.
    #[error(transparent)]
    Filter(#[from] crate::filter::FilterError),
    /// Training.
    #[cfg(feature = "train")]
    #[error(transparent)]
    Train(#[from] crate::train::TrainError),
    /// k-means.
    #[cfg(feature = "eval")]
    #[error("clustering: {0}")]
    Cluster(#[from] crate::cluster::ClusterError),
    /// A call that stores documents in groups failed after storing some of them.
    #[error("{source}; {stored} documents of the call are stored, {refused} are not")]
    Partial {
        /// Documents of the call that are stored, just as after a successful call.
        stored: usize,
        /// Documents of the call that are not stored: the failed group and those after it, as far as they had
        /// been read. A document superseded by a later one of the call with the same id is counted in neither
        /// field.
        refused: usize,
        /// The failure.
        source: Box<Error>,
    },
    /// The caller's progress callback asked to stop; acknowledged work stays.
    #[error("cancelled")]
    Cancelled,
}

/// A result of the public API.
pub type Result<T> = std::result::Result<T, Error>;

impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Cancelled => Self::Cancelled,
            ModelError::NoEncoder => Self::Input(InputError::NoEncoder),
            error => Self::Model(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Input(error) => Self::Input(error),
            StoreError::Cancelled => Self::Cancelled,
            error => Self::Store(error),
        }
    }
}
