//! Notes on a result: why a filter found nothing, and which parts of the request were not followed.

use super::asked::Asked;
use super::encode::QueryEncoder;
use super::passing::metadata;
use super::plan::Plan;
use crate::error::Result;
use crate::filter::{Filter, Observed};
use crate::ids::Row;
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Documents whose metadata is examined to explain why a filter found nothing.
const MOST_LOOKED_AT: usize = 10_000;

impl ActiveModel {
    /// In sentences, for people.
    pub(super) fn notes(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        is_empty: bool,
    ) -> Result<Vec<String>> {
        let mut notes = match plan.filter() {
            Some(filter) if is_empty => match plan.scope {
                // What is cached is of all documents.
                Some(_) => why_filtered(view, filter, plan.scope)?,
                None => self.why_nothing_passes(view, filter)?,
            },
            _ => Vec::new(),
        };
        notes.extend(asked.note.clone());
        if (plan.request.encoder, asked.encoder) == (Some(QueryEncoder::Fast), Some(QueryEncoder::Full)) {
            notes.push("the fast encoder is unsure of this question, so the full encoder read it".to_owned());
        }
        Ok(notes)
    }

    fn why_nothing_passes(&self, view: &View, filter: &Filter) -> Result<Vec<String>> {
        self.filters.notes(filter, view.generation(), || why_filtered(view, filter, None))
    }
}

impl Index {
    /// Why no document passes a filter, in sentences for people: fields that no document has, and values of
    /// another kind than the filter compares them with. Empty if a document passes, or if the fields do not
    /// explain it. In a large index, a sample is examined.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn why_nothing_passes(&self, filter: &Filter) -> Result<Vec<String>> {
        let serving = self.serving();
        serving.why_nothing_passes(&serving.view(), filter)
    }
}

/// Why no document passes a filter, as far as the fields of those in `scope` tell; empty if one passes.
fn why_filtered(view: &View, filter: &Filter, scope: Option<&Filter>) -> Result<Vec<String>> {
    let mut observed = Observed::new(filter);
    let step = view.rows().div_ceil(MOST_LOOKED_AT).max(1);
    for row in (0..view.rows() as u32).step_by(step).map(Row).filter(|row| view.is_live(*row)) {
        // Once per document.
        if view.head(row)? != row {
            continue;
        }
        let (id, stored) = view.tags(row)?;
        let metadata = metadata(stored)?;
        if scope.is_some_and(|scope| !scope.matches(id, metadata.as_ref())) {
            continue;
        }
        if filter.matches(id, metadata.as_ref()) {
            return Ok(Vec::new());
        }
        observed.look(metadata.as_ref());
    }
    Ok(observed.notes(step == 1))
}
