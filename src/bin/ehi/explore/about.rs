//! What the page must know before anything is asked: which index, and what it can do.

use ehi::Generation;
use ehi::model::ModelHash;
use serde::Serialize;

use super::reply::{Refusal, Reply};
use super::routes::{Call, Site};
use crate::hits::unit;

#[derive(Serialize)]
struct About {
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
    /// Whether questions are written down.
    logged: bool,
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
        logged: index.logs_questions(),
    }))
}
