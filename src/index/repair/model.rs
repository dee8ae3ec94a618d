//! Repair of the model that a store belongs to.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::active_model::{check_model, copy_model};
use super::super::analysis::lexers;
use super::super::aside::set_aside;
use super::super::ingest::Ingest;
use super::super::root::{Root, kind};
use crate::disk::names;
use crate::error::{Error, InputError, Result};
use crate::model::{Bundle, LoadOptions, ModelStore, REPORT_FILE, has_encoder_files};
use crate::progress::{OnProgress, Progress, Stage};
use crate::store::{Repair, RepairReport, Store, StoreError, StoreOptions};

/// The directory of a model of an index.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub root: &'a Root,
    pub number: u32,
}

impl Place<'_> {
    pub fn dir(self) -> PathBuf {
        self.root.model_dir(self.number)
    }

    /// Replaces the damaged model.
    fn replace(self, bundle: &Bundle, load: LoadOptions, report: &mut RepairReport) -> Result<Bundle> {
        let (backend, model) = (self.root.backend(), self.dir().join(names::BUNDLE));
        if kind(&*backend, &model)?.is_some() {
            let name = format!("{}-{}", self.number, names::BUNDLE);
            report.set_aside.push(set_aside(&*backend, self.root.dir(), &model, &name)?);
        }
        copy_model(&*backend, bundle, ModelStore::of_user().as_ref().into(), &self.dir())?;
        report.model_restored = true;
        Ok(load.bundle(model)?)
    }
}

/// The model with which a store is repaired.
pub(super) enum Model {
    /// That of the store.
    Own(Bundle),
    /// One with the same encoder, for a store whose own is damaged: it loses its tree.
    OtherTree(Bundle),
}

/// The index's own model or, if that is damaged, `given` or a model that is nothing but a width.
pub(super) fn restore(
    repair: &mut Repair,
    place: Place<'_>,
    given: Option<&Bundle>,
    load: LoadOptions,
) -> Result<Model> {
    let (expected, dim) = (repair.config().model_hash, repair.config().dim as usize);
    let path = place.dir().join(names::BUNDLE);
    let own = load.bundle(&path).map_err(Error::from);
    let own = own.and_then(|own| check_model(expected, own.hash()).map(|()| own));
    let error = match own {
        Ok(own) => {
            restore_attached(repair, place, &own)?;
            return Ok(Model::Own(own));
        }
        Err(error) => error,
    };
    let index = place.root.dir().display();
    let made = Bundle::for_vectors(dim)?;
    if let Some(same) = given.into_iter().chain([&made]).find(|bundle| bundle.hash() == expected) {
        tracing::warn!(%index, %error, "the model is damaged and is replaced");
        return Ok(Model::Own(place.replace(same, load, &mut repair.report)?));
    }
    // Without a list of the model's files, only the caller can know that it had no encoder.
    let suits = |bundle: &Bundle| match bundle.has_encoder_listed_in(&path, expected) {
        Some(is_same) => is_same,
        None => given.is_some() && !bundle.model().has_encoder() && !has_encoder_files(&path),
    };
    let other = given.unwrap_or(&made);
    if suits(other) && other.model().dim() == dim {
        tracing::warn!(%index, %error, "the model is damaged and its tree is lost");
        return Ok(Model::OtherTree(other.clone()));
    }
    match given {
        Some(given) if !given.model().has_encoder() && given.model().dim() != dim => {
            Err(InputError::WidthMismatch { index: dim, given: given.model().dim() }.into())
        }
        Some(given) => check_model(expected, given.hash()).and(Err(error)),
        None => Err(error),
    }
}

/// Takes damaged parts away that the model can do without.
fn restore_attached(repair: &mut Repair, place: Place<'_>, own: &Bundle) -> Result<()> {
    let (backend, index) = (place.root.backend(), place.root.dir());
    if let Err(error) = own.check_query_encoder() {
        tracing::warn!(index = %index.display(), %error, "the query encoder is damaged and is taken away");
        own.set_query_encoder(&*backend, None)?;
        repair.report.query_encoder_removed = true;
    }
    if let Err(error) = own.routing_profiles() {
        tracing::warn!(index = %index.display(), %error, "the report of the training is set aside");
        let report = place.dir().join(names::BUNDLE).join(REPORT_FILE);
        repair.report.set_aside.push(set_aside(&*backend, index, &report, REPORT_FILE)?);
    }
    Ok(())
}

impl Model {
    pub fn bundle(&self) -> &Bundle {
        match self {
            Self::Own(bundle) | Self::OtherTree(bundle) => bundle,
        }
    }

    /// Puts the documents of the repaired store in the leaves of the model, if it has another tree, and then
    /// the model in its place: a repair that is cut off in between is continued by the next one.
    pub fn put_in_place(
        self,
        place: Place<'_>,
        load: LoadOptions,
        report: &mut RepairReport,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Bundle> {
        let bundle = match self {
            Self::Own(own) => return Ok(own),
            Self::OtherTree(bundle) => bundle,
        };
        let store = Store::open_on(place.root.backend(), &place.dir(), StoreOptions::default())?;
        store.set_lexers(lexers(Arc::new(bundle.clone())));
        let (similarity, passages) = (store.config().similarity()?, store.config().passages);
        let ingest = Ingest { bundle: &bundle, similarity, analyzer: None, passages, cache: None };
        let shape = bundle.model().indexer.shape();
        // Those in the log, too, are then in a segment.
        (report.documents, report.waiting_documents) = (store.read().live() as u64, 0);
        let mut done = 0;
        store.replace_tree(
            bundle.hash(),
            (shape.branching_factor(), shape.height()),
            &|rows| ingest.route_stored(rows),
            &mut || {
                done += 1;
                Progress { stage: Stage::Repair, done, total: None }.tell(on_progress, StoreError::Cancelled)
            },
        )?;
        report.tree_lost = true;
        place.replace(&bundle, load, report)
    }
}
