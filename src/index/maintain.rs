//! Keeping an index: sizes, checks, compaction, copies.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::PoisonError;

use super::apart::Apart;
use super::reach::Reach;
use super::serving::{MODELS_DIR, Serving, copy_model_into, model_dir, store_dir};
use super::{Index, refuse_occupied};
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::{Damage, StoreError, StoreStats, Tick, VerifyReport, View, bytes_below};

/// Stored embeddings that [`Index::verify`] searches with.
const PROBES: usize = 16;
/// Hits of such a search.
const PROBE_HITS: NonZeroUsize = NonZeroUsize::new(10).unwrap();

impl Index {
    /// Writes all documents anew in the order in which searches read them, and gives back the space of
    /// deleted and replaced ones, of which no byte is left in the index directory, unless a change of model keeps
    /// an earlier one ([`Self::drop_previous_model`]) or a repair set files aside.
    ///
    /// Searches go on meanwhile; writes wait. The disk needs room for both the old files and the new.
    /// Happens by itself, in parts, as documents are inserted and deleted; so this is for an index that is
    /// to be as small and fast as it can be, or that must not keep what was deleted.
    ///
    /// # Durability
    /// As [`Self::flush`].
    ///
    /// # Errors
    /// Failures of the disk; then nothing has changed, but where the error is of removing a file: that one is left, and the
    /// index is compact.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&mut no_progress)
    }

    /// As [`Self::compact`], with progress in documents and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Self::compact`], and [`Error::Cancelled`] with nothing changed.
    pub fn compact_with(&self, on_progress: &mut OnProgress<'_>) -> Result<()> {
        self.rewrite(on_progress, |on, tick| on.store.compact(tick))
    }

    /// Puts every document in the leaves that the tree has for its embedding, makes the codes of the embeddings again, and
    /// writes all anew as [`Self::compact`] does.
    ///
    /// Posting lists follow from embeddings and model, so this is for an index whose lists are in doubt. In a sound one it
    /// changes the leaf of a document here and there, since stored embeddings are rounded.
    ///
    /// # Errors
    /// Those of [`Self::compact`].
    pub fn rebuild_postings(&self) -> Result<()> {
        self.rebuild_postings_with(&mut no_progress)
    }

    /// As [`Self::rebuild_postings`], with progress in documents and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Self::compact_with`].
    pub fn rebuild_postings_with(&self, on_progress: &mut OnProgress<'_>) -> Result<()> {
        let apart = Apart::new();
        self.rewrite(on_progress, |on, tick| {
            let placer = on.placer();
            on.store.rebuild_postings(&|rows| apart.run(|| placer.route_stored(rows)), tick)
        })
    }

    fn rewrite(
        &self,
        on_progress: &mut OnProgress<'_>,
        write: impl FnOnce(&Serving, Tick<'_>) -> std::result::Result<(), StoreError>,
    ) -> Result<()> {
        // Each document is copied twice: its embedding, then the rest.
        let total = 2 * self.len();
        let mut done = 0;
        self.check_outside()?;
        let mut on_progress = self.refusing_writes(on_progress);
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        self.root.check_writes()?;
        let written = write(&self.serving(), &mut || {
            done += 1;
            Progress::new(Stage::Compact, done, total).tell(&mut on_progress, StoreError::Cancelled)
        });
        match written {
            Err(StoreError::Cancelled) => Err(Error::Cancelled),
            other => Ok(other?),
        }
    }

    /// Makes a copy of the index in `target`, a directory that is missing or empty: an index of its own, with
    /// the model, as of the moment of the call.
    ///
    /// What was committed is flushed first. A read-only handle copies the generation that it shows; where the writer has
    /// removed its files, it moves to the newest first.
    /// Files of documents and embeddings never change, so the copy shares them where it is on the same file system
    /// and takes room for the model only; elsewhere they are copied. Searches go on meanwhile; writes wait. A shared
    /// file that the medium damages is damaged in both: a copy for that case belongs on another medium.
    ///
    /// # Durability
    /// It lasts once this has returned; a call that is cut off leaves a directory that does not open.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a directory with anything in it, and failures of the file system.
    pub fn snapshot(&self, target: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref();
        if target.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(StoreError::AlreadyExists { path: target.to_owned() }.into());
        }
        refuse_occupied(target)?;
        self.check_outside()?;
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        let serving = self.serving();
        copy_model_into(&serving.bundle, target)?;
        Ok(serving.store.snapshot(target)?)
    }

    /// Sizes and counts, of documents and rows of the model in service.
    ///
    /// # Errors
    /// Failures of the file system.
    pub fn stats(&self) -> Result<StoreStats> {
        let serving = self.serving();
        let mut stats = serving.store.stats()?;
        let all = |_: &str| true;
        stats.bytes.model = bytes_below(&model_dir(serving.store.path()), &all);
        let other = |number| {
            let dir = store_dir(self.path(), number);
            let parts = ["segments", "documents", "model"].map(|part| bytes_below(&dir.join(part), &all));
            parts.iter().sum::<u64>()
        };
        let later = bytes_below(&self.path().join(MODELS_DIR), &all);
        stats.bytes.other_models = match serving.number {
            0 => later,
            number => other(0) + later.saturating_sub(other(number)),
        };
        Ok(stats)
    }

    /// Reads the whole index and checks every invariant and checksum, and that a search of all leaves finds what exact
    /// search finds.
    ///
    /// # Errors
    /// Failures of reading; damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut no_progress)
    }

    /// As [`Self::verify`], with progress in pages, codes and documents, and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Self::verify`], and [`Error::Cancelled`].
    pub fn verify_with(&self, on_progress: &mut OnProgress<'_>) -> Result<VerifyReport> {
        let serving = self.serving();
        let checked = serving.store.verify_with(&mut |done, total| {
            let progress = Progress { stage: Stage::Verify, done, total: Some(total) };
            progress.tell(on_progress, StoreError::Cancelled)
        });
        let mut report = match checked {
            Err(StoreError::Cancelled) => return Err(Error::Cancelled),
            checked => checked?,
        };
        if report.is_sound() {
            let view = serving.view();
            let probes = serving.probes(&view)?;
            for row in probes {
                let query = serving.unit_row(&view, row)?;
                if serving.check_vector(&query).is_err() {
                    // All zeros: like nothing, and so no question.
                    continue;
                }
                let [exact, beam] = [Reach::Exact, Reach::beam(NonZeroUsize::MAX)]
                    .map(|reach| serving.rank(&view, &query, PROBE_HITS, reach));
                let (exact, beam) = (exact?.rows, beam?.rows);
                let (expected, found) =
                    (exact.len() as u64, exact.iter().filter(|hit| beam.contains(hit)).count());
                if beam != exact {
                    let what = "hits of exact search found in all leaves";
                    report.problem("segments", Damage::Disagreement { what, expected, found: found as u64 });
                }
            }
        }
        Ok(report)
    }
}

impl Serving {
    /// Rows all over a view.
    fn probes(&self, view: &View) -> Result<Vec<Row>> {
        let mut rows = view.newest(PROBES / 2)?;
        let step = (view.rows() / (PROBES / 2)).max(1);
        rows.extend(
            (0..view.rows()).step_by(step).map(|row| Row(row as u32)).filter(|row| view.is_live(*row)),
        );
        Ok(rows)
    }
}
