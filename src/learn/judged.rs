//! The judgments used by a learning.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::data::LEARN_HELD_OUT;
use crate::error::Result;
use crate::index::check_judgment;
use crate::judgment::{Judgment, now};
use crate::model::{ModelError, hex};
use crate::train::dataset::{judged_wrong, pair_key};
use crate::train::error::out_of_range;
use crate::train::{REPORT_FILE, TrainConfig};

/// Pairs aged to a smaller share of their weight are left out.
const LEAST_SHARE: f64 = 0.01;

/// Options of [`Index::learn`](crate::Index::learn).
#[derive(Clone, Debug, Default)]
pub struct LearnOptions {
    /// Judgments in addition to those in the index, such as weighted clicks. They are not stored.
    pub pairs: Vec<Judgment>,
    /// Time after which a judgment counts half; by default judgments do not age.
    pub half_life: Option<Duration>,
    /// Settings of the training. Leave `dev_fraction` at its default: a learning always sets aside
    /// [`LEARN_HELD_OUT`](crate::train::LEARN_HELD_OUT), and any other value is an error.
    pub config: TrainConfig,
    /// Adopts the new model even if it is not shown to be better, and trains even with too few held-out
    /// questions to show anything.
    pub accept: bool,
}

impl LearnOptions {
    pub(super) fn checked_config(&self) -> Result<TrainConfig> {
        let dev_fraction = share(self.config.dev_fraction)?;
        if self.half_life.is_some_and(|time| time.is_zero()) {
            return Err(out_of_range("half_life", 0, "a time above 0".to_owned()));
        }
        let config = TrainConfig { dev_fraction, ..self.config.clone() };
        config.check()?;
        self.pairs.iter().try_for_each(check_judgment)?;
        Ok(config)
    }

    /// The remaining share of a judgment's weight at a time.
    fn left(&self, judgment: &Judgment, now: u64) -> f64 {
        let age = now.saturating_sub(judgment.time) as f64;
        0.5f64.powf(self.half_life.map_or(0.0, |time| age / time.as_secs_f64()))
    }
}

/// Judgments that can be learned from.
pub(super) struct Judged {
    /// Question, id of a document that answers it, and weight.
    pub pairs: Vec<(String, String, f32)>,
    pub without_document: usize,
    /// Digest of the given questions, ids and weights.
    digest: Sha256,
}

impl Judged {
    pub fn of(
        stored: Vec<Judgment>,
        options: &LearnOptions,
        holds: impl Fn(&str) -> Result<bool>,
    ) -> Result<Self> {
        let now = now();
        // The first spelling of a question represents all its spellings.
        let mut spellings: HashMap<String, &str> = HashMap::new();
        let mut judged = Self { pairs: Vec::new(), without_document: 0, digest: Sha256::new() };
        let (no_stored, no_given) = (judged_wrong(&stored), judged_wrong(&options.pairs));
        let given = options.pairs.iter().map(|judgment| (judgment, true));
        for (judgment, is_given) in stored.iter().map(|judgment| (judgment, false)).chain(given) {
            let Judgment { question, id, grade, weight, .. } = judgment;
            let left = options.left(judgment, now);
            let key = pair_key(judgment);
            let is_no = no_stored.contains(&key) || is_given && no_given.contains(&key);
            if *grade <= 0 || left < LEAST_SHARE || is_no {
                continue;
            }
            if !holds(id)? {
                judged.without_document += 1;
                continue;
            }
            let question = *spellings.entry(key.0).or_insert(question);
            for part in [question.as_bytes(), id.as_bytes(), &weight.to_le_bytes()] {
                judged.digest.update((part.len() as u64).to_le_bytes());
                judged.digest.update(part);
            }
            judged.pairs.push((question.to_owned(), id.clone(), (weight * left) as f32));
        }
        Ok(judged)
    }

    /// Numbers of distinct questions: held out, and others.
    pub fn split(&self, is_aside: impl Fn(&str) -> bool) -> (usize, usize) {
        let questions: HashSet<&str> = self.pairs.iter().map(|(question, ..)| question.as_str()).collect();
        let aside = questions.iter().filter(|question| is_aside(question)).count();
        (aside, questions.len() - aside)
    }

    /// A fingerprint of a training's data, without the documents and the age of judgments.
    pub fn fingerprint(&self, options: &LearnOptions, config: &TrainConfig) -> Result<String> {
        let mut digest = self.digest.clone();
        let json = serde_json::to_string(config)
            .map_err(|source| ModelError::Json { path: REPORT_FILE.into(), source })?;
        digest.update(json);
        digest.update(options.half_life.unwrap_or_default().as_secs().to_le_bytes());
        Ok(hex(&digest.finalize()))
    }
}

/// The share that a training on a collection sets aside, given `found` in its settings.
///
/// # Errors
/// [`TrainError::Config`](crate::train::TrainError::Config) for a share other than [`LEARN_HELD_OUT`] or the
/// default of the settings.
fn share(found: f64) -> Result<f64> {
    if found != TrainConfig::default().dev_fraction && found != LEARN_HELD_OUT {
        let expected = format!("{LEARN_HELD_OUT}, which is always set aside of a collection's questions");
        return Err(out_of_range("dev_fraction", found, expected));
    }
    Ok(LEARN_HELD_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgments_age_by_their_half_life() {
        let now = 1_000_000_000;
        let day = Duration::from_secs(86_400);
        let aged = |half_life, age: u64| {
            let options = LearnOptions { half_life, ..LearnOptions::default() };
            options.left(&Judgment::new("q", "d", 1).with_weight(0.8).at(now - age), now)
        };
        assert_eq!(aged(None, 1 << 20), 1.0);
        assert_eq!(aged(Some(day), 0), 1.0);
        assert!((aged(Some(day), 86_400) - 0.5).abs() < 1e-12);
        assert!((aged(Some(day), 3 * 86_400) - 0.125).abs() < 1e-12);
    }

    #[test]
    fn what_was_judged_wrong_is_no_pair_and_what_is_gone_is_counted() {
        let judgment = |id, grade| Judgment::new("q", id, grade);
        let stored = vec![judgment("a", 0), judgment("b", 2), judgment("gone", 1)];
        let other = Judgment::new("Q?", "b", 1).with_weight(0.5);
        let pairs = vec![judgment("a", 1), other, Judgment::new("r", "a", 1), Judgment::new("r", "a", 0)];
        let options = LearnOptions { pairs, ..LearnOptions::default() };
        let judged = Judged::of(stored, &options, |id| Ok(id != "gone")).unwrap();
        assert_eq!(judged.split(|_| false), (0, 1));
        let expected = [("q", "b", 1.0), ("q", "b", 0.5)].map(|(q, d, w)| (q.to_owned(), d.to_owned(), w));
        assert_eq!((judged.pairs, judged.without_document), (expected.into(), 1));
    }
}
