//! Recomputed leaves of rows.

use half::f16;

use super::{batch::check_leaf, config::StoreConfig, error::Result, part::VersionPart};
use crate::ids::LeafId;

/// Rows routed together.
const ROWS: u32 = 4096;

/// The leaf of each of some embeddings, `[rows, dim]` f16.
pub(crate) type Route<'a> = &'a dyn Fn(&[f16]) -> Vec<LeafId>;

/// The recomputed leaf of each row of a part; its own posting lists are not trusted.
pub(super) fn rerouted(part: &VersionPart, config: &StoreConfig, route: Route<'_>) -> Result<Vec<LeafId>> {
    let mut leaves = Vec::with_capacity(part.rows() as usize);
    for start in (0..part.rows()).step_by(ROWS as usize) {
        let rows = start..(start + ROWS).min(part.rows());
        for (row, leaf) in rows.clone().zip(route(part.matrix(rows)?)) {
            if part.is_live(row) {
                check_leaf(part.id(row)?, leaf, config)?;
            }
            leaves.push(leaf);
        }
    }
    Ok(leaves)
}
