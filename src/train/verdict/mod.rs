//! Did training help? Base and trained encoder, with exact search, k-means lists and the learned
//! tree, on the dev queries.
//!
//! This module decides which searches are measured, the fractions at which they are compared, and the
//! recommendation. `measure` evaluates them in memory on the embeddings of the run, without writing an index
//! or encoding texts.

mod comparison;
pub(super) mod ivf;
mod recommendation;
mod report;
#[cfg(test)]
mod tests;

pub use recommendation::{CEILING, DECISION_DOCUMENTS, Recommendation};
pub use report::{
    Comparison, Difference, Figures, FractionPoint, MeasuredPoint, Method, MethodFigures, Verdict,
};

use crate::error::Result;
use crate::ids::LeafId;
use crate::measure::{
    Bench, Cost, Engine, IVF_SEEDS, Judge, Metric, Outcomes, Partition, ProgressCounter, QueryFigures, blocks,
};
use crate::model::Indexer;
use crate::progress::OnProgress;
use crate::train::distil::TextRows;

/// Visited fractions at which methods are reported.
pub const FRACTIONS: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0];

/// Metrics on the dev queries, with binary relevance.
pub(crate) const METRICS: [Metric; 3] = [Metric::RECALL_AT_10, Metric::RECALL_AT_100, Metric::NDCG_AT_10];

/// The inputs of a verdict.
pub(crate) struct HeldOut<'a> {
    /// Relevant documents of each dev query, ascending.
    pub positives: &'a [Vec<u32>],
    /// Documents and dev queries by the base encoder.
    pub base: TextRows<'a>,
    /// The same by the trained encoder.
    pub trained: TextRows<'a>,
    /// The leaf of each document in the trained tree.
    pub leaves: &'a [LeafId],
    pub indexer: &'a Indexer,
    /// Seed of the resampling.
    pub seed: u64,
}

/// Measures all methods and decides.
///
/// Cost: k-means of each encoder's documents with four seeds, and each dev query scored against every
/// document. Memory: a packed copy of the documents of one encoder at a time, and the memory of
/// [`Bench::measure`].
///
/// # Errors
/// [`Error::Cluster`](crate::Error::Cluster) for rows that are not of unit norm,
/// [`Error::Cancelled`](crate::Error::Cancelled).
pub(crate) fn compute(held_out: &HeldOut<'_>, on_progress: &mut OnProgress<'_>) -> Result<Verdict> {
    let HeldOut { positives, indexer, .. } = *held_out;
    let documents = held_out.trained.documents.len() / indexer.dim();
    let leaves = indexer.shape().leaves();
    if positives.is_empty() || documents == 0 {
        return Ok(Verdict::unmeasured(documents, leaves));
    }
    let lists = documents.min(leaves as usize);
    // If the encoder was not trained, its embeddings need not be measured twice.
    let changed = held_out.base != held_out.trained;
    let total = (1 + usize::from(changed)) * (IVF_SEEDS as usize + blocks(positives.len()).len());
    let mut meter = ProgressCounter { on_progress, done: 0, total };

    let base = match changed {
        true => Some(measure(held_out, held_out.base, lists, None, &mut meter)?),
        false => None,
    };
    let tree = Partition::tree(indexer, held_out.leaves);
    let trained = measure(held_out, held_out.trained, lists, Some(tree), &mut meter)?;
    let outcomes = |settings| Outcomes { queries: positives.len(), metrics: &METRICS, settings };
    let (base, trained) = (outcomes(base.as_deref().unwrap_or(&trained)), outcomes(&trained));
    let methods = [
        (Method::BaseExact, base, Engine::Exact),
        (Method::BaseIvf, base, Engine::Ivf { lists }),
        (Method::TrainedExact, trained, Engine::Exact),
        (Method::TrainedIvf, trained, Engine::Ivf { lists }),
        (Method::TrainedTree, trained, Engine::Tree),
    ];
    let figures = |(method, outcomes, engine)| of_method(method, outcomes, engine, leaves);
    let comparisons = comparison::compare(base, trained, lists, documents, held_out.seed);
    Ok(recommendation::decide(Verdict {
        documents,
        queries: positives.len(),
        leaves,
        methods: methods.map(figures).into(),
        comparisons,
        exact_ndcg: comparison::exact_ndcg(base, trained, held_out.seed),
        ..Verdict::unmeasured(documents, leaves)
    }))
}

/// Measures one encoder, with the tree if there is one.
fn measure(
    held_out: &HeldOut<'_>,
    rows: TextRows<'_>,
    lists: usize,
    tree: Option<Partition<'_>>,
    meter: &mut ProgressCounter<'_, '_>,
) -> Result<Vec<QueryFigures>> {
    let mut partitions = Vec::new();
    for seed in 0..IVF_SEEDS {
        partitions.push(ivf::partition(rows.documents, rows.dim, lists, seed)?);
        meter.add(1)?;
    }
    partitions.extend(tree);
    let judge = Judge::binary(&METRICS, held_out.positives);
    Bench::new(rows.documents, rows.dim, rows.queries, judge).measure(&partitions, &mut || Ok(meter.add(1)?))
}

/// The figures of a method, measured with an engine.
fn of_method(method: Method, outcomes: Outcomes<'_>, engine: Engine, leaves: u32) -> MethodFigures {
    let lists = match engine {
        Engine::Tree => Some(leaves as usize),
        Engine::Ivf { lists } => Some(lists),
        Engine::Exact => None,
    };
    let at = |fraction: f64| {
        let work = outcomes.work_at(engine, fraction)?;
        figures(work, |metric| outcomes.mean_at(engine, Cost::Visited, fraction, metric))
    };
    let point = |visited_fraction| FractionPoint { visited_fraction, lists, figures: at(visited_fraction) };
    MethodFigures {
        method,
        measured: measured(outcomes, engine),
        at: FRACTIONS.into_iter().map(point).collect(),
    }
}

/// The figures of an engine at each of its settings, ascending by documents visited.
pub(super) fn measured(outcomes: Outcomes<'_>, engine: Engine) -> Vec<MeasuredPoint> {
    let point = |of: &QueryFigures| {
        Some(MeasuredPoint {
            setting: of.setting.lists_visited(),
            visited_fraction: of.fraction(Cost::Visited),
            figures: figures(of.fraction(Cost::Work), |metric| outcomes.mean(of, metric))?,
        })
    };
    outcomes.by_visited(engine).into_iter().filter_map(point).collect()
}

fn figures(work_fraction: f64, mean: impl Fn(Metric) -> Option<f64>) -> Option<Figures> {
    Some(Figures {
        work_fraction,
        recall_at_10: mean(Metric::RECALL_AT_10)?,
        recall_at_100: mean(Metric::RECALL_AT_100)?,
        ndcg_at_10: mean(Metric::NDCG_AT_10)?,
    })
}
