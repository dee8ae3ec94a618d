//! Judged questions with the rows that answer them.

use std::collections::HashMap;
use std::hash::Hash;

use crate::data::is_held_out;
use crate::error::Result;
use crate::index::ActiveModel;
use crate::index::search::{Asked, QueryEncoder, RankBy, Words};
use crate::judgment::{Judgment, plain};
use crate::measure::Judged as JudgedRows;
use crate::store::View;

/// Questions encoded between two reports of progress.
pub(super) const BLOCK: usize = 64;
/// Judged questions with their grades by row.
pub(crate) struct Questions {
    pub texts: Vec<String>,
    pub judged: Vec<JudgedRows>,
    /// Number of questions left out.
    pub unanswered: usize,
}

impl Questions {
    /// Questions with an answer in the view.
    pub fn of<'a>(view: &View, judgments: impl IntoIterator<Item = &'a Judgment>) -> Result<Self> {
        let graded = judgments.into_iter().map(|own| (own.question.as_str(), own.id.as_str(), own.grade));
        let all = by_question(graded);
        let mut questions = Self { texts: Vec::new(), judged: Vec::new(), unanswered: 0 };
        for (text, grades) in all {
            let mut rows = Vec::with_capacity(grades.len());
            let mut answered = false;
            for (id, grade) in grades {
                let row = view.row_of(id)?;
                answered |= row.is_some() && grade > 0;
                rows.push((row, grade));
            }
            if answered && !text.trim().is_empty() {
                questions.texts.push(text.to_owned());
                questions.judged.push(JudgedRows::new(rows));
            } else {
                questions.unanswered += 1;
            }
        }
        Ok(questions)
    }

    /// Keeps at most `most` questions, those with the smallest hashes.
    pub fn keep(&mut self, most: usize) {
        if self.texts.len() > most {
            let pairs = std::mem::take(&mut self.texts).into_iter().zip(std::mem::take(&mut self.judged));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort_by_cached_key(|(text, _)| (crc32fast::hash(plain(text).as_bytes()), text.clone()));
            pairs.truncate(most);
            (self.texts, self.judged) = pairs.into_iter().unzip();
        }
    }

    /// Questions that the query encoder did not learn from.
    pub fn fresh_for(self, of_index: bool) -> Self {
        if !of_index {
            return self;
        }
        let pairs = self.texts.into_iter().zip(self.judged);
        let (texts, judged) = pairs.filter(|(text, _)| is_held_out(text)).unzip();
        Self { texts, judged, unanswered: self.unanswered }
    }
}

/// The grades of each question by document. Different spellings are the same question, under the first of
/// them. Of several grades of a question and a document the highest counts, unless one says that the document
/// does not answer.
pub(crate) fn by_question<'a, D: Eq + Hash>(
    graded: impl Iterator<Item = (&'a str, D, i32)>,
) -> Vec<(&'a str, HashMap<D, i32>)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<(&str, HashMap<D, i32>)> = Vec::new();
    for (question, document, grade) in graded {
        let place = *places.entry(plain(question)).or_insert_with(|| {
            all.push((question, HashMap::new()));
            all.len() - 1
        });
        let kept = all[place].1.entry(document).or_insert(grade);
        *kept = if grade.min(*kept) > 0 { grade.max(*kept) } else { grade.min(*kept) };
    }
    all
}

/// Questions as they were judged: operators in them are text, because they may come from any search engine.
pub(super) fn asked(
    model: &ActiveModel,
    texts: &[String],
    by: RankBy,
    encoder: Option<QueryEncoder>,
) -> Result<Vec<Asked<'static>>> {
    let words = texts.iter().map(|text| Words::plain(text, model.analysis()));
    let words = words.collect::<Result<Vec<_>>>()?;
    let questions: Vec<_> = words.iter().map(Into::into).collect();
    let rows = model.encode_questions(&questions, encoder)?;
    let asked = words.into_iter().zip(rows).map(|(words, (row, encoder))| Asked {
        by,
        vector: row.into(),
        words: Some(words),
        encoder: Some(encoder),
        ..Asked::default()
    });
    Ok(asked.collect())
}
