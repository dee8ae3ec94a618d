//! Full-text search: BM25 over posting lists, with the exact best rows.
//!
//! A term's list has the rows that contain it and how often. [`search`](search()) finds the best rows of one
//! part after another without scoring most of them (block-max MaxScore, `window.rs`); [`score_rows`] scores
//! given rows; both give the same bits for the same row. [`encode`] and [`EncodedList`] are the lists of
//! sealed files. This module is independent of files and tokenizers: lists, lengths and bytes are slices.

mod analyzer;
mod bm25;
mod bound;
mod cursor;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../fuzz/inside/postings.rs"]
mod fuzzing;
mod list;
mod pieces;
mod search;
mod statistics;
pub mod syntax;
mod together;
mod window;

pub(crate) use analyzer::stems;
pub use analyzer::{Analyzer, Language, UnknownAnalyzer};
pub use bm25::{Bm25, Norms};
pub use cursor::List;
#[cfg(feature = "fuzzing")]
pub use fuzzing::fuzz_postings;
pub use list::{EncodedList, encode};
pub(crate) use pieces::{
    FIRST_OWN_TERM, Piece, is_unspaced, normalised, own_term, pairs, pieces, singles, unknown,
};
pub use search::{score_rows, search};
pub use statistics::{OtherTerms, StatisticsError, TermStatistics};

/// Postings packed, skipped and bounded together.
pub const BLOCK: usize = 128;

/// Marks the absence of a row; all rows are below it.
pub const END: u32 = u32::MAX;

/// A row that contains a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Posting {
    /// Row of the part; below [`END`].
    pub row: u32,
    /// How often its text contains the term; at least 1.
    pub count: u32,
}

/// A malformed posting list, or one with rows outside the part; the caller knows which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of postings")]
pub struct Undecodable;

/// A term of a query in one part.
#[derive(Clone, Copy, Debug)]
pub struct QueryTerm<'a> {
    /// The rows that contain it; may be empty.
    pub list: List<'a>,
    /// Its idf times its occurrences in the query; anything except a positive number counts as 0.
    pub weight: f32,
    /// Whether only rows that contain it match.
    pub required: bool,
}

/// The cost of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LexicalStats {
    /// Postings that were scored.
    pub postings: usize,
    /// Rows scored with all of their terms.
    pub rows_scored: usize,
}

impl std::ops::AddAssign for LexicalStats {
    fn add_assign(&mut self, other: Self) {
        self.postings += other.postings;
        self.rows_scored += other.rows_scored;
    }
}

#[cfg(test)]
mod tests;
