//! Reads a segment's posting lists of terms.

use std::collections::BTreeMap;

use super::{Segment, build::write_terms};
use crate::{
    lexical::{self, EncodedList, Posting},
    store::{
        error::{Damage, Result, StoreError},
        layout::segment::*,
        rows::{Member, Rows},
        terms::{Lexer, TermLists},
    },
};

impl Segment {
    /// Size of all sections for terms.
    pub(in crate::store) fn term_bytes(&self) -> u64 {
        let sections = [TERMS, TERM_ROWS, TERM_ENDS, POSTINGS, LENGTHS, TOTAL_LENGTH];
        sections.map(|section| self.documents.count(section, 1)).iter().sum()
    }

    /// The terms that occur, ascending.
    pub(in crate::store) fn terms(&self) -> Result<&[u32]> {
        self.documents.all(TERMS)
    }

    /// As [`Rows::term_list`], by the term's position in [`Self::terms`].
    pub(in crate::store) fn term_list_at(&self, place: usize) -> Result<EncodedList<'_>> {
        let (bytes, rows) = self.term_bytes_at(place)?;
        let undecodable = |_| self.undecodable("the postings of term", place as u64);
        EncodedList::new(bytes, rows as usize).map_err(undecodable)
    }

    /// The stored bytes of a list, and its number of postings.
    fn term_bytes_at(&self, place: usize) -> Result<(&[u8], u32)> {
        let rows = *self.documents.element(TERM_ROWS, place as u32)?;
        Ok((self.blob(TERM_ENDS, POSTINGS, place)?, rows))
    }

    /// Occurrences of all terms in each row.
    pub(in crate::store) fn stored_lengths(&self) -> Result<&[u32]> {
        match self.is_lexical() {
            true => self.documents.elements(LENGTHS, 0..self.rows() as usize),
            false => Ok(&[]),
        }
    }

    /// The sum of [`Self::stored_lengths`].
    pub(super) fn stored_total_length(&self) -> Result<u64> {
        Ok(self.documents.all(TOTAL_LENGTH)?.first().copied().unwrap_or(0))
    }

    /// Reads all lists; returns the number of postings. `packed`: whether their bytes must equal the result
    /// of packing the postings, with all bounds.
    ///
    /// # Errors
    ///
    /// Terms out of order, unreadable lists, and lengths that contradict the lists.
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
        if !self.is_lexical() {
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
            false => Err(self.documents.corrupt(Damage::Disagreement { what, expected, found })),
        }
    }

    /// For a repair: trusts pages on which nothing but lists of terms and of metadata is damaged. They follow
    /// from the documents: with those of the documents as they are, such a page has its checksum. `again`
    /// opens the segment anew, if there are such pages, to be read unchecked.
    pub(in crate::store) fn trust_all_but_terms(
        &self,
        again: impl FnOnce() -> Result<Self>,
        lexer: Option<&dyn Lexer>,
    ) -> Result<()> {
        let pages = self.documents.damaged_at_border(TERMS)?;
        if pages.is_empty() {
            return Ok(());
        }
        let unchecked = &again()?;
        unchecked.documents.trust_all();
        let mut sections = BTreeMap::<u32, Vec<u8>>::new();
        let members: Vec<Member> = (0..self.rows()).map(|row| Member { source: 0, row }).collect();
        let is_head = |row: usize| unchecked.head(row as u32).is_ok_and(|head| head as usize == row);
        let made = unchecked.made_lists().and_then(|lists| {
            if self.list_bytes() > 0 {
                sections.extend(FIELD_LISTS.into_iter().zip(lists.sections().map(<[u8]>::to_vec)));
            }
            let Some(lexer) = lexer else { return Ok(()) };
            write_terms(&[unchecked], &members, &is_head, lexer, &mut |name, bytes| {
                sections.entry(name).or_default().extend_from_slice(bytes);
                Ok(())
            })
        });
        match made {
            Ok(()) => self.documents.trust_with(&pages, &sections),
            // More is damaged than the lists.
            Err(StoreError::Corrupt { .. }) => Ok(()),
            Err(other) => Err(other),
        }
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
