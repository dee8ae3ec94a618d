//! The best few of many scores.

use crate::ids::Row;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The row that stands for a row's document; `None` where that cannot be read.
pub(crate) type DocumentOf = Arc<dyn Fn(Row) -> Option<Row> + Send + Sync>;

/// Keeps the `k` best of the scores pushed into it; of the rows of one document, where they are told apart,
/// the best alone.
///
/// Higher scores are better, and among equal scores the lower row, so the result
/// does not depend on the order of pushing. NaN is worse than every number.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    k: usize,
    /// At most `k` entries, the worst on top.
    heap: BinaryHeap<Entry>,
    accepted: u64,
    /// In place of the heap, where several rows may be of one document.
    documents: Option<Box<BestOfDocuments>>,
}

/// The best rows of the `k` best documents.
#[derive(Clone)]
struct BestOfDocuments {
    of: DocumentOf,
    /// The best row of each document.
    best: HashMap<Row, Entry>,
    /// The same from the best on, each with its document.
    order: BTreeMap<Entry, Row>,
    /// A row whose document could not be read.
    failed: Option<Row>,
}

impl TopK {
    /// An empty selection of at most `k` rows; memory grows only as they come.
    pub fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new(), accepted: 0, documents: None }
    }

    /// An empty selection of the best rows of at most `k` documents.
    ///
    /// A document that others displaced comes back with a better row, so the result is exact in one pass.
    pub fn of_documents(k: usize, of: DocumentOf) -> Self {
        let documents = BestOfDocuments { of, best: HashMap::new(), order: BTreeMap::new(), failed: None };
        Self { documents: Some(Box::new(documents)), ..Self::new(k) }
    }

    /// Offers one row; O(1) where it is not among the best so far, else O(log k).
    ///
    /// The same row offered twice counts as two, unless rows of one document are told apart.
    pub fn push(&mut self, score: f32, row: Row) {
        let entry = Entry::new(score, row);
        if let Some(documents) = &mut self.documents {
            self.accepted += u64::from(documents.push(self.k, entry));
        } else if self.heap.len() < self.k {
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
        match &self.documents {
            None => Self::new(self.k),
            Some(documents) => Self::of_documents(self.k, Arc::clone(&documents.of)),
        }
    }

    /// Offers all that another selection has kept.
    pub fn merge(&mut self, other: Self) {
        for entry in other.heap {
            self.push(entry.score, entry.row);
        }
        if let Some(others) = other.documents {
            others.order.into_keys().for_each(|entry| self.push(entry.score, entry.row));
            if let Some(documents) = &mut self.documents {
                documents.failed = documents.failed.or(others.failed);
            }
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
        let worst = match &self.documents {
            None => self.heap.peek().filter(|_| self.heap.len() >= self.k),
            Some(documents) => documents.worst(self.k),
        };
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

    /// A row that was left out because its document could not be read.
    pub fn failed(&self) -> Option<Row> {
        self.documents.as_ref().and_then(|documents| documents.failed)
    }

    /// The rows kept, best first.
    pub fn into_sorted(self) -> Vec<(f32, Row)> {
        let pair = |entry: Entry| (entry.score, entry.row);
        match self.documents {
            None => self.heap.into_sorted_vec().into_iter().map(pair).collect(),
            Some(documents) => documents.order.into_keys().map(pair).collect(),
        }
    }
}

impl BestOfDocuments {
    fn worst(&self, k: usize) -> Option<&Entry> {
        self.order.last_key_value().filter(|_| self.order.len() >= k).map(|(entry, _)| entry)
    }

    /// Says whether the row is kept.
    fn push(&mut self, k: usize, entry: Entry) -> bool {
        if k == 0 || self.worst(k).is_some_and(|worst| entry >= *worst) {
            return false;
        }
        let Some(document) = (self.of)(entry.row) else {
            self.failed = self.failed.or(Some(entry.row));
            return false;
        };
        match self.best.get(&document) {
            Some(known) if entry >= *known => return false,
            Some(known) => {
                self.order.remove(known);
            }
            None if self.order.len() >= k => {
                if let Some((_, other)) = self.order.pop_last() {
                    self.best.remove(&other);
                }
            }
            None => {}
        }
        self.best.insert(document, entry);
        self.order.insert(entry, document);
        true
    }
}

impl fmt::Debug for BestOfDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BestOfDocuments").field("order", &self.order).finish_non_exhaustive()
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
    fn a_row_without_a_document_is_told() {
        let mut top = TopK::of_documents(2, Arc::new(|row| (row.0 != 1).then_some(row)));
        [0, 1, 2].into_iter().for_each(|row| top.push(1.0, Row(row)));
        assert_eq!((top.failed(), top.into_sorted().len()), (Some(Row(1)), 2));
    }

    #[test]
    fn nothing_is_kept_of_nothing_or_for_nothing() {
        assert!(top(0, &[1.0, 2.0]).is_empty());
        assert!(top(usize::MAX, &[]).is_empty());
    }

    proptest! {
        /// Of each document the best row, whatever the order, and of forks that are merged.
        #[test]
        fn documents_have_their_best_rows(
            scores in prop::collection::vec(((-4i8..4).prop_map(f32::from), 0u32..12), 0..120),
            order in any::<prop::sample::Index>(),
            k in 0usize..16,
        ) {
            let documents: Vec<Row> = scores.iter().map(|&(_, document)| Row(document)).collect();
            let mut offers: Vec<(f32, Row)> = scores.iter().map(|&(score, _)| score).zip((0..).map(Row)).collect();
            let mut sorted = offers.clone();
            sorted.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
            let mut seen = std::collections::HashSet::new();
            sorted.retain(|&(_, row)| seen.insert(documents[row.index()]));
            sorted.truncate(k);

            if !offers.is_empty() {
                let mid = order.index(offers.len());
                offers.rotate_left(mid);
            }
            let mut top = TopK::of_documents(k, Arc::new(move |row| documents.get(row.index()).copied()));
            let mut other = top.fork();
            for (place, &(score, row)) in offers.iter().enumerate() {
                if place % 3 == 0 { other.push(score, row) } else { top.push(score, row) }
            }
            top.merge(other);
            prop_assert_eq!(top.failed(), None);
            prop_assert_eq!(top.into_sorted(), sorted);
        }

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
