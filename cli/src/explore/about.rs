//! The initial data of the page: the index and its capabilities.

use ehi::model::ModelHash;
use ehi::search::MOST_EXACT_DOCUMENTS;
use ehi::{Generation, Index};
use serde::Serialize;

use super::reply::{Refusal, Reply};
use super::site::Site;
use crate::hits::unit;

#[derive(Serialize)]
struct About {
    /// Name of the directory.
    name: String,
    path: String,
    model: ModelHash,
    generation: Generation,
    documents: usize,
    /// The embedded units: `documents` or `passages`.
    unit: &'static str,
    /// Leaves of the tree; 1 without one.
    leaves: u32,
    /// Whether there is an encoder; otherwise questions are searched by their words.
    encoder: bool,
    /// Whether there is a fast encoder of questions.
    fast: bool,
    /// Whether documents can be found by their words.
    words: bool,
    /// Whether hits can be judged.
    judge: bool,
    /// Whether a default search compares all documents, because there are few.
    few: bool,
    /// Example questions.
    examples: Vec<String>,
}

/// Number of examples, their most bytes, and the documents examined for them.
const EXAMPLES: usize = 3;
const MOST_EXAMPLE: usize = 120;
const LOOKED_AT: usize = 20;

/// Judged questions, or else titles of documents.
fn examples(site: &Site, index: &Index) -> Result<Vec<String>, Refusal> {
    if let Some(found) = site.examples.get() {
        return Ok(found.clone());
    }
    let fits = |text: &str| text.len() <= MOST_EXAMPLE && text.chars().any(char::is_alphanumeric);
    // Unreadable judgments must not prevent the page; the view that lists them reports the error.
    let judged = index.judgments().unwrap_or_default().into_iter();
    let judged = judged.filter(|own| own.grade > 0).map(|own| own.question);
    let mut found: Vec<String> = judged.filter(|question| fits(question)).collect();
    let are_judged = !found.is_empty();
    if !are_judged {
        let titles = index.page(None, LOOKED_AT)?.into_iter().map(|document| document.title);
        found = titles.filter(|title| fits(title)).collect();
    }
    found.dedup();
    found.truncate(EXAMPLES);
    // Kept, because the page asks for them every few seconds. Titles are not: their documents may be gone by
    // then.
    if are_judged {
        let _ = site.examples.set(found.clone());
    }
    Ok(found)
}

pub fn about(site: &Site, _: &[u8]) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let bundle = index.bundle();
    Ok(Reply::json(&About {
        name: index.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: index.path().display().to_string(),
        model: bundle.hash(),
        generation: index.stats()?.generation,
        documents: index.len(),
        unit: unit(&index),
        leaves: bundle.model().indexer().shape().leaves(),
        encoder: bundle.model().has_encoder(),
        fast: index.query_encoder().is_some(),
        words: index.is_lexical(),
        judge: site.held.writes(),
        few: index.embeddings() <= MOST_EXACT_DOCUMENTS,
        examples: examples(site, &index)?,
    }))
}
