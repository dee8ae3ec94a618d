//! Dev figures at a refresh.

use super::refresh::Snapshot;
use super::report::{DevFigures, DevPoint};
use super::texts::Texts;
use super::verdict::METRICS;
use crate::error::Result;
use crate::measure::{Bench, Cost, Engine, Judge, Metric, Outcomes, Partition, QueryFigures};
use crate::tree::Load;

/// Recall of exact search and of the tree at growing beams, and the tree's load.
pub(crate) fn figures(snapshot: &Snapshot, texts: &Texts) -> Result<DevFigures> {
    let dim = snapshot.embedded.dim;
    let tree = Partition::tree(&snapshot.indexer, &snapshot.leaves);
    let load = Load::of(&tree.sizes());
    let mut figures = DevFigures {
        expected_documents_per_leaf: load.expected,
        ideal_documents_per_leaf: load.ideal,
        empty_leaves: load.empty,
        ..DevFigures::default()
    };
    let dev = texts.dev_queries();
    if dev.is_empty() {
        return Ok(figures);
    }
    let queries = &snapshot.embedded.queries[dev.start * dim..dev.end * dim];
    let positives = &texts.positives[dev];
    let judge = Judge::binary(&METRICS, positives);
    let bench = Bench::new(&snapshot.embedded.documents, dim, queries, judge);
    let settings = bench.measure(&[tree], &mut || Ok::<(), crate::Error>(()))?;
    let outcomes = Outcomes { queries: positives.len(), metrics: &METRICS, settings: &settings };
    let recalls = |of: &QueryFigures| {
        Some((outcomes.mean(of, Metric::RECALL_AT_10)?, outcomes.mean(of, Metric::RECALL_AT_100)?))
    };
    for of in outcomes.by_visited(Engine::Exact) {
        (figures.exact_recall_at_10, figures.exact_recall_at_100) = recalls(of).unwrap_or_default();
    }
    let point = |of: &QueryFigures| {
        let (recall_at_10, recall_at_100) = recalls(of)?;
        let visited_fraction = of.fraction(Cost::Visited);
        Some(DevPoint { beam: of.setting.lists_visited(), visited_fraction, recall_at_10, recall_at_100 })
    };
    figures.points = outcomes.by_visited(Engine::Tree).into_iter().filter_map(point).collect();
    Ok(figures)
}
