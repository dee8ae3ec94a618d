//! The best few of many scores.

use crate::ids::Row;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Keeps the `k` best of the scores pushed into it.
///
/// Higher scores are better, and among equal scores the lower row, so the result
/// does not depend on the order of pushing. NaN is worse than every number.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    k: usize,
    /// At most `k` entries, the worst on top.
    heap: BinaryHeap<Entry>,
    accepted: u64,
}

impl TopK {
    /// An empty selection of at most `k` rows; memory grows only as they come.
    pub fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new(), accepted: 0 }
    }

    /// Offers one row; O(1) where it is not among the best so far, else O(log k).
    ///
    /// The same row offered twice counts as two.
    pub fn push(&mut self, score: f32, row: Row) {
        let entry = Entry::new(score, row);
        if self.heap.len() < self.k {
            self.heap.push(entry);
            self.accepted += 1;
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
            self.accepted += 1;
        }
    }

    /// An empty selection of as many.
    pub fn fork(&self) -> Self {
        Self::new(self.k)
    }

    /// Offers all that another selection has kept.
    pub fn merge(&mut self, other: Self) {
        for entry in other.heap {
            self.push(entry.score, entry.row);
        }
    }

    /// How many are kept at most.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The score that a row needs at least to be among the best so far, once there are `k` of them.
    pub fn threshold(&self) -> Option<f32> {
        self.worst().map(|(score, _)| score)
    }

    /// The worst of `k`, once there are so many.
    pub fn worst(&self) -> Option<(f32, Row)> {
        let worst = self.heap.peek().filter(|_| self.heap.len() >= self.k);
        worst.map(|entry| (entry.score, entry.row))
    }

    /// Whether a row would be among the best so far.
    pub fn admits(&self, score: f32, row: Row) -> bool {
        match self.worst() {
            None => self.k > 0,
            Some((worst, other)) => Entry::new(score, row) < Entry { score: worst, row: other },
        }
    }

    /// How many of the rows offered were among the best when they came.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The rows kept, best first.
    pub fn into_sorted(self) -> Vec<(f32, Row)> {
        self.heap.into_sorted_vec().into_iter().map(|entry| (entry.score, entry.row)).collect()
    }
}

/// Ordered from best to worst: the smallest entry is the best.
#[derive(Clone, Copy, Debug)]
struct Entry {
    score: f32,
    row: Row,
}

impl Entry {
    fn new(score: f32, row: Row) -> Self {
        // `total_cmp` puts NaN with a sign below every number, and would tell -0 from 0.
        let score = if score.is_nan() { f32::NAN.copysign(-1.0) } else { score + 0.0 };
        Self { score, row }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn top(k: usize, scores: &[f32]) -> Vec<u32> {
        let mut top = TopK::new(k);
        for (row, &score) in (0..).zip(scores) {
            top.push(score, Row(row));
        }
        top.into_sorted().into_iter().map(|(_, row)| row.0).collect()
    }

    #[test]
    fn nan_of_either_sign_never_wins() {
        let scores = [f32::NAN, f32::NEG_INFINITY, -f32::NAN, 1.0];
        assert_eq!(top(2, &scores), [3, 1]);
        assert_eq!(top(9, &scores), [3, 1, 0, 2]);
    }

    #[test]
    fn equal_scores_go_to_the_lower_row() {
        assert_eq!(top(2, &[0.0, -0.0, 0.0]), [0, 1]);
        assert_eq!(top(2, &[-0.0, 0.0, -0.0]), [0, 1]);
    }

    #[test]
    fn nothing_is_kept_of_nothing_or_for_nothing() {
        assert!(top(0, &[1.0, 2.0]).is_empty());
        assert!(top(usize::MAX, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_sorting(
            scores in prop::collection::vec((-4i8..4).prop_map(f32::from), 0..200),
            order in any::<prop::sample::Index>(),
            k in 0usize..40,
        ) {
            let mut offers: Vec<(f32, Row)> = scores.iter().copied().zip((0..).map(Row)).collect();
            let mut expected = offers.clone();
            // Stable, so equal scores stay in row order.
            expected.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
            expected.truncate(k);

            if !offers.is_empty() {
                let mid = order.index(offers.len());
                offers.rotate_left(mid);
            }
            let mut top = TopK::new(k);
            for (score, row) in offers {
                top.push(score, row);
            }
            prop_assert_eq!(top.into_sorted(), expected);
        }
    }
}
