//! How evenly a run fills the leaves.

use serde::{Deserialize, Serialize};

use crate::ids::LeafId;

/// The tree's load at a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadReport {
    /// Epochs finished; passes of the tree alone count too.
    pub epoch: usize,
    /// Expected documents per leaf, sum of c_i^2 over the number of documents (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Documents over leaves: the value of a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// Leaves without a document.
    pub empty_leaves: usize,
}

/// Documents and queries of each leaf of the trained tree, indexed by leaf number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeafSizes {
    /// Documents stored in the leaf.
    pub documents: Vec<usize>,
    /// Training and dev queries whose most probable leaf this is.
    pub queries: Vec<usize>,
}

impl LeafSizes {
    pub(crate) fn count(leaves: usize, documents: &[LeafId], queries: &[LeafId]) -> Self {
        let count = |of: &[LeafId]| {
            let mut sizes = vec![0; leaves];
            of.iter().for_each(|leaf| sizes[leaf.index()] += 1);
            sizes
        };
        Self { documents: count(documents), queries: count(queries) }
    }
}
