//! Posting lists of terms for a new segment: stored ones, and ones made from texts.

use std::num::NonZeroUsize;

use crate::{
    lexical::Posting,
    store::{
        error::{Result, StoreError},
        rows::RowSource,
        terms::{Lexer, TableLists, TermLists, TermTable, Terms},
    },
};

/// Rows whose lists are built together before they are packed.
const ROWS_AT_ONCE: usize = 16 << 10;

/// The lists of rows of a source, ascending, built from their texts.
pub(super) fn made_from_texts<'a>(
    source: &dyn RowSource,
    rows: &[u32],
    lexer: &dyn Lexer,
) -> Result<Vec<Box<dyn TermLists + 'a>>> {
    let terms = |rows: &[u32]| {
        let terms = rows.iter().map(|&row| {
            // An unreadable text has no terms; reading it is an error of its own.
            Ok(Terms::of_stored(source.payload(row)?, lexer)?.unwrap_or_default())
        });
        terms.collect::<Result<Vec<_>>>()
    };
    let lists = |rows: &[u32]| {
        // On separate threads: those of the caller's pool may be waiting for the writer.
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = rows.len().div_ceil(threads).max(1);
        let terms: Vec<Terms> = std::thread::scope(|scope| {
            let parts: Vec<_> = rows.chunks(share).map(|rows| scope.spawn(move || terms(rows))).collect();
            let joined = parts.into_iter().map(|part| part.join().map_err(|_| StoreError::no_lexer()));
            joined.collect::<Result<Vec<_>>>()?.into_iter().collect::<Result<Vec<_>>>()
        })?
        .concat();
        let lists = TableLists { table: TermTable::new(terms.iter()), rows: Some(rows.to_vec()) };
        Ok(Box::new(lists) as Box<dyn TermLists>)
    };
    rows.chunks(ROWS_AT_ONCE).map(lists).collect()
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
