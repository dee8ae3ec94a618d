//! The end of a run: the verdict and the leaf sizes.

use super::balance::LeafSizes;
use super::refresh::{Embedded, Snapshot};
use super::texts::Texts;
use super::verdict::{self, HeldOut, Verdict};
use crate::error::Result;
use crate::progress::OnProgress;

/// The base encoder's rows, kept throughout a run: `[n, dim]` f32 for documents and dev queries, or nothing
/// without dev queries.
pub(crate) struct Beginning {
    documents: Vec<f32>,
    queries: Vec<f32>,
}

/// The parts of the report that need the trained tree.
pub(crate) struct Ending {
    pub verdict: Verdict,
    pub leaf_sizes: LeafSizes,
}

impl Beginning {
    /// Keeps the rows of the base encoder that the verdict needs.
    pub(crate) fn of(base: &Embedded, texts: &Texts) -> Self {
        let (dim, dev) = (base.dim, texts.dev_queries());
        let queries = base.queries[dev.start * dim..dev.end * dim].to_vec();
        let documents = if dev.is_empty() { Vec::new() } else { base.documents.clone() };
        Self { documents, queries }
    }

    /// Compares with the trained rows of the snapshot after the last step.
    ///
    /// # Errors
    /// Those of [`verdict::compute`].
    pub(crate) fn ending(
        &self,
        last: &Snapshot,
        texts: &Texts,
        seed: u64,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Ending> {
        let _span = tracing::info_span!("train_verdict").entered();
        let (dim, dev) = (last.indexer.dim(), texts.dev_queries());
        let queries = &last.embedded.queries[..dev.end * dim];
        let verdict = verdict::compute(
            &HeldOut {
                dim,
                positives: &texts.positives[dev.clone()],
                base: verdict::Embedded { documents: &self.documents, queries: &self.queries },
                trained: verdict::Embedded {
                    documents: &last.embedded.documents,
                    queries: &queries[dev.start * dim..],
                },
                leaves: &last.leaves,
                indexer: &last.indexer,
                seed,
            },
            on_progress,
        )?;
        let leaves = last.indexer.shape().leaves() as usize;
        let query_leaves = last.indexer.route_rows(queries);
        Ok(Ending { verdict, leaf_sizes: LeafSizes::count(leaves, &last.leaves, &query_leaves) })
    }
}
