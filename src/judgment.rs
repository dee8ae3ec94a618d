//! A judgment: which document answers which question.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::characters::words;
use crate::input::InputError;

/// Judgments that keep a smaller share of their weight do not count.
const LEAST_SHARE: f64 = 0.01;
/// In seconds.
const DAY: u64 = 86_400;

/// A statement that a document answers a question, or does not.
///
/// An index keeps one judgment for each question and document; a later one replaces it. Two judgments are
/// equal if they say the same, whether an index has recorded them or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judgment {
    /// The question as it was asked.
    pub question: String,
    /// Id of the document. The index need not contain it: it may be inserted later, or deleted.
    pub id: String,
    /// 1 or more: the document answers the question; 0 or less: it does not.
    pub grade: i32,
    /// Its weight, above 0 and at most 1: 1 for an explicit judgment, less for a click.
    pub weight: f64,
    /// When it was made, in seconds since 1970 (UTC); at most a day ahead.
    pub time: u64,
    /// CRC-32 of the document's stored title and text when it was judged; `None` if it was not there, and in
    /// a judgment that no index has recorded.
    #[serde(skip)]
    pub(crate) text: Option<u32>,
}

impl PartialEq for Judgment {
    fn eq(&self, other: &Self) -> bool {
        let said = |own: &Self| (own.grade, own.weight, own.time);
        self.question == other.question && self.id == other.id && said(self) == said(other)
    }
}

impl Judgment {
    /// A judgment made now, with weight 1.
    pub fn new(question: impl Into<String>, id: impl Into<String>, grade: i32) -> Self {
        Self { question: question.into(), id: id.into(), grade, weight: 1.0, time: now(), text: None }
    }

    /// The same with another weight.
    #[must_use]
    pub fn with_weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// The same with another time, in seconds since 1970 (UTC).
    #[must_use]
    pub fn at(mut self, time: u64) -> Self {
        self.time = time;
        self
    }

    /// What is left of its weight now, with a half-life ([`Index::half_life`](crate::Index::half_life)); 0 if
    /// it is too old to count.
    pub fn weight_left(&self, half_life: Option<Duration>) -> f64 {
        self.weight * share_left(self.time, now(), half_life).unwrap_or(0.0)
    }

    /// The question in the form in which two of its spellings agree: in lower case, with single spaces, and
    /// without punctuation around words.
    pub fn same_question(&self) -> String {
        same(&self.question)
    }

    /// Refuses a time in the future; a clock may be a day ahead.
    pub(crate) fn check_time(&self) -> Result<(), InputError> {
        match self.time <= now() + DAY {
            true => Ok(()),
            false => Err(InputError::OutOfRange {
                what: "the time of a judgment",
                found: self.time as f64,
                expected: "in seconds since 1970, at most a day ahead",
            }),
        }
    }

    /// Refuses an empty question and a weight out of range.
    pub(crate) fn check(&self) -> Result<(), InputError> {
        if self.question.trim().is_empty() {
            return Err(InputError::EmptyQuery);
        }
        match self.weight > 0.0 && self.weight <= 1.0 {
            true => Ok(()),
            false => Err(InputError::OutOfRange {
                what: "the weight of a judgment",
                found: self.weight,
                expected: "above 0 and at most 1",
            }),
        }
    }
}

/// Seconds since 1970 (UTC).
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The share of its weight that a judgment made at a time keeps; `None` if it is too old to count.
pub(crate) fn share_left(time: u64, now: u64, half_life: Option<Duration>) -> Option<f64> {
    let Some(half_life) = half_life else { return Some(1.0) };
    let left = 0.5f64.powf(now.saturating_sub(time) as f64 / half_life.as_secs_f64());
    (left >= LEAST_SHARE).then_some(left)
}

/// The letters and digits of a question, in lower case: two spellings of one question are the same
/// question.
pub(crate) fn plain(question: &str) -> String {
    let plain = words(question).map(|(_, word)| word.to_lowercase()).collect::<Vec<_>>().join(" ");
    // Punctuation only.
    if plain.is_empty() { question.to_owned() } else { plain }
}

/// Punctuation that does not make another question, before and after a word.
const BEFORE: [char; 5] = ['"', '\'', '(', '\u{201c}', '\u{2018}'];
const AFTER: [char; 15] = [
    '?', '!', '.', ',', ';', ':', '"', '\'', ')', '\u{2026}', '\u{201d}', '\u{3002}', '\u{ff0c}', '\u{ff1f}',
    '\u{ff01}',
];

/// The form in which two spellings of one question agree: in lower case, with single spaces, and without
/// punctuation around words. Other signs count: "C", "C++" and "C#" are three questions.
pub(crate) fn same(question: &str) -> String {
    let mut all = String::new();
    for word in question.split_whitespace() {
        let word = word.trim_start_matches(BEFORE).trim_end_matches(AFTER);
        if !word.is_empty() {
            all.push_str(if all.is_empty() { "" } else { " " });
            all.extend(word.chars().flat_map(char::to_lowercase));
        }
    }
    if all.is_empty() { question.trim().to_owned() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgments_age_by_their_half_life() {
        let now = 1_000_000_000;
        let left = |half_life, age: u64| share_left(now - age, now, half_life);
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(left(None, now), Some(1.0));
        assert_eq!(left(day, 0), Some(1.0));
        assert_eq!(share_left(now + 5, now, day), Some(1.0), "a clock that is ahead");
        assert!((left(day, 86_400).unwrap() - 0.5).abs() < 1e-12);
        assert!((left(day, 3 * 86_400).unwrap() - 0.125).abs() < 1e-12);
        assert_eq!(left(day, 7 * 86_400), None);
    }

    #[test]
    fn spellings_of_a_question_are_the_same_and_other_signs_are_not() {
        for spelling in ["What is  tea?", " what is \"tea\" ?!", "WHAT, IS TEA\n", "what is tea\u{ff1f}"] {
            assert_eq!(same(spelling), "what is tea", "{spelling}");
        }
        let different = ["c", "c++", "c#", "-5", "5", "0.5", ".net", "net", "?", "!", "is 5 > 3", "is 5 < 3"];
        for (place, one) in different.iter().enumerate() {
            assert!(different[place + 1..].iter().all(|other| same(one) != same(other)), "{one}");
        }
    }
}
