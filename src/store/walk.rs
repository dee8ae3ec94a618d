//! Iterates over live documents in id order.

use super::{
    error::Result,
    part::{PartRows, VersionPart},
};
use crate::ids::Row;

/// A walk over the live documents of a view in the byte order of their ids.
pub struct Walk<'a> {
    cursors: Vec<Cursor<'a>>,
}

impl<'a> Walk<'a> {
    /// Starts after the id `after`.
    pub(super) fn new(parts: &'a [VersionPart], after: Option<&str>) -> Result<Self> {
        Ok(Self { cursors: parts.iter().map(|part| Cursor::new(part, after)).collect::<Result<_>>()? })
    }

    /// The next document.
    ///
    /// # Errors
    ///
    /// Damage of the pages that hold ids.
    pub fn next(&mut self) -> Result<Option<(String, Row)>> {
        let heads = self.cursors.iter_mut().filter(|cursor| cursor.head.is_some());
        let Some(first) = heads.min_by(|a, b| a.head.cmp(&b.head)) else { return Ok(None) };
        let Some((id, row)) = first.head.take() else { return Ok(None) };
        let row = Row(first.part.base + row);
        first.advance()?;
        Ok(Some((id, row)))
    }
}

/// A walk over the live documents of a part in id order.
struct Cursor<'a> {
    part: &'a VersionPart,
    /// For a memtable: its rows in id order.
    order: Vec<u32>,
    next: u32,
    head: Option<(String, u32)>,
}

impl<'a> Cursor<'a> {
    fn new(part: &'a VersionPart, after: Option<&str>) -> Result<Self> {
        let mut cursor = Self { part, order: Vec::new(), next: 0, head: None };
        match &part.place {
            PartRows::Sealed(segment) => cursor.next = after.map_or(Ok(0), |id| segment.first_from(id))?,
            PartRows::Memtable(memtable) => {
                cursor.order = memtable.in_id_order();
                let before = |row: &u32| after.is_some_and(|id| memtable.id_of(*row) < id);
                cursor.next = cursor.order.partition_point(before) as u32;
            }
        }
        cursor.advance()?;
        if let (Some(id), Some((head, _))) = (after, &cursor.head)
            && head == id
        {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    /// Moves to the next live document.
    fn advance(&mut self) -> Result<()> {
        self.head = None;
        while self.next < self.part.documents() {
            let row = match &self.part.place {
                PartRows::Sealed(segment) => segment.by_id(self.next)?,
                PartRows::Memtable(_) => self.order[self.next as usize],
            };
            self.next += 1;
            if self.part.is_live(row) {
                self.head = Some((self.part.id(row)?.to_owned(), row));
                break;
            }
        }
        Ok(())
    }
}
