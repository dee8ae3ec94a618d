//! Explains the hits of a question, without their texts.

use ehi::explain::{Explanation, ReachedLeaf};
use ehi::{Document, Hit, Index, RankBy, SearchRequest};
use serde::Serialize;

use super::question::Ask;
use super::reply::{Refusal, Reply, json};
use super::search::MOST_TITLE;
use super::site::Site;
use crate::text::beginning;

/// Leaves shown if the search did not use the tree, and the number they are chosen from, because empty leaves
/// are not on the map.
const LIKELY: usize = 10;
const ROUTED: usize = 64;
/// Bytes of text shown in place of a title.
const MOST_BEGINNING: usize = 120;

/// An explanation without the texts of its hits; a hit without a title has the beginning of its text.
#[derive(Serialize)]
struct Why {
    #[serde(flatten)]
    explanation: Explanation,
    /// If the search visited no leaves: the most probable non-empty ones.
    likely: Vec<ReachedLeaf>,
    /// Leaves of the tree, and for the map each non-empty one with its number of documents.
    tree: u64,
    sizes: Vec<(u32, usize)>,
}

pub fn why(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: Ask = json(body)?;
    let index = site.held.index()?;
    let request = ask.request()?;
    let has_encoder = index.bundle().model().has_encoder();
    let by_words = request.mode == RankBy::Lexical || !has_encoder;
    let mut explanation = index.explain(&ask.question, &request, !by_words)?;
    let exact = explanation.exact.iter_mut().flatten().map(|found| &mut found.hit);
    explanation.hits.iter_mut().map(|found| &mut found.hit).chain(exact).for_each(shorten);
    let likely = match explanation.leaves.is_empty() && has_encoder {
        true => likely(&index, &ask.question)?,
        false => Vec::new(),
    };
    let stats = index.stats()?;
    let sizes = stats.leaf_sizes.iter().map(|size| (size.leaf.0, size.documents)).collect();
    Ok(Reply::json(&Why { explanation, likely, tree: stats.leaves, sizes }))
}

/// The most probable leaves of a question; none without a tree, or without documents.
fn likely(index: &Index, question: &str) -> Result<Vec<ReachedLeaf>, Refusal> {
    if index.is_empty() || index.bundle().model().indexer().shape().leaves() == 1 {
        return Ok(Vec::new());
    }
    let mut leaves = index.explain(question, &SearchRequest::dense().k(1).beam(ROUTED), false)?.leaves;
    leaves.retain(|leaf| leaf.documents > 0);
    leaves.truncate(LIKELY);
    Ok(leaves)
}

fn shorten(hit: &mut Hit) {
    let Document { title, text, metadata, .. } = &mut hit.document;
    *title = match title.trim() {
        "" => beginning(text, MOST_BEGINNING),
        title => beginning(title, MOST_TITLE),
    };
    (*text, *metadata) = (String::new(), None);
}
