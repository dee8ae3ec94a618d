//! Compares methods query by query.

use super::FRACTIONS;
use super::recommendation::decision_fraction;
use super::report::{Comparison, Difference, Method};
use crate::measure::{Cost, Engine, Metric, Outcomes};

/// A measured method.
type Measured<'a> = (Method, Outcomes<'a>, Engine);

/// The comparisons that matter to a user: the bundle against the base encoder with IVF and against IVF on its
/// own embeddings, and exact search before and after training.
///
/// `lists`: number of IVF lists.
pub(super) fn compare(
    base: Outcomes<'_>,
    trained: Outcomes<'_>,
    lists: usize,
    documents: usize,
    seed: u64,
) -> Vec<Comparison> {
    let tree = (Method::TrainedTree, trained, Engine::Tree);
    let opponents = [(Method::BaseIvf, base), (Method::TrainedIvf, trained)]
        .map(|(method, outcomes)| (method, outcomes, Engine::Ivf { lists }));
    let common = |fraction: f64| {
        let mut all = [tree].into_iter().chain(opponents);
        all.all(|(_, outcomes, engine)| outcomes.work_at(engine, fraction).is_some())
    };
    // With everything visited all methods are exact search; reported only if nothing else can be.
    let from = decision_fraction(documents);
    let decidable = FRACTIONS.into_iter().any(|f| (from..1.0).contains(&f) && common(f));
    // With fewer documents visited the outcome depends on a handful of them.
    let compared = |fraction: f64| fraction >= from && (fraction < 1.0 || !decidable);
    let mut comparisons = Vec::new();
    for against in opponents {
        for visited_fraction in FRACTIONS.into_iter().filter(|&fraction| compared(fraction)) {
            comparisons.extend(both(tree, against, visited_fraction, seed));
        }
    }
    let exact = [(Method::TrainedExact, trained), (Method::BaseExact, base)]
        .map(|(method, outcomes)| (method, outcomes, Engine::Exact));
    comparisons.extend(both(exact[0], exact[1], 1.0, seed));
    comparisons
}

/// nDCG@10 of exact search, the trained encoder against the base.
pub(super) fn exact_ndcg(base: Outcomes<'_>, trained: Outcomes<'_>, seed: u64) -> Option<Difference> {
    let of =
        |outcomes: Outcomes<'_>| outcomes.values_at(Engine::Exact, Cost::Visited, 1.0, Metric::NDCG_AT_10);
    Some(Difference::of(&of(trained)?, &of(base)?, seed))
}

/// In both metrics.
fn both(left: Measured<'_>, right: Measured<'_>, visited_fraction: f64, seed: u64) -> [Comparison; 2] {
    [Metric::RECALL_AT_10, Metric::RECALL_AT_100].map(|metric| {
        let values = |(_, outcomes, engine): Measured<'_>| {
            outcomes.values_at(engine, Cost::Visited, visited_fraction, metric)
        };
        let difference =
            values(left).zip(values(right)).map(|(left, right)| Difference::of(&left, &right, seed));
        Comparison { method: left.0, against: right.0, visited_fraction, metric, difference }
    })
}
