//! Repair of an index that does not open, or that has internal damage.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use half::f16;

use super::Index;
use super::active_model::{ActiveModel, check_analyzer, check_model, copy_model, without_manifest};
use super::analysis::Analysis;
use super::aside::{forget, set_aside};
use super::ingest::Ingest;
use super::judgment_store::{placed, within};
use super::judgments::is_begun;
use super::measured::{self, Content, Measurements};
use super::root::{Current, Restored, Root, kind, restore};
use crate::disk::{Backend, names};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::lexical::Analyzer;
use crate::model::{Bundle, EncoderPrecision, LoadOptions, ModelError, ModelStore, REPORT_FILE};
use crate::progress::{OnProgress, Progress, Stage};
use crate::scan::Similarity;
use crate::store::{Anew, EncodedBy, Operation, Repair, RepairReport, StoreError, StoreOptions, Undecided};

/// Options of [`Index::repair`].
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// The bundle that the index was made with, in case its own copy is damaged.
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
    /// A damaged manifest or `CURRENT` is replaced by its copy; a damaged model by the bundle in the options,
    /// which must be identical, or without one, if it has neither encoder nor tree, by a new one. If
    /// `CURRENT` and its copy are both damaged, the model that has a store goes into service, provided there
    /// is only one. A damaged earlier model that was kept for rollback is set aside. In damaged segments,
    /// every document whose text matches its checksum is kept; a damaged embedding is recomputed from the
    /// text, in the precision of the others, even if it was given, and so are its leaves. Where there is no
    /// text or no encoder, the document is kept without its embedding
    /// ([`RepairReport::lost_embeddings`]). Damaged files are never removed: they are moved to the folder
    /// `damaged` of the index, until [`RepairOptions::forget`]. Unusable measurements of the model are set
    /// aside too. A sound index is left as it is; unsealed changes stay in the log.
    ///
    /// No other handle may have the index open for writing. Progress is in documents written; the callback
    /// may cancel between them: the error is then [`Error::Cancelled`], with the documents as they were.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::Undecided`] if the options have to decide;
    /// [`StoreError::SeveralModels`] if nothing says which model was in service; [`StoreError::Corrupt`] if a
    /// file and its copy are damaged; [`ModelError`] for a damaged model without a bundle;
    /// [`InputError::ModelMismatch`](crate::InputError::ModelMismatch) for another bundle. The documents are
    /// then as they were.
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
        // First, so that changes to documents are always reported.
        repair_judgments(&root, options.undecided, &mut serving.report)?;
        let load = LoadOptions::new().encoder_precision(precision(&serving, &*root.backend(), &dir));
        let mut report = finish(serving, &root, &dir, options, load, on_progress)?;
        report.current_restored = was_damaged;
        report.set_aside.extend(set_aside);
        forsake_if_damaged(&root, &mut report)?;
        settle_measured(&root, load, &mut report)?;
        if options.forget && report.was_sound() {
            report.forgotten = forget(&*root.backend(), root.dir(), &root.current())?;
        }
        Ok(report)
    }
}

/// The precision in which the encoder made the embeddings of a store; f32 if it is unknown, or if both were
/// used.
fn precision(repair: &Repair, backend: &dyn Backend, dir: &Path) -> EncoderPrecision {
    let origin = (repair.config().model_hash.to_string(), repair.store_id());
    match measured::read(backend, dir) {
        Ok(Some(Content { of, measured: Measurements { encoded_by: by, .. } }))
            if of == origin && by.contains(&EncodedBy::Int8) && !by.contains(&EncodedBy::F32) =>
        {
            EncoderPrecision::Int8
        }
        _ => EncoderPrecision::F32,
    }
}

/// Sets aside an unusable file of measurements of the serving model, and replaces a missing one.
fn settle_measured(root: &Root, load: LoadOptions, report: &mut RepairReport) -> Result<()> {
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
        let encoded_by = model.encoded_by();
        model.measure(&*backend, |measured| measured.encoded_by = encoded_by)?;
    }
    if report.recomputed > 0 {
        model.note_encoded(&*backend, &model.encodes())?;
    }
    Ok(())
}

/// Sets aside the kept model if any part of it is damaged, so that it blocks nothing: it has nothing that the
/// serving one lacks.
fn forsake_if_damaged(root: &Root, report: &mut RepairReport) -> Result<()> {
    let current = root.current();
    let Some(kept) = current.kept else { return Ok(()) };
    let (backend, dir) = (root.backend(), root.model_dir(kept));
    if is_sound(Arc::clone(&backend), &dir)? {
        return Ok(());
    }
    root.check()?;
    if kind(&*backend, &dir)?.is_some() {
        report.set_aside.push(set_aside(&*backend, root.dir(), &dir, &kept.to_string())?);
    }
    root.publish(Current { kept: None, ..current })?;
    report.previous_model_set_aside = true;
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
    let anew = Anew { compute: again, encodes: true, lexer: None };
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

/// Whether the store and the model in a directory are intact. A manifest with a sound copy counts as sound,
/// and is rewritten.
fn is_sound(backend: Arc<dyn Backend>, dir: &Path) -> Result<bool> {
    let repair = match Repair::begin_on(backend, dir, StoreOptions::default()) {
        Ok(repair) => repair,
        Err(
            StoreError::Corrupt { .. } | StoreError::NotAnIndex { .. } | StoreError::InterruptedCreate { .. },
        ) => {
            return Ok(false);
        }
        Err(other) => return Err(other.into()),
    };
    if !repair.is_sound()? {
        return Ok(false);
    }
    match Bundle::open(dir.join(names::BUNDLE)) {
        Ok(bundle) => Ok(bundle.hash() == repair.config().model_hash),
        Err(ModelError::Io { source, .. }) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io(dir.join(names::BUNDLE), Operation::Read)(source).into())
        }
        Err(_) => Ok(false),
    }
}

fn finish(
    mut repair: Repair,
    root: &Root,
    dir: &Path,
    options: &RepairOptions,
    load: LoadOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<RepairReport> {
    check_analyzer(repair.config())?;
    let bundle = restore_model(&mut repair, root, dir, options.bundle.as_ref(), load)?;
    let similarity = Similarity::from_code(repair.config().similarity).unwrap_or(Similarity::Cosine);
    // A damaged segment gets its terms from the remaining texts.
    let ingest = Ingest { bundle: &bundle, similarity, analyzer: None, passages: repair.config().passages };
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
        lexer: analysis.as_ref().map(|own| own as _),
    };
    repair.run(options.undecided, anew, &mut tick)
}

/// The index's own model, or the given one if that is damaged.
fn restore_model(
    repair: &mut Repair,
    root: &Root,
    dir: &Path,
    given: Option<&Bundle>,
    load: LoadOptions,
) -> Result<Bundle> {
    let expected = repair.config().model_hash;
    let model = dir.join(names::BUNDLE);
    let own = load.bundle(&model).map_err(Error::from);
    let own = own.and_then(|own| check_model(expected, own.hash()).map(|()| own));
    // A model that is nothing but a width is known.
    let made = Bundle::for_vectors(repair.config().dim as usize)?;
    let given = given.or((made.hash() == expected).then_some(&made));
    let (error, given) = match (own, given) {
        (Ok(own), _) => {
            if let Err(error) = own.check_query_encoder() {
                let index = root.dir().display();
                tracing::warn!(%index, %error, "the query encoder is damaged and is taken away");
                own.set_query_encoder(&*root.backend(), None)?;
                repair.report.query_encoder_removed = true;
            }
            if let Err(error) = own.routing_profiles() {
                let (backend, index) = (root.backend(), root.dir());
                tracing::warn!(index = %index.display(), %error, "the report of the training is set aside");
                repair.report.set_aside.push(set_aside(
                    &*backend,
                    index,
                    &model.join(REPORT_FILE),
                    REPORT_FILE,
                )?);
            }
            return Ok(own);
        }
        (Err(error), None) => return Err(error),
        (Err(error), Some(given)) => (error, given),
    };
    check_model(expected, given.hash())?;
    let index = root.dir().display();
    tracing::warn!(%index, %error, "the model is damaged and is replaced");
    let backend = root.backend();
    if kind(&*backend, &model)?.is_some() {
        let name = format!("{}-{}", root.current().serving, names::BUNDLE);
        repair.report.set_aside.push(set_aside(&*backend, root.dir(), &model, &name)?);
    }
    copy_model(&*backend, given, ModelStore::of_user().as_ref().into(), dir)?;
    repair.report.model_restored = true;
    Ok(load.bundle(model)?)
}
