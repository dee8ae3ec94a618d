//! Retrieval metrics over ranked ids and graded judgments, as `trec_eval` computes them.
//!
//! Each metric takes the ids of one query's results, best first and each id at most once, and returns a value
//! from 0 to 1. Fewer than `k` results are treated as if irrelevant documents followed. A document that was
//! not judged is not relevant.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use thiserror::Error;

use crate::data::Judgments;

/// The lowest grade that counts as relevant, 1 by default.
///
/// It is `-l` of `trec_eval`. [`Metric::Ndcg`] ignores it: every positive grade is a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelevanceLevel(pub i32);

impl Default for RelevanceLevel {
    fn default() -> Self {
        Self(1)
    }
}

impl RelevanceLevel {
    fn includes(self, grade: Option<i32>) -> bool {
        grade.is_some_and(|grade| grade >= self.0)
    }
}

fn discounted_gain(grades: impl Iterator<Item = i32>) -> f64 {
    let gain = |(position, grade)| f64::from(grade) / ((position + 2) as f64).log2();
    // The sum of no floats is -0.0.
    0.0 + grades.enumerate().map(gain).sum::<f64>()
}

/// A metric with its cut-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// The share of the relevant documents that are among the first `k`; 0 if none is relevant: `recall_k` of
    /// `trec_eval`.
    Recall(NonZeroUsize),
    /// The relevant documents among the first `k`, divided by `k` even if fewer were returned: `P_k` of
    /// `trec_eval`.
    Precision(NonZeroUsize),
    /// One over the rank of the first relevant document; 0 if none is among the first `k`: `recip_rank` of
    /// `trec_eval` on results cut after rank `k` (its `-M`). The mean over queries is mrr@k.
    Mrr(NonZeroUsize),
    /// Discounted gain of the first `k` divided by that of the best order of the judged documents:
    /// `ndcg_cut_k` of `trec_eval`. The gain is the grade if it is positive, divided by `log2(rank + 1)`; the
    /// best order takes all judged documents, returned or not. 0 if no grade is positive.
    Ndcg(NonZeroUsize),
}

const fn k(value: usize) -> NonZeroUsize {
    match NonZeroUsize::new(value) {
        Some(k) => k,
        None => NonZeroUsize::MIN,
    }
}

impl Metric {
    pub(crate) const RECALL_AT_10: Self = Self::Recall(k(10));
    pub(crate) const RECALL_AT_20: Self = Self::Recall(k(20));
    pub(crate) const RECALL_AT_100: Self = Self::Recall(k(100));
    pub(crate) const NDCG_AT_10: Self = Self::Ndcg(k(10));

    /// Metrics that an evaluation always computes.
    pub const STANDARD: [Self; 13] = [
        Self::Recall(k(1)),
        Self::Recall(k(10)),
        Self::Recall(k(20)),
        Self::Recall(k(50)),
        Self::Recall(k(100)),
        Self::Precision(k(1)),
        Self::Precision(k(3)),
        Self::Precision(k(5)),
        Self::Mrr(k(10)),
        Self::Ndcg(k(1)),
        Self::Ndcg(k(3)),
        Self::Ndcg(k(5)),
        Self::Ndcg(k(10)),
    ];

    /// The last rank that counts.
    pub fn k(self) -> NonZeroUsize {
        match self {
            Self::Recall(k) | Self::Precision(k) | Self::Mrr(k) | Self::Ndcg(k) => k,
        }
    }

    /// The metric of one query.
    pub fn of_query(self, ranked: &[impl AsRef<str>], judged: &Judgments, level: RelevanceLevel) -> f64 {
        let first = ranked.iter().take(self.k().get());
        let grades: Vec<Option<i32>> = first.map(|id| judged.get(id.as_ref()).copied()).collect();
        let all: Vec<i32> = judged.values().copied().collect();
        self.of_grades(&grades, &all, level)
    }

    /// The metric of one query, from the grades of its results, best first, and those of all judged
    /// documents; `None` stands for a result that was not judged.
    pub(super) fn of_grades(self, ranked: &[Option<i32>], judged: &[i32], level: RelevanceLevel) -> f64 {
        let cut = self.k().get();
        let first = || ranked.iter().take(cut).copied();
        let hits = || first().filter(|grade| level.includes(*grade)).count() as f64;
        match self {
            Self::Recall(_) => match judged.iter().filter(|grade| level.includes(Some(**grade))).count() {
                0 => 0.0,
                relevant => hits() / relevant as f64,
            },
            Self::Precision(_) => hits() / cut as f64,
            Self::Mrr(_) => match first().position(|grade| level.includes(grade)) {
                Some(position) => 1.0 / (position + 1) as f64,
                None => 0.0,
            },
            Self::Ndcg(_) => {
                let mut ideal: Vec<i32> = judged.iter().copied().filter(|grade| *grade > 0).collect();
                ideal.sort_unstable_by(|a, b| b.cmp(a));
                match discounted_gain(ideal.into_iter().take(cut)) {
                    0.0 => 0.0,
                    best => discounted_gain(first().map(|grade| grade.unwrap_or(0).max(0))) / best,
                }
            }
        }
    }
}

/// An unknown name of a [`Metric`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{got}` is no metric; say recall@k, precision@k, mrr@k or ndcg@k with a k from 1")]
pub struct UnknownMetric {
    /// The name as given.
    pub got: String,
}

/// From the form of `Display`, in any case; `p@5` is `precision@5`.
impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Self, UnknownMetric> {
        let unknown = || UnknownMetric { got: text.to_owned() };
        let (name, k) = text.trim().split_once('@').ok_or_else(unknown)?;
        let metric = match name.to_ascii_lowercase().as_str() {
            "recall" => Self::Recall,
            "precision" | "p" => Self::Precision,
            "mrr" => Self::Mrr,
            "ndcg" => Self::Ndcg,
            _ => return Err(unknown()),
        };
        Ok(metric(k.parse().map_err(|_| unknown())?))
    }
}

/// As in `recall@10`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Recall(_) => "recall",
            Self::Precision(_) => "precision",
            Self::Mrr(_) => "mrr",
            Self::Ndcg(_) => "ndcg",
        };
        f.pad(&format!("{name}@{}", self.k()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: RelevanceLevel = RelevanceLevel(1);

    fn judged(pairs: &[(&str, i32)]) -> Judgments {
        pairs.iter().map(|(id, grade)| ((*id).to_owned(), *grade)).collect()
    }

    #[test]
    fn values_by_hand() {
        let judged = judged(&[("a", 3), ("b", 1), ("c", 0), ("d", -2), ("e", 2)]);
        let ranked = ["c", "b", "x", "a"];
        assert_eq!(Metric::Recall(k(1)).of_query(&ranked, &judged, LEVEL), 0.0);
        assert_eq!(Metric::Recall(k(2)).of_query(&ranked, &judged, LEVEL), 1.0 / 3.0);
        assert_eq!(Metric::Recall(k(100)).of_query(&ranked, &judged, LEVEL), 2.0 / 3.0);
        assert_eq!(Metric::Recall(k(4)).of_query(&ranked, &judged, RelevanceLevel(3)), 1.0);
        assert_eq!(Metric::Precision(k(10)).of_query(&ranked, &judged, LEVEL), 0.2);
        assert_eq!(Metric::Mrr(k(4)).of_query(&ranked, &judged, LEVEL), 0.5);
        assert_eq!(Metric::Mrr(k(1)).of_query(&ranked, &judged, LEVEL), 0.0);
        assert_eq!(Metric::Mrr(k(4)).of_query(&ranked, &judged, RelevanceLevel(2)), 0.25);

        let ideal = 3.0 + 2.0 / 3f64.log2() + 1.0 / 2.0;
        let got = 1.0 / 3f64.log2() + 3.0 / 5f64.log2();
        assert!((Metric::Ndcg(k(10)).of_query(&ranked, &judged, LEVEL) - got / ideal).abs() < 1e-15);
        let ideal = 3.0 + 2.0 / 3f64.log2();
        let got = 1.0 / 3f64.log2();
        assert!((Metric::Ndcg(k(2)).of_query(&ranked, &judged, LEVEL) - got / ideal).abs() < 1e-15);
        assert_eq!(Metric::Ndcg(k(3)).of_query(&["a", "e", "b"], &judged, LEVEL), 1.0);
        assert_eq!(
            Metric::Ndcg(k(1)).of_query(&["d", "a"], &self::judged(&[("d", -2), ("a", 1)]), LEVEL),
            0.0
        );
    }

    #[test]
    fn nothing_relevant_or_nothing_returned_is_zero() {
        let nothing: [&str; 0] = [];
        for metric in [Metric::Recall, Metric::Precision, Metric::Mrr, Metric::Ndcg] {
            let metric = metric(k(5));
            assert_eq!(metric.of_query(&["a"], &judged(&[("a", 0)]), LEVEL), 0.0, "{metric}");
            assert_eq!(metric.of_query(&["a"], &judged(&[]), LEVEL), 0.0, "{metric}");
            assert_eq!(metric.of_query(&nothing, &judged(&[("a", 1)]), LEVEL), 0.0, "{metric}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(Metric::Ndcg(k(10)).to_string(), "ndcg@10");
        assert_eq!(RelevanceLevel::default(), LEVEL);
        for metric in Metric::STANDARD {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
        assert_eq!(" P@3 ".parse(), Ok(Metric::Precision(k(3))));
        assert_eq!("nDCG@10".parse(), Ok(Metric::Ndcg(k(10))));
        for bad in ["", "recall", "recall@", "recall@0", "recall@-1", "map@10", "@10", "ndcg@10@2"] {
            assert_eq!(bad.parse::<Metric>(), Err(UnknownMetric { got: bad.to_owned() }));
        }
    }
}
