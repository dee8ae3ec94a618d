//! An embedded document store whose search index is learned together with its text
//! encoder, from the user's own queries.
//!
//! It implements EHI, *End-to-end Learning of Hierarchical Index for Efficient Dense
//! Retrieval* (TMLR 2024). A text encoder turns documents and queries into embeddings; a tree
//! of small networks routes each document to a leaf and each query to the few leaves where its
//! answers are; only those leaves' embeddings are scored. Encoder and tree are trained
//! jointly on pairs of queries and documents, and travel with the index.
//!
//! ```no_run
//! use ehi::{Bundle, Document, Index};
//!
//! let bundle = Bundle::open("models/scifact-minilm")?;
//! let index = Index::create("./my-index", &bundle)?;
//! index.insert(Document::new("id-1", "title", "text"))?;
//! let hits = index.search("a question", 10, 8)?; // query, k, beam
//! for hit in &hits {
//!     println!("{:.3} {}", hit.score, hit.id);
//! }
//! # Ok::<(), ehi::Error>(())
//! ```
//!
//! - [`Index`]: the store, open, insert, search.
//! - [`Bundle`]: a trained model; [`train`] makes one.
//! - [`eval`]: recall against documents visited, beside exact search and IVF.
//! - [`data`]: datasets in the layouts of BEIR, MS MARCO and extreme classification.

// Others are in `Cargo.toml`; these are not for the program, the tests and the benches.
#![deny(missing_docs, missing_debug_implementations)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)
)]

#[cfg(feature = "train")]
mod cluster;
mod codes;
pub mod data;
mod disk;
mod document;
mod error;
#[cfg(feature = "train")]
pub mod eval;
mod filter;
mod ids;
mod index;
#[cfg(feature = "train")]
mod measure;
mod model;
mod prefetch;
mod product;
mod progress;
mod scan;
mod stop;
mod store;
mod terms;
#[cfg(feature = "train")]
pub mod train;
mod tree;

#[cfg(feature = "train")]
pub use cluster::ClusterError;
pub use document::Document;
pub use error::{Error, InputError, Result};
pub use filter::{Filter, FilterError};
pub use ids::{Generation, LeafId, Row};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use index::fuzz_current;
pub use index::{
    Advice, DEFAULT_BEAM, DEFAULT_K, DEFAULT_SAMPLES, DEFAULT_TERMS, Documents, ExactHit, ExplainedHit,
    Explanation, FEWEST_RECENT, Health, Hit, Index, IndexBuilder, InsertStatus, InsertSummary, LeafDocument,
    LeafOptions, LeafQuery, LeafSummary, LeafTerm, Many, ModelChange, One, Query, RECENT, ReachedLeaf,
    RepairOptions, RoutingHealth, SHIFTED, SKEW_GROWTH, SKEWED, SearchResult, SearchStats,
};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use model::fuzz_tokenizer;
pub use model::{
    BUNDLE_FORMAT, Bundle, DEFAULT_MAX_TOKENS, ENCODER_FILE, ENTROPY_QUANTILES, Encoder, EncoderPrecision,
    INDEXER_FILE, Indexer, MANIFEST_FILE, Model, ModelError, ModelHash, ParsePrecisionError, Role,
    RoutingProfile, RoutingProfiles, TOKENIZER_FILE,
};
#[cfg(feature = "hub")]
pub use model::{DEFAULT_MODEL, fetch};
pub use progress::{OnProgress, Progress, Stage, no_progress};
pub use scan::Similarity;
pub use stop::{ParseStopError, Stop};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use store::fuzzing;
pub use store::{
    Damage, Durability, LockHolder, Notice, Operation, Problem, RepairReport, StoreBytes, StoreError,
    StoreStats, Undecided, VerifyReport,
};
pub use tree::{MAX_HEIGHT, MAX_LEAVES, TreeShape, TreeShapeError};
