//! Training sets: documents, queries and the documents that answer them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::error::TrainError;
use crate::data::{Dataset, DevFraction, Qrels, SPLIT_SEED, carve_dev, is_dev};
use crate::document::Document;
use crate::error::Result;
use crate::judgment::{Judgment, plain};

/// A query with the positions of its relevant documents.
#[derive(Clone, Debug)]
pub(crate) struct TrainingQuery {
    pub id: String,
    pub text: String,
    /// Positions in the document list, ascending.
    pub positives: Vec<u32>,
    /// Share of the passes in which each positive takes part; empty if all take part in every pass.
    pub weights: Vec<f32>,
}

/// Documents and judged queries, in memory.
#[derive(Clone, Debug, Default)]
pub struct TrainingSet {
    pub(crate) documents: Vec<Document>,
    pub(crate) train: Vec<TrainingQuery>,
    pub(crate) dev: Vec<TrainingQuery>,
    /// Whether the documents are passages.
    pub(crate) of_passages: bool,
}

/// The normalised question and the document of a judgment.
pub(crate) fn pair_key(judgment: &Judgment) -> (String, String) {
    (plain(&judgment.question), judgment.id.clone())
}

/// The pairs that a judgment calls wrong, by a grade of 0 or less: no other judgment makes them right.
pub(crate) fn judged_wrong(judgments: &[Judgment]) -> HashSet<(String, String)> {
    judgments.iter().filter(|judgment| judgment.grade <= 0).map(pair_key).collect()
}

impl TrainingSet {
    /// Reads a dataset's corpus, queries and `train` judgments; never its test split.
    ///
    /// The dev split is the dataset's own `dev` judgments or, if there are none, the given fraction of the
    /// training queries, chosen by a seeded hash of their ids.
    ///
    /// # Errors
    /// Every error of the reader, and [`TrainError::Unknown`] for a judgment that names a missing document or
    /// query.
    pub fn read(dataset: &Dataset, dev_fraction: f64) -> Result<Self> {
        let documents = dataset
            .corpus()?
            .map(|document| document.map(|d| Document { metadata: None, ..d }))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let queries = dataset
            .queries()?
            .map(|query| query.map(|q| (q.id, q.text)))
            .collect::<std::result::Result<HashMap<_, _>, _>>()?;
        let judgments = dataset.qrels("train")?;
        let (train, dev) = if dataset.splits()?.iter().any(|split| split == "dev") {
            (judgments, dataset.qrels("dev")?)
        } else {
            carve_dev(judgments, SPLIT_SEED, DevFraction::new(dev_fraction)?)
        };
        let places: HashMap<&str, u32> =
            (0u32..).zip(&documents).map(|(place, document)| (document.id.as_str(), place)).collect();
        let resolve = |qrels: &Qrels| -> Result<Vec<TrainingQuery>> {
            let mut resolved = Vec::with_capacity(qrels.len());
            for (id, judged) in qrels.iter() {
                let text = queries.get(id).ok_or_else(|| unknown("query", id))?;
                let mut positives = Vec::new();
                for (document, &grade) in judged {
                    let place = places.get(document.as_str()).ok_or_else(|| unknown("document", document))?;
                    if grade > 0 {
                        positives.push(*place);
                    }
                }
                if !positives.is_empty() {
                    positives.sort_unstable();
                    resolved.push(TrainingQuery {
                        id: id.to_owned(),
                        text: text.clone(),
                        positives,
                        weights: Vec::new(),
                    });
                }
            }
            Ok(resolved)
        };
        let (train, dev) = (resolve(&train)?, resolve(&dev)?);
        if train.is_empty() {
            return Err(TrainError::NoPairs.into());
        }
        Ok(Self { documents, train, dev, of_passages: false })
    }

    /// Documents and judged questions. A judgment of grade 1 or more is a pair and takes part in a share of
    /// the passes given by its weight. A pair that another judgment calls wrong (grade 0 or less) is left
    /// out. The dev split is the given fraction of the questions, chosen by a seeded hash of their texts;
    /// questions that differ only in case and punctuation are on the same side.
    ///
    /// # Errors
    /// [`TrainError::Unknown`] for a judgment of a missing document, [`TrainError::EmptyQuery`],
    /// [`TrainError::Duplicate`] for two documents with one id, [`TrainError::NoPairs`], and a dev fraction
    /// out of range.
    pub fn from_judgments(
        documents: impl IntoIterator<Item = Document>,
        judgments: &[Judgment],
        dev_fraction: f64,
    ) -> Result<Self> {
        let wrong = judged_wrong(judgments);
        let right = judgments.iter().filter(|judged| judged.grade > 0 && !wrong.contains(&pair_key(judged)));
        let pairs = right.map(|judged| (judged.question.clone(), judged.id.clone(), judged.weight as f32));
        let fraction = DevFraction::new(dev_fraction)?;
        Self::from_weighted_pairs(documents, pairs, |question| is_dev(&plain(question), SPLIT_SEED, fraction))
    }

    /// As [`Self::from_judgments`], from pairs with the share of the passes that each pair takes part in,
    /// above 0 and at most 1; for a pair given twice the larger share counts. `aside` tells whether a
    /// question is set aside.
    pub(crate) fn from_weighted_pairs(
        documents: impl IntoIterator<Item = Document>,
        pairs: impl IntoIterator<Item = (String, String, f32)>,
        aside: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let documents: Vec<Document> =
            documents.into_iter().map(|document| Document { metadata: None, ..document }).collect();
        let mut places = HashMap::with_capacity(documents.len());
        for (place, document) in (0u32..).zip(&documents) {
            if places.insert(document.id.as_str(), place).is_some() {
                return Err(TrainError::Duplicate { id: document.id.clone() }.into());
            }
        }
        let mut queries: BTreeMap<String, BTreeMap<u32, f32>> = BTreeMap::new();
        for (query, document, weight) in pairs {
            if query.trim().is_empty() {
                return Err(TrainError::EmptyQuery { document }.into());
            }
            let place = places.get(document.as_str()).ok_or_else(|| unknown("document", &document))?;
            let known = queries.entry(query).or_default().entry(*place).or_default();
            *known = known.max(weight);
        }
        let (mut train, mut dev) = (Vec::new(), Vec::new());
        for (text, judged) in queries {
            let (positives, mut weights): (Vec<u32>, Vec<f32>) = judged.into_iter().unzip();
            if weights.iter().all(|weight| *weight >= 1.0) {
                weights.clear();
            }
            let into = if aside(&text) { &mut dev } else { &mut train };
            into.push(TrainingQuery { id: text.clone(), text, positives, weights });
        }
        if train.is_empty() {
            return Err(TrainError::NoPairs.into());
        }
        Ok(Self { documents, train, dev, of_passages: false })
    }

    /// Training pairs: a query with one document that answers it.
    pub(crate) fn pairs(&self) -> usize {
        self.train.iter().map(|query| query.positives.len()).sum()
    }

    /// Queries to train on, and queries set aside.
    pub fn queries(&self) -> (usize, usize) {
        (self.train.len(), self.dev.len())
    }
}

fn unknown(kind: &'static str, id: &str) -> TrainError {
    TrainError::Unknown { kind, id: id.to_owned() }
}

/// Sentences of a text that are long enough to serve as queries.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut ends: Vec<usize> = text
        .match_indices(['.', '?', '!'])
        .map(|(at, mark)| at + mark.len())
        .filter(|&end| text[end..].starts_with(char::is_whitespace))
        .collect();
    ends.push(text.len());
    for end in ends {
        let sentence = text[start..end].trim();
        if sentence.chars().count() >= SHORTEST_SENTENCE {
            found.push(sentence);
        }
        start = end;
    }
    found
}

/// In characters; shorter pieces are mostly abbreviations and headings.
const SHORTEST_SENTENCE: usize = 30;

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn sentences_end_at_marks_before_white_space() {
        let text = "The first sentence is long enough (p < 0.05) to count. Short one. \
                    Is the second question long enough to count? And the tail without a mark counts";
        assert_eq!(
            sentences(text),
            [
                "The first sentence is long enough (p < 0.05) to count.",
                "Is the second question long enough to count?",
                "And the tail without a mark counts"
            ]
        );
        assert!(sentences("").is_empty());
    }
}
