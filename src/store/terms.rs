//! The terms of documents, and the rows that contain each term.
//!
//! A term is a number, that of a token of the model or of a word. The store is given a [`Lexer`], so it does
//! not depend on a tokenizer. Terms follow from texts, as leaves follow from embeddings: the log does not
//! contain them, and rows without lists get theirs from their texts.

use std::{borrow::Borrow, error::Error, sync::Arc};

use super::{
    error::{Result, StoreError},
    payload,
};
use crate::lexical::{self, EncodedList, FIRST_OWN_TERM, List, Posting};

/// Splits texts into terms.
pub(crate) trait Lexer: Send + Sync {
    /// Adds the terms of a text, in their order.
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> Result<(), LexerError>;
}

/// Why a text could not be split.
pub(crate) type LexerError = Box<dyn Error + Send + Sync>;

/// A lexer shared by handles.
pub(crate) type SharedLexer = Arc<dyn Lexer>;

/// The lexer of each kind of terms, by its code ([`StoreConfig::terms`](super::StoreConfig::terms)).
pub(crate) type Lexers = Arc<dyn Fn(u8) -> Option<SharedLexer> + Send + Sync>;

/// The lexer of stores in tests, which have no model.
#[cfg(not(any(test, feature = "fuzzing")))]
pub(super) fn of_tests() -> Option<SharedLexer> {
    None
}

#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn of_tests() -> Option<SharedLexer> {
    Some(Arc::new(WordLexer))
}

/// A number for each word.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) struct WordLexer;

#[cfg(any(test, feature = "fuzzing"))]
impl Lexer for WordLexer {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> Result<(), LexerError> {
        out.extend(text.split_whitespace().map(|word| crc32fast::hash(word.as_bytes()) % 997));
        Ok(())
    }
}

/// The terms of a document's texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Terms {
    /// Term and count, by ascending term.
    counts: Box<[(u32, u32)]>,
    /// Number of all occurrences.
    tokens: u32,
}

/// Size of an entry of a segment, and of a term in memory. Each term from [`FIRST_OWN_TERM`] on takes an
/// entry, since few of them are in many texts.
const ENTRY: usize = 20;

impl Terms {
    /// The terms of a title and a text.
    pub(crate) fn of(title: &str, text: &str, lexer: &dyn Lexer) -> Result<Self> {
        let mut all = Vec::new();
        for text in [title, text] {
            lexer.terms(text, &mut all).map_err(|source| StoreError::Terms { source })?;
        }
        let tokens = u32::try_from(all.len()).unwrap_or(u32::MAX);
        all.sort_unstable();
        let counts = all.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect();
        Ok(Self { counts, tokens })
    }

    /// The terms of a stored document.
    pub(super) fn of_stored(payload: &[u8], lexer: &dyn Lexer) -> Result<Option<Self>> {
        let Some(document) = payload::decode(String::new(), payload, &[]) else { return Ok(None) };
        Self::of(&document.title, &document.text, lexer).map(Some)
    }

    /// Term and count, by ascending term.
    pub(super) fn counts(&self) -> &[(u32, u32)] {
        &self.counts
    }

    /// Approximate memory use, and an upper bound on their size in a segment.
    pub(super) fn bytes(&self) -> usize {
        let of_characters = self.counts.len() - self.counts.partition_point(|own| own.0 < FIRST_OWN_TERM);
        size_of_val(&*self.counts) + ENTRY * of_characters
    }

    /// As [`Self::bytes`], for the terms of a text that was not split yet: less than half of its bytes, and
    /// for each character of three bytes or more an entry with its neighbour and one without.
    pub(super) fn bytes_of_text(text: &[u8]) -> usize {
        text.len() / 2 + 2 * ENTRY * text.iter().filter(|byte| **byte >= 0xe0).count()
    }
}

/// Posting lists of rows in memory, packed as in a segment.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    /// Ascending.
    terms: Vec<u32>,
    /// The number of each term's postings, and the end of their bytes.
    counts: Vec<u32>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// Occurrences of all terms in each row.
    pub(super) lengths: Vec<u32>,
}

impl TermTable {
    /// The lists of these rows, starting with row 0.
    pub(super) fn new<'a>(rows: impl Iterator<Item = &'a Terms>) -> Self {
        let mut table = Self::default();
        let mut all: Vec<(u32, Posting)> = Vec::new();
        for (row, terms) in (0..).zip(rows) {
            table.lengths.push(terms.tokens);
            all.extend(terms.counts.iter().map(|&(term, count)| (term, Posting { row, count })));
        }
        all.sort_unstable_by_key(|&(term, posting)| (term, posting.row));
        let mut postings = Vec::new();
        for same in all.chunk_by(|(a, _), (b, _)| a == b) {
            postings.clear();
            postings.extend(same.iter().map(|(_, posting)| *posting));
            lexical::encode(&postings, |row| table.lengths[row as usize], &mut table.bytes);
            table.terms.push(same[0].0);
            table.counts.push(same.len() as u32);
            table.ends.push(table.bytes.len());
        }
        table
    }

    /// The rows that contain a term.
    pub(super) fn list(&self, term: u32) -> List<'_> {
        let place = self.terms.binary_search(&term).ok();
        place.and_then(|place| self.at(place)).map_or(List::Plain(&[]), List::Encoded)
    }

    /// Calls `tell` with each term and the number of rows that contain it.
    pub(super) fn counts(&self, tell: &mut dyn FnMut(u32, u64)) {
        self.terms.iter().zip(&self.counts).for_each(|(&term, &count)| tell(term, count.into()));
    }

    fn at(&self, place: usize) -> Option<EncodedList<'_>> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let list = EncodedList::new(&self.bytes[start..self.ends[place]], self.counts[place] as usize);
        debug_assert!(list.is_ok(), "a list that was just packed");
        list.ok()
    }
}

/// The lists of a table, for the rows of a source that it covers: these, or all of them.
pub(super) struct TableLists<T> {
    pub(super) table: T,
    pub(super) rows: Option<Vec<u32>>,
}

impl<T: Borrow<TermTable>> TermLists for TableLists<T> {
    fn terms(&self) -> Result<&[u32]> {
        Ok(&self.table.borrow().terms)
    }

    fn add(&self, place: usize, out: &mut Vec<Posting>) -> Result<()> {
        let before = out.len();
        let decoded = self.table.borrow().at(place).map(|list| list.decode_all(out));
        debug_assert!(matches!(decoded, Some(Ok(_))), "a list that was just packed");
        if let Some(rows) = &self.rows {
            out[before..].iter_mut().for_each(|posting| posting.row = rows[posting.row as usize]);
        }
        Ok(())
    }

    fn lengths(&self, tell: &mut dyn FnMut(u32, u32)) -> Result<()> {
        let row = |at: u32| self.rows.as_ref().map_or(at, |rows| rows[at as usize]);
        (0..).zip(&self.table.borrow().lengths).for_each(|(at, &length)| tell(row(at), length));
        Ok(())
    }
}

/// Lists from which a new segment takes its own, term by term.
pub(super) trait TermLists {
    /// The terms that occur, ascending.
    fn terms(&self) -> Result<&[u32]>;
    /// Appends the postings of the term at a position, with rows of the source.
    fn add(&self, place: usize, out: &mut Vec<Posting>) -> Result<()>;
    /// Calls `tell` with each row of the source that the lists cover, and its occurrences of all terms.
    fn lengths(&self, tell: &mut dyn FnMut(u32, u32)) -> Result<()>;
}
