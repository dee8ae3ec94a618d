//! The initial data of the page: the index and its capabilities.

use std::sync::{Mutex, PoisonError};

use ehi::model::ModelHash;
use ehi::search::MOST_EXACT_DOCUMENTS;
use ehi::{Generation, Index};
use serde::Serialize;

use super::reply::{Refusal, Reply};
use super::site::{Call, Site};
use crate::hits::unit;

#[derive(Serialize)]
struct About {
    /// Name of the directory.
    name: String,
    path: String,
    version: &'static str,
    model: ModelHash,
    generation: Generation,
    documents: usize,
    embeddings: usize,
    /// The embedded units: `documents` or `passages`.
    unit: &'static str,
    /// Leaves of the tree; 1 without one.
    leaves: u32,
    /// Whether there is a fast encoder of questions.
    fast: bool,
    /// Whether documents can be found by their words.
    words: bool,
    /// Whether hits can be judged.
    judge: bool,
    /// Whether questions asked here are logged.
    logged: bool,
    /// Whether a default search compares all documents, because there are few.
    few: bool,
    /// Example questions.
    examples: Vec<String>,
}

/// Number of examples, their most bytes, and the documents examined for them.
const EXAMPLES: usize = 3;
const MOST_EXAMPLE: usize = 120;
const LOOKED_AT: usize = 20;

/// Example questions, kept once found. If there are none, they are looked for again only after the index has
/// changed, because the page asks for them every few seconds.
#[derive(Default)]
pub struct Examples(Mutex<Option<Sought>>);

struct Sought {
    of: State,
    found: Vec<String>,
}

/// Changes with the documents.
type State = (ModelHash, Generation);

impl Examples {
    fn get(
        &self,
        of: State,
        seek: impl FnOnce() -> Result<Vec<String>, Refusal>,
    ) -> Result<Vec<String>, Refusal> {
        let mut sought = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = sought.as_ref().filter(|last| last.of == of || !last.found.is_empty()) {
            return Ok(last.found.clone());
        }
        let found = seek()?;
        *sought = Some(Sought { of, found: found.clone() });
        Ok(found)
    }
}

/// Judged questions, or else titles of documents.
fn examples(index: &Index) -> Result<Vec<String>, Refusal> {
    let fits = |text: &str| text.len() <= MOST_EXAMPLE && text.chars().any(char::is_alphanumeric);
    // Unreadable judgments must not prevent the page; the view that lists them reports the error.
    let judged = index.judgments().unwrap_or_default().into_iter();
    let judged = judged.filter(|own| own.grade > 0).map(|own| own.question);
    let mut found: Vec<String> = judged.filter(|question| fits(question)).collect();
    if found.is_empty() {
        let titles = index.page(None, LOOKED_AT)?.into_iter().map(|document| document.title);
        found = titles.filter(|title| fits(title)).collect();
    }
    found.dedup();
    found.truncate(EXAMPLES);
    Ok(found)
}

pub fn about(site: &Site, _: &Call) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let bundle = index.bundle();
    let (model, generation) = (bundle.hash(), index.stats()?.generation);
    Ok(Reply::json(&About {
        name: index.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: index.path().display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        model,
        generation,
        documents: index.len(),
        embeddings: index.embeddings(),
        unit: unit(&index),
        leaves: bundle.model().indexer().shape().leaves(),
        fast: index.query_encoder().is_some(),
        words: index.is_lexical(),
        judge: site.held.writes(),
        logged: site.held.writes() && index.logs_questions(),
        few: index.embeddings() <= MOST_EXACT_DOCUMENTS,
        examples: site.examples.get((model, generation), || examples(&index))?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_looked_for_once_in_each_state_of_an_index_until_there_are_some() {
        let examples = Examples::default();
        let state = |model, generation| (ModelHash([model; 32]), Generation(generation));
        let mut looked = 0;
        let mut get = |of, found: &[&str]| {
            let seek = || {
                looked += 1;
                Ok(found.iter().map(|own| (*own).to_owned()).collect())
            };
            (examples.get(of, seek).unwrap(), looked)
        };
        assert_eq!(get(state(0, 1), &[]), (vec![], 1));
        assert_eq!(get(state(0, 1), &["not looked for"]), (vec![], 1));
        assert_eq!(get(state(0, 2), &[]), (vec![], 2));
        assert_eq!(get(state(1, 2), &["tree"]), (vec!["tree".to_owned()], 3));
        assert_eq!(get(state(1, 3), &["not looked for"]), (vec!["tree".to_owned()], 3));
        let failing = Examples::default();
        assert!(failing.get(state(0, 1), || Err(Refusal::bad("damaged"))).is_err());
        assert_eq!(failing.get(state(0, 1), || Ok(vec!["leaf".to_owned()])).unwrap(), ["leaf"]);
    }
}
