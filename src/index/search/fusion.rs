//! Combines the two scores of a document, by its embedding and by its words.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::ids::Row;

/// How a hybrid search combines scores.
///
/// Every candidate has both scores; candidates are the best by either score. Source: Bruch et al., *An
/// Analysis of Fusion Functions for Hybrid Retrieval*, TOIS 2023.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Fusion {
    /// [`Self::Convex`] with the weight that [`Index::fuse`](crate::Index::fuse) learned for this index,
    /// which is 1 if words do not help; with [`DEFAULT_ALPHA`] before that.
    #[default]
    Learned,
    /// `a d + (1 - a) w` with a weight `a` from 0 to 1. `d` is the dense score, scaled so that the lowest of
    /// the candidates becomes 0 and the highest 1; `w` is the lexical score divided by the highest of the
    /// candidates.
    Convex(f64),
    /// Reciprocal rank fusion: the sum of `1 / (k + rank)` over both rankings of the candidates, with ranks
    /// from 1. A document without any of the words has no lexical rank. Cormack et al. 2009 use k = 60.
    Rrf {
        /// How slowly the weight falls with the rank; above 0.
        k: f64,
    },
}

/// Weight of the dense score if none was learned.
pub const DEFAULT_ALPHA: f64 = 0.7;

impl Fusion {
    pub(super) fn check(self) -> Result<Self, InputError> {
        match self {
            Self::Convex(alpha) if !(0.0..=1.0).contains(&alpha) => Err(InputError::OutOfRange {
                what: "the weight of a fusion",
                found: alpha,
                expected: "0 to 1",
            }),
            Self::Rrf { k } if !(k.is_finite() && k > 0.0) => {
                Err(InputError::OutOfRange { what: "k of a fusion", found: k, expected: "above 0" })
            }
            _ => Ok(self),
        }
    }
}

/// A document's two scores, and its ranks among the candidates by each, from 1.
///
/// Serialised flat into the hit. A search that ignores embeddings has no dense score, and one that ignores
/// words no lexical score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HitScores {
    /// By the index's similarity.
    pub dense: Option<f32>,
    /// By BM25.
    pub lexical: Option<f32>,
    /// Rank by dense score.
    pub dense_rank: Option<usize>,
    /// Rank by lexical score; `None` for a document without any of the words.
    pub lexical_rank: Option<usize>,
    /// What judgments of near questions added to the score of the hit; below 0 if they say that it does not
    /// answer. `None` if there are none.
    pub memory: Option<f32>,
}

/// A candidate with both scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub row: Row,
    pub dense: f32,
    pub lexical: f32,
    /// Whether it is among the best by either score; otherwise only judgments name it.
    pub is_found: bool,
    /// What judgments add, in units of the range of scores.
    pub moved: f64,
}

/// Candidates by combined score, best first; equal scores, and equal ranks, are ordered by `ties`. Scores are
/// scaled to the candidates that were found, so that a judgment moves only the documents that it names.
pub(crate) fn fuse(
    candidates: &[Candidate],
    fusion: Fusion,
    learned: f64,
    ties: &dyn Fn(Row, Row) -> Ordering,
) -> Vec<(f32, Row, HitScores)> {
    let by_dense = ranks(candidates, |candidate| candidate.is_found.then_some(candidate.dense), ties);
    let has_words = |candidate: &Candidate| candidate.is_found && candidate.lexical > 0.0;
    let by_words = ranks(candidates, |candidate| has_words(candidate).then_some(candidate.lexical), ties);
    let ranked = candidates.iter().zip(by_dense.into_iter().zip(by_words));
    let bounds = |score: fn(&Candidate) -> f32| {
        let scores = candidates.iter().filter(|candidate| candidate.is_found).map(score);
        scores.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (low, high) = bounds(|candidate| candidate.dense);
    let (_, most) = bounds(|candidate| candidate.lexical);
    let convex = |candidate: &Candidate, alpha: f64| {
        let range = f64::from(high) - f64::from(low);
        let dense = if range > 0.0 { (f64::from(candidate.dense) - f64::from(low)) / range } else { 1.0 };
        // One that only judgments name counts as the last candidate at least.
        let dense = if candidate.is_found { dense } else { dense.max(0.0) };
        let words = if most > 0.0 { f64::from(candidate.lexical) / f64::from(most) } else { 0.0 };
        alpha * dense + (1.0 - alpha) * words
    };
    let mut fused: Vec<(f32, Row, HitScores)> = ranked
        .map(|(candidate, (dense_rank, lexical_rank))| {
            let scores = HitScores {
                dense: Some(candidate.dense),
                lexical: Some(candidate.lexical),
                dense_rank,
                lexical_rank,
                memory: None,
            };
            let score = match fusion {
                Fusion::Learned => convex(candidate, learned),
                Fusion::Convex(alpha) => convex(candidate, alpha),
                Fusion::Rrf { k } => [scores.dense_rank, scores.lexical_rank]
                    .into_iter()
                    .flatten()
                    .map(|rank| 1.0 / (k + rank as f64))
                    .sum(),
            };
            let unit = if let Fusion::Rrf { k } = fusion { 2.0 / (k + 1.0) } else { 1.0 };
            let moved = candidate.moved * unit;
            let scores = HitScores { memory: (moved != 0.0).then_some(moved as f32), ..scores };
            ((score + moved) as f32, candidate.row, scores)
        })
        .collect();
    fused.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| ties(a.1, b.1)));
    fused
}

/// The rank of each candidate with a score, from 1.
fn ranks(
    candidates: &[Candidate],
    score: impl Fn(&Candidate) -> Option<f32>,
    ties: &dyn Fn(Row, Row) -> Ordering,
) -> Vec<Option<usize>> {
    let scored = candidates.iter().zip(0..);
    let scored = scored.filter_map(|(candidate, place)| Some((score(candidate)?, candidate.row, place)));
    let mut scored: Vec<(f32, Row, usize)> = scored.collect();
    scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| ties(a.1, b.1)));
    let mut ranks = vec![None; candidates.len()];
    for ((.., place), rank) in scored.into_iter().zip(1..) {
        ranks[place] = Some(rank);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_ROW: fn(Row, Row) -> Ordering = |a, b| a.cmp(&b);

    fn candidates() -> Vec<Candidate> {
        [(0, 0.9, 0.0), (1, 0.5, 8.0), (2, 0.7, 4.0), (3, 0.1, 2.0)]
            .map(|(row, dense, lexical)| Candidate {
                row: Row(row),
                dense,
                lexical,
                is_found: true,
                moved: 0.0,
            })
            .to_vec()
    }

    fn order(fusion: Fusion) -> Vec<u32> {
        fuse(&candidates(), fusion, 0.7, &BY_ROW).into_iter().map(|(_, row, _)| row.0).collect()
    }

    #[test]
    fn either_end_of_the_weight_is_one_of_the_two() {
        assert_eq!(order(Fusion::Convex(1.0)), [0, 2, 1, 3]);
        assert_eq!(order(Fusion::Convex(0.0)), [1, 2, 3, 0]);
        // 1, 0.5, 0.75, 0 dense and 0, 1, 0.5, 0.25 by words.
        let fused = fuse(&candidates(), Fusion::Convex(0.5), 0.0, &BY_ROW);
        let scores: Vec<f32> = fused.iter().map(|entry| entry.0).collect();
        assert_eq!(order(Fusion::Convex(0.5)), [1, 2, 0, 3]);
        for (found, expected) in scores.iter().zip([0.75, 0.625, 0.5, 0.125]) {
            assert!((found - expected).abs() < 1e-6, "{scores:?}");
        }
        let learned = fuse(&candidates(), Fusion::Learned, 0.7, &BY_ROW);
        assert_eq!(learned, fuse(&candidates(), Fusion::Convex(0.7), 0.0, &BY_ROW));
    }

    #[test]
    fn ranks_are_joined_by_their_reciprocals() {
        let fused = fuse(&candidates(), Fusion::Rrf { k: 60.0 }, 0.5, &BY_ROW);
        let first = fused.iter().find(|entry| entry.1 == Row(0)).unwrap();
        assert_eq!((first.2.dense_rank, first.2.lexical_rank), (Some(1), None));
        assert!((first.0 - 1.0 / 61.0).abs() < 1e-9);
        let second = fused.iter().find(|entry| entry.1 == Row(2)).unwrap();
        assert!((second.0 - 2.0 / 62.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_scale_by_is_no_number_of_its_own() {
        let equal = [Row(3), Row(5)].map(|row| Candidate {
            row,
            dense: 0.25,
            lexical: 0.0,
            is_found: true,
            moved: 0.0,
        });
        for fusion in [Fusion::Learned, Fusion::Convex(0.5), Fusion::Rrf { k: 1.0 }] {
            let fused = fuse(&equal, fusion, 0.5, &BY_ROW);
            assert!(fused.iter().all(|entry| entry.0.is_finite()));
            assert_eq!(fused[0].1, Row(3));
        }
        assert!(fuse(&[], Fusion::Learned, 0.5, &BY_ROW).is_empty());
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for bad in [Fusion::Convex(1.5), Fusion::Convex(f64::NAN), Fusion::Rrf { k: 0.0 }] {
            assert!(matches!(bad.check(), Err(InputError::OutOfRange { .. })), "{bad:?}");
        }
        assert!(Fusion::Rrf { k: 60.0 }.check().is_ok() && Fusion::Convex(0.0).check().is_ok());
    }
}
