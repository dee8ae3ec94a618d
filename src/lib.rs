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
//! - [`Index`]: the store: create, open, insert, search. [`SearchRequest`] has the options of a search.
//! - [`Bundle`]: a trained model; [`train`] makes one, [`model`] has its parts.
//! - [`explain`], [`leaves`], [`health`]: why a search returned its hits, the contents of the leaves, whether
//!   the tree still fits.
//! - [`store`]: sizes, checks and repair of an index, and errors of its files.
//! - [`eval`]: recall against documents visited, compared with exact search and IVF.
//! - [`data`]: documents from JSON, CSV, TSV and folders of text, and datasets in the layouts of BEIR, MS
//!   MARCO and extreme classification.
//!
//! Results that are data implement [`serde::Serialize`]; `docs/json.md` has their fields. Searches, inserts,
//! flushes, compactions and the phases of a training are spans of [`tracing`], named `search`, `insert` and
//! so on, with numbers and no texts.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Other lints are in `Cargo.toml`; these do not apply to the program, the tests and the benches.
#![deny(missing_docs, missing_debug_implementations)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)
)]

mod characters;
#[cfg(feature = "eval")]
#[cfg_attr(not(feature = "train"), allow(dead_code, unused_imports, reason = "training uses more of it"))]
mod cluster;
mod codes;
pub mod data;
mod disk;
mod document;
mod embedding_cache;
mod error;
#[cfg(feature = "eval")]
pub mod eval;
mod filter;
mod ids;
mod index;
mod input;
mod judgment;
#[cfg(feature = "train")]
pub mod learn;
mod lexical;
#[cfg(feature = "eval")]
#[cfg_attr(not(feature = "train"), allow(dead_code, unused_imports, reason = "training uses more of it"))]
mod measure;
mod memory;
pub mod model;
mod outline;
mod passages;
mod prefetch;
mod processor;
mod product;
mod progress;
mod scan;
mod serialize;
pub mod store;
mod terms;
#[cfg(feature = "train")]
pub mod train;
mod tree;

#[cfg(feature = "eval")]
pub use cluster::ClusterError;
pub use document::Document;
pub use embedding_cache::{CacheStats, DEFAULT_CACHE_BYTES, EmbeddingCache};
pub use error::{Error, InputError, Result};
pub use filter::{Facet, FacetValue, Filter, FilterError};
pub use ids::{Generation, LeafId};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use index::fuzz_current;
pub use index::search::{
    Fusion, GroupBy, Hit, HitPassage, HitScores, QueryEncoder, Question, RankBy, RankedBy, Reach,
    RecalledJudgment, SearchRequest, SearchResult, SearchStats,
};
pub use index::{
    CutTexts, DocumentUpdate, Index, IndexBuilder, InsertStatus, InsertSummary, LeafChange, LeafChanges,
    LeafOrigin, LearnedFusion, LearnedMemory, LoggedQuestion, MOST_LOG_BYTES, MemoryByNearness, ModelChange,
    Recorded, RefusedDocument, RepairOptions, Scoped, Standing, WithProgress,
};
#[cfg(feature = "eval")]
pub use index::{FEWEST_FUSION_QUESTIONS, Fused};
pub use index::{calibrate, explain, health, leaves, search};
pub use judgment::Judgment;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use lexical::fuzz_postings;
pub use lexical::{Analyzer, Language};
pub use model::Bundle;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use model::{fuzz_query_encoder, fuzz_tokenizer};
pub use outline::{BadOutline, Outline, Part};
pub use passages::{BadPassages, Passages};
pub use processor::Instructions;
pub use progress::{OnProgress, Progress, Stage, Tick, no_progress};
pub use scan::Similarity;
pub use store::Durability;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use store::fuzzing;

/// Compiles the examples of README and the pages. `scripts/release/starts` runs README's.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "hub")]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../docs/search.md")]
    struct Search;
    #[cfg(feature = "train")]
    #[doc = include_str!("../docs/learning.md")]
    struct Learning;
    #[cfg(feature = "folders")]
    #[doc = include_str!("../docs/inputs.md")]
    struct Inputs;
    #[doc = include_str!("../docs/passages.md")]
    struct Passages;
    #[doc = include_str!("../docs/query-encoders.md")]
    struct QueryEncoders;
}
