//! The stored form of the verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Recommendation;
use crate::measure::{Metric, PairedTests, p_in_words};
use crate::serialize::{as_text, from_text};

/// Whether training helped, measured on the dev queries in memory.
///
/// Written into a bundle's `training.json`. Figures are means over the dev queries with every document and
/// query truncated as in training, so they differ from those of an index; relevance is binary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verdict {
    /// What to do.
    pub recommendation: Recommendation,
    /// The same with its reason, in one sentence.
    pub sentence: String,
    /// Visited fraction of the recommendation; `None` if there is none.
    pub decided_at: Option<f64>,
    /// Documents in the corpus.
    pub documents: usize,
    /// Dev queries.
    pub queries: usize,
    /// Leaves of the tree, and lists of [`Method::BaseIvf`] and [`Method::TrainedIvf`] if the corpus has that
    /// many documents.
    pub leaves: u32,
    /// One entry per method, in the order of [`Method`].
    pub methods: Vec<MethodFigures>,
    /// Differences between methods with their p-values.
    pub comparisons: Vec<Comparison>,
    /// nDCG@10 of [`Method::TrainedExact`] against [`Method::BaseExact`]; `None` without dev queries.
    pub exact_ndcg: Option<Difference>,
}

/// A way of searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// The base encoder, every document scored.
    BaseExact,
    /// The base encoder with k-means lists, as many as the tree has leaves; mean of four seeds.
    BaseIvf,
    /// The trained encoder, every document scored.
    TrainedExact,
    /// As [`Self::BaseIvf`], with the trained encoder.
    TrainedIvf,
    /// The trained encoder with the learned tree, as in the bundle.
    TrainedTree,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BaseExact => "base, exact search",
            Self::BaseIvf => "base, IVF",
            Self::TrainedExact => "trained, exact search",
            Self::TrainedIvf => "trained, IVF",
            Self::TrainedTree => "trained, learned tree",
        })
    }
}

/// Quality and cost, means over queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// Documents scored plus the multiply-adds of choosing lists or leaves over dim, all over documents.
    pub work_fraction: f64,
    /// Recall@10, in [0, 1].
    #[serde(rename = "recall@10")]
    pub recall_at_10: f64,
    /// Recall@100, in [0, 1].
    #[serde(rename = "recall@100")]
    pub recall_at_100: f64,
    /// nDCG@10 with a gain of 1 for every relevant document, in [0, 1].
    #[serde(rename = "ndcg@10")]
    pub ndcg_at_10: f64,
}

/// A method at growing cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MethodFigures {
    /// Which one.
    pub method: Method,
    /// As measured, at 1, 2, 4 and so on lists or leaves and at all; empty without dev queries.
    pub measured: Vec<MeasuredPoint>,
    /// At [`FRACTIONS`](super::FRACTIONS), on straight lines between the measured points.
    pub at: Vec<FractionPoint>,
}

/// A method at one setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MeasuredPoint {
    /// Leaves or lists visited; 1 for exact search.
    pub setting: usize,
    /// Documents scored over documents.
    pub visited_fraction: f64,
    /// Quality of the results.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A method at one visited fraction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FractionPoint {
    /// Documents scored over documents.
    pub visited_fraction: f64,
    /// Lists or leaves that the documents are divided into; `None` for exact search.
    pub lists: Option<usize>,
    /// `None` if the method visits more even at its smallest setting.
    pub figures: Option<Figures>,
}

/// Two methods on the same queries at the same visited fraction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The method that should be better.
    pub method: Method,
    /// The method it is compared with.
    pub against: Method,
    /// Documents scored over documents; 1 for exact search.
    pub visited_fraction: f64,
    /// The compared metric: recall@10 or recall@100.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub metric: Metric,
    /// `None` if one of the two was not measured at this fraction.
    pub difference: Option<Difference>,
}

/// A difference of two means over the same queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// Mean of the method.
    pub value: f64,
    /// Mean of the method it is compared with.
    pub against: f64,
    /// The first minus the second.
    pub difference: f64,
    /// Two-sided p-value of a paired bootstrap; `None` with fewer than two queries.
    pub bootstrap_p: Option<f64>,
    /// Two-sided p-value of a paired t-test; `None` with fewer than two queries.
    pub t_test_p: Option<f64>,
    /// Standard deviation of the difference over queries; `None` with fewer than two.
    pub deviation: Option<f64>,
}

impl Difference {
    /// For values of the same queries, at least one. `seed` is that of the resampling.
    pub(crate) fn of(left: &[f64], right: &[f64], seed: u64) -> Self {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (value, against) = (mean(left), mean(right));
        let tests = PairedTests::new(left, right, seed);
        Self {
            value,
            against,
            difference: value - against,
            bootstrap_p: tests.map(|tests| tests.bootstrap_p),
            t_test_p: tests.map(|tests| tests.t_test_p),
            deviation: tests.map(|tests| tests.deviation),
        }
    }

    /// The larger of the two p-values; 1 without any.
    pub(crate) fn p_value(&self) -> f64 {
        self.bootstrap_p.zip(self.t_test_p).map_or(1.0, |(bootstrap, t_test)| bootstrap.max(t_test))
    }

    /// "nDCG@10 is 0.712 after 0.645 (+6.7 points, p < 0.001)"
    pub(crate) fn in_words(&self, metric: &str) -> String {
        let Self { value, against, difference, .. } = self;
        let points = difference * 100.0;
        format!(
            "{metric} is {value:.3} after {against:.3} ({points:+.1} points, {})",
            p_in_words(self.p_value())
        )
    }
}

impl Verdict {
    /// The difference between two methods at a visited fraction, if measured.
    pub fn difference(
        &self,
        method: Method,
        against: Method,
        visited_fraction: f64,
        metric: Metric,
    ) -> Option<Difference> {
        let asked = |c: &&Comparison| {
            (c.method, c.against, c.metric) == (method, against, metric)
                && c.visited_fraction == visited_fraction
        };
        self.comparisons.iter().find(asked)?.difference
    }
}
