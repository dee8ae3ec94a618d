//! Refreshes: the index under training is encoded and routed again every r epochs to give hard negatives,
//! distillation targets and dev figures.

use rand_chacha::ChaCha8Rng;

use super::distil::{Distilled, TextRows};
use super::frozen::FrozenCache;
use super::indexer::TrainableIndexer;
use super::inputs::{EmbeddedBy, EncoderInputs, Inputs};
use super::mining;
use super::plan::Taught;
use super::texts::Texts;
use crate::error::{Error, Result};
use crate::ids::LeafId;
use crate::model::Indexer;
use crate::progress::{OnProgress, Progress, Stage};

/// Unit rows of every text by the current encoder.
#[derive(Clone)]
pub(crate) struct Embedded {
    pub dim: usize,
    /// `[documents, dim]`
    pub documents: Vec<f32>,
    /// `[queries, dim]`, for all queries.
    pub queries: Vec<f32>,
}

/// The results of one refresh.
pub(crate) struct Snapshot {
    pub embedded: Embedded,
    pub indexer: Indexer,
    /// The leaf of each document.
    pub leaves: Vec<LeafId>,
    /// `None` if nothing is distilled.
    pub distilled: Option<Distilled>,
    /// For each training query, documents that do not answer it; empty without mining.
    pub negatives: Vec<Vec<u32>>,
}

impl Embedded {
    /// Computes all current embeddings.
    pub(crate) fn now(inputs: &Inputs<'_>, on_progress: &mut OnProgress<'_>) -> Result<Self> {
        let EncoderInputs { head, document_cache, query_cache } = match inputs.by {
            EmbeddedBy::Encoder(encoder) => encoder,
            EmbeddedBy::Given(given) => return Ok(given.embedded.clone()),
        };
        let (dim, documents, queries) = (head.dim(), document_cache.texts(), query_cache.texts());
        let mut run = |cache: &FrozenCache<'_>, before: usize| {
            let mut rows = head.embed(cache, |done| {
                let progress = Progress::new(Stage::Refresh, before + done, documents + queries);
                progress.tell(on_progress, Error::Cancelled)
            })?;
            make_unit(&mut rows, dim);
            Ok::<_, Error>(rows)
        };
        Ok(Self { documents: run(document_cache, 0)?, queries: run(query_cache, documents)?, dim })
    }

    /// The rows that a verdict needs: those of documents and dev queries, or none without dev queries.
    pub(crate) fn of_dev(&self, texts: &Texts) -> Self {
        let (dim, dev) = (self.dim, texts.dev_queries());
        let queries = self.queries[dev.start * dim..dev.end * dim].to_vec();
        let documents = if dev.is_empty() { Vec::new() } else { self.documents.clone() };
        Self { dim, documents, queries }
    }

    pub(crate) fn rows(&self) -> TextRows<'_> {
        TextRows { dim: self.dim, documents: &self.documents, queries: &self.queries }
    }
}

impl Snapshot {
    /// Routes the embeddings with a tree, mines negatives and computes distillation targets.
    pub(crate) fn take(
        inputs: &Inputs<'_>,
        tree: &TrainableIndexer,
        taught: Taught,
        embedded: Embedded,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self> {
        let (indexer, leaves) = route(tree, &embedded)?;
        let (texts, rows) = (inputs.texts, embedded.rows());
        let distilled = Distilled::find(texts, &inputs.config.distillation, rows, taught, &leaves, rng);
        let negatives = mining::mine(&inputs.config.mining, texts, rows, &leaves, &indexer, rng);
        Ok(Self { embedded, indexer, leaves, distilled, negatives })
    }

    /// Routes again after a change of the tree alone.
    pub(crate) fn reroute(&mut self, tree: &TrainableIndexer) -> Result<()> {
        (self.indexer, self.leaves) = route(tree, &self.embedded)?;
        if let Some(distilled) = &mut self.distilled {
            distilled.follow(&self.leaves);
        }
        Ok(())
    }
}

/// The leaves of the documents in the current tree.
fn route(tree: &TrainableIndexer, embedded: &Embedded) -> Result<(Indexer, Vec<LeafId>)> {
    let indexer = tree.freeze()?;
    let leaves = indexer.route_rows(&embedded.documents);
    Ok((indexer, leaves))
}

/// Scales every row to unit L2 norm.
pub(crate) fn make_unit(rows: &mut [f32], dim: usize) {
    for row in rows.chunks_exact_mut(dim) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= norm);
    }
}
