//! A training set from the data in an index.

use super::passages::{Pair, check_pairs, document_id, of_passages};
use crate::document::Document;
use crate::error::Result;
use crate::index::Index;
use crate::judgment::Judgment;
use crate::train::{TrainingQuery, TrainingSet, is_held_out};

impl TrainingSet {
    /// The held-out questions of a training with their answers, as judgments for
    /// [`Index::fuse`](crate::Index::fuse) with the model trained on the other questions.
    pub fn held_out(&self) -> Vec<Judgment> {
        let of_query = |query: &TrainingQuery| -> Vec<Judgment> {
            let id = |place: &u32| {
                let id = self.documents[*place as usize].id.as_str();
                if self.of_passages { document_id(id) } else { id }
            };
            query.positives.iter().map(|place| Judgment::new(&query.text, id(place), 1)).collect()
        };
        self.dev.iter().flat_map(of_query).collect()
    }

    /// As [`Self::from_pairs`], over the documents stored in an index. The held-out questions are those of
    /// every way to learn ([`is_held_out`]).
    ///
    /// All documents are read into memory. If they have passages, each passage is a document of the training,
    /// and the answer is a document's best passage by the index's own encoder.
    ///
    /// # Errors
    /// Those of [`Self::from_pairs`], and failures of reading the index and of its encoder.
    pub fn from_index(index: &Index, pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let documents = index.iter().collect::<Result<Vec<_>>>()?;
        let pairs: Vec<Pair> = pairs.into_iter().map(|(query, document)| (query, document, 1.0)).collect();
        check_pairs(index, &pairs)?;
        Self::of_index(index, documents, pairs)
    }

    /// As [`Self::from_weighted_pairs`], with passages as documents if the index has passages.
    pub(super) fn of_index(index: &Index, documents: Vec<Document>, pairs: Vec<Pair>) -> Result<Self> {
        let (documents, pairs) = of_passages(index, documents, pairs)?;
        let set = Self::from_weighted_pairs(documents, pairs, is_held_out)?;
        Ok(Self { of_passages: index.passages().is_some(), ..set })
    }
}
