//! Searches with options ([`Query`], made by [`Index::query`](crate::Index::query) and the like), and what
//! they return ([`SearchResult`]).

// The read path. A query and its options become a plan; the plan takes candidates from the leaves of the
// tree, from a filter's ids or from all rows, scores them by codes and embeddings, and keeps the best `k`,
// whose documents are then read. One query, a batch and an explanation all run the same plan.

mod asked;
mod candidates;
mod codes;
mod cursor;
mod damage;
mod encode;
mod fetch;
mod filter;
mod fusion;
mod input;
mod notes;
mod passages;
mod plan;
mod query;
mod rank;
mod refine;
mod rerank;
mod result;
mod scorer;
mod shards;
mod signs;
mod ties;
mod words;

pub use crate::lexical::{OtherTerms, StatisticsError, TermStatistics, UnknownAnalyzer};
#[cfg(feature = "train")]
pub(crate) use asked::Asked;
pub use asked::MatchedTerm;
pub use encode::{QueryEncoder, UnknownEncoder};
pub(super) use filter::FilterCache;
#[cfg(feature = "train")]
pub(crate) use fusion::{Candidate, fuse};
pub use fusion::{DEFAULT_ALPHA, Fusion, HitScores};
#[cfg(feature = "train")]
pub(crate) use plan::Limits;
pub(crate) use plan::{Plan, RankBy, SearchMode};
pub use query::{DEFAULT_K, DEFAULT_RECALL, MOST_EXACT_DOCUMENTS, Many, One, Query};
pub(super) use rank::Ranked;
#[cfg(feature = "train")]
pub(crate) use rank::best_of;
pub use refine::REFINED;
pub use result::{Hit, HitPassage, RankedBy, SearchResult, SearchStats};
pub use shards::{
    FusedCandidate, Routed, SearchCandidate, SearchCandidates, fuse_candidates, plain_question,
};
pub use signs::Signs;
#[cfg(feature = "train")]
pub(crate) use words::Words;
pub use words::{MOST_SIGNED, MOST_TERMS};
