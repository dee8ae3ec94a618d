//! Judged questions: "which documents were judged for questions like this one?"
//!
//! A question is remembered with its vector and the documents judged for it. A search whose question is near
//! to remembered ones takes their documents as candidates and adds to their scores. This module knows neither
//! files nor encoders.

mod nearest;
mod weights;

use std::collections::HashMap;
use std::sync::Arc;

use half::f16;

use crate::judgment::{Judgment, plain};
use crate::scan::ScanError;
use nearest::NearestVectors;
pub(crate) use weights::{MemoryWeights, Vote};

/// Remembered questions that a search takes into account.
pub(crate) const NEAREST: usize = 20;

/// The judged questions of an index.
#[derive(Debug)]
pub(crate) struct Memory {
    questions: Vec<JudgedQuestion>,
    /// By [`plain`] text.
    places: HashMap<String, u32>,
    vectors: NearestVectors,
}

/// A question, in the first of its spellings, and what was judged for it.
#[derive(Clone, Debug)]
struct JudgedQuestion {
    text: Arc<str>,
    documents: Vec<JudgedDocument>,
}

/// A judged document. Each spelling of a question has its own judgment of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JudgedDocument {
    pub id: Arc<str>,
    /// The question as it was judged.
    pub spelling: Arc<str>,
    pub grade: i32,
    pub weight: f64,
}

/// A remembered question near to the one asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NearQuestion {
    /// Its number in the memory.
    pub place: u32,
    /// Cosine of the two vectors; 1 for the same question.
    pub cosine: f32,
    /// Whether it is the same question, apart from case and punctuation.
    pub is_same: bool,
}

impl NearQuestion {
    /// What a judgment of this question says, given its number.
    pub fn vote(self, number: usize, judged: &JudgedDocument) -> Vote {
        let Self { place, cosine, is_same } = self;
        let sign = if judged.grade > 0 { 1.0 } else { -1.0 };
        Vote { place: (place, number), cosine, is_same, strength: sign * judged.weight as f32 }
    }
}

impl Memory {
    /// An empty memory for vectors `[dim]`; without vectors, of a `dim` of 0, no question is near another.
    pub fn new(dim: usize) -> Self {
        Self { questions: Vec::new(), places: HashMap::new(), vectors: NearestVectors::new(dim) }
    }

    /// Remembered questions, including those of which all judgments were taken back.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    /// The questions that have judgments, with their vectors `[dim]`.
    pub fn vectors(&self) -> impl Iterator<Item = (&str, &[f16])> {
        let judged = self.questions.iter().zip(0..).filter(|(question, _)| !question.documents.is_empty());
        judged.map(|(question, place)| (&*question.text, self.vectors.get(place)))
    }

    /// The documents judged for the question at a place.
    pub fn documents(&self, place: u32) -> &[JudgedDocument] {
        &self.questions[place as usize].documents
    }

    /// The judgment of a vote.
    pub fn judged(&self, vote: &Vote) -> &JudgedDocument {
        &self.documents(vote.place.0)[vote.place.1]
    }

    /// Whether a question is remembered, so that it needs no vector.
    pub fn contains(&self, question: &str) -> bool {
        self.places.contains_key(&plain(question))
    }

    /// Remembers questions, with their vectors `[n, dim]` f16 of unit norm; those that it contains stay as
    /// they are.
    pub fn add_questions(&mut self, questions: &[&str], vectors: &[f16]) {
        let mut new = Vec::with_capacity(vectors.len());
        let mut vectors = vectors.chunks_exact(self.vectors.dim().max(1));
        for question in questions {
            let vector = vectors.next().unwrap_or_default();
            // Another thread may have added it.
            if !self.contains(question) {
                self.places.insert(plain(question), self.questions.len() as u32);
                self.questions.push(JudgedQuestion { text: (*question).into(), documents: Vec::new() });
                new.extend_from_slice(vector);
            }
        }
        self.vectors.extend(&new);
    }

    /// Remembers a judgment of a question that it contains; a later judgment of the same document replaces an
    /// earlier one.
    pub fn judge(&mut self, judgment: &Judgment) {
        let Judgment { question, id, grade, weight, .. } = judgment;
        let Some(&place) = self.places.get(&plain(question)) else { return };
        let JudgedQuestion { text, documents } = &mut self.questions[place as usize];
        let spelling = if **text == **question { Arc::clone(text) } else { question.as_str().into() };
        let id = id.as_str().into();
        let new = JudgedDocument { id, spelling, grade: *grade, weight: *weight };
        match documents.iter_mut().find(|own| own.id == new.id && own.spelling == new.spelling) {
            Some(own) => *own = new,
            None => documents.push(new),
        }
    }

    /// Forgets the judgment of a question and a document.
    pub fn forget(&mut self, question: &str, id: &str) {
        if let Some(&place) = self.places.get(&plain(question)) {
            let documents = &mut self.questions[place as usize].documents;
            documents.retain(|own| *own.id != *id || *own.spelling != *question);
        }
    }

    /// The nearest remembered questions that have judgments and that `may_recall` accepts, nearest first. The
    /// same question is the first, even without a vector.
    ///
    /// # Shapes
    /// `unit` `[dim]` f32 of unit norm.
    ///
    /// # Errors
    /// [`ScanError`] for a vector of another width.
    pub fn nearest(
        &self,
        text: Option<&str>,
        unit: Option<&[f32]>,
        may_recall: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<NearQuestion>, ScanError> {
        let same = text.and_then(|text| self.places.get(&plain(text))).copied();
        let mut found: Vec<NearQuestion> =
            same.map(|place| NearQuestion { place, cosine: 1.0, is_same: true }).into_iter().collect();
        if let Some(unit) = unit.filter(|_| self.len() > 0) {
            let near = self.vectors.nearest(unit, NEAREST + 1)?.into_iter();
            let near = near.map(|(cosine, place)| NearQuestion { place, cosine, is_same: false });
            found.extend(near.filter(|near| Some(near.place) != same && near.cosine > 0.0));
        }
        found.retain(|near| {
            let own = &self.questions[near.place as usize];
            !own.documents.is_empty() && may_recall(&own.text)
        });
        found.truncate(NEAREST);
        Ok(found)
    }
}
