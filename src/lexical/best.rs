//! The best few rows of all parts, and what a score must reach to be among them.

use crate::ids::Row;
use crate::scan::TopK;

/// Keeps the `k` best of the rows pushed into it, and all that have the k-th best score.
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

    /// The score that a row needs at least; minus infinity while there is room.
    pub(super) fn floor(&self) -> f32 {
        match self.0.threshold() {
            _ if self.k() == 0 => f32::INFINITY,
            None => f32::NEG_INFINITY,
            Some(score) => score,
        }
    }

    /// Whether a row may be among the best so far.
    pub fn admits(&self, score: f32) -> bool {
        self.k() > 0 && score >= self.floor()
    }

    /// Offers one row. The same row offered twice counts as two.
    pub fn push(&mut self, score: f32, row: u32) {
        // A floor must be a number.
        let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
        self.0.push(score, Row(row));
    }

    /// The rows kept with all that have the k-th best score.
    pub fn into_top(self) -> TopK {
        self.0
    }

    /// The rows kept with their scores, best first, equal ones by row.
    #[cfg(any(test, feature = "train", feature = "fuzzing"))]
    pub fn into_sorted(self) -> Vec<(f32, u32)> {
        self.0.into_sorted().into_iter().map(|(score, row)| (score, row.0)).collect()
    }
}
