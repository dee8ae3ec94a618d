//! Decision rules for a difference between two ways to search. Every verdict measures both on the same
//! held-out questions, and each kind of decision has one row here; `docs/learning.md` shows them as a table.

use super::verdict::Difference;
use crate::measure::SIGNIFICANCE_LEVEL;

/// Smallest difference in nDCG or recall that counts: one point, about the effect of another seed in the same
/// run.
pub const SMALLEST_GAIN: f64 = 0.01;
/// Fewest questions to decide on: with fewer, one question is worth more than five points.
pub const FEWEST_QUERIES: usize = 20;
/// Differences that decide a training's recommendation: the tree against IVF on the base and on the trained
/// encoder, and exact search before and after, each in recall@10 and in recall@100.
pub const DECISIVE_COMPARISONS: usize = 6;

/// z(0.8), for a power of four in five.
const Z_POWER: f64 = 0.841_621;
/// z(1 - 0.05 / 2) and z(1 - 0.05 / 2 / 6).
const Z_ONE: f64 = 1.959_964;
const Z_SIX: f64 = 2.638_257;
/// Assumed standard deviation over questions of a training's difference in nDCG@10 before one is measured:
/// that of trainings on SciFact and NFCorpus.
const TYPICAL_DEVIATION: f64 = 0.25;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Policy {
    /// Smallest gain that counts; it must be significant.
    gain: f64,
    /// Smallest loss that counts.
    loss: f64,
    /// Whether a loss must be significant to count.
    sure_of_loss: bool,
    comparisons: usize,
}

/// The decision about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Fewer than [`FEWEST_QUERIES`].
    TooFew,
    Gain,
    NotShown,
    Loss,
}

/// Whether an index adopts what it learned, by nDCG@10 and recall@10 of its searches.
pub(crate) const LEARN: Policy =
    Policy { gain: SMALLEST_GAIN, loss: SMALLEST_GAIN, sure_of_loss: false, comparisons: 1 };
/// The same with judgments of near questions, by nDCG@10; a gain is not required.
pub(crate) const LEARN_WITH_MEMORY: Policy =
    Policy { gain: SMALLEST_GAIN / 2.0, sure_of_loss: true, ..LEARN };
/// The recommendation of a training, by recall@100 and recall@10.
pub(crate) const TRAIN: Policy = Policy { sure_of_loss: true, comparisons: DECISIVE_COMPARISONS, ..LEARN };
/// Whether a reranker helps, by nDCG@10.
pub(crate) const RERANK: Policy = Policy { gain: 0.0, loss: 0.0, sure_of_loss: true, comparisons: 1 };

impl Policy {
    pub(crate) fn decide(self, questions: usize, difference: &Difference) -> Evidence {
        let sure = difference.p_value() * (self.comparisons as f64) < SIGNIFICANCE_LEVEL;
        match difference.difference {
            _ if questions < FEWEST_QUERIES => Evidence::TooFew,
            lost if lost <= -self.loss && lost < 0.0 && (sure || !self.sure_of_loss) => Evidence::Loss,
            gained if gained >= self.gain && sure => Evidence::Gain,
            _ => Evidence::NotShown,
        }
    }

    /// About how many questions would tell a difference like this one, or the smallest that counts, from
    /// chance in four of five trials; `None` with fewer than two questions, or without any difference.
    ///
    /// By the normal approximation: ((z(1 - level / 2 / comparisons) + z(0.8)) times deviation over
    /// difference) squared.
    pub(crate) fn questions_needed(self, difference: &Difference) -> Option<usize> {
        let deviation = difference.deviation.filter(|deviation| *deviation > 0.0)?;
        let counts = difference.difference.abs().max(SMALLEST_GAIN);
        Some((self.z() * deviation / counts).powi(2).ceil() as usize)
    }

    /// The smallest difference that this number of questions can tell from chance in four of five trials, by
    /// the same approximation, before anything is measured.
    pub(crate) fn can_show(self, questions: usize) -> f64 {
        self.z() * TYPICAL_DEVIATION / (questions as f64).sqrt()
    }

    fn z(self) -> f64 {
        Z_POWER + if self.comparisons == 1 { Z_ONE } else { Z_SIX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row of the table, with differences on both sides of its thresholds.
    #[test]
    fn each_policy_decides_as_its_row_says() {
        let of = |difference: f64, p: f64| Difference {
            value: 0.5 + difference,
            against: 0.5,
            difference,
            bootstrap_p: Some(p),
            t_test_p: Some(p / 2.0),
            deviation: Some(0.1),
        };
        use Evidence::{Gain, Loss, NotShown, TooFew};
        let cases = [
            (LEARN, 19, 0.5, 0.0, TooFew),
            (LEARN, 20, 0.03, 0.04, Gain),
            (LEARN, 20, 0.03, 0.06, NotShown),
            (LEARN, 20, 0.009, 0.001, NotShown),
            (LEARN, 20, -0.02, 0.9, Loss),
            (LEARN, 20, -0.009, 0.0, NotShown),
            (LEARN_WITH_MEMORY, 20, 0.006, 0.04, Gain),
            (LEARN_WITH_MEMORY, 20, 0.004, 0.001, NotShown),
            (LEARN_WITH_MEMORY, 20, -0.02, 0.06, NotShown),
            (TRAIN, 20, 0.03, 0.008, Gain),
            (TRAIN, 20, 0.03, 0.009, NotShown),
            (TRAIN, 20, -0.03, 0.009, NotShown),
            (TRAIN, 20, -0.03, 0.008, Loss),
            (RERANK, 20, 0.001, 0.04, Gain),
            (RERANK, 20, -0.001, 0.04, Loss),
            (RERANK, 20, -0.001, 0.06, NotShown),
            (RERANK, 20, 0.0, 1.0, NotShown),
        ];
        for (policy, questions, difference, p, want) in cases {
            assert_eq!(policy.decide(questions, &of(difference, p)), want, "{difference} {p}");
        }
        // 25 questions detect 14 points, and 14 points need about 25 questions.
        let shown = LEARN.can_show(25);
        assert!((shown - 0.14).abs() < 0.001, "{shown}");
        let needed = LEARN.questions_needed(&Difference { deviation: Some(0.25), ..of(shown, 0.05) });
        assert!(needed.is_some_and(|needed| (25..=26).contains(&needed)), "{needed:?}");
    }
}
