//! When the documents of a segment expire.

use super::Segment;
use crate::store::{
    error::Result,
    expiry::{self, Expiries},
    rows::{Member, RowSource, Rows},
};

/// When each document expires by a field of its metadata; `is_head` says whether a row represents one.
pub(super) fn list_expiries(
    sources: &[&dyn RowSource],
    members: &[Member],
    is_head: &dyn Fn(usize) -> bool,
    field: &str,
) -> Result<Expiries> {
    let mut found = Vec::new();
    for (row, member) in (0..).zip(members).filter(|&(row, _)| is_head(row as usize)) {
        let metadata = sources[member.source as usize].metadata(member.row)?;
        found.extend(expiry::of_stored(metadata, field).map(|time| (time, row)));
    }
    Ok(found.into_iter().collect())
}

impl Segment {
    /// Compares the times of expiry with the metadata.
    ///
    /// # Errors
    ///
    /// Damage of either.
    pub(in crate::store) fn check_expiries(&self, field: Option<&str>) -> Result<()> {
        let expected = match field {
            Some(field) => {
                let members: Vec<Member> = (0..self.rows()).map(|row| Member { source: 0, row }).collect();
                let heads = self.head_bits()?;
                let is_head = |row| crate::filter::bits::has(heads, row);
                list_expiries(&[self as &dyn RowSource], &members, &is_head, field)?
            }
            None => Expiries::default(),
        };
        match self.expiries()? == (&*expected.times, &*expected.rows) {
            true => Ok(()),
            false => Err(self.undecodable("the times of expiry", 0)),
        }
    }
}
