//! Hard negatives: documents that the index or exact search returns for a query but that do not answer it.

use std::num::NonZeroUsize;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::config::{MiningSettings, Negatives};
use super::distil::{TextRows, nearest_documents};
use super::texts::Texts;
use crate::cluster::Panels;
use crate::ids::LeafId;
use crate::model::{Indexer, Role};
use crate::tree::leaf_table;

/// Mined candidates kept per query.
const CANDIDATES: usize = 64;
/// Queries scored against the whole corpus at once.
const QUERIES_PER_BLOCK: usize = 64;

/// For each training query, documents from the configured source that do not answer it; none if negatives
/// come only from the batch.
pub(crate) fn mine(
    settings: &MiningSettings,
    texts: &Texts,
    rows: TextRows<'_>,
    leaves: &[LeafId],
    indexer: &Indexer,
    rng: &mut ChaCha8Rng,
) -> Vec<Vec<u32>> {
    match settings.negatives {
        Negatives::InBatch => Vec::new(),
        Negatives::IndexSiamese | Negatives::Index => {
            from_leaves(settings, texts, rows, leaves, indexer, rng)
        }
        Negatives::ExactSiamese | Negatives::Exact => from_exact_search(settings, texts, rows),
    }
}

/// Documents of the leaves that the query's beam reaches (Algorithm 1).
fn from_leaves(
    settings: &MiningSettings,
    texts: &Texts,
    rows: TextRows<'_>,
    leaves: &[LeafId],
    indexer: &Indexer,
    rng: &mut ChaCha8Rng,
) -> Vec<Vec<u32>> {
    let table = leaf_table(leaves, indexer.shape().leaves() as usize);
    let beam = NonZeroUsize::new(settings.beam).unwrap_or(NonZeroUsize::MIN);
    (0..texts.train)
        .map(|query| {
            let reached = indexer.route(rows.text(query), beam, Role::Query).search.leaves;
            let mut candidates: Vec<u32> = reached
                .iter()
                .flat_map(|scored| table[scored.leaf.index()].iter().copied())
                .filter(|&document| !texts.is_relevant(query, document))
                .collect();
            candidates.sort_unstable();
            candidates.dedup();
            while candidates.len() > CANDIDATES {
                let out = rng.random_range(0..candidates.len());
                candidates.swap_remove(out);
            }
            candidates
        })
        .collect()
}

/// The query's exact nearest documents.
fn from_exact_search(settings: &MiningSettings, texts: &Texts, rows: TextRows<'_>) -> Vec<Vec<u32>> {
    let panels = Panels::pack(rows.documents, rows.dim);
    let depth = settings.depth.min(texts.documents.len());
    let mut all = Vec::with_capacity(texts.train);
    for block in rows.queries[..texts.train * rows.dim].chunks(QUERIES_PER_BLOCK * rows.dim) {
        for nearest in nearest_documents(&panels, block, depth) {
            let query = all.len();
            let wrong = nearest.into_iter().map(|entry| entry.0).filter(|&d| !texts.is_relevant(query, d));
            all.push(wrong.collect());
        }
    }
    all
}
