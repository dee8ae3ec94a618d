//! The weights with which questions find their answers best.

use rayon::prelude::*;

use super::measured::{ALPHAS, MEMORY_POWERS, Measured, MeasuredQuestion, alpha};
use super::nearness::{Near, by_nearness};
use crate::index::fusion::{LearnedFusion, LearnedMemory, MemoryByNearness};
use crate::index::search::DEFAULT_ALPHA;
use crate::measure::{PairedTests, SIGNIFICANCE_LEVEL};

/// Number of questions that the default weights count as. The best weight of 72 questions is mostly chance;
/// docs/lab/experiments.md explains the choice of this number.
const DEFAULT_COUNTS_FOR: f64 = 80.0;
/// Neighbours on either side over which a weight is averaged.
const STRETCH: usize = 2;
/// Parts of the questions: the weights for each are chosen on the others.
pub(super) const PARTS: u32 = 5;
/// Weights of memory above 0 that are tried, in units of the range of candidates' scores.
const MEMORY_WEIGHTS: [f64; 6] = [0.1, 0.2, 0.4, 0.8, 1.5, 3.0];
const SEED: u64 = 0;

/// A weight of memory and the place of its power; `None` without memory.
type Tried = Option<(f64, usize)>;

impl Measured {
    pub fn learned(&self) -> LearnedFusion {
        let all = &self.questions;
        let (means, best) = self.learned_on(|_| true);
        let own: Vec<usize> = (0..PARTS).map(|part| self.learned_on(|other| other != part).1).collect();
        let of = |value: &dyn Fn(&MeasuredQuestion) -> f64| all.iter().map(value).collect::<Vec<f64>>();
        let hybrid = of(&|question| question.by_alpha[own[question.part as usize]]);
        let dense = of(&|question| question.by_alpha[ALPHAS - 1]);
        let words_help = mean(&hybrid) > mean(&dense);
        // What judgments change is measured with the weights that serve.
        let (place, own) = if words_help { (best, own) } else { (ALPHAS - 1, vec![ALPHAS - 1; own.len()]) };
        LearnedFusion {
            alpha: alpha(place),
            words_help,
            questions: all.len(),
            judgments: 0,
            of_previous_model: false,
            dense: mean(&dense),
            lexical: mean(&of(&|question| question.lexical)),
            hybrid: mean(&hybrid),
            rrf: mean(&of(&|question| question.rrf)),
            p_value: larger_p(&hybrid, &dense),
            weights: means,
            memory: self.learned_memory(place, &own),
            fast: None,
        }
    }

    /// The mean at each weight over the questions of some parts, and the place of the weight learned from
    /// them, which leaves something for words.
    fn learned_on(&self, of: impl Fn(u32) -> bool) -> (Vec<f64>, usize) {
        let own: Vec<&Vec<f64>> =
            self.questions.iter().filter(|own| of(own.part)).map(|own| &own.by_alpha).collect();
        let sum = |place: usize| own.iter().map(|values| values[place]).sum::<f64>();
        let means: Vec<f64> = (0..ALPHAS).map(|place| sum(place) / own.len().max(1) as f64).collect();
        let count = own.len() as f64;
        let best = alpha(best_place(&means));
        let alpha = (count * best + DEFAULT_COUNTS_FOR * DEFAULT_ALPHA) / (count + DEFAULT_COUNTS_FOR);
        let place = (alpha * (ALPHAS - 1) as f64).round() as usize;
        (means, place.min(ALPHAS - 2))
    }

    /// The weight of memory for the weight of embeddings at `place`; `own` has those learned without each
    /// part.
    fn learned_memory(&self, place: usize, own: &[usize]) -> Option<LearnedMemory> {
        if self.questions.iter().all(|question| question.nearest == 0.0) {
            return None;
        }
        let tried: Vec<Tried> = std::iter::once(None)
            .chain(
                (0..MEMORY_POWERS.len())
                    .flat_map(|power| MEMORY_WEIGHTS.iter().map(move |&weight| Some((weight, power)))),
            )
            .collect();
        let own = |question: &MeasuredQuestion| alpha(own[question.part as usize]);
        let of_all = self.best_of(&self.values(&tried, &|_| alpha(place)), &tried, |_| true);
        let of_parts = self.values(&tried, &own);
        let of_part: Vec<Tried> =
            (0..PARTS).map(|part| self.best_of(&of_parts, &tried, |other| other != part)).collect();
        let with = |question| self.value(question, own(question), of_part[question.part as usize]);
        let with: Vec<f64> = self.questions.iter().map(with).collect();
        let without: Vec<f64> = of_parts.iter().map(|values| values[0]).collect();
        let p_value = larger_p(&with, &without);
        let helps = mean(&with) > mean(&without) && p_value < SIGNIFICANCE_LEVEL;
        let both = without.iter().zip(&with).map(|(without, with)| [*without, *with]);
        let values: Vec<_> = self.questions.iter().map(|own| own.nearest).zip(both).collect();
        let steps =
            by_nearness(&values).into_iter().map(|Near { from, questions, means: [without, with] }| {
                MemoryByNearness { from, questions, without, with }
            });
        let (weight, power) = of_all.unwrap_or_default();
        Some(LearnedMemory {
            weight: if helps { weight } else { 0.0 },
            power: MEMORY_POWERS[power],
            without: mean(&without),
            with: mean(&with),
            p_value,
            by_nearness: steps.collect(),
        })
    }

    /// By question, the value of each try with the question's weight of embeddings.
    fn values(&self, tried: &[Tried], alpha: &(dyn Fn(&MeasuredQuestion) -> f64 + Sync)) -> Vec<Vec<f64>> {
        let value = |question: &MeasuredQuestion| {
            let value = |&memory: &Tried| self.value(question, alpha(question), memory);
            tried.iter().map(value).collect()
        };
        self.questions.par_iter().map(value).collect()
    }

    /// The try that is best for the questions of some parts, shrunk towards 0; of equals the first.
    fn best_of(&self, values: &[Vec<f64>], tried: &[Tried], of: impl Fn(u32) -> bool) -> Tried {
        let own = values.iter().zip(&self.questions).filter(|(_, question)| of(question.part));
        let own: Vec<&Vec<f64>> = own.map(|(values, _)| values).collect();
        let mean = |place: usize| own.iter().map(|values| values[place]).sum::<f64>();
        let best = (0..tried.len()).max_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(b.cmp(&a)));
        let (weight, power) = tried[best?]?;
        let count = own.len() as f64;
        Some((weight * count / (count + DEFAULT_COUNTS_FOR), power))
    }
}

/// Whether the first values are larger than the second ones, one-sided.
fn larger_p(values: &[f64], than: &[f64]) -> f64 {
    let both = PairedTests::new(values, than, SEED).map_or(1.0, |tests| tests.larger_p());
    if mean(values) > mean(than) { both / 2.0 } else { 1.0 - both / 2.0 }
}

/// The middle of the best stretch, because with few questions the single best weight is mostly chance. Among
/// equals the one with the largest weight of embeddings.
fn best_place(means: &[f64]) -> usize {
    let stretch = |place: usize| {
        let own = &means[place.saturating_sub(STRETCH)..(place + STRETCH + 1).min(means.len())];
        mean(own)
    };
    let places = (0..means.len()).max_by(|&a, &b| stretch(a).total_cmp(&stretch(b)).then(a.cmp(&b)));
    places.unwrap_or(0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Judge, RelevanceLevel};

    /// Questions whose value at a weight is a function of question and weight.
    fn measured(value: impl Fn(usize, f64) -> f64) -> Measured {
        let one = |q: usize| {
            let mut one = MeasuredQuestion::default();
            one.by_alpha = (0..ALPHAS).map(|place| value(q, alpha(place))).collect();
            (one.rrf, one.lexical, one.part) = (0.5, value(q, 0.0), q as u32 % PARTS);
            one
        };
        Measured {
            questions: (0..100).map(one).collect(),
            judge: Judge::new(&[], RelevanceLevel::default(), Vec::new()),
        }
    }

    #[test]
    fn the_best_weight_is_learned_where_words_help() {
        let noise = |q: usize| (q * 37 % 11) as f64 / 100.0;
        let learned = measured(|q, alpha| 0.8 + noise(q) - (alpha - 0.5).abs() / 2.0).learned();
        // 100 questions give 0.5, and 80 more the default weight.
        assert!(learned.words_help && learned.alpha == 0.6 && learned.p_value < 0.001);
        assert!(learned.hybrid > learned.dense + 0.19);
        assert!(learned.sentence().starts_with("words help"));
    }

    #[test]
    fn words_that_help_by_chance_only_say_so() {
        let noise = |q: usize| ((q * 37 % 13) as f64 - 6.0) / 10.0;
        let learned = measured(|q, alpha| 0.5 + (0.03 + noise(q)) * (1.0 - alpha)).learned();
        assert!(learned.words_help && learned.p_value > 0.05);
        assert!(learned.sentence().starts_with("words seem to help, perhaps by chance: nDCG@10 of 100"));
    }

    #[test]
    fn words_that_do_not_help_are_left_out() {
        let is_default = |alpha: f64| (alpha - DEFAULT_ALPHA).abs() < 1e-9;
        let is_dense = |alpha: f64| alpha == 1.0;
        // Words change nothing; they do harm; they help, but only with the default weight.
        let values: [&dyn Fn(f64) -> f64; 3] = [&|_| 0.5, &|alpha| 0.5 * alpha, &|alpha| {
            if is_default(alpha) { 0.55 } else { 0.4 + 0.1 * f64::from(is_dense(alpha)) }
        }];
        for (place, value) in values.iter().enumerate() {
            let learned = measured(|_, alpha| value(alpha)).learned();
            assert!(!learned.words_help && learned.hybrid <= learned.dense, "{place}: {learned:?}");
            assert_eq!(learned.alpha, 1.0);
            assert!(learned.sentence().starts_with("words do not help"));
        }
    }
}
