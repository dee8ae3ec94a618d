//! Which questions of a collection are held out from all learning.

use super::split::{DevFraction, is_dev};
use crate::judgment::plain;

/// Share of a collection's questions that is set aside, by a hash of their words. The choice never changes
/// and ignores case and punctuation, so no model is measured on questions that an earlier one learned.
pub const LEARN_HELD_OUT: f64 = 0.2;

/// Seed of every split into training and test questions. It does not depend on the seed of a training, so all
/// runs are compared on the same questions.
pub(crate) const SPLIT_SEED: u64 = 0;

/// Whether a question of a collection is set aside. Trainings on the judgments of an index never learn from
/// it, and the weights of words and of judgments are measured on it. Other code that trains on the same
/// questions should follow the same split, so that no model is measured on questions it has seen.
pub fn is_held_out(question: &str) -> bool {
    DevFraction::new(LEARN_HELD_OUT).is_ok_and(|fraction| is_dev(&plain(question), SPLIT_SEED, fraction))
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
