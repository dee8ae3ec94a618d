//! Why a question found what it found, without the texts of the hits.

use ehi::explain::{ExactHit, ExplainedHit, ReachedLeaf};
use ehi::search::Signs;
use ehi::{Hit, Index, RankedBy, SearchStats};
use serde::Serialize;

use super::question::Ask;
use super::reply::{Refusal, Reply};
use super::search::MOST_TITLE;
use super::site::{Call, Site};
use crate::beginning::beginning;
use crate::query::Mode;

/// Leaves that are shown where the search itself did without the tree, and among how many they are chosen:
/// one without documents has no place on the map.
const LIKELY: usize = 10;
const ROUTED: usize = 64;
/// Bytes of the text that stands for a title.
const MOST_BEGINNING: usize = 120;

#[derive(Serialize)]
struct Why<'a> {
    ranked_by: RankedBy,
    signs: &'a Signs,
    notes: &'a [String],
    /// Visited, the most probable one first.
    leaves: &'a [ReachedLeaf],
    /// Where the search visited none: the most probable ones with documents.
    likely: Vec<ReachedLeaf>,
    entropy: Option<f32>,
    hits: Vec<Found<'a>>,
    /// The best of exact search; none where words alone rank.
    exact: Option<Vec<Elsewhere<'a>>>,
    stats: SearchStats,
    embeddings: usize,
    exact_ms: f64,
}

#[derive(Serialize)]
struct Found<'a> {
    id: &'a str,
    /// Of the document, or the beginning of its text.
    title: String,
    score: f32,
    from: u32,
    exact_rank: Option<usize>,
    terms: Vec<Term<'a>>,
}

#[derive(Serialize)]
struct Term<'a> {
    term: &'a str,
    weight: f64,
}

#[derive(Serialize)]
struct Elsewhere<'a> {
    id: &'a str,
    /// Of the document, or the beginning of its text.
    title: String,
    score: f32,
    leaf: u32,
    visited: bool,
    probability: f32,
}

pub fn why(site: &Site, call: &Call) -> Result<Reply, Refusal> {
    let ask: Ask = call.json()?;
    let index = site.held.index()?;
    let filter = ask.filter()?;
    let query = ask.query(index, filter.as_ref())?;
    let explained = match ask.mode {
        Mode::Lexical => query.explain()?,
        _ => query.explain_against_exact()?,
    };
    let likely = if explained.leaves.is_empty() { likely(index, &ask.question)? } else { Vec::new() };
    Ok(Reply::json(&Why {
        ranked_by: explained.ranked_by,
        signs: &explained.signs,
        notes: &explained.notes,
        leaves: &explained.leaves,
        likely,
        entropy: explained.entropy,
        hits: explained.hits.iter().map(found).collect(),
        exact: explained.exact.as_ref().map(|exact| exact.iter().map(elsewhere).collect()),
        stats: explained.stats,
        embeddings: index.embeddings(),
        exact_ms: explained.exact_time.as_secs_f64() * 1e3,
    }))
}

/// The most probable leaves of a question; none without a tree, or without documents.
fn likely(index: &Index, question: &str) -> Result<Vec<ReachedLeaf>, Refusal> {
    if index.is_empty() || index.bundle().model().indexer().shape().leaves() == 1 {
        return Ok(Vec::new());
    }
    let mut leaves = index.query(question).k(1).beam(ROUTED).unlogged().explain()?.leaves;
    leaves.retain(|leaf| leaf.documents > 0);
    leaves.truncate(LIKELY);
    Ok(leaves)
}

fn found(found: &ExplainedHit) -> Found<'_> {
    let ExplainedHit { hit, from, exact_rank, terms, .. } = found;
    let terms = terms.iter().map(|term| Term { term: &term.term, weight: f64::from(term.weight) }).collect();
    Found { id: &hit.id, title: title(hit), score: hit.score, from: from.0, exact_rank: *exact_rank, terms }
}

fn elsewhere(exact: &ExactHit) -> Elsewhere<'_> {
    let ExactHit { hit, visited, leaf_probability, .. } = exact;
    let (leaf, visited, probability) = (hit.leaf.0, *visited, *leaf_probability);
    Elsewhere { id: &hit.id, title: title(hit), score: hit.score, leaf, visited, probability }
}

fn title(hit: &Hit) -> String {
    match hit.document.title.trim() {
        "" => beginning(&hit.document.text, MOST_BEGINNING),
        title => beginning(title, MOST_TITLE),
    }
}
