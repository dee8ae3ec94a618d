//! Rescores the best hits of a search with a cross-encoder.

use std::borrow::Cow;
use std::time::Instant;

use super::asked::Asked;
use super::request::{Rerank, SearchRequest};
use super::result::{Hit, SearchResult};
use super::shards::plain_question;
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::model::Reranker;

impl SearchRequest {
    /// Reorders a result by the reranker's scores, if there is one.
    pub(super) fn reranked(&self, asked: &Asked<'_>, mut result: SearchResult) -> Result<SearchResult> {
        let Some(Rerank { reranker, depth }) = &self.rerank else { return Ok(result) };
        let Some(question) = asked.text else {
            let call = "a query that is an embedding";
            return Err(InputError::InapplicableOption { option: "rerank", call }.into());
        };
        let started = Instant::now();
        // As an encoder reads it.
        let question = match result.signs.ignored {
            true => Cow::Borrowed(question),
            false => Cow::Owned(plain_question(question)),
        };
        result.stats.reranked = reorder(reranker, &question, &mut result.hits, *depth)?;
        result.hits.truncate(self.k);
        if self.ids_only {
            for hit in &mut result.hits {
                hit.document = Document::new(hit.id.clone(), "", "");
            }
        }
        result.stats.rerank = started.elapsed();
        Ok(result)
    }

    /// Refuses what a call does not use: a reranker, and groups.
    pub(in crate::index) fn check_ungrouped(&self, call: &'static str) -> Result<()> {
        match (&self.rerank, &self.group_by) {
            (Some(_), _) => Err(InputError::InapplicableOption { option: "rerank", call }.into()),
            (_, Some(_)) => Err(InputError::InapplicableOption { option: "group_by", call }.into()),
            (None, None) => Ok(()),
        }
    }
}

/// Orders the first `depth` hits by their rerank scores; equal ones keep their order. Returns how many.
fn reorder(reranker: &Reranker, question: &str, hits: &mut [Hit], depth: usize) -> Result<usize> {
    let depth = depth.min(hits.len());
    let first = &mut hits[..depth];
    // Of a document with passages, the best passage, as an encoder reads it.
    let text = |hit: &Hit| {
        let Document { title, text, outline, .. } = &hit.document;
        let start = hit.passages.first().map_or(0, |best| best.start as u32);
        let passage = Document::new("", outline.title(title, text, start), hit.passage_text());
        passage.embedding_text().into_owned()
    };
    let texts: Vec<String> = first.iter().map(text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scores = reranker.score(question, &texts)?;
    for (hit, score) in first.iter_mut().zip(scores) {
        hit.rerank_score = Some(score);
    }
    first.sort_by(|a, b| b.rerank_score.unwrap_or(0.0).total_cmp(&a.rerank_score.unwrap_or(0.0)));
    Ok(depth)
}
