//! Maintenance of an index: sizes, checks, compaction, copies.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use half::f16;

use super::active_model::copy_model;
use super::judgment_store::{dead_judgments, within};
use super::measured::Measurements;
use super::private_pool::PrivatePool;
use super::watched::watched;
use super::with_progress::WithProgress;
use super::{Index, begun, root};
use crate::disk::names;
use crate::error::{InputError, Result};
use crate::lexical::Analyzer;
use crate::model::Sharing;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{Operation, StoreError, StoreStats, bytes_below, shared_bytes_below};

impl Index {
    /// Rewrites all documents in the order in which searches read them, and frees the space of deleted and
    /// replaced ones. No byte of those is left in the index directory, unless a change of model keeps an
    /// earlier one ([`Self::drop_previous_model`]) or a repair set files aside.
    ///
    /// Searches continue in the meantime; writes wait. The disk needs room for both the old files and the new
    /// ones. Compaction also happens automatically, in parts, as documents are inserted and deleted; so call
    /// this only if the index is to be as small and fast as possible, or must not keep what was deleted.
    ///
    /// # Durability
    /// As [`Self::flush`].
    ///
    /// # Errors
    /// Failures of the disk; then nothing has changed, unless the error is of removing a file: that file is
    /// left, and the index is compact.
    pub fn compact(&self) -> Result<()> {
        self.rewrite(&mut no_progress, Rewrite::Compact)
    }

    /// Puts every document in the leaves that the tree has for its embedding, recomputes the codes of
    /// embeddings, and rewrites everything as [`Self::compact`] does.
    ///
    /// Posting lists follow from embeddings and model, so this is for an index with doubtful lists. In a
    /// sound one it moves a document to another leaf here and there, since stored embeddings are rounded.
    ///
    /// # Errors
    /// Those of [`Self::compact`].
    pub fn rebuild_postings(&self) -> Result<()> {
        self.rewrite(&mut no_progress, Rewrite::Postings)
    }

    /// Adds posting lists of words for every document to an index created without them
    /// ([`IndexBuilder::analyzer`](crate::IndexBuilder::analyzer)), and rewrites everything as
    /// [`Self::compact`] does.
    ///
    /// About a thousand texts per second are analysed on each core; nothing is encoded. Searches continue in
    /// the meantime, writes wait. An interrupted call leaves the index as it was. An index that already has
    /// the lists is compacted.
    ///
    /// # Errors
    /// [`InputError::AnalyzerMismatch`] for an index with another analyzer;
    /// [`InputError::InapplicableOption`] for [`Analyzer::Tokens`] in an index without an encoder; those of
    /// [`Self::compact`]; failures of the tokenizer.
    pub fn make_lexical(&self, analyzer: Analyzer) -> Result<()> {
        self.rewrite(&mut no_progress, Rewrite::Lexical(analyzer))
    }

    /// The terms of searches by words; `None` if documents cannot be found by their words.
    pub fn analyzer(&self) -> Option<Analyzer> {
        self.serving().analyzer()
    }

    /// Whether documents can be found by their words.
    pub fn is_lexical(&self) -> bool {
        self.serving().store.is_lexical()
    }

    fn rewrite(&self, on_progress: &mut OnProgress<'_>, rewrite: Rewrite) -> Result<()> {
        let has_judgments = matches!(rewrite, Rewrite::Compact);
        let judgments = if has_judgments { self.judgments_for_reading().ok().flatten() } else { None };
        let judgments = judgments.map_or(0, |store| store.read().live_rows());
        // Each row is copied in two steps: its embedding, then the rest.
        let total = 2 * (self.embeddings() + judgments);
        watched(Stage::Compact, total, on_progress, |tick| {
            self.write(|serving| match rewrite {
                Rewrite::Compact => {
                    serving.store.compact(tick)?;
                    let judgments = self.judgments_for_reading()?;
                    judgments.map_or(Ok(()), |store| within(store.compact(tick)))
                }
                Rewrite::Lexical(given) => match serving.analyzer() {
                    Some(index) if index != given => {
                        Err(InputError::AnalyzerMismatch { index, given }.into())
                    }
                    _ => {
                        super::options::check_tokens(&serving.bundle, Some(given))?;
                        Ok(serving.store.make_lexical(given.code(), tick)?)
                    }
                },
                Rewrite::Postings => {
                    let (ingest, apart) = (serving.ingest(), PrivatePool::new());
                    let route = |rows: &[f16]| apart.run(|| ingest.route_stored(rows));
                    Ok(serving.store.rebuild_postings(&route, tick)?)
                }
            })
        })?;
        if has_judgments {
            self.attempted(
                self.compact_memory(),
                "vectors of questions that are not judged any more are kept",
            );
        }
        Ok(())
    }

    /// Copies the index into `target`, a directory that is missing or empty. The copy is an independent
    /// index, with the model and the judgments, as of the moment of the call.
    ///
    /// Committed documents are flushed first. A read-only handle copies the generation that it sees; if the
    /// writer has removed its files, it moves to the newest generation first. Files of the model, documents
    /// and embeddings never change, so the copy shares them on the same file system and takes little room; on
    /// another file system they are copied. Searches continue in the meantime; writes wait. If the medium
    /// damages a shared file, both indexes are damaged: put a backup on another medium.
    ///
    /// # Durability
    /// The copy is durable once this has returned. An interrupted call leaves a directory that does not open;
    /// another call with the same target can finish it. A failed call removes what it made.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a directory with anything else in it, [`StoreError::InsideIndex`],
    /// and failures of the file system.
    pub fn snapshot(&self, target: impl AsRef<Path>) -> Result<()> {
        self.check_outside(target.as_ref())?;
        self.copy_to(target.as_ref())
    }

    /// As [`Self::snapshot`], also into the index directory.
    pub(super) fn copy_to(&self, target: &Path) -> Result<()> {
        self.check_process()?;
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        let serving = self.serving();
        let backend = self.root.backend();
        let judgments = self.judgments_for_reading()?;
        let encoded_by = serving.encoded_by();
        let measured = Measurements { encoded_by, ..Measurements::clone(&serving.measured()) };
        root::make(Arc::clone(&backend), target, Duration::ZERO, |index, dir| {
            if let Some(judgments) = &judgments {
                within(judgments.snapshot(&index.join(names::JUDGMENTS)))?;
            }
            copy_model(&*backend, &serving.bundle, Sharing::Index, dir)?;
            // The copied store has the same identity as this one.
            serving.write_measured(&*backend, dir, &measured)?;
            self.attempted(
                serving.copy_vectors(&*backend, dir, serving.bundle.hash()),
                "vectors of judged questions are not copied",
            );
            Ok(serving.store.snapshot(dir)?)
        })?;
        Ok(())
    }

    /// Refuses a target in the index directory.
    fn check_outside(&self, target: &Path) -> Result<()> {
        let path = std::path::absolute(target).map_err(StoreError::io(target, Operation::Open))?;
        // Without links, as far as it exists.
        let existing = path.ancestors().find_map(|above| above.canonicalize().ok());
        match existing.is_some_and(|above| above.starts_with(self.path())) {
            true => Err(StoreError::InsideIndex { path: target.to_owned() }.into()),
            false => Ok(()),
        }
    }

    /// Sizes and counts of documents and rows of the model in service.
    ///
    /// # Errors
    /// Failures of the file system.
    pub fn stats(&self) -> Result<StoreStats> {
        let serving = self.serving();
        let mut stats = serving.store.stats()?;
        stats.encoded_by = serving.encoded_by().into_iter().collect();
        let all = |_: &str| true;
        let bundle = serving.store.path().join(names::BUNDLE);
        stats.bytes.model = bytes_below(&bundle, &all);
        stats.bytes.shared_model = shared_bytes_below(&bundle);
        let current = self.root.read()?;
        // If this handle has another model open than the one in service, it counts too.
        let others = current.all().filter(|&number| number != serving.number);
        stats.bytes.judgments = bytes_below(&self.judgments_dir(), &is_of_a_model);
        // If they cannot be read, `verify` says why.
        let judgments = self.judgments_for_reading().ok().flatten().map(|store| store.read());
        stats.dead_judgments = judgments.and_then(|view| dead_judgments(&view).ok()).unwrap_or(0);
        stats.bytes.other_models =
            others.map(|number| bytes_below(&self.root.model_dir(number), &is_of_a_model)).sum();
        let prefix = root::model_prefix(serving.number);
        let (bundle, models) = (format!("{prefix}{}/", names::BUNDLE), names::MODELS);
        for begun in begun::all(&*self.root.backend(), self.path(), &current)? {
            let (own, bytes) = (begun.bytes(self.path()), &mut stats.bytes);
            bytes.begun += own;
            // Already counted.
            if begun.name.starts_with(&bundle) {
                bytes.model = bytes.model.saturating_sub(own);
            } else if begun.name.starts_with(models) && !begun.name.starts_with(&prefix) {
                bytes.other_models = bytes.other_models.saturating_sub(own);
            }
        }
        Ok(stats)
    }
}

/// The kinds of operations that rewrite all documents.
#[derive(Clone, Copy, Debug)]
enum Rewrite {
    Compact,
    Postings,
    Lexical(Analyzer),
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::compact`], with progress, and cancellation between documents.
    ///
    /// # Errors
    /// Those of [`Index::compact`], and [`Error::Cancelled`](crate::Error::Cancelled) with nothing changed.
    pub fn compact(mut self) -> Result<()> {
        self.index.rewrite(&mut self.on_progress, Rewrite::Compact)
    }

    /// As [`Index::make_lexical`], with progress, and cancellation between documents; the final step, which
    /// writes the lists, cannot be cancelled.
    ///
    /// # Errors
    /// Those of [`Index::make_lexical`], and [`Error::Cancelled`](crate::Error::Cancelled) with nothing
    /// changed.
    pub fn make_lexical(mut self, analyzer: Analyzer) -> Result<()> {
        self.index.rewrite(&mut self.on_progress, Rewrite::Lexical(analyzer))
    }

    /// As [`Index::rebuild_postings`], with progress, and cancellation between documents.
    ///
    /// # Errors
    /// Those of [`Index::rebuild_postings`], and [`Error::Cancelled`](crate::Error::Cancelled) with nothing
    /// changed.
    pub fn rebuild_postings(mut self) -> Result<()> {
        self.index.rewrite(&mut self.on_progress, Rewrite::Postings)
    }
}

/// Whether a file counts towards a model's bytes: manifests and locks do not, since a model in service has
/// them too.
fn is_of_a_model(name: &str) -> bool {
    ![names::MANIFEST, names::MANIFEST_NEW, names::MANIFEST_COPY, names::LOCK].contains(&name)
}
