//! From differences to what a user should do, with every threshold and its reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::FRACTIONS;
use super::report::{ComparedMetric, Difference, Method, Verdict};

/// Visited fraction that the decision is made at: a tenth of the corpus, where search is well
/// cheaper than exact search and most answers are still found. Where a small tree was not
/// measured there, the next larger one of [`FRACTIONS`] takes its place.
pub const DECISION_FRACTION: f64 = 0.1;
/// Fewest dev queries to decide on: with fewer, one query is worth more than five points.
pub const FEWEST_QUERIES: usize = 20;
/// Smallest difference in recall that counts: one point, which is about what another seed of the
/// same run changes.
pub const SMALLEST_GAIN: f64 = 0.01;
/// Both p-values must be below it for a difference to be called significant.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// Recall from which a search is as good as it can be: what is missing is mostly judgments
/// that no encoder agrees with.
pub const CEILING: f64 = 0.98;

/// What the dev queries say about a trained bundle.
///
/// Decided on the trained encoder with the learned tree against the base encoder with IVF (what
/// there would be without training) at [`DECISION_FRACTION`]. A gain is at least [`SMALLEST_GAIN`]
/// in recall@100, or a significant one in recall@10; a loss is the same in recall@100, or a
/// significant one in recall@10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recommendation {
    /// A significant gain, to which the tree adds: it is better than IVF on the same embeddings.
    Deploy,
    /// The same gain, but chance may have made it.
    DeployNotSignificant,
    /// The encoder is better, the tree is no better than IVF on the same embeddings.
    EncoderGainOnly,
    /// Neither gained nor lost, often because there was little to gain.
    NoHeadroom,
    /// Worse than the base encoder with IVF.
    DoNotDeploy,
    /// No or too few dev queries (see [`FEWEST_QUERIES`]).
    CannotSay,
}

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Deploy => "deploy",
            Self::DeployNotSignificant => "deploy, but the gain is not significant",
            Self::EncoderGainOnly => "encoder gain only",
            Self::NoHeadroom => "no headroom on this data",
            Self::DoNotDeploy => "do not deploy",
            Self::CannotSay => "cannot say",
        })
    }
}

impl Difference {
    /// Whether both tests say that this is more than chance.
    pub fn is_significant(&self) -> bool {
        let below = |p: Option<f64>| p.is_some_and(|p| p < SIGNIFICANCE_LEVEL);
        below(self.bootstrap_p) && below(self.t_test_p)
    }

    fn is_gain(&self) -> bool {
        self.difference >= SMALLEST_GAIN
    }

    fn is_loss(&self) -> bool {
        self.difference <= -SMALLEST_GAIN
    }
}

impl Verdict {
    /// Without dev queries there are no figures.
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
        }
    }
}

/// Fills in the recommendation from the comparisons.
pub(super) fn decide(mut verdict: Verdict) -> Verdict {
    let (recommendation, reason) = match Evidence::of(&verdict) {
        _ if verdict.queries < FEWEST_QUERIES => (
            Recommendation::CannotSay,
            format!(
                "{} dev {} too few to tell a gain from chance, {FEWEST_QUERIES} or more are needed",
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

impl Evidence {
    fn of(verdict: &Verdict) -> Option<Self> {
        FRACTIONS.into_iter().filter(|&fraction| fraction >= DECISION_FRACTION).find_map(|visited_fraction| {
            let both = |method, against, at| {
                let of = |metric| verdict.difference(method, against, at, metric);
                Some([of(ComparedMetric::RecallAt10)?, of(ComparedMetric::RecallAt100)?])
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

    fn decide(&self) -> (Recommendation, String) {
        let significant = |difference: &Difference| difference.is_significant();
        if self.over_base[AT_100].is_loss() {
            return (Recommendation::DoNotDeploy, self.against_base(AT_100));
        }
        if self.over_base[AT_10].is_loss() && significant(&self.over_base[AT_10]) {
            return (Recommendation::DoNotDeploy, self.against_base(AT_10));
        }
        let ten_gained = self.over_base[AT_10].is_gain() && significant(&self.over_base[AT_10]);
        let metric = match (self.over_base[AT_100].is_gain(), ten_gained) {
            (true, _) => AT_100,
            (false, true) => AT_10,
            (false, false) => return self.without_gain(),
        };
        if !self.over_trained[metric].is_gain() {
            let reason = format!(
                "{}, but the tree adds nothing to it: IVF on the trained encoder reaches {}",
                self.against_base(metric),
                percent(self.over_trained[metric].against),
            );
            return (Recommendation::EncoderGainOnly, reason);
        }
        let reason = format!("{}{}", self.against_base(metric), self.exact_lost());
        match significant(&self.over_base[metric]) {
            true => (Recommendation::Deploy, reason),
            false => (Recommendation::DeployNotSignificant, reason),
        }
    }

    fn without_gain(&self) -> (Recommendation, String) {
        let gained = [AT_100, AT_10].into_iter().find(|&metric| {
            let exact = &self.exact[metric];
            exact.is_gain() && exact.is_significant()
        });
        if let Some(metric) = gained {
            let exact = &self.exact[metric];
            let reason = format!(
                "exact search finds {} of the answers in its first {}, against {} before training ({}), but the \
                 tree at {} of the documents visited gained nothing over IVF on the base encoder",
                percent(exact.value),
                CUT_OFFS[metric],
                percent(exact.against),
                change(exact),
                percent(self.visited_fraction),
            );
            return (Recommendation::EncoderGainOnly, reason);
        }
        let (exact, lists) = (self.exact[AT_100].against, self.over_base[AT_100].against);
        let reason = if exact >= CEILING && lists >= exact - SMALLEST_GAIN {
            format!(
                "the base encoder already finds {} of the answers in exact search and {} with IVF at {} of the \
                 documents visited",
                percent(exact),
                percent(lists),
                percent(self.visited_fraction),
            )
        } else {
            format!("{}, less than a point either way", self.against_base(AT_100))
        };
        (Recommendation::NoHeadroom, reason)
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
        if exact.is_loss() { format!("; exact search lost: {}", change(exact)) } else { String::new() }
    }
}

const CUT_OFFS: [usize; 2] = [10, 100];

/// "+7.1 points, p = 0.0003"; the larger of the two p-values.
fn change(difference: &Difference) -> String {
    let points = format!("{:+.1} points", difference.difference * 100.0);
    match difference.bootstrap_p.zip(difference.t_test_p) {
        Some((bootstrap, t_test)) if bootstrap.max(t_test) < 0.0001 => format!("{points}, p < 0.0001"),
        Some((bootstrap, t_test)) => format!("{points}, p = {:.4}", bootstrap.max(t_test)),
        None => points,
    }
}

fn percent(value: f64) -> String {
    let text = format!("{:.1}", value * 100.0);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}
