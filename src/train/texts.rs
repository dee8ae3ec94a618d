//! All texts of a run as token ids: documents, real queries, and queries made from documents.

use std::ops::Range;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::config::TrainConfig;
use super::dataset::{TrainingSet, sentences};
use super::error::TrainError;
use crate::error::Result;
use crate::model::{Encoder, ModelError, Role, Tokens};

/// Token ids and relevance of all texts of a run.
///
/// Queries are numbered: the training queries, then the dev queries, then the document-made ones. Documents
/// are numbered separately, as in the training set.
#[derive(Default)]
pub(crate) struct Texts {
    pub documents: Vec<Vec<u32>>,
    pub queries: Vec<Vec<u32>>,
    /// The relevant documents of each query, ascending; a document-made query has one.
    pub positives: Vec<Vec<u32>>,
    /// For each training query, the share of passes that each of them takes part in; empty if all take part
    /// in every pass.
    pub weights: Vec<Vec<f32>>,
    pub train: usize,
    pub dev: usize,
    /// Ids of the training queries, for messages.
    ids: Vec<String>,
}

impl Texts {
    /// Tokenises everything; a document gives its title and some random sentences as queries.
    pub(crate) fn new(
        set: &TrainingSet,
        encoder: &Encoder,
        config: &TrainConfig,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self> {
        let settings = &config.encoder;
        let documents = set
            .documents
            .par_iter()
            .map(|d| tokens(encoder, &d.embedding_text(), Role::Document, settings.max_document_tokens))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut texts: Vec<&str> = Vec::new();
        let mut positives = Vec::new();
        for query in set.train.iter().chain(&set.dev) {
            texts.push(&query.text);
            positives.push(query.positives.clone());
        }
        if config.makes_queries() {
            for (place, document) in (0u32..).zip(&set.documents) {
                let mut drawn = sentences(&document.text);
                drawn.shuffle(rng);
                drawn.truncate(config.distillation.sentences);
                let title = Some(document.title.as_str()).filter(|title| !title.trim().is_empty());
                for text in title.into_iter().chain(drawn) {
                    texts.push(text);
                    positives.push(vec![place]);
                }
            }
        }
        let queries = texts
            .par_iter()
            .map(|text| tokens(encoder, text, Role::Query, settings.max_query_tokens))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let unknown = |kind, id: &String| TrainError::UnknownText { kind, id: id.clone() };
        let of_documents = set.documents.iter().map(|document| &document.id).zip(&documents);
        if let Some((id, _)) = of_documents.into_iter().find(|(_, ids)| ids.is_empty()) {
            return Err(unknown("document", id).into());
        }
        let judged = set.train.iter().chain(&set.dev).map(|query| &query.id);
        if let Some((id, _)) = judged.clone().zip(&queries).find(|(_, ids)| ids.is_empty()) {
            return Err(unknown("query", id).into());
        }
        // Queries made from documents are left out if they have no known token.
        let judged = judged.count();
        let kept = queries.into_iter().zip(positives).enumerate();
        let kept = kept.filter(|(place, (ids, _))| *place < judged || !ids.is_empty());
        let (queries, positives) = kept.map(|(_, kept)| kept).unzip();
        let ids = set.train.iter().map(|query| query.id.clone()).collect();
        let weights = set.train.iter().map(|query| query.weights.clone()).collect();
        Ok(Self { documents, queries, positives, weights, train: set.train.len(), dev: set.dev.len(), ids })
    }

    /// Documents and unlabelled queries with known embeddings.
    pub(crate) fn without_tokens(documents: usize, queries: usize) -> Self {
        Self {
            documents: vec![Vec::new(); documents],
            queries: vec![Vec::new(); queries],
            positives: vec![Vec::new(); queries],
            ..Self::default()
        }
    }

    /// Numbers of the dev queries.
    pub(crate) fn dev_queries(&self) -> Range<usize> {
        self.train..self.train + self.dev
    }

    /// Id of a training query.
    pub(crate) fn id(&self, query: usize) -> &str {
        &self.ids[query]
    }

    pub(crate) fn is_relevant(&self, query: usize, document: u32) -> bool {
        self.positives[query].binary_search(&document).is_ok()
    }
}

/// Token ids truncated to `most`, keeping the closing special token.
fn tokens(
    encoder: &Encoder,
    text: &str,
    role: Role,
    most: usize,
) -> std::result::Result<Vec<u32>, ModelError> {
    let mut ids = encoder.tokenize(text, role)?;
    if ids.len() > most {
        let last = ids[ids.len() - 1];
        ids.truncate(most);
        if encoder.folder().text.tokens == Tokens::Marked {
            ids[most - 1] = last;
        }
    }
    Ok(ids)
}
