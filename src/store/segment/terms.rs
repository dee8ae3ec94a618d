//! Reading a segment's posting lists of terms.

use std::ops::Range;

use super::{
    Rows,
    read::{Segment, check_counts, count},
};
use crate::{
    lexical::{self, EncodedList, List},
    store::{
        error::{Damage, Result},
        layout::segment::*,
        sealed::SealedFile,
    },
};

/// Where the sections of terms are; all empty where there are none.
pub(super) struct TermSections {
    terms: Range<u64>,
    rows: Range<u64>,
    ends: Range<u64>,
    postings: Range<u64>,
    lengths: Range<u64>,
    total: Range<u64>,
}

impl TermSections {
    /// Where there are none.
    pub(super) const NONE: Self =
        Self { terms: 0..0, rows: 0..0, ends: 0..0, postings: 0..0, lengths: 0..0, total: 0..0 };

    /// # Errors
    ///
    /// Sections whose lengths contradict each other.
    pub(super) fn of(documents: &SealedFile, rows: u32) -> Result<Self> {
        let at = |name| documents.section(name);
        let own = Self {
            terms: at(TERMS),
            rows: at(TERM_ROWS),
            ends: at(TERM_ENDS),
            postings: at(POSTINGS),
            lengths: at(LENGTHS),
            total: at(TOTAL_LENGTH),
        };
        if own.lengths.is_empty() && own.total.is_empty() && own.terms.is_empty() {
            return Ok(own);
        }
        let terms = count(&own.terms, 4);
        check_counts(
            documents,
            [
                ("the number of terms' rows", &own.rows, 4, terms),
                ("the number of terms' ends", &own.ends, 8, terms),
                ("the number of rows' lengths", &own.lengths, 4, rows.into()),
                ("the number of total lengths", &own.total, 8, 1),
            ],
        )?;
        Ok(own)
    }

    fn count(&self) -> usize {
        count(&self.terms, 4) as usize
    }
}

impl Segment {
    /// Whether the rows have posting lists of terms.
    pub(super) fn has_terms(&self) -> bool {
        !self.terms.lengths.is_empty()
    }

    /// Bytes of everything that is there for terms.
    pub(in crate::store) fn term_bytes(&self) -> u64 {
        let TermSections { terms, rows, ends, postings, lengths, total } = &self.terms;
        [terms, rows, ends, postings, lengths, total].map(|section| section.end - section.start).iter().sum()
    }

    /// The terms that occur, ascending.
    pub(in crate::store) fn terms(&self) -> Result<&[u32]> {
        self.numbers(&self.terms.terms, 0..self.terms.count())
    }

    /// Tells of each term how many rows hold it.
    pub(super) fn tell_term_counts(&self, tell: &mut dyn FnMut(u32, u64)) -> Result<()> {
        let (terms, rows) = (self.terms()?, self.numbers(&self.terms.rows, 0..self.terms.count())?);
        terms.iter().zip(rows).for_each(|(&term, &rows)| tell(term, rows.into()));
        Ok(())
    }

    /// The rows that hold a term.
    pub(super) fn stored_term_list(&self, term: u32) -> Result<List<'_>> {
        match self.terms()?.binary_search(&term) {
            Ok(place) => Ok(List::Encoded(self.term_list_at(place)?)),
            Err(_) => Ok(List::Plain(&[])),
        }
    }

    /// As [`Rows::term_list`], by the term's place in [`Self::terms`].
    pub(in crate::store) fn term_list_at(&self, place: usize) -> Result<EncodedList<'_>> {
        let (bytes, rows) = self.term_bytes_at(place)?;
        let undecodable = |_| self.undecodable("the postings of term", place as u64);
        EncodedList::new(bytes, rows as usize).map_err(undecodable)
    }

    /// A list as it lies there, and how many postings it has.
    fn term_bytes_at(&self, place: usize) -> Result<(&[u8], u32)> {
        let undecodable = || self.undecodable("the postings of term", place as u64);
        let rows = self.numbers(&self.terms.rows, place..place + 1)?[0];
        let first = place.saturating_sub(1);
        let ends: &[u64] = self.elements(&self.terms.ends, first..place + 1)?;
        let (start, end) = match *ends {
            [start, end] => (start, end),
            [end] => (0, end),
            _ => return Err(undecodable()),
        };
        let postings = &self.terms.postings;
        if start > end || end > postings.end - postings.start {
            return Err(undecodable());
        }
        Ok((self.bytes_of(postings.start + start..postings.start + end)?, rows))
    }

    /// Occurrences of all terms in each row.
    pub(in crate::store) fn stored_lengths(&self) -> Result<&[u32]> {
        match self.has_terms() {
            true => self.numbers(&self.terms.lengths, 0..self.rows() as usize),
            false => Ok(&[]),
        }
    }

    /// The sum of [`Self::stored_lengths`].
    pub(super) fn stored_total_length(&self) -> Result<u64> {
        match self.has_terms() {
            true => Ok(self.elements::<u64>(&self.terms.total, 0..1)?[0]),
            false => Ok(0),
        }
    }

    /// Reads all lists; how many postings there are. `packed`: whether their bytes must be those that packing
    /// the postings gives, with all bounds.
    ///
    /// # Errors
    ///
    /// Terms out of order, lists that cannot be read, and lengths that are not those of the lists.
    pub(in crate::store) fn check_terms(&self, packed: bool) -> Result<u64> {
        let terms = self.terms()?;
        if let Some(place) = terms.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(self.undecodable("the order of terms", place as u64));
        }
        let (mut found, mut postings) = (vec![0u64; self.rows() as usize], Vec::new());
        let (mut all, mut again, lengths) = (0, Vec::new(), self.stored_lengths()?);
        for place in 0..terms.len() {
            let undecodable = || self.undecodable("the postings of term", place as u64);
            postings.clear();
            self.term_list_at(place)?.decode_all(&mut postings).map_err(|_| undecodable())?;
            all += postings.len() as u64;
            for posting in &postings {
                *found.get_mut(posting.row as usize).ok_or_else(undecodable)? += u64::from(posting.count);
            }
            if packed {
                again.clear();
                lexical::encode(&postings, |row| lengths.get(row as usize).copied().unwrap_or(0), &mut again);
                if again != self.term_bytes_at(place)?.0 {
                    return Err(undecodable());
                }
            }
        }
        if !self.has_terms() {
            return Ok(all);
        }
        let mut total = 0;
        for (row, (&length, found)) in lengths.iter().zip(found).enumerate() {
            total += u64::from(length);
            if u64::from(length) != found {
                return Err(self.undecodable("the length of row", row as u64));
            }
        }
        let (what, expected, found) = ("the total length of rows", total, self.stored_total_length()?);
        match found == expected {
            true => Ok(all),
            false => Err(self.corrupt(Damage::Disagreement { what, expected, found })),
        }
    }
}
