//! Which share of exact search's hits the most probable leaves contain.

use serde::{Deserialize, Serialize};

use crate::ids::Generation;

/// By which factor the collection may grow or shrink before a curve does not apply any more.
const MOST_CHANGE: usize = 2;

/// The result for a fixed number of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecallPoint {
    /// Leaves visited.
    pub beam: usize,
    /// Share of exact search's hits in them, from 0 to 1: the mean over the questions.
    pub recall: f64,
    /// Standard error of that mean.
    pub standard_error: f64,
    /// Share of the documents in them, from 0 to 1: the mean over the questions.
    pub visited: f64,
}

/// The origin of the questions of a [`RecallCurve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionSource {
    /// Titles and first sentences of stored documents.
    Documents,
    /// The caller.
    Given,
    /// Users: the questions were logged or judged.
    Asked,
}

/// Which share of exact search's hits the most probable leaves contain, measured by
/// [`Index::calibrate`](crate::Index::calibrate).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecallCurve {
    /// The generation that was measured.
    pub generation: Generation,
    /// Its live documents.
    pub documents: usize,
    /// Number of questions.
    pub questions: usize,
    /// Their origin.
    pub source: QuestionSource,
    /// In ascending order of depth.
    pub depths: Vec<DepthCurve>,
}

/// The curve for a number of hits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DepthCurve {
    /// Number of exact search's hits looked for, per question.
    pub depth: usize,
    /// In ascending order of beam.
    pub points: Vec<RecallPoint>,
}

impl RecallCurve {
    /// The cheapest point that reaches this recall of `k` hits; `None` if none does, or if fewer hits were
    /// measured.
    pub fn reaching(&self, recall: f64, k: usize) -> Option<&RecallPoint> {
        let curve = self.depths.iter().find(|curve| curve.depth >= k)?;
        curve.points.iter().find(|point| point.recall >= recall)
    }

    /// As [`Self::reaching`]: the number of leaves, and the share of documents in them. More hits than were
    /// measured are taken to lie in more leaves, in proportion.
    pub(crate) fn among(&self, recall: f64, hits: f64) -> Option<(usize, f64)> {
        let deepest = self.depths.last()?.depth as f64;
        let wider = (hits / deepest).max(1.0);
        let point = self.reaching(recall, hits.min(deepest) as usize)?;
        Some(((point.beam as f64 * wider).ceil() as usize, point.visited * wider))
    }

    /// Whether it applies to a collection of `documents` documents.
    pub(crate) fn holds_for(&self, documents: usize) -> bool {
        documents <= self.documents.saturating_mul(MOST_CHANGE)
            && documents.saturating_mul(MOST_CHANGE) >= self.documents
    }

    /// Whether it can have been measured on a tree with `leaves` leaves.
    pub(super) fn is_sane(&self, leaves: usize) -> bool {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let is_sane = |point: &RecallPoint| {
            (1..=leaves).contains(&point.beam) && share(point.recall) && share(point.visited)
        };
        self.documents > 0
            && !self.depths.is_empty()
            && self.depths.is_sorted_by(|a, b| a.depth < b.depth)
            && self.depths.iter().all(|curve| {
                !curve.points.is_empty()
                    && curve.points.is_sorted_by(|a, b| a.beam < b.beam)
                    && curve.points.iter().all(is_sane)
            })
    }
}

/// The results of one beam, one entry per question.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    questions: usize,
    sum: f64,
    squares: f64,
    visited: f64,
}

impl Tally {
    pub fn add(&mut self, recall: f64, visited: f64) {
        self.questions += 1;
        self.sum += recall;
        self.squares += recall * recall;
        self.visited += visited;
    }

    pub fn point(&self, beam: usize) -> RecallPoint {
        let n = self.questions.max(1) as f64;
        let recall = self.sum / n;
        let variance = (self.squares / n - recall * recall).max(0.0) * n / (n - 1.0).max(1.0);
        RecallPoint { beam, recall, standard_error: (variance / n).sqrt(), visited: self.visited / n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(recalls: &[(usize, f64)]) -> RecallCurve {
        let point = |&(beam, recall)| RecallPoint { beam, recall, standard_error: 0.0, visited: recall };
        RecallCurve {
            generation: Generation(1),
            documents: 100,
            questions: 10,
            source: QuestionSource::Documents,
            depths: vec![DepthCurve { depth: 10, points: recalls.iter().map(point).collect() }],
        }
    }

    #[test]
    fn the_cheapest_point_is_taken() {
        let curve = curve(&[(1, 0.5), (2, 0.9), (4, 0.95), (8, 1.0)]);
        let beam = |recall| curve.reaching(recall, 10).map(|point| point.beam);
        assert_eq!([0.1, 0.5, 0.91, 0.95, 1.0].map(beam), [1, 1, 4, 4, 8].map(Some));
        assert_eq!(curve.reaching(0.9, 1).map(|point| point.beam), Some(2));
        // More hits than were measured.
        assert_eq!(curve.reaching(0.5, 11), None);
        assert_eq!(curve.among(0.9, 5.0), Some((2, 0.9)));
        assert_eq!(curve.among(0.9, 25.0), Some((5, 2.25)));
        assert_eq!(curve.among(0.9, f64::INFINITY).map(|(beam, _)| beam), Some(usize::MAX));
    }

    #[test]
    fn a_collection_twice_or_half_as_large_is_the_limit() {
        let holds = |documents| curve(&[(1, 1.0)]).holds_for(documents);
        assert_eq!([49, 50, 100, 200, 201].map(holds), [false, true, true, true, false]);
        assert!(holds(100) && !holds(usize::MAX) && !holds(0));
    }

    #[test]
    fn what_no_measurement_gives_is_refused() {
        assert!(curve(&[(1, 0.5), (4, 1.0)]).is_sane(4));
        for bad in [&[(0, 0.5)][..], &[(5, 0.5)], &[(2, 0.5), (2, 0.6)], &[(1, 1.5)], &[(1, f64::NAN)]] {
            assert!(!curve(bad).is_sane(4), "{bad:?}");
        }
    }

    #[test]
    fn mean_and_error_by_hand() {
        let mut tally = Tally::default();
        [1.0, 0.5, 0.0, 0.5].iter().for_each(|&recall| tally.add(recall, 0.25));
        let point = tally.point(3);
        assert_eq!((point.beam, point.recall, point.visited), (3, 0.5, 0.25));
        // Variance 1/6 over 4.
        assert!((point.standard_error - (1f64 / 24.0).sqrt()).abs() < 1e-12);
    }
}
