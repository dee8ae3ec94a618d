//! Methods against each other, query by query.

use super::report::{ComparedMetric, Comparison, Difference, Method};
use super::space::{Measured, Outcome};
use super::{DECISION_FRACTION, FRACTIONS, Measurements};
use crate::eval::{paired_bootstrap, paired_t_test};

/// Visited fractions from which methods are compared; below, a handful of documents decides.
const FROM: f64 = 0.02;

/// The comparisons that a user asks for: what the bundle does against the base encoder with IVF,
/// against IVF on its own embeddings, and exact search before and after.
pub(super) fn compare(
    base: &Measurements,
    trained: &Measurements,
    tree: &Measured,
    seed: u64,
) -> Vec<Comparison> {
    let all = [tree, &base.ivf.measured, &trained.ivf.measured];
    let common = |fraction: f64| all.iter().all(|measured| measured.around(fraction).is_some());
    // Where everything is visited they are all exact search; said only where nothing else can be.
    let decidable = FRACTIONS.into_iter().any(|f| (DECISION_FRACTION..1.0).contains(&f) && common(f));
    let compared = |fraction: f64| fraction >= FROM && (fraction < 1.0 || !decidable);
    let mut comparisons = Vec::new();
    let tree = (Method::TrainedTree, tree);
    for against in [(Method::BaseIvf, &base.ivf.measured), (Method::TrainedIvf, &trained.ivf.measured)] {
        for visited_fraction in FRACTIONS.into_iter().filter(|&fraction| compared(fraction)) {
            add(&mut comparisons, tree, against, visited_fraction, seed);
        }
    }
    let exact = [(Method::TrainedExact, &trained.exact), (Method::BaseExact, &base.exact)];
    add(&mut comparisons, exact[0], exact[1], 1.0, seed);
    comparisons
}

fn add(
    comparisons: &mut Vec<Comparison>,
    (method, left): (Method, &Measured),
    (against, right): (Method, &Measured),
    visited_fraction: f64,
    seed: u64,
) {
    for metric in [ComparedMetric::RecallAt10, ComparedMetric::RecallAt100] {
        let of = |outcome: &Outcome| match metric {
            ComparedMetric::RecallAt10 => outcome.recall_at_10,
            ComparedMetric::RecallAt100 => outcome.recall_at_100,
        };
        let values = left.of_queries(visited_fraction, of).zip(right.of_queries(visited_fraction, of));
        let difference = values.map(|(left, right)| difference(&left, &right, seed));
        comparisons.push(Comparison { method, against, visited_fraction, metric, difference });
    }
}

/// Values of the same queries; not empty.
fn difference(left: &[f64], right: &[f64], seed: u64) -> Difference {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (value, against) = (mean(left), mean(right));
    Difference {
        value,
        against,
        difference: value - against,
        // Recalls are finite and paired, so that only too few queries can fail.
        bootstrap_p: paired_bootstrap(left, right, seed).ok(),
        t_test_p: paired_t_test(left, right).ok(),
    }
}
