//! Which questions of a collection are held out from all learning.

use super::config::TrainConfig;
use super::error::out_of_range;
use crate::data::{DevFraction, is_dev};
use crate::error::Result;
use crate::judgment::plain;

/// Share of a collection's questions that is set aside, by a hash of their words. The choice never changes
/// and ignores case and punctuation, so no model is measured on questions that an earlier one learned.
pub const LEARN_HELD_OUT: f64 = 0.2;

/// Seed of every split into training and test questions. It does not depend on the seed of a training, so all
/// runs are compared on the same questions.
pub(super) const SPLIT_SEED: u64 = 0;

/// Whether a question of a collection is set aside. [`Index::learn`](crate::Index::learn),
/// [`Index::tune`](crate::Index::tune) and [`Index::distil`](crate::Index::distil) never learn from a
/// question that is set aside; [`Index::fuse`](crate::Index::fuse) tunes the weight of words on these
/// questions. Other code that trains on the same questions should follow the same split, so that no model is
/// measured on questions it has seen.
pub fn is_held_out(question: &str) -> bool {
    DevFraction::new(LEARN_HELD_OUT).is_ok_and(|fraction| is_dev(&plain(question), SPLIT_SEED, fraction))
}

/// The share that a training on a collection sets aside, given `found` in its settings.
///
/// # Errors
/// [`TrainError::Config`](super::TrainError::Config) for a share other than [`LEARN_HELD_OUT`] or the default
/// of the settings.
pub(crate) fn share(found: f64) -> Result<f64> {
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
    fn spellings_of_a_question_are_one() {
        assert_eq!(plain(" What is  TEA?\n"), "what is tea");
        assert_eq!(plain("what is tea"), "what is tea");
        assert_eq!(plain("?!"), "?!");
        let aside = (0..1_000).filter(|n| is_held_out(&format!("question {n}"))).count();
        assert!((150..250).contains(&aside), "{aside}");
        assert!(
            (0..100)
                .all(|n| is_held_out(&format!("question {n}")) == is_held_out(&format!(" Question, {n}?")))
        );
    }
}
