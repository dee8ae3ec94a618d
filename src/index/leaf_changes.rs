//! What the last change of model did to the leaves: where the documents of each leaf came from.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Index;
use crate::error::Result;
use crate::ids::{LeafId, ModelHash, Row};
use crate::store::{Store, StoreError};

/// Where the documents of each leaf were in the previous model ([`Index::leaf_changes`]).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafChanges {
    /// The previous model, which [`Index::rollback`] returns to.
    pub from: ModelHash,
    /// Leaves of its tree.
    pub leaves_before: u64,
    /// Documents in both models.
    pub compared: usize,
    /// Share of them whose leaf is the one to which most documents of their former leaf went: 1 if leaves
    /// were only renamed or merged.
    pub together: f64,
    /// The leaves with documents, ascending by leaf.
    pub leaves: Vec<LeafChange>,
}

/// Where the documents of a leaf were before.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafChange {
    /// The leaf.
    pub leaf: LeafId,
    /// Its documents that the previous model lacks.
    pub new: usize,
    /// The former leaves of the others, most documents first.
    pub from: Vec<LeafOrigin>,
}

/// A leaf of the previous tree, and how many documents came from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeafOrigin {
    /// The leaf.
    pub leaf: LeafId,
    /// Documents.
    pub documents: usize,
}

impl Index {
    /// Where the documents of each leaf were before the last change of model, by [`Self::reencode`] or by a
    /// tuning or learning that changed the model; `None` if no previous model is kept.
    ///
    /// A document counts in its most probable leaf; one with passages, in the leaf of its first row. Reads
    /// the id of every document, and looks it up in the kept store.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn leaf_changes(&self) -> Result<Option<LeafChanges>> {
        self.check_process()?;
        let serving = self.serving();
        let view = serving.view();
        let current = self.root.read()?;
        let kept = current.kept.filter(|_| current.serving == serving.number);
        let Some(kept) = kept else { return Ok(None) };
        let store = match Store::open_read_only(self.root.model_dir(kept)) {
            // A writer has just dropped it.
            Err(StoreError::NotFound { .. } | StoreError::NotAnIndex { .. }) => return Ok(None),
            store => store?,
        };
        let before = store.read();
        let mut moved: BTreeMap<LeafId, (usize, BTreeMap<LeafId, usize>)> = BTreeMap::new();
        for place in 0..view.rows() {
            let row = Row(place as u32);
            if !view.is_live(row) || view.head(row)? != row {
                continue;
            }
            let (new, from) = moved.entry(view.leaf_of(row)?).or_default();
            match before.row_of(&view.id(row)?)? {
                Some(row) => *from.entry(before.leaf_of(row)?).or_default() += 1,
                None => *new += 1,
            }
        }
        let config = store.config();
        Ok(Some(LeafChanges::of(config.model_hash, config.leaves(), moved)))
    }
}

impl LeafChanges {
    fn of(
        from: ModelHash,
        leaves_before: u64,
        moved: BTreeMap<LeafId, (usize, BTreeMap<LeafId, usize>)>,
    ) -> Self {
        // For each former leaf, the most documents that went to one leaf.
        let mut largest: BTreeMap<LeafId, usize> = BTreeMap::new();
        for (leaf, documents) in moved.values().flat_map(|(_, from)| from) {
            let most = largest.entry(*leaf).or_default();
            *most = (*most).max(*documents);
        }
        let compared: usize = moved.values().flat_map(|(_, from)| from.values()).sum();
        let together = largest.values().sum::<usize>() as f64 / compared.max(1) as f64;
        let leaves = moved.into_iter().map(|(leaf, (new, from))| {
            let mut from: Vec<LeafOrigin> =
                from.into_iter().map(|(leaf, documents)| LeafOrigin { leaf, documents }).collect();
            from.sort_by_key(|origin| (std::cmp::Reverse(origin.documents), origin.leaf));
            LeafChange { leaf, new, from }
        });
        Self { from, leaves_before, compared, together, leaves: leaves.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_together_that_went_with_most_of_their_leaf() {
        let leaf = |number, new, from: &[(u32, usize)]| {
            let from = from.iter().map(|&(leaf, documents)| (LeafId(leaf), documents)).collect();
            (LeafId(number), (new, from))
        };
        let moved = [leaf(0, 1, &[(5, 2), (7, 6)]), leaf(3, 0, &[(5, 4)])];
        let changes = LeafChanges::of(ModelHash([0; 32]), 9, moved.into());
        assert_eq!((changes.compared, changes.together), (12, 10.0 / 12.0));
        let of = |at: usize| {
            let LeafChange { leaf, new, from } = &changes.leaves[at];
            (leaf.0, *new, from.iter().map(|origin| (origin.leaf.0, origin.documents)).collect::<Vec<_>>())
        };
        assert_eq!(of(0), (0, 1, vec![(7, 6), (5, 2)]));
        assert_eq!(of(1), (3, 0, vec![(5, 4)]));
    }
}
