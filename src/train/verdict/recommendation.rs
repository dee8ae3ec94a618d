//! Turns differences into a recommendation, with every threshold and its reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::FRACTIONS;
use super::report::{Difference, Method, Verdict};
use crate::measure::Metric;
use crate::train::policy::{Evidence as Shown, FEWEST_QUERIES, SMALLEST_GAIN, TRAIN};

/// The decision is made at the smallest of [`FRACTIONS`] that visits this many documents, the length of the
/// judged rankings. That is where a tree of that size matters: 1% of 60,000 documents, 10% of 1,000. If a
/// small tree was not measured there, the next larger fraction is used.
pub const DECISION_DOCUMENTS: usize = 100;
/// Recall above which a search cannot improve: the remaining misses are mostly judgments that no encoder
/// agrees with.
pub const CEILING: f64 = 0.98;

/// The recommendation for a trained bundle, from the dev queries.
///
/// Compares the trained encoder and the learned tree with the base encoder and IVF (the alternative without
/// training), with [`DECISION_DOCUMENTS`] visited. A gain or a loss is one of at least [`SMALLEST_GAIN`] in
/// recall@100 or recall@10 that is significant. Without one, nothing should be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recommendation {
    /// A gain, and the tree contributes: it is also better than IVF on the same embeddings.
    Deploy,
    /// A gain, but it is not shown that the tree is better than IVF on the same embeddings.
    EncoderGainOnly,
    /// Neither a gain nor a loss is shown: the index should stay as it is.
    NoGainShown,
    /// No room for improvement: the base encoder already finds nearly all answers.
    NoHeadroom,
    /// A loss against the base encoder with IVF.
    DoNotDeploy,
    /// No or too few dev queries (see [`FEWEST_QUERIES`]).
    CannotSay,
}

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Deploy => "deploy",
            Self::EncoderGainOnly => "encoder gain only",
            Self::NoGainShown => "no gain shown",
            Self::NoHeadroom => "no headroom on this data",
            Self::DoNotDeploy => "do not deploy",
            Self::CannotSay => "cannot say",
        })
    }
}

impl Difference {
    /// About how many queries would tell a difference like this one, or one of [`SMALLEST_GAIN`] if that is
    /// larger, from chance in four of five trials; `None` with fewer than two queries, or without any
    /// difference.
    pub fn queries_needed(&self) -> Option<usize> {
        TRAIN.questions_needed(self)
    }
}

impl Verdict {
    /// The verdict without dev queries, which has no figures.
    pub(super) fn unmeasured(documents: usize, leaves: u32) -> Self {
        Self {
            recommendation: Recommendation::CannotSay,
            sentence: sentence(
                Recommendation::CannotSay,
                "no dev queries were set aside, so nothing was measured",
            ),
            decided_at: None,
            documents,
            queries: 0,
            leaves,
            methods: Vec::new(),
            comparisons: Vec::new(),
            exact_ndcg: None,
        }
    }
}

/// The smallest of [`FRACTIONS`] that the decision may use.
pub(super) fn decision_fraction(documents: usize) -> f64 {
    let enough = |fraction: &f64| fraction * documents as f64 >= DECISION_DOCUMENTS as f64;
    FRACTIONS.into_iter().find(enough).unwrap_or(1.0)
}

/// Fills in the recommendation from the comparisons.
pub(super) fn decide(mut verdict: Verdict) -> Verdict {
    let (recommendation, reason) = match Evidence::of(&verdict) {
        _ if verdict.queries < FEWEST_QUERIES => (
            Recommendation::CannotSay,
            format!(
                "{} dev {} too few to tell a gain from chance; at least {FEWEST_QUERIES} are needed",
                verdict.queries,
                if verdict.queries == 1 { "query is" } else { "queries are" },
            ),
        ),
        None => (Recommendation::CannotSay, "tree and IVF were not measured at a common fraction".to_owned()),
        Some(evidence) => {
            verdict.decided_at = Some(evidence.visited_fraction);
            evidence.decide()
        }
    };
    verdict.recommendation = recommendation;
    verdict.sentence = sentence(recommendation, &reason);
    verdict
}

fn sentence(recommendation: Recommendation, reason: &str) -> String {
    let name = recommendation.to_string();
    let mut letters = name.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}: {reason}.", letters.as_str())
}

/// The differences that decide, as (recall@10, recall@100).
struct Evidence {
    visited_fraction: f64,
    queries: usize,
    over_base: [Difference; 2],
    over_trained: [Difference; 2],
    exact: [Difference; 2],
}

const AT_10: usize = 0;
const AT_100: usize = 1;
/// In the order of evaluation.
const METRICS: [usize; 2] = [AT_100, AT_10];

impl Evidence {
    fn of(verdict: &Verdict) -> Option<Self> {
        let smallest = decision_fraction(verdict.documents);
        FRACTIONS.into_iter().filter(|&fraction| fraction >= smallest).find_map(|visited_fraction| {
            let both = |method, against, at| {
                let of = |metric| verdict.difference(method, against, at, metric);
                Some([of(Metric::RECALL_AT_10)?, of(Metric::RECALL_AT_100)?])
            };
            Some(Self {
                visited_fraction,
                queries: verdict.queries,
                over_base: both(Method::TrainedTree, Method::BaseIvf, visited_fraction)?,
                over_trained: both(Method::TrainedTree, Method::TrainedIvf, visited_fraction)?,
                exact: both(Method::TrainedExact, Method::BaseExact, 1.0)?,
            })
        })
    }

    fn says(&self, difference: &Difference, shown: Shown) -> bool {
        TRAIN.decide(self.queries, difference) == shown
    }

    /// The first metric in which the difference is a gain, or a loss.
    fn first(&self, differences: &[Difference; 2], shown: Shown) -> Option<usize> {
        METRICS.into_iter().find(|&metric| self.says(&differences[metric], shown))
    }

    fn decide(&self) -> (Recommendation, String) {
        if let Some(metric) = self.first(&self.over_base, Shown::Loss) {
            return (Recommendation::DoNotDeploy, self.against_base(metric));
        }
        if let Some(metric) = self.first(&self.over_base, Shown::Gain) {
            if self.says(&self.over_trained[metric], Shown::Gain) {
                let reason = format!("{}{}", self.against_base(metric), self.exact_lost());
                return (Recommendation::Deploy, reason);
            }
            let reason = format!(
                "{}; the tree is not shown to be better than IVF on the trained encoder, which finds {} ({})",
                self.against_base(metric),
                percent(self.over_trained[metric].against),
                change(&self.over_trained[metric]),
            );
            return (Recommendation::EncoderGainOnly, reason);
        }
        if let Some(metric) = self.first(&self.exact, Shown::Gain) {
            let exact = &self.exact[metric];
            let reason = format!(
                "exact search finds {} of the answers in its first {}, against {} before training ({}), but with {} \
                 of the documents visited the trained tree is not shown to be better than IVF on the base encoder ({})",
                percent(exact.value),
                CUT_OFFS[metric],
                percent(exact.against),
                change(exact),
                percent(self.visited_fraction),
                change(&self.over_base[metric]),
            );
            return (Recommendation::EncoderGainOnly, reason);
        }
        self.without_gain()
    }

    fn without_gain(&self) -> (Recommendation, String) {
        let (exact, lists) = (self.exact[AT_100].against, self.over_base[AT_100].against);
        if exact >= CEILING && lists >= exact - SMALLEST_GAIN {
            let reason = format!(
                "the base encoder already finds {} of the answers in exact search and {} with IVF at {} of the \
                 documents visited",
                percent(exact),
                percent(lists),
                percent(self.visited_fraction),
            );
            return (Recommendation::NoHeadroom, reason);
        }
        let difference = &self.over_base[AT_100];
        let needed = difference.queries_needed().filter(|needed| *needed > self.queries);
        let needed = needed.map_or_else(String::new, |needed| {
            let points = difference.difference.abs().max(SMALLEST_GAIN) * 100.0;
            format!("; about {needed} dev queries are needed to tell {points:.1} points from chance")
        });
        let reason = format!("{}{needed}; leave the index as it is", self.against_base(AT_100));
        (Recommendation::NoGainShown, reason)
    }

    /// "at 10% of the documents visited the tree finds .."
    fn against_base(&self, metric: usize) -> String {
        let difference = &self.over_base[metric];
        format!(
            "at {} of the documents visited the trained tree finds {} of the answers in its first {}, against {} \
             with IVF on the base encoder ({}, {} dev queries)",
            percent(self.visited_fraction),
            percent(difference.value),
            CUT_OFFS[metric],
            percent(difference.against),
            change(difference),
            self.queries,
        )
    }

    fn exact_lost(&self) -> String {
        let exact = &self.exact[AT_100];
        if exact.difference <= -SMALLEST_GAIN {
            format!("; exact search became worse: {}", change(exact))
        } else {
            String::new()
        }
    }
}

const CUT_OFFS: [usize; 2] = [10, 100];

/// "+7.1 points, p = 0.0003"; the larger of the two p-values.
fn change(difference: &Difference) -> String {
    let points = format!("{:+.1} points", difference.difference * 100.0);
    match difference.p_value() {
        _ if difference.bootstrap_p.is_none() => points,
        p if p < 0.0001 => format!("{points}, p < 0.0001"),
        p => format!("{points}, p = {p:.4}"),
    }
}

fn percent(value: f64) -> String {
    let text = format!("{:.1}", value * 100.0);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}
