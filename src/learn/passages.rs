//! Training data from an index with passages: each passage is a document, and the best passage of an
//! answering document is the answer.

use std::collections::HashMap;

use crate::document::Document;
use crate::error::Result;
use crate::ids::Row;
use crate::index::{ActiveModel, Index};
use crate::judgment::Judgment;
use crate::search::QueryEncoder;
use crate::store::View;
use crate::train::{TrainingQuery, TrainingSet, is_held_out};

/// Separates the id of a document from the number of a passage.
const SEPARATOR: char = '\u{1f}';

/// Questions encoded at once.
const BLOCK: usize = 256;

/// A question, the id of a document that answers it, and a weight.
pub(super) type Pair = (String, String, f32);

fn passage_id(id: &str, number: usize) -> String {
    format!("{id}{SEPARATOR}{number}")
}

/// The id of a passage's document.
fn document_id(passage: &str) -> &str {
    passage.rsplit_once(SEPARATOR).map_or(passage, |(id, _)| id)
}

/// Documents of an index, and pairs of questions with them, as passages; unchanged if documents have none.
/// Pairs with meanwhile deleted documents are left out.
///
/// # Errors
/// Failures of reading and of the encoder.
fn of_passages(
    index: &Index,
    documents: Vec<Document>,
    pairs: Vec<Pair>,
) -> Result<(Vec<Document>, Vec<Pair>)> {
    if index.passages().is_none() {
        return Ok((documents, pairs));
    }
    let serving = index.serving();
    let view = serving.view();
    let mut passages = Vec::new();
    for document in documents {
        let Some(row) = view.row_of(&document.id)? else { continue };
        for (number, row) in view.rows_of(row)?.into_iter().enumerate() {
            let id = passage_id(&document.id, number);
            passages.push(Document { id, metadata: None, ..view.passage(row)? });
        }
    }
    let mut rows = Vec::with_capacity(pairs.len());
    for pair in pairs {
        if let Some(row) = view.row_of(&pair.1)? {
            rows.push((pair, row));
        }
    }
    let asked: Vec<(&str, Row)> =
        rows.iter().map(|((question, ..), row)| (question.as_str(), *row)).collect();
    let best = best_rows(&serving, &view, &asked)?;
    let mut answers = Vec::with_capacity(rows.len());
    for (((question, id, weight), row), best) in rows.into_iter().zip(best) {
        let number = view.rows_of(row)?.iter().position(|own| *own == best).unwrap_or(0);
        answers.push((question, passage_id(&id, number), weight));
    }
    Ok((passages, answers))
}

/// For each question and a document's row, the row of the document's best passage by the full encoder.
pub(super) fn best_rows(serving: &ActiveModel, view: &View, asked: &[(&str, Row)]) -> Result<Vec<Row>> {
    if !view.has_several() {
        return Ok(asked.iter().map(|&(_, row)| row).collect());
    }
    let mut places: HashMap<&str, usize> = HashMap::new();
    for &(question, _) in asked {
        let next = places.len();
        // Empty questions are refused elsewhere.
        if !question.trim().is_empty() {
            places.entry(question).or_insert(next);
        }
    }
    let mut questions: Vec<(&str, usize)> =
        places.iter().map(|(&question, &place)| (question, place)).collect();
    questions.sort_unstable_by_key(|&(_, place)| place);
    let texts: Vec<&str> = questions.into_iter().map(|(question, _)| question).collect();
    let mut vectors = Vec::with_capacity(texts.len());
    for block in texts.chunks(BLOCK) {
        let questions: Vec<_> = block.iter().map(|&text| text.into()).collect();
        let encoded = serving.encode_questions(&questions, Some(QueryEncoder::Full))?;
        vectors.extend(encoded.into_iter().map(|(vector, _)| vector));
    }
    let mut best = Vec::with_capacity(asked.len());
    for &(question, row) in asked {
        best.push(match places.get(question) {
            None => row,
            Some(&place) => {
                let (found, _) = serving.best_passages(view, &vectors[place], &[row])?;
                found.first().map_or(row, |best| best.row)
            }
        });
    }
    Ok(best)
}

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

    /// As [`Self::from_weighted_pairs`], with passages as documents if the index has passages.
    pub(super) fn of_index(index: &Index, documents: Vec<Document>, pairs: Vec<Pair>) -> Result<Self> {
        let (documents, pairs) = of_passages(index, documents, pairs)?;
        let set = Self::from_weighted_pairs(documents, pairs, is_held_out)?;
        Ok(Self { of_passages: index.passages().is_some(), ..set })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_names_its_document() {
        for id in ["a", "a\u{1f}7", ""] {
            assert_eq!(document_id(&passage_id(id, 12)), id);
        }
        assert_eq!(document_id("whole"), "whole");
    }
}
