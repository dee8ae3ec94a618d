//! The terms of documents, and the rows that contain each term.
//!
//! A term is a number, that of a token of the model or of a word. The store is given a [`Lexer`], so it does
//! not depend on a tokenizer. Terms follow from texts, as leaves follow from embeddings: the log does not
//! contain them, and rows without lists get theirs from their texts.

use std::{error::Error, num::NonZeroUsize, sync::Arc};

use super::{
    error::{Result, StoreError},
    payload,
    segment::{RowSource, Segment},
};
use crate::lexical::{self, EncodedList, FIRST_OWN_TERM, Posting};

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

/// Posting lists of rows in memory.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    /// Ascending.
    terms: Vec<u32>,
    /// The end of each term's postings.
    ends: Vec<usize>,
    postings: Vec<Posting>,
    /// Occurrences of all terms in each row.
    lengths: Vec<u32>,
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
        for (term, posting) in all {
            if table.terms.last() != Some(&term) {
                table.terms.push(term);
                table.ends.push(table.postings.len());
            }
            table.postings.push(posting);
            if let Some(end) = table.ends.last_mut() {
                *end = table.postings.len();
            }
        }
        table
    }

    /// The rows that contain a term.
    pub(super) fn list(&self, term: u32) -> &[Posting] {
        self.terms.binary_search(&term).map_or(&[], |place| self.at(place))
    }

    /// Calls `tell` with each term and the number of rows that contain it.
    pub(super) fn counts(&self, tell: &mut dyn FnMut(u32, u64)) {
        let mut start = 0;
        for (&term, &end) in self.terms.iter().zip(&self.ends) {
            tell(term, (end - start) as u64);
            start = end;
        }
    }

    /// Occurrences of all terms in each row.
    pub(super) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    fn at(&self, place: usize) -> &[Posting] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.postings[start..self.ends[place]]
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

impl TermLists for &TermTable {
    fn terms(&self) -> Result<&[u32]> {
        Ok(&self.terms)
    }

    fn add(&self, place: usize, out: &mut Vec<Posting>) -> Result<()> {
        out.extend_from_slice(self.at(place));
        Ok(())
    }

    fn lengths(&self, tell: &mut dyn FnMut(u32, u32)) -> Result<()> {
        (0..).zip(&self.lengths).for_each(|(row, &length)| tell(row, length));
        Ok(())
    }
}

impl TermLists for &Segment {
    fn terms(&self) -> Result<&[u32]> {
        Segment::terms(self)
    }

    fn add(&self, place: usize, out: &mut Vec<Posting>) -> Result<()> {
        let list = self.term_list_at(place)?;
        list.decode_all(out).map_err(|_| self.undecodable("the postings of term", place as u64))
    }

    fn lengths(&self, tell: &mut dyn FnMut(u32, u32)) -> Result<()> {
        (0..).zip(Segment::stored_lengths(self)?).for_each(|(row, &length)| tell(row, length));
        Ok(())
    }
}

/// Rows whose lists are built together before they are packed.
const ROWS_AT_ONCE: usize = 16 << 10;

/// Lists built from the texts of rows of a source, packed as in a segment.
struct Made {
    /// The rows, ascending; lists refer to them by position.
    rows: Vec<u32>,
    lengths: Vec<u32>,
    terms: Vec<u32>,
    counts: Vec<u32>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Made {
    fn new(source: &dyn RowSource, rows: &[u32], lexer: &dyn Lexer) -> Result<Self> {
        let terms = |rows: &[u32]| {
            let terms = rows.iter().map(|&row| {
                // An unreadable text has no terms; reading it is an error of its own.
                Ok(Terms::of_stored(source.payload(row)?, lexer)?.unwrap_or_default())
            });
            terms.collect::<Result<Vec<_>>>()
        };
        // On separate threads: those of the caller's pool may be waiting for the writer.
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = rows.len().div_ceil(threads).max(1);
        let terms: Vec<Terms> = std::thread::scope(|scope| {
            let parts: Vec<_> = rows.chunks(share).map(|rows| scope.spawn(move || terms(rows))).collect();
            let joined = parts.into_iter().map(|part| part.join().map_err(|_| StoreError::no_lexer()));
            joined.collect::<Result<Vec<_>>>()?.into_iter().collect::<Result<Vec<_>>>()
        })?
        .concat();
        let TermTable { terms, ends, postings, lengths } = TermTable::new(terms.iter());
        let mut made = Self {
            rows: rows.to_vec(),
            lengths,
            terms,
            counts: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
        };
        let mut start = 0;
        for end in ends {
            lexical::encode(&postings[start..end], |row| made.lengths[row as usize], &mut made.bytes);
            made.counts.push((end - start) as u32);
            made.ends.push(made.bytes.len());
            start = end;
        }
        Ok(made)
    }
}

impl TermLists for Made {
    fn terms(&self) -> Result<&[u32]> {
        Ok(&self.terms)
    }

    fn add(&self, place: usize, out: &mut Vec<Posting>) -> Result<()> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let before = out.len();
        let decoded = EncodedList::new(&self.bytes[start..self.ends[place]], self.counts[place] as usize)
            .and_then(|list| list.decode_all(out));
        debug_assert!(decoded.is_ok(), "a list that was just packed");
        out[before..].iter_mut().for_each(|posting| posting.row = self.rows[posting.row as usize]);
        Ok(())
    }

    fn lengths(&self, tell: &mut dyn FnMut(u32, u32)) -> Result<()> {
        self.rows.iter().zip(&self.lengths).for_each(|(&row, &length)| tell(row, length));
        Ok(())
    }
}

/// The lists of rows of a source, ascending, built from their texts.
pub(super) fn made_from_texts<'a>(
    source: &dyn RowSource,
    rows: &[u32],
    lexer: &dyn Lexer,
) -> Result<Vec<Box<dyn TermLists + 'a>>> {
    let made = |rows: &[u32]| Ok(Box::new(Made::new(source, rows, lexer)?) as Box<dyn TermLists>);
    rows.chunks(ROWS_AT_ONCE).map(made).collect()
}

/// Marks a row that is left out.
const LEFT_OUT: u32 = u32::MAX;

/// The lists of all sources, merged term by term.
pub(super) struct Joined<'a> {
    /// With the number of its source, and the position of its next term.
    lists: Vec<(usize, Box<dyn TermLists + 'a>, usize)>,
    /// The new row of each row of each source.
    places: Vec<Vec<u32>>,
    own: Vec<Posting>,
}

impl<'a> Joined<'a> {
    /// `members`: for each new row, its source and its row there.
    pub(super) fn new(
        sources: &[&'a dyn RowSource],
        members: impl Iterator<Item = (u32, usize, u32)>,
        lexer: &dyn Lexer,
    ) -> Result<Self> {
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); sources.len()];
        for (new, source, row) in members {
            let own = &mut places[source];
            own.resize(own.len().max(row as usize + 1), LEFT_OUT);
            own[row as usize] = new;
        }
        let mut lists = Vec::new();
        for (number, (source, places)) in sources.iter().zip(&places).enumerate() {
            let rows = (0..).zip(places).filter(|(_, new)| **new != LEFT_OUT).map(|(row, _)| row);
            let rows: Vec<u32> = rows.collect();
            let own = source.term_lists(&rows, lexer)?;
            lists.extend(own.into_iter().map(|own| (number, own, 0)));
        }
        Ok(Self { lists, places, own: Vec::new() })
    }

    /// Occurrences of all terms in each new row.
    pub(super) fn lengths(&self, rows: usize) -> Result<Vec<u32>> {
        let mut lengths = vec![0; rows];
        for (source, lists, _) in &self.lists {
            let places = &self.places[*source];
            lists.lengths(&mut |row, length| {
                if let Some(new) = places.get(row as usize).and_then(|&new| lengths.get_mut(new as usize)) {
                    *new = length;
                }
            })?;
        }
        Ok(lengths)
    }

    /// The next term with its postings by new rows, without rows that are left out.
    pub(super) fn next(&mut self, out: &mut Vec<Posting>) -> Result<Option<u32>> {
        let mut least = None;
        for (_, lists, place) in &self.lists {
            if let Some(&term) = lists.terms()?.get(*place) {
                least = Some(least.map_or(term, |least: u32| least.min(term)));
            }
        }
        let Some(term) = least else { return Ok(None) };
        out.clear();
        for (source, lists, place) in &mut self.lists {
            if lists.terms()?.get(*place) != Some(&term) {
                continue;
            }
            self.own.clear();
            lists.add(*place, &mut self.own)?;
            *place += 1;
            let places = &self.places[*source];
            let moved = |posting: &Posting| {
                let new = places.get(posting.row as usize).copied().filter(|new| *new != LEFT_OUT)?;
                Some(Posting { row: new, ..*posting })
            };
            out.extend(self.own.iter().filter_map(moved));
        }
        out.sort_unstable_by_key(|posting| posting.row);
        Ok(Some(term))
    }
}
