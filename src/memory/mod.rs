//! Judged questions: "which documents were judged for questions like this one?"
//!
//! A question is remembered with the documents judged for it and, once it is made, its vector. A search whose
//! question is near to remembered ones takes their documents as candidates and adds to their scores. This
//! module knows neither files nor encoders.

mod nearest;
mod weights;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use half::f16;

use crate::judgment::{Judgment, same, share_left};
use crate::scan::ScanError;
use nearest::NearestVectors;
pub(crate) use weights::{MemoryWeights, Vote};

/// Remembered questions that a search takes into account.
pub(crate) const NEAREST: usize = 20;

/// The judged questions of an index.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    questions: Vec<JudgedQuestion>,
    /// By [`same`] text.
    places: HashMap<String, u32>,
    vectors: NearestVectors,
    /// The question of each vector.
    owners: Vec<u32>,
    half_life: Option<Duration>,
    /// How often a question without a vector was judged that was not judged before, or not in this spelling,
    /// and how many of these were looked at when vectors were last made.
    changes: u64,
    made: u64,
}

/// A question, in that of its spellings which is first in order, and what was judged for it.
#[derive(Clone, Debug)]
struct JudgedQuestion {
    text: Arc<str>,
    /// In the order of ids and spellings.
    documents: Vec<JudgedDocument>,
    /// The number of its vector.
    vector: Option<u32>,
}

/// A judged document. Each spelling of a question has its own judgment of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JudgedDocument {
    pub id: Arc<str>,
    /// The question as it was judged.
    pub spelling: Arc<str>,
    pub grade: i32,
    pub weight: f64,
    pub time: u64,
    /// Checksum of the text that was judged, if it is known.
    pub text: Option<u32>,
}

/// A remembered question near to the one asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NearQuestion {
    /// Its number in the memory.
    pub place: u32,
    /// Cosine of the two vectors; 1 for the same question.
    pub cosine: f32,
    /// Whether it is the same question.
    pub is_same: bool,
}

impl Memory {
    /// An empty memory for vectors `[dim]`; with a `dim` of 0, no question is near another.
    pub fn new(dim: usize, half_life: Option<Duration>) -> Self {
        // Other numbers than those of any other memory, which are nothing to `note_made` of this one.
        static FIRST: AtomicU64 = AtomicU64::new(0);
        let first = FIRST.fetch_add(1 << 32, Relaxed);
        Self {
            questions: Vec::new(),
            places: HashMap::new(),
            vectors: NearestVectors::new(dim),
            owners: Vec::new(),
            half_life,
            changes: first,
            made: first,
        }
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// The questions that have judgments.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let judged = self.questions.iter().filter(|question| !question.documents.is_empty());
        judged.map(|question| &*question.text)
    }

    /// All remembered questions by their numbers, even those of which all judgments were taken back.
    #[cfg(feature = "eval")]
    pub fn all_texts(&self) -> impl Iterator<Item = &str> {
        self.questions.iter().map(|question| &*question.text)
    }

    /// Whether any question has a vector.
    pub fn has_vectors(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Whether questions may lack vectors that were not looked at by [`Self::note_made`].
    pub fn needs_vectors(&self) -> bool {
        self.made != self.changes
    }

    /// The questions that have judgments and no vector, and what to tell [`Self::note_made`].
    pub fn without_vectors(&self) -> (Vec<Arc<str>>, u64) {
        let own = self.questions.iter().filter(|own| own.vector.is_none() && !own.documents.is_empty());
        (own.map(|own| Arc::clone(&own.text)).collect(), self.changes)
    }

    /// Notes that vectors were made of what could be encoded of [`Self::without_vectors`].
    pub fn note_made(&mut self, changes: u64) {
        self.made = self.made.max(changes);
    }

    /// Whether something is judged for a question in this spelling.
    pub fn is_judged(&self, question: &str) -> bool {
        let own = self.places.get(&same(question)).map(|&place| &self.questions[place as usize]);
        own.is_some_and(|own| *own.text == *question && !own.documents.is_empty())
    }

    /// Gives questions their vectors, `[dim]` f16 of unit norm each.
    pub fn set_vectors<'a>(&mut self, vectors: impl IntoIterator<Item = (&'a str, &'a [f16])>) {
        let mut new = Vec::new();
        for (question, vector) in vectors {
            let Some(&place) = self.places.get(&same(question)) else { continue };
            let own = &mut self.questions[place as usize];
            // It may be spelt differently by now.
            if own.vector.is_none() && *own.text == *question {
                own.vector = Some(self.owners.len() as u32);
                self.owners.push(place);
                new.extend_from_slice(vector);
            }
        }
        self.vectors.extend(&new);
    }

    /// The documents judged for the question at a place.
    pub fn documents(&self, place: u32) -> &[JudgedDocument] {
        &self.questions[place as usize].documents
    }

    /// What the judgments of a near question say now, without those that are too old to count.
    pub fn votes(&self, near: NearQuestion, now: u64) -> impl Iterator<Item = (&JudgedDocument, Vote)> {
        let NearQuestion { place, cosine, is_same } = near;
        self.documents(place).iter().enumerate().filter_map(move |(number, judged)| {
            let left = share_left(judged.time, now, self.half_life)?;
            let sign = if judged.grade > 0 { 1.0 } else { -1.0 };
            let strength = sign * (judged.weight * left) as f32;
            Some((judged, Vote { place: (place, number), cosine, is_same, is_stale: false, strength }))
        })
    }

    /// The judgment of a vote.
    pub fn judged(&self, vote: &Vote) -> &JudgedDocument {
        &self.documents(vote.place.0)[vote.place.1]
    }

    /// Remembers a judgment; a later one of the same question and document replaces an earlier one.
    pub fn judge(&mut self, judgment: &Judgment) {
        let Judgment { question, id, grade, weight, time, text: checksum } = judgment;
        let place = *self.places.entry(same(question)).or_insert_with(|| {
            let text = question.as_str().into();
            self.questions.push(JudgedQuestion { text, documents: Vec::new(), vector: None });
            self.questions.len() as u32 - 1
        });
        let own = &mut self.questions[place as usize];
        if **question < *own.text || own.documents.is_empty() {
            if **question != *own.text {
                (own.text, own.vector) = (question.as_str().into(), None);
            }
            self.changes += u64::from(own.vector.is_none());
        }
        let JudgedQuestion { text, documents, .. } = own;
        let spelling = if **text == **question { Arc::clone(text) } else { question.as_str().into() };
        let (id, grade, weight, time, checksum) = (id.as_str().into(), *grade, *weight, *time, *checksum);
        let new = JudgedDocument { id, spelling, grade, weight, time, text: checksum };
        match find(documents, &new.id, question) {
            Ok(own) => documents[own] = new,
            Err(own) => documents.insert(own, new),
        }
    }

    /// Forgets the judgment of a question and a document.
    pub fn forget(&mut self, question: &str, id: &str) {
        let Some(&place) = self.places.get(&same(question)) else { return };
        let own = &mut self.questions[place as usize];
        if let Ok(judged) = find(&own.documents, id, question) {
            own.documents.remove(judged);
            let first = own.documents.iter().map(|judged| &judged.spelling).min();
            if let Some(first) = first.filter(|first| **first != own.text).cloned() {
                (own.text, own.vector) = (first, None);
                self.changes += 1;
            }
        }
    }

    /// The nearest remembered questions that `may_recall` accepts, nearest first, without those whose
    /// judgments are all too old. The same question is the first, even without a vector.
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
        now: u64,
        may_recall: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<NearQuestion>, ScanError> {
        let counts = |own: &JudgedDocument| share_left(own.time, now, self.half_life).is_some();
        let accepts =
            |place: u32| self.questions[place as usize].documents.iter().any(counts) && may_recall(place);
        let is_same = text.and_then(|text| self.places.get(&same(text))).copied();
        let first = is_same.filter(|&place| accepts(place));
        let first = first.map(|place| NearQuestion { place, cosine: 1.0, is_same: true });
        let mut found: Vec<NearQuestion> = first.into_iter().collect();
        if let Some(unit) = unit.filter(|_| !self.owners.is_empty()) {
            let others = |vector: u32| {
                let owner = self.owners[vector as usize];
                // Its question may be spelt differently by now.
                let is_own = self.questions[owner as usize].vector == Some(vector);
                is_own && Some(owner) != is_same && accepts(owner)
            };
            let near = self.vectors.nearest(unit, NEAREST - found.len(), &others)?.into_iter();
            let near = near.filter(|(cosine, _)| *cosine > 0.0).map(|(cosine, vector)| NearQuestion {
                place: self.owners[vector as usize],
                cosine,
                is_same: false,
            });
            found.extend(near);
        }
        Ok(found)
    }
}

/// Has each answer count by its grade's share of the highest grade of its question, among these votes of
/// documents that exist; a document that does not answer counts in full. Grades above [`MOST_GRADE`] count as
/// that, so that no judgment takes more than three quarters from the others.
pub(crate) fn by_grade(votes: &mut [(&JudgedDocument, Vote)]) {
    for own in votes.chunk_by_mut(|(_, a), (_, b)| a.place.0 == b.place.0) {
        let best = own.iter().map(|(judged, _)| judged.grade).max().unwrap_or_default().min(MOST_GRADE);
        for (judged, vote) in own.iter_mut().filter(|(judged, _)| judged.grade > 0) {
            vote.strength *= judged.grade.min(MOST_GRADE) as f32 / best as f32;
        }
    }
}

/// The highest grade that counts as more than others.
const MOST_GRADE: i32 = 4;

/// The place of a judgment among those of a question, or where it belongs.
fn find(documents: &[JudgedDocument], id: &str, spelling: &str) -> Result<usize, usize> {
    documents.binary_search_by(|own| (&*own.id, &*own.spelling).cmp(&(id, spelling)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_lacks_its_vector_until_it_is_made_for_this_memory() {
        let judgment = Judgment::new("question", "d", 1);
        let judged = || {
            let mut memory = Memory::new(2, None);
            memory.judge(&judgment);
            memory
        };
        let mut memory = judged();
        memory.forget("question", "d");
        let (missing, changes) = memory.without_vectors();
        memory.note_made(changes);
        assert!(missing.is_empty() && !memory.needs_vectors());
        memory.judge(&judgment);
        assert!(memory.needs_vectors() && memory.without_vectors().0.len() == 1, "judged again");
        // The judgments may be read again while vectors are made.
        let (before, mut after) = (judged(), judged());
        after.note_made(before.without_vectors().1);
        assert!(after.needs_vectors(), "read again");
    }

    #[test]
    fn questions_that_are_forgotten_or_refused_take_no_place_among_the_nearest() {
        let mut memory = Memory::new(2, None);
        // The further, the larger the number.
        let near = |n: usize| {
            let angle = n as f32 / 100.0;
            [f16::from_f32(angle.cos()), f16::from_f32(angle.sin())]
        };
        let names: Vec<String> = (0..60).map(|n| format!("question {n}")).collect();
        names.iter().for_each(|name| memory.judge(&Judgment::new(name, "d", 1)));
        assert_eq!(memory.without_vectors().0.len(), 60);
        let vectors: Vec<[f16; 2]> = (0..60).map(near).collect();
        memory.set_vectors(names.iter().map(String::as_str).zip(vectors.iter().map(|own| &own[..])));
        (0..10).for_each(|n| memory.forget(&names[n], "d"));
        let may_recall = |place: u32| place != 11;
        let found = memory.nearest(Some("Question 12"), Some(&[1.0, 0.0]), 0, &may_recall).unwrap();
        let places: Vec<u32> = found.iter().map(|near| near.place).collect();
        let expected: Vec<u32> = [12, 10].into_iter().chain(13..31).collect();
        assert_eq!(places, expected);
        assert!(found[0].is_same && !found[1].is_same && found.len() == NEAREST);
        // The same question is found without its vector, and not if all its judgments are taken back.
        assert_eq!(memory.nearest(Some("question 13!"), None, 0, &|_| true).unwrap().len(), 1);
        assert_eq!(memory.nearest(Some("question 3"), None, 0, &|_| true).unwrap(), []);
    }
}
