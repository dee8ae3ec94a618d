//! Repair of the model before the last change, whose store may have embeddings that the serving one lost.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use half::f16;

use super::super::aside::set_aside;
use super::super::change::row_of_texts;
use super::super::insert::stored_rows;
use super::super::measured;
use super::super::root::{Current, Root, kind};
use super::model::{self, Model, Place};
use super::{finish, measurements};
use crate::disk::{Backend, names};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::ids::Generation;
use crate::model::{Bundle, INDEXER_FILE, LoadOptions, ModelError};
use crate::progress::OnProgress;
use crate::store::{
    Damage, EncodedBy, Readable, Repair, RepairReport, Store, StoreError, StoreOptions, Undecided,
};

/// The embeddings of the kept model's store that are also those of a model that went into service in the
/// generation `filled` of its own store: later documents may have others.
pub(super) fn embeddings(
    root: &Root,
    of: &Bundle,
    filled: Option<u64>,
) -> impl FnMut(&Document, Generation) -> Readable {
    let dir = root.current().kept.zip(filled).map(|(number, _)| root.model_dir(number));
    let dir = dir.filter(|dir| has_encoder_of(&*root.backend(), dir, of));
    let store = dir.and_then(|dir| Store::open_read_only(dir).ok());
    let store = store.filter(|store| store.config().dim as usize == of.model().dim());
    move |document, inserted| {
        let is_same = filled.is_some_and(|filled| inserted.0 <= filled);
        embedding(store.as_ref().filter(|_| is_same)?, document).ok().flatten()
    }
}

/// Whether the model in `dir`, which may be damaged, has the encoder of another one.
fn has_encoder_of(backend: &dyn Backend, dir: &Path, other: &Bundle) -> bool {
    match LoadOptions::new().lazy_encoder(true).bundle(dir.join(names::BUNDLE)) {
        Ok(own) => own.has_encoder_of(other),
        // One without an encoder has the embeddings that it was given.
        Err(_) if !other.model().has_encoder() => {
            let measured = measured::read(backend, dir).ok().flatten().map(|own| own.measured.encoded_by);
            measured == Some(BTreeSet::from([EncodedBy::Given]))
        }
        Err(_) => false,
    }
}

/// The embedding of a document with this title and text, if the store has it.
fn embedding(store: &Store, document: &Document) -> Result<Readable> {
    let (view, of_lost) = (store.read(), store.config().similarity()?.of_lost());
    let Some(row) = row_of_texts(&view, document)? else { return Ok(None) };
    let mut rows = stored_rows(&view, row)?;
    let own = rows.pop().filter(|_| rows.is_empty());
    // An earlier repair may have lost it there.
    let is_known = |own: &Vec<f16>| own.iter().any(|x| x.to_bits() != of_lost.to_bits());
    Ok(own.map(|own| own.embedding).filter(is_known))
}

/// Keeps what can be read of the kept model; sets it aside if it is beyond repair, so that it blocks nothing.
pub(super) fn repair(
    root: &Root,
    serving: &Bundle,
    given: Option<&Bundle>,
    report: &mut RepairReport,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let current = root.current();
    let Some(number) = current.kept else { return Ok(()) };
    let (bundle, own) = match repair_model(Place { root, number }, serving, given, on_progress) {
        Ok(repaired) => repaired,
        Err(error) if is_damage(&error) => {
            tracing::warn!(index = %root.dir().display(), %error, "the kept model is beyond repair");
            let (backend, dir) = (root.backend(), root.model_dir(number));
            root.check()?;
            if kind(&*backend, &dir)?.is_some() {
                report.set_aside.push(set_aside(&*backend, root.dir(), &dir, &number.to_string())?);
            }
            root.publish(Current { kept: None, ..current })?;
            report.previous_model_set_aside = true;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    report.previous_model_repaired = !own.was_sound();
    report.previous_tree_lost = own.tree_lost;
    report.set_aside.extend(own.set_aside);
    if !(bundle.model().has_encoder() || bundle.has_encoder_of(serving)) {
        report.lost_previous_embeddings = own.lost + own.lost_embeddings;
    }
    Ok(())
}

fn repair_model(
    place: Place<'_>,
    serving: &Bundle,
    given: Option<&Bundle>,
    on_progress: &mut OnProgress<'_>,
) -> Result<(Bundle, RepairReport)> {
    let (backend, dir) = (place.root.backend(), place.dir());
    let mut repair = Repair::begin_on(Arc::clone(&backend), &dir, StoreOptions::default())?;
    let measured = measurements(&repair, &*backend, &dir);
    let load = LoadOptions::new().usual_precision(measured.precision.unwrap_or_default());
    let model = match model::restore(&mut repair, place, None, load) {
        Err(_) if given.is_some() => model::restore(&mut repair, place, given, load),
        restored => restored,
    }?;
    if matches!(model, Model::OtherTree(_)) && model.bundle().has_encoder_of(serving) {
        // Without its tree, it has nothing that the serving model lacks.
        return Err(StoreError::corrupt(INDEXER_FILE, Damage::Missing { what: "a sound tree" }).into());
    }
    // A rollback removes documents that were deleted.
    let mut report = finish(repair, model.bundle(), &mut |_, _| None, Undecided::Keep, on_progress)?;
    let bundle = model.put_in_place(place, load, &mut report, on_progress)?;
    Ok((bundle, report))
}

/// Whether something is damaged, and not merely unreadable now.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Model(ModelError::Io { source, .. }) => source.kind() == ErrorKind::NotFound,
        Error::Model(_) | Error::Input(_) => true,
        Error::Store(error) => matches!(
            error,
            StoreError::Corrupt { .. } | StoreError::NotAnIndex { .. } | StoreError::InterruptedCreate { .. }
        ),
        _ => false,
    }
}
