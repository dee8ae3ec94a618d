//! Repair of an index that does not open, or that has internal damage.

mod kept;
mod model;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use half::f16;

use super::Index;
use super::active_model::{ActiveModel, check_analyzer, without_manifest};
use super::analysis::Analysis;
use super::aside::{forget, set_aside};
use super::ingest::Ingest;
use super::judgment_store::{placed, within};
use super::judgments::is_begun;
use super::measured::{self, Content, Measurements};
use super::root::{Restored, Root, kind, restore};
use crate::disk::{Backend, names};
use crate::document::Document;
use crate::error::Result;
use crate::ids::Generation;
use crate::lexical::Analyzer;
use crate::model::{Bundle, LoadOptions};
use crate::progress::{OnProgress, Progress, Stage};
use crate::scan::Similarity;
use crate::store::{Anew, Readable, Repair, RepairReport, StoreError, StoreOptions, Undecided};
use model::Place;

/// Options of [`Index::repair`].
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// The bundle that the index was made with, or another one with its encoder, in case its own copy is
    /// damaged. For an index without an encoder, [`Bundle::for_vectors`].
    pub bundle: Option<Bundle>,
    /// What to do with documents that may have been deleted; [`Undecided::Refuse`] by default.
    pub undecided: Undecided,
    /// Removes what earlier repairs set aside, if this one finds nothing to do: the index is sound without
    /// it, and a copy made now is a better backup.
    pub forget: bool,
}

impl Index {
    /// Restores what can be read of a damaged index, even if it does not open; reports what is lost.
    ///
    /// A damaged manifest or `CURRENT` is replaced by its copy; if `CURRENT` and its copy are both damaged,
    /// the model that has a store goes into service, provided there is only one. A damaged model is replaced
    /// by the bundle in the options. That may have another tree, if its encoder is the same: documents are
    /// then put in the leaves of that tree, and the old one is lost ([`RepairReport::tree_lost`]). A model
    /// without an encoder needs no bundle, unless its `ehi.json` is damaged: it loses its tree, if it has
    /// one.
    ///
    /// In damaged segments, every document whose text matches its checksum is kept; a damaged embedding is
    /// recomputed from the text, in the precision of the others, even if it was given, and so are its leaves.
    /// Where there is no text or no encoder, the embedding is taken from the model before the last change, if
    /// that has no other encoder and the document was not stored again since. Otherwise the document is kept
    /// without its embedding ([`RepairReport::lost_embeddings`]). The model before the last change is
    /// repaired in the same way, and set aside if it is beyond repair. So are unusable measurements of the
    /// model. Damaged files are never removed: they are moved to the folder `damaged` of the index, until
    /// [`RepairOptions::forget`]. A sound index is left as it is; unsealed changes stay in the log.
    ///
    /// No other handle may have the index open for writing. Progress is in documents written; the callback
    /// may cancel between them: the error is then [`Error::Cancelled`](crate::Error::Cancelled), with the
    /// documents as they were.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::Undecided`] if the options have to decide;
    /// [`StoreError::SeveralModels`] if nothing says which model was in service; [`StoreError::Corrupt`] if a
    /// file and its copy are damaged; [`ModelError`](crate::model::ModelError) for a damaged model without a
    /// bundle; [`InputError::ModelMismatch`](crate::InputError::ModelMismatch) for a bundle with another
    /// encoder. The documents are then as they were.
    pub fn repair(
        path: impl AsRef<Path>,
        options: &RepairOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RepairReport> {
        Self::repair_on(StoreOptions::default().backend(), path.as_ref(), options, on_progress)
    }

    /// As [`Self::repair`], with all durable operations through `backend`.
    pub(crate) fn repair_on(
        backend: Arc<dyn Backend>,
        path: &Path,
        options: &RepairOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RepairReport> {
        let Restored { root, was_damaged, set_aside } = restore(Arc::clone(&backend), path, Duration::ZERO)?;
        let dir = root.model_dir(root.current().serving);
        let serving = Repair::begin_on(backend, &dir, StoreOptions::default());
        let mut serving = serving.map_err(without_manifest)?;
        let measured = measurements(&serving, &*root.backend(), &dir);
        let load = LoadOptions::new().usual_precision(measured.precision.unwrap_or_default());
        let place = Place { root: &root, number: root.current().serving };
        let given = options.bundle.as_ref();
        let model = model::restore(&mut serving, place, given, load)?;
        let mut elsewhere = kept::embeddings(&root, model.bundle(), measured.filled);
        let mut report = finish(serving, model.bundle(), &mut elsewhere, options.undecided, on_progress)?;
        drop(elsewhere);
        let bundle = model.put_in_place(place, load, &mut report, on_progress)?;
        report.current_restored = was_damaged;
        report.set_aside.extend(set_aside);
        // After the documents: what it loses is reported, which an error would prevent.
        kept::repair(&root, &bundle, given, &mut report, on_progress)?;
        repair_judgments(&root, options.undecided, &mut report)?;
        settle_measured(&root, load, &measured, &mut report)?;
        if options.forget && report.was_sound() {
            report.forgotten = forget(&*root.backend(), root.dir(), &root.current())?;
        }
        Ok(report)
    }
}

/// What is known of the store in `dir` and its model.
fn measurements(repair: &Repair, backend: &dyn Backend, dir: &Path) -> Measurements {
    let origin = (repair.config().model_hash.to_string(), repair.store_id());
    match measured::read(backend, dir) {
        Ok(Some(Content { of, measured })) if of == origin => measured,
        _ => Measurements::default(),
    }
}

/// Sets aside an unusable file of measurements of the serving model, and replaces a missing one; `before` was
/// known before the repair, which may have changed the model.
fn settle_measured(
    root: &Root,
    load: LoadOptions,
    before: &Measurements,
    report: &mut RepairReport,
) -> Result<()> {
    let (backend, current) = (root.backend(), root.current());
    let (number, dir) = (current.serving, root.model_dir(current.serving));
    let model = match ActiveModel::open_read_only(&*backend, &dir, number, load.lazy_encoder(true)) {
        Ok(model) => model,
        Err(error) => {
            tracing::warn!(index = %root.dir().display(), %error, "what was measured is not looked at");
            return Ok(());
        }
    };
    if let Some(notice) = model.unmeasured(&*backend) {
        report.unmeasured.push(notice.to_string());
        let file = dir.join(names::MEASURED);
        root.check()?;
        if kind(&*backend, &file)?.is_some() {
            let name = format!("{number}-{}", names::MEASURED);
            report.set_aside.push(set_aside(&*backend, root.dir(), &file, &name)?);
        }
        // Written in any case: it may be missing although it was read at opening.
        let encoded_by = match before.encoded_by.is_empty() {
            true => model.encoded_by(),
            false => before.encoded_by.clone(),
        };
        model.measure(&*backend, |measured| {
            (measured.encoded_by, measured.precision) = (encoded_by, before.precision);
        })?;
    }
    if report.recomputed > 0 {
        model.note_encoded(&*backend, &model.encodes())?;
    }
    Ok(())
}

/// Restores what can be read of the judgments; sets aside a store that is beyond repair. Judgments that may
/// have been forgotten are kept unless the options say otherwise: a repair of documents must not fail because
/// of them.
fn repair_judgments(root: &Root, undecided: Undecided, report: &mut RepairReport) -> Result<()> {
    let (backend, dir) = (root.backend(), root.dir().join(names::JUDGMENTS));
    if kind(&*backend, &dir)?.is_none() {
        return Ok(());
    }
    root.check()?;
    let repair = match Repair::begin_on(Arc::clone(&backend), &dir, StoreOptions::default()) {
        Ok(repair) => repair,
        // Nothing was stored there yet.
        Err(StoreError::InterruptedCreate { .. }) => return Ok(()),
        Err(StoreError::NotAnIndex { .. }) if is_begun(&*backend, &dir)? => return Ok(()),
        Err(StoreError::Corrupt { .. } | StoreError::NotAnIndex { .. }) => {
            report.judgments_set_aside = true;
            report.set_aside.push(set_aside(&*backend, root.dir(), &dir, names::JUDGMENTS)?);
            return Ok(());
        }
        Err(other) => return Err(other.into()),
    };
    let again = &mut |documents: Vec<Document>, _| Ok(documents.into_iter().map(placed).collect());
    let undecided = if undecided == Undecided::Refuse { Undecided::Keep } else { undecided };
    let anew = Anew { compute: again, encodes: true, elsewhere: &mut |_, _| None, lexer: None };
    let own = within(repair.run::<StoreError>(undecided, anew, &mut || Ok(())))?;
    report.judgments_damaged = !own.was_sound();
    report.lost_judgments = own.lost;
    report.lost_judgment_commits = own.lost_commits;
    report.waiting_judgments = own.waiting_documents;
    report.undecided_judgments = own.undecided;
    report.set_aside.extend(own.set_aside);
    if own.lost + own.lost_commits > 0 {
        let (lost, commits) = (own.lost, own.lost_commits);
        tracing::warn!(index = %root.dir().display(), lost, commits, "judgments cannot be read");
    }
    Ok(())
}

/// Repairs the store of a model; `elsewhere` has embeddings of another store.
fn finish(
    repair: Repair,
    bundle: &Bundle,
    elsewhere: &mut dyn FnMut(&Document, Generation) -> Readable,
    undecided: Undecided,
    on_progress: &mut OnProgress<'_>,
) -> Result<RepairReport> {
    check_analyzer(repair.config())?;
    let similarity = Similarity::from_code(repair.config().similarity).unwrap_or(Similarity::Cosine);
    // A damaged segment gets its terms from the remaining texts.
    let ingest =
        Ingest { bundle, similarity, analyzer: None, passages: repair.config().passages, cache: None };
    let analyzer = Analyzer::from_code(repair.config().terms);
    let analysis = analyzer.map(|analyzer| Analysis { analyzer, encoder: bundle.model().encoder().ok() });
    let mut done = 0;
    let mut tick = || {
        done += 1;
        Progress { stage: Stage::Repair, done, total: None }.tell(on_progress, StoreError::Cancelled)
    };
    let encodes = bundle.model().has_encoder();
    let embedding_of = |own: Option<Vec<f16>>, document: &Document| match own {
        None if !encodes || document.is_empty() => Some(vec![similarity.of_lost(); bundle.model().dim()]),
        own => own,
    };
    let anew = Anew {
        compute: &mut |documents, embeddings| {
            let known = embeddings.into_iter().zip(&documents);
            let row = |(own, document)| Some(ingest.whole_row(document, embedding_of(own, document)?));
            let rows = known.map(row).collect();
            ingest.again(documents, rows, false, &mut || ControlFlow::Continue(()))
        },
        encodes,
        elsewhere,
        lexer: analysis.as_ref().map(|own| own as _),
    };
    repair.run(undecided, anew, &mut tick)
}
