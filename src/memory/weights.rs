//! How much remembered judgments count.

/// What one judgment of a near question says about a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vote {
    /// The remembered question, and which of its judgments this is.
    pub place: (u32, usize),
    /// Cosine of the question asked and the remembered one.
    pub cosine: f32,
    /// Whether they are the same question.
    pub is_same: bool,
    /// Whether the document's text is another than the one that was judged.
    pub is_stale: bool,
    /// Weight of the judgment, from -1 to 1, that of an answer times its grade's share of the highest grade
    /// that its question has; negative if it says that the document does not answer.
    pub strength: f32,
}

/// How judgments of near questions change a score.
///
/// A judgment of strength `w` of a question at cosine `c` has the share `s = w c^power`, and half of that if
/// the document's text was replaced since. Judgments that agree
/// add up to `1 - (1 - s1)(1 - s2)...`. A score rises by `weight` times this sum over the judgments that say
/// that the document answers, and falls by the same of those that say that it does not. So one judgment moves
/// a score by at most `weight` times its own weight, and all together by at most `weight`. A judgment of the
/// very question asked counts with [`SAME`](Self::SAME) if that is more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MemoryWeights {
    /// 0: near questions do not count.
    pub weight: f64,
    /// How fast a judgment loses weight with distance.
    pub power: f64,
}

impl Default for MemoryWeights {
    /// Before anything is learned, only the same question counts.
    fn default() -> Self {
        Self { weight: 0.0, power: 2.0 }
    }
}

impl MemoryWeights {
    /// Least weight of a judgment of the question asked, in units of the range of candidates' scores: more
    /// than lies between the worst candidate and the best.
    const SAME: f64 = 1.5;
    /// What a judgment of an earlier text keeps.
    const STALE: f64 = 0.5;

    /// What votes add to a score, in units of the range of candidates' scores.
    pub fn moved(self, votes: &[Vote]) -> f64 {
        self.of_sign(votes, 1.0) - self.of_sign(votes, -1.0)
    }

    fn of_sign(self, votes: &[Vote], sign: f32) -> f64 {
        let (mut other, mut same) = (1.0, 0.0f64);
        for vote in votes.iter().filter(|vote| vote.strength * sign > 0.0) {
            other *= 1.0 - self.share(vote);
            if vote.is_same {
                same = same.max(Self::SAME * self.share(vote));
            }
        }
        (self.weight * (1.0 - other)).max(same)
    }

    /// The vote that counts most of those that say what all of them say together; that of the same question
    /// first.
    pub fn strongest(self, votes: &[Vote]) -> Option<&Vote> {
        let moved = self.moved(votes);
        let own = votes.iter().filter(|vote| f64::from(vote.strength) * moved > 0.0);
        own.max_by(|a, b| a.is_same.cmp(&b.is_same).then(self.share(a).total_cmp(&self.share(b))))
    }

    /// From 0 to 1.
    fn share(self, vote: &Vote) -> f64 {
        let kept = if vote.is_stale { Self::STALE } else { 1.0 };
        (kept * f64::from(vote.strength.abs()) * f64::from(vote.cosine).powf(self.power)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(cosine: f32, strength: f32) -> Vote {
        Vote { place: (0, 0), cosine, is_same: cosine == 1.0, is_stale: false, strength }
    }

    #[test]
    fn no_judgment_moves_more_than_its_weight_and_all_together_not_more_than_one() {
        let weights = MemoryWeights { weight: 2.0, power: 4.0 };
        let moved = |votes: &[Vote]| weights.moved(votes);
        let click = vote(0.9, 0.2);
        assert!((moved(&[click]) - 2.0 * 0.2 * 0.9f64.powi(4)).abs() < 1e-6);
        // Many that agree count more than one, and no number of them counts more than the weight.
        let many: Vec<f64> = (1..=100).map(|count| moved(&vec![click; count])).collect();
        assert!(many.is_sorted() && many[19] > 5.0 * many[0] && many[99] <= 2.0);
        // One of each kind takes the other back.
        assert_eq!(moved(&[vote(0.9, 1.0), vote(0.9, -1.0)]), 0.0);
        assert!(moved(&[vote(0.9, -1.0)]) < 0.0 && moved(&[]) == 0.0);
        let stale = Vote { is_stale: true, ..click };
        assert_eq!(moved(&[stale]), moved(&[click]) / 2.0);
    }

    #[test]
    fn the_same_question_counts_before_anything_is_learned() {
        let weights = MemoryWeights::default();
        assert_eq!(weights.moved(&[vote(0.999, 1.0)]), 0.0);
        assert_eq!(weights.moved(&[vote(1.0, 1.0), vote(0.9, 1.0)]), MemoryWeights::SAME);
        assert_eq!(weights.moved(&[vote(1.0, 0.25)]), MemoryWeights::SAME / 4.0);
    }
}
