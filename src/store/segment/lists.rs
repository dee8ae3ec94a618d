//! Reads a segment's lists of the values of metadata.

use half::f16;

use super::{Segment, build::list_fields};
use crate::{
    filter::{Answer, BuiltLists, FieldLists, Filter, Tally, bits},
    store::{
        error::Result,
        layout::segment::*,
        rows::{Member, RowSource, Rows},
    },
};

/// What damage of lists is called.
const LISTS: &str = "the lists of metadata";

impl Segment {
    /// Size of all sections of lists.
    pub(in crate::store) fn list_bytes(&self) -> u64 {
        FIELD_LISTS.map(|section| self.documents.count(section, 1)).iter().sum()
    }

    /// What the lists say of a filter; `None` for a segment without lists. `rows_of_id` gives the rows of the
    /// document with an id.
    ///
    /// # Errors
    ///
    /// Damage of the lists.
    pub(in crate::store) fn answer(
        &self,
        filter: &Filter,
        rows_of_id: &dyn Fn(&str) -> Option<Vec<u32>>,
    ) -> Result<Option<Answer>> {
        let Some(lists) = self.field_lists()? else { return Ok(None) };
        let mut answer = filter.answer(&lists, rows_of_id).map_err(|_| self.undecodable(LISTS, 0))?;
        // Crafted lists may have more rows.
        let all = bits::all(lists.rows);
        for rows in [&mut answer.passing, &mut answer.possible] {
            bits::zip(rows, &all, |own, all| own & all);
        }
        Ok(Some(answer))
    }

    /// The values of a field and how many of these rows have each, one bit per row; `None` if the lists do
    /// not say it.
    ///
    /// # Errors
    ///
    /// Damage of the lists.
    pub(in crate::store) fn tally(&self, field: &str, among: &[u64]) -> Result<Option<Tally<'_>>> {
        let Some(lists) = self.field_lists()? else { return Ok(None) };
        lists.tally(field, among).map_err(|_| self.undecodable(LISTS, 0))
    }

    /// The fields of metadata whose lists were left out.
    ///
    /// # Errors
    ///
    /// Damage of the lists.
    pub(in crate::store) fn fields_left_out(&self) -> Result<Vec<String>> {
        let Some(lists) = self.field_lists()? else { return Ok(Vec::new()) };
        lists.left_out().map_err(|_| self.undecodable(LISTS, 0))
    }

    fn field_lists(&self) -> Result<Option<FieldLists<'_>>> {
        let [more, names, name_ends, fields, keys, key_ends, lists, listed, bits] = FIELD_LISTS;
        let Some(&more) = self.documents.all(more)?.first() else { return Ok(None) };
        Ok(Some(FieldLists {
            rows: self.rows() as usize,
            more,
            names: self.documents.all(names)?,
            name_ends: self.documents.all(name_ends)?,
            fields: self.documents.all(fields)?,
            keys: self.documents.all(keys)?,
            key_ends: self.documents.all(key_ends)?,
            lists: self.documents.all(lists)?,
            listed: self.documents.all(listed)?,
            bits: self.documents.all(bits)?,
        }))
    }

    /// Compares the lists with the metadata.
    ///
    /// # Errors
    ///
    /// Damage of the lists, or of what they are made from.
    pub(in crate::store) fn check_lists(&self) -> Result<()> {
        if self.list_bytes() == 0 {
            return Ok(());
        }
        let made = self.made_lists()?;
        for (number, (name, bytes)) in (0..).zip(FIELD_LISTS.into_iter().zip(made.sections())) {
            if self.documents.all::<u8>(name)? != bytes {
                return Err(self.undecodable(LISTS, number));
            }
        }
        Ok(())
    }

    /// The lists as they follow from the metadata.
    pub(super) fn made_lists(&self) -> Result<BuiltLists> {
        let members: Vec<Member> = (0..self.rows()).map(|row| Member { source: 0, row }).collect();
        let heads = Some(self.documents.all(HEADS)?).filter(|heads| !heads.is_empty());
        let embedding_bytes = u64::from(self.rows()) * (self.dim * size_of::<f16>()) as u64;
        list_fields(&[self as &dyn RowSource], &members, heads, embedding_bytes)
    }
}
