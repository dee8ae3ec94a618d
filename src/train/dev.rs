//! Figures of the moment on the dev split, from a refresh.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::distil::nearest_documents;
use super::refresh::Snapshot;
use super::report::{DevFigures, DevPoint};
use super::texts::Texts;
use crate::cluster::Panels;

/// Depth to which rankings are read.
const DEPTH: usize = 100;

/// Recall of exact search and of the tree at growing beams, and the tree's load.
pub(crate) fn figures(snapshot: &Snapshot, texts: &Texts) -> DevFigures {
    let dim = snapshot.embedded.dim;
    let documents = texts.documents.len();
    let leaves = snapshot.indexer.shape().leaves() as usize;
    let mut sizes = vec![0usize; leaves];
    let mut table = vec![Vec::new(); leaves];
    for (document, own) in (0u32..).zip(&snapshot.leaves) {
        for leaf in own {
            sizes[leaf.index()] += 1;
            table[leaf.index()].push(document);
        }
    }
    let stored: usize = sizes.iter().sum();
    let mut figures = DevFigures {
        expected_documents_per_leaf: sizes.iter().map(|&c| (c * c) as f64).sum::<f64>()
            / stored.max(1) as f64,
        ideal_documents_per_leaf: stored as f64 / leaves as f64,
        empty_leaves: sizes.iter().filter(|&&c| c == 0).count(),
        ..DevFigures::default()
    };
    let queries = texts.dev_queries();
    if queries.is_empty() {
        return figures;
    }
    // The whole ranking: a leaf's documents are read off it in their exact order.
    let packed = Panels::pack(&snapshot.embedded.documents, dim);
    let rows = &snapshot.embedded.queries[texts.train * dim..][..queries.len() * dim];
    let rankings: Vec<Vec<u32>> = nearest_documents(&packed, rows, documents)
        .into_iter()
        .map(|ranking| ranking.into_iter().map(|entry| entry.0).collect())
        .collect();
    let recall = |ranked: &mut dyn Iterator<Item = u32>, query: usize, k: usize| {
        let positives = &texts.positives[query];
        let found = ranked.take(k).filter(|d| positives.binary_search(d).is_ok()).count();
        found as f64 / positives.len() as f64
    };
    let n = queries.len() as f64;
    for (&query, ranking) in queries.iter().zip(&rankings) {
        figures.exact_recall_at_10 += recall(&mut ranking.iter().copied(), query, 10) / n;
        figures.exact_recall_at_100 += recall(&mut ranking.iter().copied(), query, DEPTH) / n;
    }
    let mut beams: Vec<usize> = std::iter::successors(Some(1usize), |beam| Some(beam * 2))
        .take_while(|&beam| beam < leaves)
        .collect();
    beams.push(leaves);
    for beam in beams {
        let mut point = DevPoint { beam, visited_fraction: 0.0, recall_at_10: 0.0, recall_at_100: 0.0 };
        for (&query, ranking) in queries.iter().zip(&rankings) {
            let unit = snapshot.embedded.rows().text(query);
            let beam = NonZeroUsize::new(beam).unwrap_or(NonZeroUsize::MIN);
            let routing = snapshot.indexer.route(unit, beam);
            let reached = routing.search.leaves.iter();
            let visited: BTreeSet<u32> =
                reached.flat_map(|l| table[l.leaf.index()].iter().copied()).collect();
            point.visited_fraction += visited.len() as f64 / documents as f64 / n;
            let mut ranked = ranking.iter().copied().filter(|d| visited.contains(d));
            let top: Vec<u32> = ranked.by_ref().take(DEPTH).collect();
            point.recall_at_10 += recall(&mut top.iter().copied(), query, 10) / n;
            point.recall_at_100 += recall(&mut top.iter().copied(), query, DEPTH) / n;
        }
        figures.points.push(point);
    }
    figures
}
