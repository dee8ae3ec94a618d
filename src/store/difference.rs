//! The difference between two generations, by comparing documents.

use std::cmp::Ordering;

use super::{View, error::Result};
use crate::ids::Row;

/// What must be done to make a copy match its original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentDifference {
    /// Rows of the original whose documents the copy lacks or has in another version; the oldest document
    /// first.
    pub missing: Vec<Row>,
    /// Ids that only the copy has.
    pub surplus: Vec<String>,
}

impl DocumentDifference {
    /// Number of documents that differ.
    pub fn len(&self) -> usize {
        self.missing.len() + self.surplus.len()
    }
}

impl View {
    /// What `copy`, possibly of another store, lacks of this generation.
    ///
    /// Compares ids, titles, texts and metadata, not leaves; `with_embeddings` also embeddings and the
    /// passages that they cover. Costs a walk over all ids and a comparison of all this data.
    ///
    /// # Errors
    ///
    /// Damage of the pages that hold the documents.
    pub fn difference(&self, copy: &Self, with_embeddings: bool) -> Result<DocumentDifference> {
        let (mut own, mut others) = (self.walk(None)?, copy.walk(None)?);
        let (mut mine, mut theirs) = (own.next()?, others.next()?);
        let (mut missing, mut surplus) = (Vec::new(), Vec::new());
        loop {
            let order = match (&mine, &theirs) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((mine, _)), Some((theirs, _))) => mine.cmp(theirs),
            };
            match (order, &mine, &mut theirs) {
                (Ordering::Less, Some((_, row)), _) => missing.push((self.created_at(*row)?, *row)),
                (Ordering::Greater, _, Some((id, _))) => surplus.push(std::mem::take(id)),
                (Ordering::Equal, Some((_, row)), Some((_, other)))
                    if self.stored(*row)? != copy.stored(*other)?
                        || with_embeddings && !self.has_embeddings_of(*row, copy, *other)? =>
                {
                    missing.push((self.created_at(*row)?, *row));
                }
                _ => {}
            }
            if order.is_le() {
                mine = own.next()?;
            }
            if order.is_ge() {
                theirs = others.next()?;
            }
        }
        missing.sort_unstable();
        Ok(DocumentDifference { missing: missing.into_iter().map(|(_, row)| row).collect(), surplus })
    }

    /// Whether a document has the same embeddings as a document of another view.
    fn has_embeddings_of(&self, row: Row, copy: &Self, other: Row) -> Result<bool> {
        let (own, others) = (self.rows_of(row)?, copy.rows_of(other)?);
        let mut is_same = own.len() == others.len();
        for (row, other) in own.into_iter().zip(others) {
            is_same = is_same
                && self.span(row)? == copy.span(other)?
                && self.embedding(row)? == copy.embedding(other)?;
        }
        Ok(is_same)
    }
}
