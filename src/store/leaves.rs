//! The posting lists of leaves.

use std::ops::Range;

use crate::ids::LeafId;

/// The rows of each leaf in their stored form.
#[derive(Debug, Default)]
pub(super) struct LeafLists {
    /// Ascending.
    pub(super) leaves: Vec<u32>,
    /// The end of the rows of each leaf.
    pub(super) ends: Vec<u32>,
}

/// Sorts rows by their leaves; rows of one leaf keep their order. Returns the sorted positions, and the rows
/// of each leaf in that order.
pub(super) fn arrange<E>(
    leaves: impl Iterator<Item = Result<LeafId, E>>,
) -> Result<(Vec<u32>, LeafLists), E> {
    let mut keyed =
        (0..).zip(leaves).map(|(place, leaf)| Ok((leaf?.0, place))).collect::<Result<Vec<_>, E>>()?;
    keyed.sort_unstable();
    let mut lists = LeafLists::default();
    for own in keyed.chunk_by(|a, b| a.0 == b.0) {
        lists.leaves.push(own[0].0);
        lists.ends.push(lists.ends.last().copied().unwrap_or(0) + own.len() as u32);
    }
    Ok((keyed.into_iter().map(|(_, place)| place).collect(), lists))
}

impl LeafLists {
    pub(super) fn rows(&self, leaf: LeafId) -> Range<u32> {
        let Ok(place) = self.leaves.binary_search(&leaf.0) else { return 0..0 };
        place.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[place]
    }
}
