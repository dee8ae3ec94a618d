//! The content of the leaves. It needs every document, so the last reading is kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ehi::leaves::{LeafOptions, LeafSummary};
use ehi::model::ModelHash;
use ehi::{Generation, Index, LeafChange, LeafId, LeafOrigin};
use serde::Serialize;
use serde_json::{Value, json};

use super::reply::{Refusal, Reply};
use super::site::Site;
use crate::text::beginning;

/// Most questions routed, the newest ones.
const MOST_QUESTIONS: usize = 1_000;
/// Bytes shown of a text.
const BEGINNING: usize = 160;
/// Previous leaves listed for each leaf.
const ORIGINS: usize = 3;

/// The last reading, if there is one.
#[derive(Default)]
pub struct LastReading(Mutex<Option<Reading>>);

/// The leaves in one generation of one model.
#[derive(Serialize)]
struct Reading {
    /// Whether the index has changed since.
    stale: bool,
    generation: Generation,
    model: ModelHash,
    /// Leaves of the tree.
    tree: u64,
    /// Documents of a leaf at an even load.
    even: f64,
    /// Routed questions, asked or judged.
    questions: usize,
    /// The previous tree: its leaves, and the documents in both trees.
    before: Option<Value>,
    leaves: Vec<Leaf>,
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

/// The last reading of the tree in service. Reads the leaves if there is none, or if they are asked for
/// `anew`; other requests wait meanwhile.
pub fn leaves(site: &Site, anew: bool) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let mut last = site.leaves.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Leaf numbers of another tree have another meaning.
    let mut reading = match last.take().filter(|reading| !anew && reading.model == index.bundle().hash()) {
        Some(reading) => reading,
        None => read(&index)?,
    };
    reading.stale = index.stats()?.generation != reading.generation;
    Ok(Reply::json(last.insert(reading)))
}

fn read(index: &Index) -> Result<Reading, ehi::Error> {
    let stats = index.stats()?;
    // Questions have no leaf where nothing encodes them.
    let queries = match index.bundle().model().has_encoder() {
        true => index.asked(MOST_QUESTIONS)?,
        false => Vec::new(),
    };
    let questions = queries.len();
    let summaries = index.leaves(&LeafOptions { queries, ..LeafOptions::default() })?;
    let changes = index.leaf_changes()?;
    let before = changes.as_ref().map(|changes| {
        json!({ "leaves": changes.leaves_before, "compared": changes.compared, "together": changes.together })
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
    Ok(Reading {
        stale: false,
        generation: stats.generation,
        model: stats.model,
        tree: stats.leaves,
        even,
        questions,
        before,
        leaves,
    })
}
