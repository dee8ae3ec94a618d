//! The posting lists of leaves.

use std::{borrow::Cow, ops::Range};

use crate::ids::LeafId;

/// The posting lists of leaves in their stored form.
#[derive(Debug, Default)]
pub(super) struct LeafLists {
    /// Ascending.
    pub(super) leaves: Vec<u32>,
    /// The end of the rows stored with each leaf.
    pub(super) ends: Vec<u32>,
    /// Rows stored with another leaf, leaf by leaf, and the end of each leaf's rows.
    pub(super) secondary: Vec<u32>,
    pub(super) secondary_ends: Vec<u32>,
    /// All leaves of each row, row by row; empty if each has one.
    pub(super) row_leaves: Vec<u32>,
    pub(super) row_ends: Vec<u32>,
}

/// Sorts rows by their first leaf; rows of one leaf keep their order. Returns the sorted positions, and the
/// posting lists in that order.
pub(super) fn arrange<'a, E>(
    rows: usize,
    leaves_of: &dyn Fn(usize) -> Result<Cow<'a, [LeafId]>, E>,
) -> Result<(Vec<u32>, LeafLists), E> {
    let mut keyed = Vec::with_capacity(rows);
    let mut several = false;
    for place in 0..rows {
        let leaves = leaves_of(place)?;
        several |= leaves.len() > 1;
        keyed.push((leaves.first().map_or(0, |leaf| leaf.0), place as u32));
    }
    keyed.sort_unstable();
    // (leaf, row) of the leaves after the first.
    let mut secondary: Vec<(u32, u32)> = Vec::new();
    let mut lists = LeafLists::default();
    if several {
        for (row, &(_, place)) in (0..).zip(&keyed) {
            let leaves = leaves_of(place as usize)?;
            lists.row_leaves.extend(leaves.iter().map(|leaf| leaf.0));
            lists.row_ends.push(lists.row_leaves.len() as u32);
            secondary.extend(leaves.iter().skip(1).map(|leaf| (leaf.0, row)));
        }
        secondary.sort_unstable();
    }
    let mut own = keyed.iter().map(|&(leaf, _)| leaf).peekable();
    let mut others = secondary.iter().copied().peekable();
    let mut rows = 0;
    while let Some(leaf) =
        [own.peek().copied(), others.peek().map(|&(leaf, _)| leaf)].into_iter().flatten().min()
    {
        while own.next_if_eq(&leaf).is_some() {
            rows += 1;
        }
        while let Some((_, row)) = others.next_if(|&(other, _)| other == leaf) {
            lists.secondary.push(row);
        }
        lists.leaves.push(leaf);
        lists.ends.push(rows);
        lists.secondary_ends.push(lists.secondary.len() as u32);
    }
    Ok((keyed.into_iter().map(|(_, place)| place).collect(), lists))
}

impl LeafLists {
    /// The rows stored with a leaf, and those stored with another one, ascending.
    pub(super) fn rows(&self, leaf: LeafId) -> (Range<u32>, &[u32]) {
        let Ok(place) = self.leaves.binary_search(&leaf.0) else { return (0..0, &[]) };
        let of = |ends: &[u32]| place.checked_sub(1).map_or(0, |before| ends[before])..ends[place];
        let secondary = of(&self.secondary_ends);
        (of(&self.ends), &self.secondary[secondary.start as usize..secondary.end as usize])
    }
}
