//! The judgments used by a learning.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::data::LEARN_HELD_OUT;
use crate::error::Result;
use crate::index::check_judgment;
use crate::judgment::{Judgment, now, share_left};
use crate::model::{ModelError, hex};
use crate::train::dataset::{judged_wrong, pair_key};
use crate::train::error::out_of_range;
use crate::train::{REPORT_FILE, TrainConfig};

/// Options of [`Index::learn`](crate::Index::learn).
#[derive(Clone, Debug, Default)]
pub struct LearnOptions {
    /// Judgments in addition to those in the index, such as weighted clicks. They are not stored.
    pub pairs: Vec<Judgment>,
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
        let config = TrainConfig { dev_fraction, ..self.config.clone() };
        config.check()?;
        self.pairs.iter().try_for_each(check_judgment)?;
        Ok(config)
    }
}

/// Judgments that can be learned from.
pub(super) struct Judged {
    /// Question, id of a document that answers it, and weight.
    pub pairs: Vec<(String, String, f32)>,
    pub without_document: usize,
    half_life: Option<Duration>,
    /// Digest of the given questions, ids and weights.
    digest: Sha256,
}

impl Judged {
    pub fn of(
        stored: Vec<Judgment>,
        half_life: Option<Duration>,
        options: &LearnOptions,
        holds: impl Fn(&str) -> Result<bool>,
    ) -> Result<Self> {
        let now = now();
        // The first spelling of a question represents all its spellings.
        let mut spellings: HashMap<String, &str> = HashMap::new();
        let mut judged = Self { pairs: Vec::new(), without_document: 0, half_life, digest: Sha256::new() };
        let (no_stored, no_given) = (judged_wrong(&stored), judged_wrong(&options.pairs));
        let given = options.pairs.iter().map(|judgment| (judgment, true));
        for (judgment, is_given) in stored.iter().map(|judgment| (judgment, false)).chain(given) {
            let Judgment { question, id, grade, weight, .. } = judgment;
            let key = pair_key(judgment);
            let is_no = no_stored.contains(&key) || is_given && no_given.contains(&key);
            let Some(left) = share_left(judgment.time, now, half_life).filter(|_| *grade > 0 && !is_no)
            else {
                continue;
            };
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
    pub fn fingerprint(&self, config: &TrainConfig) -> Result<String> {
        let mut digest = self.digest.clone();
        let json = serde_json::to_string(config)
            .map_err(|source| ModelError::Json { path: REPORT_FILE.into(), source })?;
        digest.update(json);
        digest.update(self.half_life.unwrap_or_default().as_secs().to_le_bytes());
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
    fn what_was_judged_wrong_is_no_pair_and_what_is_gone_is_counted() {
        let judgment = |id, grade| Judgment::new("q", id, grade);
        let stored = vec![judgment("a", 0), judgment("b", 2), judgment("gone", 1)];
        let other = Judgment::new("Q?", "b", 1).with_weight(0.5);
        let pairs = vec![judgment("a", 1), other, Judgment::new("r", "a", 1), Judgment::new("r", "a", 0)];
        let options = LearnOptions { pairs, ..LearnOptions::default() };
        let judged = Judged::of(stored, None, &options, |id| Ok(id != "gone")).unwrap();
        assert_eq!(judged.split(|_| false), (0, 1));
        let expected = [("q", "b", 1.0), ("q", "b", 0.5)].map(|(q, d, w)| (q.to_owned(), d.to_owned(), w));
        assert_eq!((judged.pairs, judged.without_document), (expected.into(), 1));
    }

    #[test]
    fn a_half_life_lessens_weights_and_makes_another_learning() {
        let of = |days| {
            let (day, options) = (86_400, LearnOptions::default());
            let stored = [1, 100].map(|ago| Judgment::new("q", "d", 1).at(now() - ago * day));
            let half_life = (days > 0).then(|| Duration::from_secs(days * day));
            Judged::of(stored.to_vec(), half_life, &options, |_| Ok(true)).unwrap()
        };
        let weights = |days| of(days).pairs.iter().map(|(.., weight)| *weight).collect::<Vec<f32>>();
        assert_eq!(weights(0), [1.0, 1.0]);
        assert!(matches!(weights(1)[..], [weight] if (weight - 0.5).abs() < 1e-3));
        let prints = [0, 1000, 2000].map(|days| of(days).fingerprint(&TrainConfig::default()).unwrap());
        assert!(prints[0] != prints[1] && prints[1] != prints[2]);
    }
}
