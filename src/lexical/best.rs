//! The best few rows of all parts, and what a score must reach to be among them.

use crate::ids::Row;
use crate::scan::TopK;

/// Keeps the `k` best of the rows pushed into it: higher scores, and among equal scores lower rows.
#[derive(Clone, Debug)]
pub struct Best(TopK);

impl Best {
    /// An empty selection of at most `k` rows; memory grows only as they come.
    pub fn new(k: usize) -> Self {
        Self(TopK::new(k))
    }

    /// How many are kept at most.
    pub fn k(&self) -> usize {
        self.0.k()
    }

    /// The score that this row and any higher one need at least; minus infinity while there is room.
    pub(super) fn floor(&self, row: u32) -> f32 {
        match self.0.worst() {
            _ if self.k() == 0 => f32::INFINITY,
            None => f32::NEG_INFINITY,
            Some((score, worst)) if worst.0 < row => score.next_up(),
            Some((score, _)) => score,
        }
    }

    /// Whether a row would be among the best so far.
    pub fn admits(&self, score: f32, row: u32) -> bool {
        score >= self.floor(row) && self.0.admits(score, Row(row))
    }

    /// Offers one row. The same row offered twice counts as two.
    pub fn push(&mut self, score: f32, row: u32) {
        // A floor must be a number.
        let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
        self.0.push(score, Row(row));
    }

    /// The rows kept with their scores, best first.
    pub fn into_sorted(self) -> Vec<(f32, u32)> {
        self.0.into_sorted().into_iter().map(|(score, row)| (score, row.0)).collect()
    }
}
