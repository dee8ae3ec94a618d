//! What should be known of a result: why a filter found nothing, and which words could not be found.

use serde_json::Value;

use super::asked::Asked;
use super::damage::damaged;
use super::plan::Plan;
use crate::error::Result;
use crate::filter::{Filter, Observed};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Documents whose metadata is looked at for why a filter found nothing.
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
        let mut notes = match plan.filter {
            Some(filter) if is_empty => {
                self.filters.notes(filter, view.generation(), || why_filtered(view, filter))?
            }
            _ => Vec::new(),
        };
        if asked.words.is_some() && self.analysis().kind.is_earlier {
            notes.push(
                "the index's words were made by an earlier version, which misses words of languages without \
                 spaces, and other forms of the same letters; `ehi compact --lexical` makes them anew"
                    .to_owned(),
            );
        }
        Ok(notes)
    }
}

/// Why no document passes a filter, as far as its fields say; nothing where one passes.
fn why_filtered(view: &View, filter: &Filter) -> Result<Vec<String>> {
    let mut observed = Observed::new(filter);
    let step = view.rows().div_ceil(MOST_LOOKED_AT).max(1);
    for row in (0..view.rows() as u32).step_by(step).map(Row).filter(|row| view.is_live(*row)) {
        // Once for each document.
        if view.head(row)? != row {
            continue;
        }
        let (id, metadata) = view.tags(row)?;
        let metadata: Option<Value> = match &*metadata {
            [] => None,
            json => {
                let read = serde_json::from_slice(json);
                Some(read.map_err(|_| damaged("segments", "the metadata of a document"))?)
            }
        };
        if filter.matches(&id, metadata.as_ref()) {
            return Ok(Vec::new());
        }
        observed.look(metadata.as_ref());
    }
    Ok(observed.notes(step == 1))
}
