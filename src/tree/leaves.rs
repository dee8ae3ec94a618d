//! The documents of each leaf, and how evenly they are distributed.

#[cfg(feature = "eval")]
use crate::ids::LeafId;

/// Documents of each leaf in ascending order, from the leaf of each document.
///
/// # Panics
/// If a document is in a leaf outside `0..leaves`.
#[cfg(feature = "eval")]
pub(crate) fn leaf_table(leaf_of_documents: &[LeafId], leaves: usize) -> Vec<Vec<u32>> {
    let mut table = vec![Vec::new(); leaves];
    (0u32..).zip(leaf_of_documents).for_each(|(document, leaf)| table[leaf.index()].push(document));
    table
}

/// How evenly a tree distributes its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Expected documents per leaf, sum of p_i c_i with p_i = c_i over all documents (section 4.6).
    pub expected: f64,
    /// Documents over leaves: the value of a perfectly even load.
    pub ideal: f64,
    /// Leaves without a document.
    pub empty: usize,
}

impl Load {
    /// The load of leaves with these numbers of documents.
    pub(crate) fn of(sizes: &[usize]) -> Self {
        let stored: usize = sizes.iter().sum();
        // The sum of no floats is -0.0.
        let squares = 0.0 + sizes.iter().map(|&c| (c * c) as f64).sum::<f64>();
        Self {
            expected: squares / stored.max(1) as f64,
            ideal: stored as f64 / sizes.len().max(1) as f64,
            empty: sizes.iter().filter(|&&c| c == 0).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "eval")]
    #[test]
    fn documents_are_in_the_lists_of_their_leaves() {
        assert_eq!(leaf_table(&[2, 0, 2].map(LeafId), 4), [vec![1], vec![], vec![0, 2], vec![]]);
    }

    #[test]
    fn the_load_by_hand() {
        assert_eq!(Load::of(&[3, 0, 1]), Load { expected: 2.5, ideal: 4.0 / 3.0, empty: 1 });
        assert_eq!(Load::of(&[2, 2]), Load { expected: 2.0, ideal: 2.0, empty: 0 });
        assert_eq!(Load::of(&[]), Load::default());
    }
}
