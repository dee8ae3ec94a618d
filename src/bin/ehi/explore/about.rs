//! What the page must know before anything is asked: which index, and what it can do.

use std::sync::OnceLock;

use ehi::model::ModelHash;
use ehi::search::MOST_EXACT_DOCUMENTS;
use ehi::{Generation, Index};
use serde::Serialize;

use super::reply::{Refusal, Reply};
use super::routes::{Call, Site};
use crate::hits::unit;

#[derive(Serialize)]
struct About<'a> {
    /// Name of the directory.
    name: String,
    version: &'static str,
    model: ModelHash,
    generation: Generation,
    documents: usize,
    embeddings: usize,
    /// What has an embedding: `documents` or `passages`.
    unit: &'static str,
    /// Leaves of the tree; 1 without one.
    leaves: u32,
    /// Whether there is a fast encoder of questions.
    fast: bool,
    /// Whether documents can be found by their words.
    words: bool,
    /// Whether hits can be judged.
    judge: bool,
    /// Whether questions that are asked here are written down.
    logged: bool,
    /// Whether a search that is told nothing compares all documents, because there are few.
    few: bool,
    /// Questions to begin with.
    examples: &'a [String],
}

/// How many examples there are, of how many bytes at most, and how many documents are looked at for them.
const EXAMPLES: usize = 3;
const MOST_EXAMPLE: usize = 120;
const LOOKED_AT: usize = 20;

/// Questions that were judged, else titles of documents. They are looked for until there are some, and then
/// kept: this is asked for every few seconds.
fn examples(index: &Index) -> Result<&'static [String], Refusal> {
    static FOUND: OnceLock<Vec<String>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    let fits = |text: &str| text.len() <= MOST_EXAMPLE && text.chars().any(char::is_alphanumeric);
    // Judgments that cannot be read are no reason to be without a page; the view that lists them says so.
    let judged = index.judgments().unwrap_or_default().into_iter();
    let judged = judged.filter(|own| own.grade > 0).map(|own| own.question);
    let mut found: Vec<String> = judged.filter(|question| fits(question)).collect();
    if found.is_empty() {
        let titles = index.page(None, LOOKED_AT)?.into_iter().map(|document| document.title);
        found = titles.filter(|title| fits(title)).collect();
    }
    found.dedup();
    found.truncate(EXAMPLES);
    Ok(if found.is_empty() { &[] } else { FOUND.get_or_init(|| found) })
}

pub fn about(site: &Site, _: &Call) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let bundle = index.bundle();
    Ok(Reply::json(&About {
        name: index.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION"),
        model: bundle.hash(),
        generation: index.stats()?.generation,
        documents: index.len(),
        embeddings: index.embeddings(),
        unit: unit(index),
        leaves: bundle.model().indexer().shape().leaves(),
        fast: index.query_encoder().is_some(),
        words: index.is_lexical(),
        judge: site.held.may_judge(),
        logged: site.held.may_judge() && index.logs_questions(),
        few: index.embeddings() <= MOST_EXACT_DOCUMENTS,
        examples: examples(index)?,
    }))
}
