//! The error of the public API: one variant per failing area, each lossless.

use crate::data::DataError;
use crate::model::ModelError;
use crate::store::StoreError;

/// Everything that an operation of this crate can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory on disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Encoder, indexer or bundle.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A dataset or an input file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A document or a query that cannot be used.
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
    #[cfg(feature = "train")]
    #[error("clustering: {0}")]
    Cluster(#[from] crate::cluster::ClusterError),
    /// A run or judgment file in TREC's format.
    #[cfg(feature = "train")]
    #[error(transparent)]
    Trec(#[from] crate::eval::TrecError),
    /// A fraction at which an evaluation was to be read.
    #[cfg(feature = "train")]
    #[error(transparent)]
    Curve(#[from] crate::eval::CurveError),
    /// A call that stores documents in groups failed with some of them stored.
    #[error("{source}; {stored} documents of the call are stored, {refused} are not")]
    Partial {
        /// Documents of the call that are stored, as they are after a call that succeeds.
        stored: usize,
        /// Documents of the call that are not: the group that failed and those behind it, as far as they
        /// had been read. A document whose id a later one of the call has counts for neither.
        refused: usize,
        /// The failure.
        source: Box<Error>,
    },
    /// The caller's progress callback asked to stop; what was acknowledged before stays.
    #[error("cancelled")]
    Cancelled,
}

/// A caller's document, query or option that cannot be used; nothing was changed.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A query without a character that is not white space.
    #[error("the query is empty")]
    EmptyQuery,
    /// A document whose title and text are both empty.
    #[error("document `{id}` has neither title nor text")]
    EmptyDocument {
        /// The document's id.
        id: String,
    },
    /// `k` of a search is 0.
    #[error("k is 0; ask for at least one hit")]
    ZeroK,
    /// The beam of a search is 0.
    #[error("the beam is 0; visit at least one leaf")]
    ZeroBeam,
    /// Two options of a search that exclude each other.
    #[error("`{}` and `{}` exclude each other", options[0], options[1])]
    Conflict {
        /// The options.
        options: [&'static str; 2],
    },
    /// Codes were asked for where the similarity is not a dot product.
    #[error("codes are for cosine and dot product, the similarity of the index is {similarity}")]
    NoCodes {
        /// The similarity of the index.
        similarity: crate::scan::Similarity,
    },
    /// A rule to stop by that would never let a search begin, or a share that is none.
    #[error("`{stop}` stops no search; a count is from 1, a share over 0 and at most 1")]
    BadStop {
        /// The rule given.
        stop: crate::stop::Stop,
    },
    /// A number of lists of an evaluation's baseline is 0.
    #[error("the number of lists is 0; divide the documents into at least one")]
    ZeroLists,
    /// An evaluation with judgments of another collection than the index has.
    #[error("none of the {documents} judged documents of the split `{split}` is in the index")]
    NothingJudged {
        /// The split.
        split: String,
        /// Its judged documents.
        documents: usize,
    },
    /// A leaf beyond those of the tree.
    #[error("there is no leaf {leaf}; the tree has {leaves}, counted from 0")]
    UnknownLeaf {
        /// The leaf asked for.
        leaf: u32,
        /// Leaves of the tree.
        leaves: u32,
    },
    /// A query vector of another width than the index.
    #[error("the vector has {found} values, the index has {expected}")]
    Dimension {
        /// Width given.
        found: usize,
        /// Width of the index.
        expected: usize,
    },
    /// A vector with NaN, an infinity, or nothing but zeros.
    #[error("the vector holds a NaN or an infinity, or is all zeros")]
    BadVector,
    /// A write from the progress callback of a call that writes wait for.
    #[error("a progress callback cannot write to the index that the call is at work on")]
    InsideProgress,
    /// A change to the model that is in service already.
    #[error("the index is served by model {model} already")]
    SameModel {
        /// Hash of the model.
        model: String,
    },
    /// A return to an earlier model where none is kept.
    #[error("no earlier model is kept; there was no change of model, or its old one was dropped")]
    NoPreviousModel,
    /// The index was made with another model.
    #[error("the index was made with model {index}, not with {given}")]
    ModelMismatch {
        /// Hash of the index's own model.
        index: String,
        /// Hash of the model given.
        given: String,
    },
}

/// A result of the public API.
pub type Result<T> = std::result::Result<T, Error>;
