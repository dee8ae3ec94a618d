//! The content of the leaves, read in the background because it needs every document.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ehi::leaves::{LeafOptions, LeafSummary};
use ehi::model::ModelHash;
use ehi::{Generation, LeafChange, LeafId, LeafOrigin};
use serde::Serialize;

use super::reply::{Refusal, Reply};
use crate::beginning::beginning;
use crate::failure::Failure;
use crate::held::HeldIndex;

/// Most questions routed, the newest ones.
const MOST_QUESTIONS: usize = 1_000;
/// Bytes shown of a text.
const BEGINNING: usize = 160;
/// Previous leaves listed for each leaf.
const ORIGINS: usize = 3;

/// The last reading.
#[derive(Default)]
pub struct Shelf(Mutex<Reading>);

#[derive(Default, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum Reading {
    #[default]
    No,
    UnderWay,
    Done {
        /// Whether the index has changed since.
        stale: bool,
        #[serde(flatten)]
        read: Box<Read>,
    },
    Failed {
        message: String,
    },
}

/// The leaves in one generation of one model.
#[derive(Serialize)]
struct Read {
    generation: Generation,
    model: ModelHash,
    /// Leaves of the tree.
    tree: u64,
    /// Documents of a leaf at an even load.
    even: f64,
    /// Routed questions, asked or judged.
    questions: usize,
    /// The previous tree: its leaves, and the documents in both trees.
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
    /// Previous leaves of its documents, most frequent first.
    from: Vec<LeafOrigin>,
    /// Documents that were not in the previous tree.
    new: usize,
}

/// Sizes of all leaves, for the map.
#[derive(Serialize)]
struct Map {
    leaves: u64,
    branching_factor: u32,
    height: u32,
    /// Each non-empty leaf with its number of documents.
    documents: Vec<(u32, usize)>,
}

pub fn map(held: &HeldIndex) -> Result<Reply, Refusal> {
    let stats = held.index()?.stats()?;
    let documents = stats.leaf_sizes.iter().map(|size| (size.leaf.0, size.documents)).collect();
    let (leaves, branching_factor, height) = (stats.leaves, stats.branching_factor, stats.height);
    Ok(Reply::json(&Map { leaves, branching_factor, height, documents }))
}

/// Begins to read, unless a reading is in progress.
pub fn begin(shelf: &Arc<Shelf>, held: &Arc<HeldIndex>) -> Result<Reply, Refusal> {
    held.index()?;
    let mut reading = shelf.lock();
    if !matches!(*reading, Reading::UnderWay) {
        let (shelf, held) = (Arc::clone(shelf), Arc::clone(held));
        let thread = thread::Builder::new().spawn(move || {
            let ended = ended(|| read_all(&held));
            *shelf.lock() = ended;
        });
        *reading = match thread {
            Ok(_) => Reading::UnderWay,
            Err(error) => Reading::Failed { message: format!("no thread could be started: {error}") },
        };
    }
    Ok(Reply::json(&*reading))
}

/// The end of a reading. A panic counts as an end too, so that another reading can begin.
fn ended(read: impl FnOnce() -> Result<Read, ehi::Error>) -> Reading {
    match panic::catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(read)) => Reading::Done { stale: false, read: Box::new(read) },
        Ok(Err(error)) => Reading::Failed { message: Failure::from(error).line() },
        Err(_) => {
            Reading::Failed { message: "reading the leaves failed; the program's output says why".to_owned() }
        }
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn show(&self, held: &HeldIndex) -> Result<Reply, Refusal> {
        let index = held.index()?;
        let mut reading = self.lock();
        if let Reading::Done { stale, read } = &mut *reading {
            // Leaf numbers of another tree have another meaning.
            if read.model != index.bundle().hash() {
                *reading = Reading::No;
            } else {
                *stale = index.stats()?.generation != read.generation;
            }
        }
        Ok(Reply::json(&*reading))
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
    let moved = changes.into_iter().flat_map(|changes| changes.leaves);
    let mut moved: HashMap<LeafId, LeafChange> = moved.map(|own| (own.leaf, own)).collect();
    let leaves = summaries.into_iter().map(|mut summary| {
        for document in &mut summary.nearest {
            document.text = beginning(&document.text, BEGINNING);
            document.title = beginning(&document.title, BEGINNING);
        }
        for query in &mut summary.queries {
            query.text = beginning(&query.text, BEGINNING);
        }
        let moved = moved.remove(&summary.leaf).map(|own| (own.from, own.new));
        let (mut from, new) = moved.unwrap_or_default();
        from.truncate(ORIGINS);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_fails_in_any_way_is_no_longer_under_way() {
        assert!(matches!(ended(|| panic!("a reading")), Reading::Failed { .. }));
        assert!(matches!(ended(|| Err(ehi::Error::Cancelled)), Reading::Failed { .. }));
    }
}
