//! Words against documents: BM25 over posting lists, and exactly the best few rows.
//!
//! A term's list says which rows hold it and how often. [`search`](search()) finds the best rows of one part
//! after another without scoring most of them (block-max MaxScore, `window.rs`); [`score_rows`] scores given
//! rows; both give the same bits for the same row. [`encode`] and [`EncodedList`] are the lists of sealed
//! files. Nothing here knows files or tokenizers: lists, lengths and bytes are slices.

mod analyzer;
mod bm25;
mod bound;
mod cursor;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../fuzz/inside/postings.rs"]
mod fuzzing;
mod given;
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
pub use given::score_rows;
pub use list::{EncodedList, encode};
pub(crate) use pieces::{
    FIRST_OWN_TERM, Piece, is_unspaced, normalised, own_term, pairs, pieces, singles, unknown,
};
pub use search::{SearchError, search};
pub use statistics::{OtherTerms, StatisticsError, TermStatistics};

/// Postings that are packed, skipped and bounded together.
pub const BLOCK: usize = 128;

/// Stands where no row is; rows are below it.
pub const END: u32 = u32::MAX;

/// A row that holds a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Posting {
    /// Row of the part; below [`END`].
    pub row: u32,
    /// How often its text holds the term; at least 1.
    pub count: u32,
}

/// Bytes that are no posting list, or one of rows that the part does not have; the caller knows which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl std::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a list of postings")
    }
}

impl std::error::Error for Undecodable {}

/// What a term means for the rows that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// They match.
    Optional,
    /// Only they match.
    Required,
    /// They do not match.
    Excluded,
}

/// A term of a query in one part.
#[derive(Clone, Copy, Debug)]
pub struct QueryTerm<'a> {
    /// The rows that hold it; may be empty.
    pub list: List<'a>,
    /// Its idf times its occurrences in the query; what is no positive number counts as 0.
    pub weight: f32,
    /// What holding it means.
    pub role: Role,
}

/// What a search cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LexicalStats {
    /// Postings that were scored.
    pub postings: usize,
    /// Rows that were scored by all of their terms.
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
