//! The searches of an index as the first stage of a reranker.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::index::Index;
use crate::progress::{OnProgress, Progress, Stage};
use crate::search::SearchRequest;
use crate::train::{RerankerTrainer, TrainError, TrainingSet};

/// Questions searched between two reports of progress.
const BLOCK: usize = 64;

impl<'a> RerankerTrainer<'a> {
    /// Sets the index whose hits are reranked. It must hold the same documents as the set, without passages.
    /// Its default searches provide the negatives and the hits of the verdict.
    pub fn first_stage(self, index: &'a Index) -> Self {
        self.first_search(move |set, questions, depth, on_progress| {
            search(index, set, questions, depth, on_progress)
        })
    }
}

/// Searches an index.
///
/// # Errors
/// [`TrainError::OtherDocuments`] if the index and the set do not hold the same documents;
/// those of a search.
fn search(
    index: &Index,
    set: &TrainingSet,
    questions: &[&str],
    depth: usize,
    on_progress: &mut OnProgress<'_>,
) -> Result<Vec<Vec<u32>>> {
    let places: HashMap<&str, u32> =
        (0u32..).zip(&set.documents).map(|(place, document)| (document.id.as_str(), place)).collect();
    let differ = |id: &str| TrainError::OtherDocuments { id: id.to_owned() };
    let mut missing = places.clone();
    for document in index.iter() {
        let document = document?;
        let own = missing.remove(document.id.as_str()).map(|place| &set.documents[place as usize]);
        if own.is_none_or(|own| (&own.title, &own.text) != (&document.title, &document.text)) {
            return Err(differ(&document.id).into());
        }
    }
    if let Some(id) = missing.into_keys().min() {
        return Err(differ(id).into());
    }
    let mut hits = Vec::with_capacity(questions.len());
    let request = SearchRequest::dense().k(depth).ids_only();
    for block in questions.chunks(BLOCK) {
        for result in index.search_many(block, &request)? {
            let own = result.hits.iter().map(|hit| {
                let unknown = || TrainError::Unknown { kind: "document", id: hit.id.clone() };
                places.get(hit.id.as_str()).copied().ok_or_else(unknown)
            });
            hits.push(own.collect::<std::result::Result<Vec<u32>, _>>()?);
        }
        Progress::new(Stage::Questions, hits.len(), questions.len()).tell(on_progress, Error::Cancelled)?;
    }
    Ok(hits)
}
