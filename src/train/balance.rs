//! How evenly a run fills the leaves.

use serde::{Deserialize, Serialize};

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
