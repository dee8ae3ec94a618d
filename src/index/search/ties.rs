//! The order of rows with equal scores: by their documents' ids, which does not depend on how documents are
//! split into segments or indexes. Ids are read only for rows with equal scores.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::ids::Row;
use crate::scan::{Tied, TopK};
use crate::store::View;

/// The best rows of a selection, best first, equal scores by id, even at the k-th place.
pub(crate) fn sorted(view: &View, top: TopK) -> Result<Vec<(f32, Row)>> {
    let Tied { above: mut rows, tied, room } = top.into_tied();
    let chosen = match tied.len() > room {
        true => first_by_id(view, tied, room)?,
        false => tied,
    };
    rows.extend(chosen);
    sort(view, &mut rows)?;
    Ok(rows)
}

/// Orders rows by score, best first, equal scores by id; two rows of one document by row.
pub(crate) fn sort(view: &View, rows: &mut [(f32, Row)]) -> Result<()> {
    let order = ById::new(view);
    rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| order.compare(a.1, b.1)));
    order.finish()
}

/// The rows with the smallest ids.
fn first_by_id(view: &View, mut tied: Vec<(f32, Row)>, room: usize) -> Result<Vec<(f32, Row)>> {
    // A walk in id order meets one of these rows every `live / tied.len()` documents.
    let walked = view.live().saturating_mul(room) / tied.len();
    if walked < tied.len() && !view.has_several() {
        let score = tied.first().map_or(0.0, |&(score, _)| score);
        let among: HashSet<Row> = tied.iter().map(|&(_, row)| row).collect();
        let (mut walk, mut chosen) = (view.walk(None)?, Vec::with_capacity(room));
        while chosen.len() < room
            && let Some((_, row)) = walk.next()?
        {
            if among.contains(&row) {
                chosen.push((score, row));
            }
        }
        return Ok(chosen);
    }
    let order = ById::new(view);
    if room > 0 {
        tied.select_nth_unstable_by(room - 1, |a, b| order.compare(a.1, b.1));
    }
    order.finish()?;
    tied.truncate(room);
    Ok(tied)
}

/// Compares rows by the ids of their documents; each id is read once.
pub(crate) struct ById<'a> {
    view: &'a View,
    ids: RefCell<HashMap<Row, String>>,
    failed: RefCell<Option<Error>>,
}

impl<'a> ById<'a> {
    pub fn new(view: &'a View) -> Self {
        Self { view, ids: RefCell::default(), failed: RefCell::default() }
    }

    /// By row if an id could not be read, which [`Self::finish`] reports.
    pub fn compare(&self, a: Row, b: Row) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        for row in [a, b] {
            if self.ids.borrow().contains_key(&row) {
                continue;
            }
            match self.view.id(row) {
                Ok(id) => drop(self.ids.borrow_mut().insert(row, id)),
                Err(error) => {
                    self.failed.borrow_mut().get_or_insert(error.into());
                    return a.cmp(&b);
                }
            }
        }
        let ids = self.ids.borrow();
        ids.get(&a).cmp(&ids.get(&b)).then(a.cmp(&b))
    }

    /// # Errors
    /// The error of the first id that could not be read.
    pub fn finish(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}
