//! The index under training, encoded and routed anew every r epochs: hard negatives,
//! distillation targets and the figures of the moment come from it.

use std::num::NonZeroUsize;

use rand_chacha::ChaCha8Rng;

use super::config::TrainConfig;
use super::distil::{Neighbours, Rows, Targets};
use super::frozen::FrozenCache;
use super::head::Head;
use super::indexer::TrainableIndexer;
use super::mining;
use super::texts::Texts;
use crate::error::{Error, Result};
use crate::ids::LeafId;
use crate::model::Indexer;
use crate::progress::{OnProgress, Progress, Stage};

/// Unit rows of every text, as the encoder of the moment gives them.
#[derive(Clone)]
pub(crate) struct Embedded {
    pub dim: usize,
    /// `[documents, dim]`
    pub documents: Vec<f32>,
    /// `[queries, dim]`, for all queries.
    pub queries: Vec<f32>,
}

/// Everything that one refresh leaves behind.
pub(crate) struct Snapshot {
    pub embedded: Embedded,
    pub indexer: Indexer,
    /// Leaves of each document, most probable first.
    pub leaves: Vec<Vec<LeafId>>,
    /// Absent where nothing is distilled.
    pub distilled: Option<Distilled>,
    /// For each training query documents that do not answer it; empty without mining.
    pub negatives: Vec<Vec<u32>>,
}

/// The texts that take part in routing distillation, and what they should reach.
pub(crate) struct Distilled {
    pub neighbours: Neighbours,
    pub targets: Targets,
}

/// The parts of a run that a refresh reads.
pub(crate) struct Refresher<'a> {
    pub config: &'a TrainConfig,
    pub texts: &'a Texts,
    pub document_cache: &'a FrozenCache<'a>,
    pub query_cache: &'a FrozenCache<'a>,
    pub head: &'a Head<'a>,
    pub indexer: &'a TrainableIndexer,
}

impl Embedded {
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { dim: self.dim, documents: &self.documents, queries: &self.queries }
    }
}

impl Refresher<'_> {
    /// All embeddings as they are now.
    pub(crate) fn embed(&self, on_progress: &mut OnProgress<'_>) -> Result<Embedded> {
        let dim = self.indexer.options().dim;
        let documents: Vec<usize> = (0..self.texts.documents.len()).collect();
        let queries: Vec<usize> = (0..self.texts.queries.len()).collect();
        let total = documents.len() + queries.len();
        let mut run = |cache: &FrozenCache<'_>, texts: &[usize], before: usize| {
            let mut rows = self.head.embed(cache, texts, |done| {
                Progress::new(Stage::Refresh, before + done, total).tell(on_progress, Error::Cancelled)
            })?;
            make_unit(&mut rows, dim);
            Ok::<_, Error>(rows)
        };
        Ok(Embedded {
            documents: run(self.document_cache, &documents, 0)?,
            queries: run(self.query_cache, &queries, documents.len())?,
            dim,
        })
    }

    /// Encodes, routes, mines, works out what to distil.
    ///
    /// `unlabelled` says whether texts other than the training queries get distillation targets.
    pub(crate) fn refresh(
        &self,
        unlabelled: bool,
        rng: &mut ChaCha8Rng,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Snapshot> {
        let embedded = self.embed(on_progress)?;
        self.refresh_from(embedded, unlabelled, rng)
    }

    /// As [`Self::refresh`], with the embeddings already at hand.
    pub(crate) fn refresh_from(
        &self,
        embedded: Embedded,
        unlabelled: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Snapshot> {
        let (indexer, leaves) = self.route(&embedded)?;
        let distilled = (self.config.loss_weights.distillation > 0.0).then(|| {
            let neighbours = Neighbours::find(self.texts, self.config, embedded.rows(), unlabelled, rng);
            let targets = neighbours.targets(&leaves);
            Distilled { neighbours, targets }
        });
        let negatives = mining::mine(self.config, self.texts, embedded.rows(), &leaves, &indexer, rng);
        Ok(Snapshot { embedded, indexer, leaves, distilled, negatives })
    }

    /// Where the tree of the moment puts the documents.
    pub(crate) fn route(&self, embedded: &Embedded) -> Result<(Indexer, Vec<Vec<LeafId>>)> {
        let indexer = self.indexer.freeze()?;
        let per_document =
            NonZeroUsize::new(self.config.leaves_per_document as usize).unwrap_or(NonZeroUsize::MIN);
        let leaves = indexer.route_rows(&embedded.documents, per_document);
        Ok((indexer, leaves))
    }

    /// As [`Self::refresh`] where only the tree has changed since.
    pub(crate) fn reroute(&self, snapshot: &mut Snapshot) -> Result<()> {
        (snapshot.indexer, snapshot.leaves) = self.route(&snapshot.embedded)?;
        if let Some(distilled) = &mut snapshot.distilled {
            distilled.targets = distilled.neighbours.targets(&snapshot.leaves);
        }
        Ok(())
    }
}

/// Scales every row to unit L2 norm.
fn make_unit(rows: &mut [f32], dim: usize) {
    for row in rows.chunks_exact_mut(dim) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= norm);
    }
}
