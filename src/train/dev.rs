//! Figures of the moment on the dev split, from a refresh.

use super::refresh::Snapshot;
use super::report::{DevFigures, DevPoint};
use super::texts::Texts;
use super::verdict::{Bench, Partition};
use crate::error::Result;
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
    let space = Bench::new(&snapshot.embedded.documents, dim, queries, &texts.positives[dev]);
    let (exact, trees) = space.measure(&[tree], &mut || Ok(()))?;
    for point in &exact.points {
        figures.exact_recall_at_10 = point.mean(|outcome| outcome.recall_at_10);
        figures.exact_recall_at_100 = point.mean(|outcome| outcome.recall_at_100);
    }
    figures.points = trees
        .iter()
        .flat_map(|tree| &tree.points)
        .map(|point| DevPoint {
            beam: point.setting,
            visited_fraction: point.visited_fraction,
            recall_at_10: point.mean(|outcome| outcome.recall_at_10),
            recall_at_100: point.mean(|outcome| outcome.recall_at_100),
        })
        .collect();
    Ok(figures)
}
