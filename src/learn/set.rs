//! What an index holds as a training set.

use super::passages::{Pair, check_pairs, document_id, of_passages};
use crate::document::Document;
use crate::error::Result;
use crate::index::Index;
use crate::judgment::Judgment;
use crate::train::{TrainingQuery, TrainingSet, is_held_out};

impl TrainingSet {
    /// The questions that a training sets aside, with their answers: judgments for
    /// [`Index::fuse`](crate::Index::fuse) of the model that was trained on the others.
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

    /// As [`Self::from_pairs`], over the documents stored in an index. Set aside are the questions that every
    /// way to learn sets aside ([`is_held_out`]).
    ///
    /// All of them are read into memory. Where they have passages, each of these is a document of the
    /// training, and the best passage of a document by the index's own encoder is the answer.
    ///
    /// # Errors
    /// Those of [`Self::from_pairs`], and failures of reading the index and of its encoder.
    pub fn from_index(index: &Index, pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let documents = index.iter().collect::<Result<Vec<_>>>()?;
        let pairs: Vec<Pair> = pairs.into_iter().map(|(query, document)| (query, document, 1.0)).collect();
        check_pairs(index, &pairs)?;
        Self::of_index(index, documents, pairs)
    }

    /// As [`Self::from_weighted_pairs`], of documents that are passages where those of the index are.
    pub(super) fn of_index(index: &Index, documents: Vec<Document>, pairs: Vec<Pair>) -> Result<Self> {
        let (documents, pairs) = of_passages(index, documents, pairs)?;
        let set = Self::from_weighted_pairs(documents, pairs, is_held_out)?;
        Ok(Self { of_passages: index.passages().is_some(), ..set })
    }
}
