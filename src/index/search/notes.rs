//! Notes on a result: why a filter found nothing, a field to group by that no document has, and which parts
//! of the request were not followed.

use super::asked::Asked;
use super::encode::QueryEncoder;
use super::passing::{Passing, metadata};
use super::plan::{Plan, Scope};
use super::result::Hit;
use crate::error::Result;
use crate::filter::{Filter, Observed};
use crate::ids::Row;
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Documents whose metadata is examined to explain why a filter found nothing.
const MOST_LOOKED_AT: usize = 10_000;
/// The same if these have every field, with values that compare, so that only the values are rare.
const FEWEST_LOOKED_AT: usize = 512;

impl ActiveModel {
    /// In sentences, for people.
    pub(super) fn notes(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        hits: &[Hit],
    ) -> Result<Vec<String>> {
        let is_empty = hits.is_empty();
        let mut notes = match (plan.filter(), plan.scope) {
            (Some(_), Some(scope)) if is_empty => self.why_nothing_in(view, scope)?,
            (Some(filter), None) if is_empty => self.why_nothing_passes(view, filter)?,
            _ => Vec::new(),
        };
        // A hit in a group has the field.
        let is_grouped = hits.iter().any(|hit| hit.group.is_some());
        if let Some(group_by) = plan.request.group_by.as_ref().filter(|_| !is_grouped) {
            let has_field = Filter::exists(&group_by.field);
            notes.extend(match plan.scope {
                Some(scope) => self.why_nothing_in(view, Scope { asked: Some(&has_field), ..scope })?,
                None => self.why_nothing_passes(view, &has_field)?,
            });
        }
        notes.extend(asked.note.clone());
        if (plan.request.encoder, asked.encoder) == (Some(QueryEncoder::Fast), Some(QueryEncoder::Full)) {
            notes.push("the fast encoder is unsure of this question, so the full encoder read it".to_owned());
        }
        Ok(notes)
    }

    fn why_nothing_passes(&self, view: &View, filter: &Filter) -> Result<Vec<String>> {
        self.filters.notes(filter, view.generation(), || {
            let step = view.rows().div_ceil(MOST_LOOKED_AT).max(1);
            let rows = (0..view.rows() as u32).step_by(step).map(Row).filter(|row| view.is_live(*row));
            why_filtered(view, filter, rows, step == 1)
        })
    }

    /// The same of the documents in a scope.
    fn why_nothing_in(&self, view: &View, scope: Scope<'_>) -> Result<Vec<String>> {
        let Some(asked) = scope.asked else { return Ok(Vec::new()) };
        let passing = Passing::of(view, scope.filter, &self.filters)?;
        let is_all = passing.len() <= MOST_LOOKED_AT;
        why_filtered(view, asked, passing.rows().take(MOST_LOOKED_AT), is_all)
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

/// Why no document passes a filter, as far as the fields of these documents tell; empty if one passes.
/// `is_all`: no other document is meant.
fn why_filtered(
    view: &View,
    filter: &Filter,
    rows: impl Iterator<Item = Row>,
    is_all: bool,
) -> Result<Vec<String>> {
    let mut observed = Observed::new(filter);
    for row in rows {
        // Once per document.
        if view.head(row)? != row {
            continue;
        }
        let (id, stored) = view.tags(row)?;
        let metadata = metadata(stored)?;
        if filter.matches(id, metadata.as_ref()) {
            return Ok(Vec::new());
        }
        observed.look(metadata.as_ref());
        if observed.documents() == FEWEST_LOOKED_AT && observed.notes(is_all).is_empty() {
            break;
        }
    }
    Ok(observed.notes(is_all))
}
