//! Iterates over live documents in id order.

use super::{error::Result, part::VersionPart};
use crate::ids::Row;

/// A walk over the live documents of a view in the byte order of their ids.
pub struct Walk<'a> {
    /// The next document of each part.
    heads: Vec<Option<(String, Row)>>,
    others: Vec<Box<dyn Iterator<Item = Result<(String, Row)>> + 'a>>,
}

impl<'a> Walk<'a> {
    /// Starts after the id `after`.
    pub(super) fn new(parts: &'a [VersionPart], after: Option<&str>) -> Result<Self> {
        let mut walk = Self { heads: Vec::new(), others: Vec::new() };
        for part in parts {
            let rows = part.in_id_order(after)?.filter(|row| !matches!(row, Ok(row) if !part.is_live(*row)));
            let mut others = rows.map(|row| {
                let row = row?;
                Ok((part.id(row)?.to_owned(), Row(part.base + row)))
            });
            walk.heads.push(others.next().transpose()?);
            walk.others.push(Box::new(others));
        }
        Ok(walk)
    }

    /// The next document.
    ///
    /// # Errors
    ///
    /// Damage of the pages that hold ids.
    pub fn next(&mut self) -> Result<Option<(String, Row)>> {
        let heads = self.heads.iter_mut().zip(&mut self.others).filter(|(head, _)| head.is_some());
        let Some((head, others)) = heads.min_by(|(a, _), (b, _)| a.cmp(b)) else { return Ok(None) };
        Ok(std::mem::replace(head, others.next().transpose()?))
    }
}
