//! Repair of the model before the last change, whose store may have embeddings that the serving one lost.

use std::io::ErrorKind;
use std::sync::Arc;

use half::f16;

use super::super::aside::set_aside;
use super::super::change::row_of_texts;
use super::super::insert::stored_rows;
use super::super::root::{Current, Root, kind};
use super::model::{self, Place};
use super::{finish, precision};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::model::{Bundle, LoadOptions, ModelError};
use crate::progress::OnProgress;
use crate::store::{Readable, Repair, RepairReport, Store, StoreError, StoreOptions, Undecided};

/// The model that a rollback would return to.
#[derive(Default)]
pub(super) struct Kept {
    /// `None` without such a model, or if it is beyond repair.
    bundle: Option<Bundle>,
    report: RepairReport,
}

impl Kept {
    /// Keeps what can be read of the kept model.
    pub fn repair(root: &Root, on_progress: &mut OnProgress<'_>) -> Result<Self> {
        let Some(number) = root.current().kept else { return Ok(Self::default()) };
        match Self::repair_model(Place { root, number }, on_progress) {
            Err(error) if is_damage(&error) => Ok(Self::default()),
            repaired => repaired,
        }
    }

    fn repair_model(place: Place<'_>, on_progress: &mut OnProgress<'_>) -> Result<Self> {
        let (backend, dir) = (place.root.backend(), place.dir());
        let mut repair = Repair::begin_on(Arc::clone(&backend), &dir, StoreOptions::default())?;
        let load = LoadOptions::new().encoder_precision(precision(&repair, &*backend, &dir));
        let model = model::restore(&mut repair, place, None, load)?;
        // A rollback removes documents that were deleted.
        let mut report = finish(repair, model.bundle(), &mut |_| None, Undecided::Keep, on_progress)?;
        let bundle = Some(model.put_in_place(place, load, &mut report, on_progress)?);
        Ok(Self { bundle, report })
    }

    /// The embeddings of its store that are also those of a model.
    pub fn embeddings(&self, root: &Root, of: &Bundle) -> impl FnMut(&Document) -> Readable {
        let is_same = self.bundle.as_ref().is_some_and(|own| own.has_encoder_of(of));
        let number = root.current().kept.filter(|_| is_same);
        let store = number.and_then(|number| Store::open_read_only(root.model_dir(number)).ok());
        move |document| embedding(store.as_ref()?, document).ok().flatten()
    }

    /// Reports what was repaired; sets a model aside that is beyond repair, so that it blocks nothing.
    pub fn settle(self, root: &Root, serving: &Bundle, report: &mut RepairReport) -> Result<()> {
        let current = root.current();
        let Some(number) = current.kept else { return Ok(()) };
        let Self { bundle, report: own } = self;
        let Some(bundle) = bundle else {
            let (backend, dir) = (root.backend(), root.model_dir(number));
            root.check()?;
            if kind(&*backend, &dir)?.is_some() {
                report.set_aside.push(set_aside(&*backend, root.dir(), &dir, &number.to_string())?);
            }
            root.publish(Current { kept: None, ..current })?;
            report.previous_model_set_aside = true;
            return Ok(());
        };
        report.previous_model_repaired = !own.was_sound();
        report.set_aside.extend(own.set_aside);
        if !(bundle.model().has_encoder() || bundle.has_encoder_of(serving)) {
            report.lost_previous_embeddings = own.lost + own.lost_embeddings;
        }
        Ok(())
    }
}

/// The embedding of a document with this title and text, if the store has it.
fn embedding(store: &Store, document: &Document) -> Result<Option<Vec<f16>>> {
    let (view, of_lost) = (store.read(), store.config().similarity()?.of_lost());
    let Some(row) = row_of_texts(&view, document)? else { return Ok(None) };
    let mut rows = stored_rows(&view, row)?;
    let own = rows.pop().filter(|_| rows.is_empty());
    // An earlier repair may have lost it there.
    Ok(own.map(|own| own.embedding).filter(|own| own.iter().any(|x| *x != of_lost)))
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
