//! The best few of many scores.

use super::Ranked;
use crate::ids::Row;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// The representative row of a row's document; `None` if it cannot be read.
pub(crate) type DocumentOf = Arc<dyn Fn(Row) -> Option<Row> + Send + Sync>;

/// A selection of at most so many rows never grows.
const USUAL_K: usize = 64;

/// Keeps the `k` best of the scores pushed into it; of the rows of one document, if they are known, only the
/// best.
///
/// Higher scores are better. All rows with the k-th best score are kept until the end, when
/// [`Self::into_tied`] returns them for the caller to order, or [`Self::into_sorted`] takes the lowest: so
/// the result does not depend on the order of pushing. NaN is worse than every number.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    k: usize,
    /// At most `k` entries, the worst on top.
    heap: BinaryHeap<Ranked>,
    /// Rows with the worst score in the heap, for which there was no room.
    ties: Vec<Row>,
    /// Used instead of the heap if several rows may belong to one document.
    documents: Option<Box<BestOfDocuments>>,
}

/// The best rows, with all that have the k-th best score.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tied {
    /// Rows that are among the best whatever the order of equal ones: all, or those with a higher score than
    /// the k-th best; best first, equal ones by row.
    pub above: Vec<(f32, Row)>,
    /// Rows with the k-th best score if there are too many of them, ascending; one per document.
    pub tied: Vec<(f32, Row)>,
    /// How many of `tied` belong to the best.
    pub room: usize,
}

/// The best rows of the `k` best documents.
#[derive(Clone)]
struct BestOfDocuments {
    of: DocumentOf,
    /// The best row of each document.
    best: HashMap<Row, Ranked>,
    /// The same in order, best first, each with its document.
    order: BTreeMap<Ranked, Row>,
    /// A row whose document could not be read.
    failed: Option<Row>,
}

impl TopK {
    /// An empty selection of at most `k` rows; memory grows with the rows pushed.
    pub fn new(k: usize) -> Self {
        let heap = BinaryHeap::with_capacity(k.min(USUAL_K));
        Self { k, heap, ties: Vec::new(), documents: None }
    }

    /// An empty selection of the best rows of at most `k` documents.
    ///
    /// A displaced document returns if it has a better row, so the result is exact in one pass.
    pub fn of_documents(k: usize, of: DocumentOf) -> Self {
        let documents = BestOfDocuments { of, best: HashMap::new(), order: BTreeMap::new(), failed: None };
        Self { documents: Some(Box::new(documents)), ..Self::new(k) }
    }

    /// Offers one row; O(1) if it is not among the best so far, otherwise O(log k).
    ///
    /// The same row offered twice counts twice, unless documents are known.
    pub fn push(&mut self, score: f32, row: Row) {
        let entry = Ranked::new(score, row);
        if let Some(documents) = &mut self.documents {
            documents.push(self.k, entry, &mut self.ties);
            return;
        }
        if self.heap.len() < self.k {
            self.heap.push(entry);
            return;
        }
        let Some(mut worst) = self.heap.peek_mut() else { return };
        match entry.compare_scores(*worst) {
            Ordering::Greater => {}
            Ordering::Equal => self.ties.push(row),
            Ordering::Less => {
                let displaced = std::mem::replace(&mut *worst, entry);
                drop(worst);
                keep_tie(displaced, self.heap.peek(), &mut self.ties);
            }
        }
    }

    /// An empty selection of the same size.
    pub fn fork(&self) -> Self {
        match &self.documents {
            None => Self::new(self.k),
            Some(documents) => Self::of_documents(self.k, Arc::clone(&documents.of)),
        }
    }

    /// Offers everything that another selection has kept.
    pub fn merge(&mut self, other: Self) {
        if let Some((score, rows)) = other.threshold().map(|score| (score, &other.ties)) {
            rows.iter().for_each(|&row| self.push(score, row));
        }
        for entry in other.heap {
            self.push(entry.score(), entry.row());
        }
        if let Some(others) = other.documents {
            others.order.into_keys().for_each(|entry| self.push(entry.score(), entry.row()));
            if let Some(documents) = &mut self.documents {
                documents.failed = documents.failed.or(others.failed);
            }
        }
    }

    /// The maximum number of rows or documents.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The minimum score to be among the best so far, once there are `k` of them.
    pub fn threshold(&self) -> Option<f32> {
        let worst = match &self.documents {
            None => self.heap.peek().filter(|_| self.heap.len() >= self.k),
            Some(documents) => documents.worst(self.k),
        };
        worst.map(|entry| entry.score())
    }

    /// A row that was left out because its document could not be read.
    pub fn failed(&self) -> Option<Row> {
        self.documents.as_ref().and_then(|documents| documents.failed)
    }

    /// The kept rows, best first, equal ones by row.
    pub fn into_sorted(self) -> Vec<(f32, Row)> {
        let Tied { above: mut sorted, tied, room } = self.into_tied();
        sorted.extend(tied.into_iter().take(room));
        sorted
    }

    /// The kept rows, with all that have the k-th best score.
    pub fn into_tied(self) -> Tied {
        let sorted: Vec<Ranked> = match &self.documents {
            None => self.heap.into_sorted_vec(),
            Some(documents) => documents.order.keys().copied().collect(),
        };
        let Some(&worst) = sorted.last() else { return Tied::default() };
        if self.ties.is_empty() {
            let above = sorted.iter().map(|entry| (entry.score(), entry.row())).collect();
            return Tied { above, ..Tied::default() };
        }
        let above = sorted.partition_point(|entry| entry.compare_scores(worst).is_lt());
        let pair = |entry: &Ranked| (entry.score(), entry.row());
        let mut tied: Vec<(f32, Row)> = sorted[above..].iter().map(pair).collect();
        let room = tied.len();
        tied.extend(self.ties.iter().map(|&row| (worst.score(), row)));
        tied.sort_unstable_by_key(|&(_, row)| row);
        if let Some(documents) = &self.documents {
            // A document that returned with a better row has left rows behind.
            let mut seen: HashSet<Row> = HashSet::new();
            tied.retain(|&(score, row)| {
                let Some(document) = (documents.of)(row) else { return false };
                let best = documents.best.get(&document);
                best.is_none_or(|best| best.score().total_cmp(&score).is_eq()) && seen.insert(document)
            });
        }
        Tied { above: sorted[..above].iter().map(pair).collect(), tied, room }
    }
}

/// Keeps a displaced row while it has the same score as the worst remaining one.
fn keep_tie(displaced: Ranked, worst: Option<&Ranked>, ties: &mut Vec<Row>) {
    match worst {
        Some(worst) if worst.compare_scores(displaced).is_eq() => ties.push(displaced.row()),
        _ => ties.clear(),
    }
}

impl BestOfDocuments {
    fn worst(&self, k: usize) -> Option<&Ranked> {
        self.order.last_key_value().filter(|_| self.order.len() >= k).map(|(entry, _)| entry)
    }

    /// A row with the score of the worst of `k` goes to `ties`.
    fn push(&mut self, k: usize, entry: Ranked, ties: &mut Vec<Row>) {
        if k == 0 {
            return;
        }
        let worst = self.worst(k).copied();
        if worst.is_some_and(|worst| entry.compare_scores(worst).is_gt()) {
            return;
        }
        let Some(document) = (self.of)(entry.row()) else {
            self.failed = self.failed.or(Some(entry.row()));
            return;
        };
        let known = self.best.get(&document).copied();
        if known.is_some_and(|known| entry >= known) {
            return;
        }
        let is_tie = worst.is_some_and(|worst| entry.compare_scores(worst).is_eq());
        let displaced = match known {
            Some(known) => {
                self.order.remove(&known);
                None
            }
            None if is_tie => {
                ties.push(entry.row());
                return;
            }
            None if worst.is_some() => self.order.pop_last(),
            None => None,
        };
        if let Some((_, other)) = displaced {
            self.best.remove(&other);
        }
        self.best.insert(document, entry);
        self.order.insert(entry, document);
        match (displaced, worst, self.worst(k)) {
            (Some((displaced, _)), ..) => keep_tie(displaced, self.worst(k), ties),
            (None, Some(before), Some(now)) if now.compare_scores(before).is_lt() => ties.clear(),
            _ => {}
        }
    }
}

impl fmt::Debug for BestOfDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BestOfDocuments").field("order", &self.order).finish_non_exhaustive()
    }
}

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

    /// All rows with the k-th best score are there, in whatever order they came, and none with a lower one.
    #[test]
    fn rows_with_the_last_score_are_all_kept() {
        for order in [[3, 0, 4, 1, 2], [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]] {
            let scores = [2.0, 1.0, 1.0, 1.0, 0.5];
            let (mut top, mut fork) = (TopK::new(2), TopK::new(2));
            for (place, row) in order.into_iter().enumerate() {
                let into = if place % 2 == 0 { &mut top } else { &mut fork };
                into.push(scores[row], Row(row as u32));
            }
            top.merge(fork);
            let tied = [1, 2, 3].map(|row| (1.0, Row(row))).to_vec();
            assert_eq!(top.into_tied(), Tied { above: vec![(2.0, Row(0))], tied, room: 1 }, "{order:?}");
        }
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
        /// The best row of each document, in whatever order, also with merged forks.
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
