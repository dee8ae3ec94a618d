//! The best few rows of all parts.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Keeps the `k` best of the rows pushed into it: higher scores, and among equal scores lower rows.
#[derive(Clone, Debug)]
pub struct Best {
    k: usize,
    /// At most `k` entries, the worst on top.
    heap: BinaryHeap<Entry>,
}

impl Best {
    /// An empty selection of at most `k` rows; memory grows only as they come.
    pub fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    /// How many are kept at most.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The score that this row and any higher one need at least; minus infinity while there is room.
    pub(super) fn floor(&self, row: u32) -> f32 {
        match self.worst() {
            _ if self.k == 0 => f32::INFINITY,
            None => f32::NEG_INFINITY,
            Some(worst) if worst.row < row => worst.score.next_up(),
            Some(worst) => worst.score,
        }
    }

    /// Whether a row would be among the best so far.
    pub fn admits(&self, score: f32, row: u32) -> bool {
        score >= self.floor(row) && self.worst().is_none_or(|worst| Entry { score, row } < *worst)
    }

    /// Offers one row. The same row offered twice counts as two.
    pub fn push(&mut self, score: f32, row: u32) {
        // -0 and 0 are equal scores; NaN is worse than every number.
        let score = if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 };
        let entry = Entry { score, row };
        if self.heap.len() < self.k {
            self.heap.push(entry);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
        }
    }

    /// The rows kept with their scores, best first.
    pub fn into_sorted(self) -> Vec<(f32, u32)> {
        self.heap.into_sorted_vec().into_iter().map(|entry| (entry.score, entry.row)).collect()
    }

    /// The worst of `k`.
    fn worst(&self) -> Option<&Entry> {
        self.heap.peek().filter(|_| self.heap.len() >= self.k)
    }
}

/// Ordered from best to worst: the smallest entry is the best.
#[derive(Clone, Copy, Debug)]
struct Entry {
    score: f32,
    row: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}
