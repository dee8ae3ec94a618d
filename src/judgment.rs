//! A judgment: which document answers which question.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::input::InputError;

/// That a document answers a question, or does not.
///
/// Of a question and a document an index keeps one judgment; a later one replaces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judgment {
    /// The question as it was asked.
    pub question: String,
    /// Id of the document. The index need not hold it: it may come later, and may be deleted.
    pub id: String,
    /// 1 and more: the document answers the question; 0 and less: it does not.
    pub grade: i32,
    /// How much it counts, above 0 and at most 1: 1 for a judgment that somebody made, less for a click.
    pub weight: f64,
    /// When it was made, in seconds since 1970 (UTC).
    pub time: u64,
}

impl Judgment {
    /// One that is made now, of weight 1.
    pub fn new(question: impl Into<String>, id: impl Into<String>, grade: i32) -> Self {
        Self { question: question.into(), id: id.into(), grade, weight: 1.0, time: now() }
    }

    /// The same with another weight.
    #[must_use]
    pub fn with_weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// The same, made at another time, in seconds since 1970 (UTC).
    #[must_use]
    pub fn at(mut self, time: u64) -> Self {
        self.time = time;
        self
    }

    /// Refuses an empty question and a weight out of range.
    pub(crate) fn check(&self) -> Result<(), InputError> {
        if self.question.trim().is_empty() {
            return Err(InputError::EmptyQuery);
        }
        match self.weight > 0.0 && self.weight <= 1.0 {
            true => Ok(()),
            false => Err(InputError::BadWeight { found: self.weight }),
        }
    }
}

/// Seconds since 1970 (UTC).
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
