//! Methods against each other, query by query.

use super::bench::{Measured, Outcome};
use super::recommendation::decision_fraction;
use super::report::{ComparedMetric, Comparison, Difference, Method};
use super::{FRACTIONS, Measurements};
use crate::eval::{paired_bootstrap, paired_t_test};

/// The comparisons that a user asks for: what the bundle does against the base encoder with IVF,
/// against IVF on its own embeddings, and exact search before and after.
pub(super) fn compare(
    base: &Measurements,
    trained: &Measurements,
    tree: &Measured,
    documents: usize,
    seed: u64,
) -> Vec<Comparison> {
    let all = [tree, &base.ivf.measured, &trained.ivf.measured];
    let common = |fraction: f64| all.iter().all(|measured| measured.around(fraction).is_some());
    // Where everything is visited they are all exact search; said only where nothing else can be.
    let from = decision_fraction(documents);
    let decidable = FRACTIONS.into_iter().any(|f| (from..1.0).contains(&f) && common(f));
    // With fewer documents visited a handful of them decides.
    let compared = |fraction: f64| fraction >= from && (fraction < 1.0 || !decidable);
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
        deviation: deviation(left, right),
    }
}

/// Sample standard deviation of the paired differences.
fn deviation(left: &[f64], right: &[f64]) -> Option<f64> {
    let count = left.len() as f64;
    let differences = || left.iter().zip(right).map(|(left, right)| left - right);
    let mean = differences().sum::<f64>() / count;
    let squares: f64 = differences().map(|difference| (difference - mean).powi(2)).sum();
    (left.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}
