//! The input of a search ([`SearchRequest`]), and its output ([`SearchResult`]).

// The read path. A request is checked and becomes a plan; the plan takes candidates from the leaves of the
// tree, from a filter's ids or from all rows, scores them by codes and embeddings, and keeps the best `k`,
// whose documents are then read. A single query, a batch and an explanation all run the same plan.

mod asked;
mod candidates;
mod codes;
mod cursor;
mod damage;
mod encode;
mod fetch;
mod filter;
mod fusion;
mod groups;
mod input;
mod judged_texts;
mod memory;
mod notes;
mod passages;
mod passing;
mod plan;
mod rank;
mod request;
mod rerank;
mod result;
mod run;
mod scorer;
mod shards;
mod signs;
mod snippet;
mod ties;
mod words;

pub use crate::lexical::{OtherTerms, StatisticsError, TermStatistics, UnknownAnalyzer};
pub(crate) use asked::Asked;
pub use asked::MatchedTerm;
pub use encode::{QueryEncoder, UnknownEncoder};
pub(super) use fetch::fetch;
pub(super) use filter::FilterCache;
#[cfg(feature = "eval")]
pub(crate) use fusion::fuse;
pub use fusion::{DEFAULT_ALPHA, Fusion, HitScores};
pub use input::Question;
pub(super) use input::check_vector;
pub(super) use judged_texts::JudgedTexts;
#[cfg(feature = "eval")]
pub(crate) use memory::RecalledDocument;
pub(super) use passing::Passing;
pub(crate) use plan::{Plan, Scope};
pub(super) use rank::Ranked;
#[cfg(feature = "eval")]
pub(crate) use rank::best_of;
pub use request::{
    DEFAULT_K, DEFAULT_RECALL, GroupBy, MOST_EXACT_DOCUMENTS, RankBy, Reach, Rerank, SearchRequest,
};
pub use result::{Hit, HitPassage, MovedDocument, RankedBy, RecalledJudgment, SearchResult, SearchStats};
pub use shards::{
    FusedCandidate, JudgedQuestions, Routed, SearchCandidate, SearchCandidates, fuse_candidates,
    plain_question,
};
pub use signs::Signs;
pub use snippet::{QuestionWords, Snippet};
#[cfg(feature = "eval")]
pub(crate) use words::Words;
pub use words::{MOST_SIGNED, MOST_TERMS};
