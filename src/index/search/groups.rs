//! The best hits of groups of documents that have a value of a field in common.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use serde_json::Value;

use super::asked::Asked;
use super::fusion::HitScores;
use super::passing::metadata;
use super::plan::Plan;
use super::rank::Ranked;
use super::request::GroupBy;
use crate::error::Result;
use crate::filter::Filter;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// How many times as many documents as hits are ranked at first, and how many times as many if they have too
/// few groups.
const WIDER: usize = 2;
const WIDENING: usize = 4;
/// Most documents ranked to find groups.
const MOST_RANKED: usize = 10_000;

impl ActiveModel {
    /// The rows of the best groups, those of a group one after the other, best groups first.
    pub(super) fn rank_groups(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        group_by: &GroupBy,
    ) -> Result<Ranked> {
        let mut depth = plan.k.get().saturating_mul(group_by.per_group).saturating_mul(WIDER);
        loop {
            let k = NonZeroUsize::new(depth).unwrap_or(plan.k);
            let ranked = self.rank_asked(view, asked, &Plan { k, ..*plan })?;
            let found = ranked.rows.len();
            let groups = grouped(view, &ranked, plan.k.get(), group_by)?;
            if groups.len() == plan.k.get() || found < depth || depth >= MOST_RANKED {
                return Ok(in_groups(ranked, groups));
            }
            depth = depth.saturating_mul(WIDENING).min(MOST_RANKED);
        }
    }
}

/// The places of a group's rows, and their value.
type Group = (Option<Value>, Vec<usize>);

/// The first `k` groups of ranked rows.
fn grouped(view: &View, ranked: &Ranked, k: usize, group_by: &GroupBy) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    for (place, &(_, row)) in ranked.rows.iter().enumerate() {
        let metadata = metadata(view.tags(row)?.1)?;
        let value = Filter::scalar_at(metadata.as_ref(), &group_by.field);
        let group = value.as_ref().map(|(key, _)| key).and_then(|key| known.get(key).copied());
        match group {
            Some(group) if groups[group].1.len() < group_by.per_group => groups[group].1.push(place),
            Some(_) => {}
            None if groups.len() < k => {
                let value = value.map(|(key, value)| {
                    known.insert(key, groups.len());
                    value
                });
                groups.push((value, vec![place]));
            }
            None => {}
        }
    }
    Ok(groups)
}

fn in_groups(ranked: Ranked, groups: Vec<Group>) -> Ranked {
    let places = groups.iter().flat_map(|(_, places)| places);
    let rows = places.clone().map(|&place| ranked.rows[place]).collect();
    let dense = |place: usize| HitScores {
        dense: Some(ranked.rows[place].0),
        dense_rank: Some(place + 1),
        ..HitScores::default()
    };
    let scores = places.map(|&place| ranked.scores.get(place).copied().unwrap_or_else(|| dense(place)));
    let scores = scores.collect();
    let groups = groups.into_iter().flat_map(|(value, places)| vec![value; places.len()]).collect();
    Ranked { rows, scores, groups, ..ranked }
}
