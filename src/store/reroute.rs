//! Recomputed leaves of rows.

use half::f16;

use super::{batch::check_leaves, config::StoreConfig, error::Result, part::VersionPart};
use crate::ids::LeafId;

/// Rows routed together.
const ROWS: u32 = 4096;

/// The leaves of embeddings `[rows, dim]` f16, one list per row.
pub(crate) type Route<'a> = &'a dyn Fn(&[f16]) -> Vec<Vec<LeafId>>;

/// The recomputed leaves of a part's rows; its own posting lists are not trusted.
pub(super) struct Rerouted {
    leaves: Vec<LeafId>,
    /// The end of each row's leaves.
    ends: Vec<u64>,
}

impl Rerouted {
    pub(super) fn new(part: &VersionPart, config: &StoreConfig, route: Route<'_>) -> Result<Self> {
        let mut rerouted = Self { leaves: Vec::new(), ends: Vec::with_capacity(part.rows() as usize) };
        for start in (0..part.rows()).step_by(ROWS as usize) {
            let rows = start..(start + ROWS).min(part.rows());
            for (row, leaves) in rows.clone().zip(route(part.matrix(rows)?)) {
                if part.is_live(row) {
                    check_leaves(part.id(row)?, &leaves, config)?;
                }
                rerouted.leaves.extend(leaves);
                rerouted.ends.push(rerouted.leaves.len() as u64);
            }
        }
        Ok(rerouted)
    }

    pub(super) fn of(&self, row: u32) -> Vec<LeafId> {
        let row = row as usize;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.leaves[start as usize..self.ends[row] as usize].to_vec()
    }
}
