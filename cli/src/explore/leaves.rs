//! What the leaves hold, read once in the background, since that takes every document.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ehi::leaves::{LeafOptions, LeafSummary};
use ehi::model::ModelHash;
use ehi::{Generation, LeafChanges, LeafId};
use serde::Serialize;

use super::reply::{Refusal, Reply};
use super::routes::{Call, Site};
use super::search::MOST_TITLE;
use crate::beginning::beginning;
use crate::failure::Failure;
use crate::held::HeldIndex;

/// Questions that are routed, the newest ones.
const MOST_QUESTIONS: usize = 1_000;
/// Bytes of a text of which the beginning is shown.
const BEGINNING: usize = 160;
/// Leaves before the last change of the tree that are named for each.
const ORIGINS: usize = 3;

/// What was read last.
#[derive(Default)]
pub struct Shelf(Mutex<Reading>);

#[derive(Clone, Default)]
enum Reading {
    #[default]
    No,
    UnderWay,
    Done(Arc<Read>),
    Failed(String),
}

/// Of one generation of one model.
#[derive(Serialize)]
struct Read {
    generation: Generation,
    model: ModelHash,
    /// Leaves of the tree.
    tree: u64,
    /// Documents of a leaf at an even load.
    even: f64,
    /// Questions that were asked or judged, as far as they were routed.
    questions: usize,
    /// The tree before the last change: its leaves, and the documents that it had and this has.
    before: Option<Before>,
    leaves: Vec<Leaf>,
}

#[derive(Serialize)]
struct Before {
    leaves: u64,
    compared: usize,
    together: f64,
}

#[derive(Serialize)]
struct Leaf {
    #[serde(flatten)]
    summary: LeafSummary,
    /// Where its documents were before, most first.
    from: Vec<Origin>,
    /// Documents that were nowhere.
    new: usize,
}

#[derive(Serialize)]
struct Origin {
    leaf: LeafId,
    documents: usize,
}

#[derive(Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum Shown<'a> {
    No,
    UnderWay,
    Done {
        /// Whether the index has changed since.
        stale: bool,
        #[serde(flatten)]
        read: &'a Read,
    },
    Failed {
        message: &'a str,
    },
}

/// Sizes of all leaves, for the map.
#[derive(Serialize)]
struct Map {
    leaves: u64,
    branching_factor: u32,
    height: u32,
    /// A leaf and its documents; those that have some.
    documents: Vec<(u32, usize)>,
}

pub fn map(site: &Site, _: &Call) -> Result<Reply, Refusal> {
    let stats = site.held.index()?.stats()?;
    let documents = stats.leaf_sizes.iter().map(|size| (size.leaf.0, size.documents)).collect();
    let (leaves, branching_factor, height) = (stats.leaves, stats.branching_factor, stats.height);
    Ok(Reply::json(&Map { leaves, branching_factor, height, documents }))
}

pub fn read(site: &Site, _: &Call) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let reading = site.shelf.lock().clone();
    Ok(Reply::json(&match &reading {
        Reading::UnderWay => Shown::UnderWay,
        // Leaves of another tree, whose numbers mean something else.
        Reading::Done(read) if read.model != index.bundle().hash() => Shown::No,
        Reading::Done(read) => Shown::Done { stale: index.stats()?.generation != read.generation, read },
        Reading::No => Shown::No,
        Reading::Failed(message) => Shown::Failed { message },
    }))
}

/// Begins to read, unless that is under way.
pub fn begin(site: &Site, _: &Call) -> Result<Reply, Refusal> {
    site.held.index()?;
    {
        let mut reading = site.shelf.lock();
        if matches!(*reading, Reading::UnderWay) {
            return Ok(Reply::json(&Shown::UnderWay));
        }
        *reading = Reading::UnderWay;
    }
    let (shelf, held) = (Arc::clone(&site.shelf), Arc::clone(&site.held));
    let thread = thread::Builder::new().spawn(move || {
        let ended = ended(|| read_all(&held));
        *shelf.lock() = ended;
    });
    if let Err(error) = thread {
        *site.shelf.lock() = Reading::Failed(format!("no thread could be started: {error}"));
    }
    Ok(Reply::json(&Shown::UnderWay))
}

/// How a reading ended: by a panic too, so that another one can begin.
fn ended(read: impl FnOnce() -> Result<Read, ehi::Error>) -> Reading {
    match panic::catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(read)) => Reading::Done(Arc::new(read)),
        Ok(Err(error)) => Reading::Failed(Failure::from(error).line()),
        Err(_) => Reading::Failed("reading the leaves failed; the program's output says why".to_owned()),
    }
}

impl Shelf {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_all(held: &HeldIndex) -> Result<Read, ehi::Error> {
    let index = held.now();
    let stats = index.stats()?;
    let queries = index.asked(MOST_QUESTIONS)?;
    let questions = queries.len();
    let summaries = index.leaves(&LeafOptions { queries, ..LeafOptions::default() })?;
    let changes = index.leaf_changes()?;
    let before = changes.as_ref().map(|changes| Before {
        leaves: changes.leaves_before,
        compared: changes.compared,
        together: changes.together,
    });
    let mut origins = changes.map(by_leaf).unwrap_or_default();
    let leaves = summaries.into_iter().map(|mut summary| {
        for document in &mut summary.nearest {
            document.text = beginning(&document.text, BEGINNING);
            document.title = beginning(&document.title, MOST_TITLE);
        }
        for query in &mut summary.queries {
            query.text = beginning(&query.text, BEGINNING);
        }
        let (from, new) = origins.remove(&summary.leaf).unwrap_or_default();
        Leaf { summary, from, new }
    });
    let leaves: Vec<Leaf> = leaves.collect();
    let even = stats.leaf_sizes.iter().map(|size| size.documents).sum::<usize>() as f64 / stats.leaves as f64;
    Ok(Read {
        generation: stats.generation,
        model: stats.model,
        tree: stats.leaves,
        even,
        questions,
        before,
        leaves,
    })
}

fn by_leaf(changes: LeafChanges) -> HashMap<LeafId, (Vec<Origin>, usize)> {
    let leaves = changes.leaves.into_iter().map(|own| {
        let from = own.from.into_iter().take(ORIGINS);
        let from = from.map(|origin| Origin { leaf: origin.leaf, documents: origin.documents }).collect();
        (own.leaf, (from, own.new))
    });
    leaves.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_fails_in_any_way_is_no_longer_under_way() {
        assert!(matches!(ended(|| panic!("a reading")), Reading::Failed(_)));
        assert!(matches!(ended(|| Err(ehi::Error::Cancelled)), Reading::Failed(_)));
    }
}
