//! Dev figures at a refresh.

use super::refresh::Snapshot;
use super::report::{DevFigures, LoadReport};
use super::texts::Texts;
use super::verdict::{Figures, METRICS, measured};
use crate::error::Result;
use crate::measure::{Bench, Engine, Judge, Outcomes, Partition};
use crate::tree::Load;

/// Recall of exact search and of the tree at growing beams, and the tree's load, after `epoch` epochs.
pub(crate) fn figures(snapshot: &Snapshot, texts: &Texts, epoch: usize) -> Result<DevFigures> {
    let dim = snapshot.embedded.dim;
    let tree = Partition::tree(&snapshot.indexer, &snapshot.leaves);
    let Load { expected, ideal, empty, .. } = Load::of(&tree.sizes());
    let load = LoadReport {
        epoch,
        expected_documents_per_leaf: expected,
        ideal_documents_per_leaf: ideal,
        empty_leaves: empty,
    };
    let mut figures = DevFigures { load, ..DevFigures::default() };
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
    let exact = measured(outcomes, Engine::Exact).into_iter().next();
    figures.exact = exact.map_or_else(Figures::default, |point| point.figures);
    figures.points = measured(outcomes, Engine::Tree);
    Ok(figures)
}
