//! The index under training, encoded and routed anew every r epochs: hard negatives,
//! distillation targets and the figures of the moment come from it.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::config::{Negatives, TrainConfig};
use super::indexer::TrainableIndexer;
use super::tail::Tail;
use super::texts::Texts;
use super::trunk::TrunkCache;
use crate::cluster::Panels;
use crate::error::{Error, Result};
use crate::ids::LeafId;
use crate::model::Indexer;
use crate::progress::{OnProgress, Progress, Stage};
use crate::tree::leaf_table;

/// Everything that one refresh leaves behind.
pub(crate) struct Snapshot {
    /// `[documents, dim]` unit rows.
    pub documents: Vec<f32>,
    /// Leaves of each document, most probable first.
    pub leaves: Vec<Vec<LeafId>>,
    /// For each query the leaves it should reach, with weights that sum to 1; empty for queries
    /// that training does not distil.
    pub targets: Vec<Vec<(LeafId, f32)>>,
    /// For each training query documents of its beam's leaves that do not answer it.
    pub negatives: Vec<Vec<u32>>,
    pub indexer: Indexer,
    /// `[queries, dim]` unit rows, for all queries.
    pub queries: Vec<f32>,
}

/// Mined candidates kept per query.
const CANDIDATES: usize = 64;
/// Queries scored against the whole corpus at once.
const QUERIES_PER_BLOCK: usize = 64;

/// The parts of a run that a refresh reads.
pub(crate) struct Refresher<'a> {
    pub config: &'a TrainConfig,
    pub texts: &'a Texts,
    pub document_cache: &'a TrunkCache,
    pub query_cache: &'a TrunkCache,
    pub tail: &'a Tail<'a>,
    pub indexer: &'a TrainableIndexer,
    pub dim: usize,
}

impl Refresher<'_> {
    /// Document embeddings as they are now, `[documents, dim]` unit rows.
    pub(crate) fn embed_documents(&self, on_progress: &mut OnProgress<'_>) -> Result<Vec<f32>> {
        let all: Vec<usize> = (0..self.texts.documents.len()).collect();
        let mut rows = self.tail.embed(self.document_cache, &all, |done| {
            match on_progress(Progress::new(Stage::Refresh, done, all.len())) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        })?;
        make_unit(&mut rows, self.dim);
        Ok(rows)
    }

    /// Encodes, routes, mines.
    pub(crate) fn refresh(&self, rng: &mut ChaCha8Rng, on_progress: &mut OnProgress<'_>) -> Result<Snapshot> {
        let documents = self.embed_documents(on_progress)?;
        self.refresh_from(documents, rng)
    }

    /// As [`Self::refresh`], with the document embeddings already at hand.
    pub(crate) fn refresh_from(&self, documents: Vec<f32>, rng: &mut ChaCha8Rng) -> Result<Snapshot> {
        let all: Vec<usize> = (0..self.texts.queries.len()).collect();
        let mut queries = self.tail.embed(self.query_cache, &all, |_| Ok(()))?;
        make_unit(&mut queries, self.dim);
        let indexer = self.indexer.freeze()?;
        let per_document =
            NonZeroUsize::new(self.config.leaves_per_document as usize).unwrap_or(NonZeroUsize::MIN);
        let leaves = indexer.route_rows(&documents, per_document);
        let mut snapshot = Snapshot {
            documents,
            leaves,
            targets: vec![Vec::new(); self.texts.queries.len()],
            negatives: Vec::new(),
            indexer,
            queries,
        };
        if self.config.loss_weights.distillation > 0.0 {
            self.distil(&mut snapshot);
        }
        if self.config.negatives != Negatives::InBatch {
            self.mine(&mut snapshot, rng);
        }
        Ok(snapshot)
    }

    /// Targets: equal mass on the leaves of the exact nearest documents; a real query gives half
    /// of its mass to the leaves of its relevant documents.
    fn distil(&self, snapshot: &mut Snapshot) {
        let numbers = self.texts.training_queries();
        let panels = Panels::pack(&snapshot.documents, self.dim);
        let depth = self.config.distillation_depth.min(self.texts.documents.len());
        let targets: Vec<Vec<(LeafId, f32)>> = numbers
            .par_chunks(QUERIES_PER_BLOCK)
            .flat_map_iter(|block| {
                let nearest = nearest_documents(&panels, &snapshot.queries, block, depth);
                block
                    .iter()
                    .zip(nearest)
                    .map(|(&query, nearest)| {
                        let mut target = Target::default();
                        let share = if self.texts.is_pseudo(query) { 1.0 } else { 0.5 };
                        target.spread(&snapshot.leaves, &nearest, share);
                        if share < 1.0 {
                            target.spread(&snapshot.leaves, &self.texts.positives[query], 1.0 - share);
                        }
                        target.0
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        for (query, target) in numbers.into_iter().zip(targets) {
            snapshot.targets[query] = target;
        }
    }

    /// Hard negatives: documents of the leaves that the query's beam reaches, without its own.
    fn mine(&self, snapshot: &mut Snapshot, rng: &mut ChaCha8Rng) {
        let table = leaf_table(&snapshot.leaves, snapshot.indexer.shape().leaves() as usize);
        let beam = NonZeroUsize::new(self.config.mining_beam).unwrap_or(NonZeroUsize::MIN);
        for (query, unit) in (0..self.texts.train).zip(snapshot.queries.chunks_exact(self.dim)) {
            let mut candidates: Vec<u32> = snapshot
                .indexer
                .route(unit, beam)
                .search
                .leaves
                .iter()
                .flat_map(|scored| table[scored.leaf.index()].iter().copied())
                .filter(|&document| !self.texts.is_relevant(query, document))
                .collect();
            candidates.sort_unstable();
            candidates.dedup();
            while candidates.len() > CANDIDATES {
                let out = rng.random_range(0..candidates.len());
                candidates.swap_remove(out);
            }
            snapshot.negatives.push(candidates);
        }
    }
}

#[derive(Default)]
struct Target(Vec<(LeafId, f32)>);

impl Target {
    fn spread(&mut self, leaves: &[Vec<LeafId>], documents: &[u32], mass: f32) {
        let share = mass / documents.len() as f32;
        for &document in documents {
            let own = &leaves[document as usize];
            for &leaf in own {
                let part = share / own.len() as f32;
                match self.0.iter_mut().find(|entry| entry.0 == leaf) {
                    Some(entry) => entry.1 += part,
                    None => self.0.push((leaf, part)),
                }
            }
        }
    }
}

/// The `depth` nearest documents of some queries by exact search.
///
/// # Shapes
/// `documents` are the packed document rows, `queries` `[all queries, dim]`; `numbers` names
/// the queries to answer.
fn nearest_documents(packed: &Panels, queries: &[f32], numbers: &[usize], depth: usize) -> Vec<Vec<u32>> {
    let (documents, dim) = (packed.rows(), packed.dim());
    let block: Vec<f32> = numbers.iter().flat_map(|&q| queries[q * dim..][..dim].iter().copied()).collect();
    let mut scores = vec![0f32; numbers.len() * documents];
    packed.dot_products(&block, &mut scores);
    scores
        .chunks_exact(documents)
        .map(|row| {
            let mut order: Vec<u32> = (0..documents as u32).collect();
            let by_score = |a: &u32, b: &u32| {
                let (x, y) = (row[*a as usize], row[*b as usize]);
                y.total_cmp(&x).then(a.cmp(b))
            };
            if depth < documents {
                order.select_nth_unstable_by(depth, by_score);
                order.truncate(depth);
            }
            order.sort_unstable_by(by_score);
            order
        })
        .collect()
}

/// Scales every row to unit L2 norm.
fn make_unit(rows: &mut [f32], dim: usize) {
    for row in rows.chunks_exact_mut(dim) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= norm);
    }
}
