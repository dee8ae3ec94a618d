//! The full check of an index: every model, `CURRENT`, and unexpected files.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::active_model::ActiveModel;
use super::begun;
use super::root::{Current, kind, list, model_prefix};
use super::search::{Plan, SearchRequest};
use super::with_progress::WithProgress;
use super::{Index, READ_ATTEMPTS};
use crate::disk::{Kind, names};
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::model::{Bundle, ModelError, REPORT_FILE};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::scan::has_direction;
use crate::store::{Damage, Notice, Store, StoreError, VerifyReport, View};

/// Stored embeddings used as queries by [`Index::verify`].
const PROBES: usize = 16;
/// How long an active writer has to finish what a reader would otherwise take for remains.
const SETTLE: Duration = Duration::from_millis(50);
/// Hits of such a search.
const PROBE_HITS: NonZeroUsize = NonZeroUsize::new(10).unwrap();

impl Index {
    /// Reads the whole index and checks every invariant and checksum: `CURRENT`, each model with its store
    /// and its log, including kept ones, and that a search of all leaves finds the same as exact search. If
    /// the index is sound, every operation of every kind would succeed on these bytes.
    ///
    /// If another process or thread changes or drops a model in the meantime, a read-only handle moves to the
    /// newest one, and the check starts over.
    ///
    /// # Errors
    /// Failures of reading; damage goes into the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.check(&mut no_progress)
    }

    fn check(&self, on_progress: &mut OnProgress<'_>) -> Result<VerifyReport> {
        let mut attempt = 0;
        loop {
            let before = self.root.read().ok();
            let checked = self.check_once(on_progress);
            attempt += 1;
            let is_final = match &checked {
                Ok(report) => report.is_sound(),
                Err(error) => matches!(error, Error::Cancelled),
            };
            let now = self.root.read().ok();
            // What was found missing may belong to a model that was dropped.
            let is_dropped = |now: &Current| !now.all().any(|number| number == self.serving().number);
            let has_changed = before != now || now.as_ref().is_some_and(is_dropped);
            if is_final || attempt == READ_ATTEMPTS || !has_changed || self.refresh().is_err() {
                return checked;
            }
        }
    }

    fn check_once(&self, on_progress: &mut OnProgress<'_>) -> Result<VerifyReport> {
        let serving = self.serving();
        let mut report = VerifyReport::default();
        let own = verify_store(&serving.store, on_progress)?;
        let is_sound = own.is_sound();
        report.absorb(&model_prefix(serving.number), own);
        if is_sound {
            serving.verify_searches(&mut report)?;
        }
        self.verify_bundle(serving.number, &mut report)?;
        let Some(current) = report.note(self.root.read())? else { return Ok(report) };
        if current.serving == serving.number {
            report.warnings.extend(serving.unmeasured(&*self.root.backend()));
        }
        for number in current.kept.into_iter().filter(|number| *number != serving.number) {
            let dir = self.root.model_dir(number);
            // Reads the files again.
            let load = self.options.load.lazy_encoder(false).shared(false);
            let opened = ActiveModel::open_read_only(&*self.root.backend(), &dir, number, load);
            match opened {
                Ok(other) => {
                    report.absorb_findings(&model_prefix(number), verify_store(&other.store, on_progress)?);
                    verify_query_encoder(number, &other.bundle, &mut report)?;
                    report.warnings.extend(other.unmeasured(&*self.root.backend()));
                }
                Err(Error::Store(StoreError::Corrupt { file, detail })) => {
                    report.problem(format!("{}{file}", model_prefix(number)), detail);
                }
                Err(error) => note_unusable(&mut report, model_prefix(number), "the model", error)?,
            }
        }
        self.verify_judgments(on_progress, &mut report)?;
        self.verify_names(&current, &mut report)?;
        Ok(report)
    }

    fn verify_judgments(&self, on_progress: &mut OnProgress<'_>, report: &mut VerifyReport) -> Result<()> {
        let store = match self.judgments_for_reading() {
            Ok(Some(store)) => store,
            Ok(None) => return Ok(()),
            Err(Error::Store(StoreError::Corrupt { file, detail })) => {
                report.problem(file, detail);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut found = verify_store(&store, on_progress)?;
        found.warnings = found.warnings.into_iter().map(Notice::of_judgments).collect();
        report.absorb_findings(&format!("{}/", names::JUDGMENTS), found);
        Ok(())
    }

    /// Checks that the bundle on disk is the one that was opened.
    fn verify_bundle(&self, number: u32, report: &mut VerifyReport) -> Result<()> {
        let dir = self.root.model_dir(number).join(names::BUNDLE);
        let file = format!("{}{}", model_prefix(number), names::BUNDLE);
        match Bundle::open(dir) {
            Ok(bundle) if bundle.hash() == self.serving().bundle.hash() => {
                verify_query_encoder(number, &bundle, report)?;
                if let Err(error) = bundle.routing_profiles() {
                    let file = format!("{file}/{REPORT_FILE}");
                    note_unusable(report, file, "the report of the training", error)?;
                }
            }
            Ok(_) => {
                let why = "it is another one than the index was made with".to_owned();
                report.problem(file, Damage::Unusable { what: "the bundle", report: why });
            }
            Err(error) => note_unusable(report, file, "the bundle", error)?,
        }
        Ok(())
    }

    /// Checks the files and directories of the index itself.
    fn verify_names(&self, current: &Current, report: &mut VerifyReport) -> Result<()> {
        let (backend, dir) = (self.root.backend(), self.path());
        let mut has_copy = self.root.has_copy();
        if !has_copy && self.is_read_only() {
            // An active writer writes the copy first.
            std::thread::sleep(SETTLE);
            has_copy = self.root.has_copy();
        }
        if !has_copy {
            report.warnings.push(Notice::StaleCopy { file: names::CURRENT_COPY.to_owned() });
        }
        let mut begun = begun::all(&*backend, dir, current)?;
        if self.is_read_only() && !begun.is_empty() {
            // An active writer has temporary files for a moment.
            std::thread::sleep(SETTLE);
            let again = begun::all(&*backend, dir, &self.root.read()?)?;
            begun.retain(|begun| again.contains(begun));
        }
        report.warnings.extend(begun.into_iter().map(|begun| Notice::Begun { file: begun.name }));
        let unused = |name: String| Notice::Unused { file: name };
        let lock = kind(&*backend, &dir.join(names::LOCK))?;
        if lock.is_some_and(|kind| kind != Kind::File) {
            report.problem(names::LOCK, Damage::NotAFile);
        }
        let mut models = list(&*backend, &dir.join(names::MODELS))?;
        // An active writer may have begun another one.
        let all = current.all().chain(self.root.read()?.all());
        let named: Vec<String> = all.map(|number| number.to_string()).collect();
        models.retain(|name| !named.contains(name));
        report.warnings.extend(models.into_iter().map(|name| unused(format!("{}/{name}", names::MODELS))));
        if let Some(number) = current.unfinished {
            let directory = format!("{}/{number}", names::MODELS);
            report.warnings.push(Notice::Unfinished { directory });
        }
        let aside = list(&*backend, &dir.join(names::DAMAGED))?;
        let aside =
            aside.into_iter().map(|name| Notice::SetAside { path: format!("{}/{name}", names::DAMAGED) });
        report.warnings.extend(aside);
        Ok(())
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::verify`], with progress in pages, codes and documents, and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Index::verify`], and [`Error::Cancelled`].
    pub fn verify(mut self) -> Result<VerifyReport> {
        self.index.check(&mut self.on_progress)
    }
}

/// Records that something is unusable. A failure of reading that may be temporary, such as lack of file
/// handles or of permission, is an error instead.
fn note_unusable(
    report: &mut VerifyReport,
    file: String,
    what: &'static str,
    error: impl Into<Error>,
) -> Result<()> {
    let error = error.into();
    if let Error::Store(StoreError::Io { source, .. }) | Error::Model(ModelError::Io { source, .. }) = &error
        && !matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput)
    {
        return Err(error);
    }
    let is_shared = |path: &Path| fs::metadata(path).is_ok_and(|of| of.nlink() > 1);
    let text = match &error {
        Error::Model(ModelError::Checksum { path }) if is_shared(path) => {
            format!("{error}; indexes that share this file have the same damage")
        }
        _ => error.to_string(),
    };
    report.problem(file, Damage::Unusable { what, report: text });
    Ok(())
}

/// Checks a store.
fn verify_store(store: &Store, on_progress: &mut OnProgress<'_>) -> Result<VerifyReport> {
    Ok(store.verify_with(&mut |done, total| {
        let progress = Progress { stage: Stage::Verify, done, total: Some(total) };
        progress.tell(on_progress, StoreError::Cancelled)
    })?)
}

/// Checks that the query encoder of a model can be used.
fn verify_query_encoder(number: u32, bundle: &Bundle, report: &mut VerifyReport) -> Result<()> {
    let file = format!("{}{}", model_prefix(number), names::BUNDLE);
    bundle.check_query_encoder().or_else(|error| note_unusable(report, file, "the query encoder", error))
}

impl ActiveModel {
    /// Checks that a search of all leaves finds the same as exact search.
    fn verify_searches(&self, report: &mut VerifyReport) -> Result<()> {
        let view = self.view();
        for row in self.probes(&view)? {
            let query = self.unit_row(&view, row)?;
            if !has_direction(&query) {
                // All zeros: similar to nothing, and so unusable as a query.
                continue;
            }
            let [exact, beam] = [SearchRequest::dense().exact(), SearchRequest::dense().beam(usize::MAX)]
                .map(|request| self.rank(&view, &query, &Plan::new(PROBE_HITS, &request)));
            let (exact, beam) = (exact?.rows, beam?.rows);
            let (expected, found) =
                (exact.len() as u64, exact.iter().filter(|hit| beam.contains(hit)).count());
            if beam != exact {
                let what = "hits of exact search found in all leaves";
                let damage = Damage::Disagreement { what, expected, found: found as u64 };
                report.problem(format!("{}{}", model_prefix(self.number), names::SEGMENTS), damage);
            }
        }
        Ok(())
    }

    /// Rows spread over a view.
    fn probes(&self, view: &View) -> Result<Vec<Row>> {
        let mut rows = view.newest(PROBES / 2)?;
        let step = (view.rows() / (PROBES / 2)).max(1);
        rows.extend(
            (0..view.rows()).step_by(step).map(|row| Row(row as u32)).filter(|row| view.is_live(*row)),
        );
        Ok(rows)
    }
}
