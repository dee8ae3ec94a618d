//! The weights of embeddings and words in a hybrid search, learned from judged questions.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use serde::Serialize;

use super::questions::{BLOCK, Questions, asked};
use crate::error::{Error, Result};
use crate::index::{ActiveModel, Candidate, Index, LearnedFusion, Plan, WithProgress, check_judgment, fuse};
use crate::judgment::Judgment;
use crate::measure::{Judge, Metric, PairedTests, Ranking, RelevanceLevel};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::search::{DEFAULT_ALPHA, Fusion, QueryEncoder, RankBy, SearchRequest};
use crate::store::{StoreError, View};
use crate::train::verdict::p_in_words;
use crate::train::{SIGNIFICANCE_LEVEL, is_held_out, plain};

/// Fewest judged questions for learning a weight.
pub const FEWEST_FUSION_QUESTIONS: usize = 40;
/// Number of questions that the default weight counts as. The best weight of 72 questions is mostly chance;
/// docs/lab/experiments.md explains the choice of this number.
const DEFAULT_COUNTS_FOR: f64 = 80.0;
/// Number of weights tried: 0, 0.05, ... 1.
const WEIGHTS: usize = 21;
/// Neighbours on either side over which a weight is averaged.
const STRETCH: usize = 2;
/// Parts of the questions: the weight for each is chosen on the others.
const PARTS: u32 = 5;
/// The reciprocal rank fusion to compare with.
const RRF: Fusion = Fusion::Rrf { k: 60.0 };
const METRIC: [Metric; 1] = [Metric::NDCG_AT_10];
const SEED: u64 = 0;

/// The outcome of [`Index::fuse`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fused {
    /// Judged questions with an answer in the index.
    pub questions: usize,
    /// Judged questions without one; they are skipped.
    pub unanswered: usize,
    /// The learned and stored weight; `None` with fewer than [`FEWEST_FUSION_QUESTIONS`].
    pub fusion: Option<LearnedFusion>,
    /// The same in one sentence.
    pub sentence: String,
}

impl Index {
    /// Learns the weights of embeddings and words in a hybrid search from judged questions
    /// ([`Fusion::Learned`]), tests whether words help, and stores the result with the index.
    ///
    /// `pairs` are judgments in addition to those in the index ([`Self::record`]); they are not stored.
    /// Weights and ages are ignored here. Once the index has learned ([`Self::learn`]), only its held-out
    /// questions are used, because embeddings look better than they are on the others. With fewer than
    /// [`FEWEST_FUSION_QUESTIONS`] nothing changes.
    ///
    /// Of 21 weights, the one with the highest mean nDCG@10 over it and two weights on either side is chosen.
    /// It is shrunk towards [`DEFAULT_ALPHA`](crate::search::DEFAULT_ALPHA) as if 80 more questions had
    /// chosen that. If a hybrid search with the default weight is on average not better than embeddings
    /// alone, words are left out: the weight is 1.
    ///
    /// The p-value compares a hybrid search, with each question's weight learned on other questions, with
    /// embeddings alone (paired t-test and bootstrap, one-sided).
    ///
    /// If the model has a query encoder, a weight is also learned for it, given enough questions that it did
    /// not learn from; for an index's own query encoder these are the fifth held out by [`Self::distil`].
    /// Otherwise the fast encoder uses the full encoder's weight.
    ///
    /// Costs two searches for each question and encoder. Repeat it when the collection or the questions have
    /// changed; a change to a model with another encoder discards it.
    ///
    /// # Errors
    /// Those of [`Self::record`] for the pairs;
    /// [`StoreError::NotLexical`](crate::store::StoreError::NotLexical);
    /// [`InputError::ChangeUnderWay`](crate::InputError::ChangeUnderWay); failures of the encoder and of the
    /// disk. On error the previous weight is kept.
    pub fn fuse(&self, pairs: &[Judgment]) -> Result<Fused> {
        self.with_progress(no_progress).fuse(pairs)
    }

    /// As [`Self::fuse`], for a caller that holds the lock ([`Self::alone`]).
    pub(super) fn fuse_on(&self, pairs: &[Judgment], on_progress: &mut OnProgress<'_>) -> Result<Fused> {
        let mut judgments = self.judgments()?;
        judgments.extend_from_slice(pairs);
        let has_learned = self.learned_from()?.is_some();
        if has_learned {
            // Embeddings look better than they are on the other questions.
            judgments.retain(|judgment| is_held_out(&judgment.question));
        }
        let serving = &*self.serving();
        self.check_fusion(serving)?;
        let mut fused = fuse_model(serving, &judgments, on_progress)?;
        match &fused.fusion {
            Some(fusion) => self.set_fusion(serving, fusion.clone())?,
            None if has_learned => {
                fused.sentence += "; after a learning, even a rejected one, only questions set aside from it count, a \
                                   fifth of all";
            }
            None => {}
        }
        Ok(fused)
    }
}

/// Learns the weight of words for a model from these judgments.
///
/// # Errors
/// Those of [`Index::fuse`].
pub(super) fn fuse_model(
    model: &ActiveModel,
    judgments: &[Judgment],
    on_progress: &mut OnProgress<'_>,
) -> Result<Fused> {
    let view = model.view();
    if !view.is_lexical() {
        return Err(StoreError::NotLexical.into());
    }
    let questions = Questions::of(&view, judgments)?;
    let (count, unanswered) = (questions.texts.len(), questions.unanswered);
    if count < FEWEST_FUSION_QUESTIONS {
        let sentence = format!(
            "judged questions with an answer in the index: {count}; at least {FEWEST_FUSION_QUESTIONS} are \
             needed to learn a weight, so nothing is changed"
        );
        return Ok(Fused { questions: count, unanswered, fusion: None, sentence });
    }
    let mut fusion = measure(&questions, model, &view, QueryEncoder::Full, on_progress)?.learned()?;
    if let Some(fast) = model.bundle().fast().filter(|fast| fast.is_usable()) {
        let fresh = questions.fresh_for(fast.entry().of_index);
        if fresh.texts.len() >= FEWEST_FUSION_QUESTIONS {
            let fast = measure(&fresh, model, &view, QueryEncoder::Fast, on_progress)?.learned()?;
            fusion.fast = Some(Box::new(fast));
        }
    }
    Ok(Fused { questions: count, unanswered, sentence: sentence(&fusion), fusion: Some(fusion) })
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::fuse`], with progress in questions and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::fuse`], and [`Error::Cancelled`].
    pub fn fuse(mut self, pairs: &[Judgment]) -> Result<Fused> {
        let (index, on_progress) = self.parts();
        index.check_writable()?;
        pairs.iter().try_for_each(check_judgment)?;
        let _only = index.alone()?;
        index.fuse_on(pairs, on_progress)
    }
}

/// Searches for each question with each weight, by words alone, and by reciprocal rank fusion.
fn measure(
    questions: &Questions,
    model: &ActiveModel,
    view: &View,
    by_encoder: QueryEncoder,
    on_progress: &mut OnProgress<'_>,
) -> Result<Measured> {
    let judge = Judge::new(&METRIC, RelevanceLevel::default(), questions.judged.clone());
    let depth = NonZeroUsize::new(judge.depth()).unwrap_or(NonZeroUsize::MIN);
    let request = SearchRequest::default().exact().codes(false);
    let plan = Plan::new(depth, &request);
    let mut measured = Measured::default();
    for block in questions.texts.chunks(BLOCK) {
        for asked in asked(model, block, RankBy::Lexical, Some(by_encoder))? {
            let query = measured.lexical.len();
            let value = |ranking: Ranking| judge.values(query, &ranking)[0];
            let (mut candidates, _) = model.candidates(view, &asked, &plan)?;
            // Judgments are for documents.
            for candidate in &mut candidates {
                candidate.row = view.head(candidate.row)?;
            }
            let fused = |fusion| value(ranking(&candidates, fusion));
            measured.weights.push((0..WEIGHTS).map(|place| fused(Fusion::Convex(weight(place)))).collect());
            measured.rrf.push(fused(RRF));
            measured.lexical.push(value(model.rank_asked(view, &asked, &plan)?.rows));
            measured.parts.push(crc32fast::hash(plain(&questions.texts[query]).as_bytes()) % PARTS);
        }
        let done = measured.lexical.len();
        Progress::new(Stage::Questions, done, questions.texts.len()).tell(on_progress, Error::Cancelled)?;
    }
    Ok(measured)
}

fn ranking(candidates: &[Candidate], fusion: Fusion) -> Ranking {
    fuse(candidates, fusion, 0.0, &|a, b| a.cmp(&b)).into_iter().map(|(score, row, _)| (score, row)).collect()
}

fn weight(place: usize) -> f64 {
    place as f64 / (WEIGHTS - 1) as f64
}

/// nDCG@10 of each question.
#[derive(Default)]
struct Measured {
    /// By weight.
    weights: Vec<Vec<f64>>,
    rrf: Vec<f64>,
    lexical: Vec<f64>,
    /// The part of each question.
    parts: Vec<u32>,
}

impl Measured {
    fn learned(&self) -> Result<LearnedFusion> {
        let (all, alpha) = self.learned_on(|_| true);
        let own: Vec<f64> = (0..PARTS).map(|part| self.learned_on(|other| other != part).1).collect();
        let hybrid: Vec<f64> = self
            .weights
            .iter()
            .zip(&self.parts)
            .map(|(values, &part)| at(values, own[part as usize]))
            .collect();
        let dense: Vec<f64> = self.weights.iter().map(|values| values[WEIGHTS - 1]).collect();
        let both = PairedTests::new(&hybrid, &dense, SEED).map_or(1.0, |tests| tests.larger_p());
        // The test is one-sided.
        let p_value = if mean(&hybrid) > mean(&dense) { both / 2.0 } else { 1.0 - both / 2.0 };
        Ok(LearnedFusion {
            alpha,
            words_help: alpha < 1.0,
            questions: self.weights.len(),
            dense: mean(&dense),
            lexical: mean(&self.lexical),
            hybrid: mean(&hybrid),
            rrf: mean(&self.rrf),
            p_value,
            weights: all,
            fast: None,
        })
    }

    /// The mean at each weight over the questions of some parts, and the weight learned from them.
    fn learned_on(&self, of: impl Fn(u32) -> bool) -> (Vec<f64>, f64) {
        let own: Vec<&Vec<f64>> =
            self.weights.iter().zip(&self.parts).filter(|(_, part)| of(**part)).map(|(own, _)| own).collect();
        let sum = |place: usize| own.iter().map(|values| values[place]).sum::<f64>();
        let means: Vec<f64> = (0..WEIGHTS).map(|place| sum(place) / own.len().max(1) as f64).collect();
        if at(&means, DEFAULT_ALPHA) <= means[WEIGHTS - 1] {
            return (means, 1.0);
        }
        let count = own.len() as f64;
        let best = weight(best_place(&means));
        let alpha = (count * best + DEFAULT_COUNTS_FOR * DEFAULT_ALPHA) / (count + DEFAULT_COUNTS_FOR);
        (means, (alpha * 100.0).round() / 100.0)
    }
}

/// The value at a weight between two tried ones.
fn at(values: &[f64], alpha: f64) -> f64 {
    let place = alpha * (WEIGHTS - 1) as f64;
    let low = (place.floor() as usize).min(WEIGHTS - 2);
    let share = place - low as f64;
    values[low] * (1.0 - share) + values[low + 1] * share
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

fn sentence(fusion: &LearnedFusion) -> String {
    let LearnedFusion { alpha, questions, dense, hybrid, p_value, .. } = fusion;
    let p = p_in_words(*p_value);
    let measured = format!(
        "on {questions} judged questions nDCG@10 is {hybrid:.3} by both, {dense:.3} by embeddings alone ({p})"
    );
    if !fusion.words_help {
        return format!("words do not help: {measured}; searches go by embeddings alone");
    }
    let help = match *p_value < SIGNIFICANCE_LEVEL {
        true => "words help",
        false if hybrid > dense => "words probably help",
        false => "it is not shown that words help, but the default weight is better than embeddings alone",
    };
    format!("{help}: {measured}; embeddings count {alpha:.2}, words {:.2}", 1.0 - alpha)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions whose value at a weight is a function of question and weight.
    fn measured(value: impl Fn(usize, f64) -> f64) -> Measured {
        let questions = 100;
        Measured {
            weights: (0..questions).map(|q| (0..WEIGHTS).map(|p| value(q, weight(p))).collect()).collect(),
            rrf: vec![0.5; questions],
            lexical: (0..questions).map(|q| value(q, 0.0)).collect(),
            parts: (0..questions).map(|q| q as u32 % PARTS).collect(),
        }
    }

    #[test]
    fn the_best_weight_is_learned_where_words_help() {
        let noise = |q: usize| (q * 37 % 11) as f64 / 100.0;
        let learned = measured(|q, alpha| 0.8 + noise(q) - (alpha - 0.5).abs() / 2.0).learned().unwrap();
        // 100 questions give 0.5, and 80 more the default weight.
        assert!(learned.words_help && (learned.alpha - 0.59).abs() < 1e-9 && learned.p_value < 0.001);
        assert!(learned.hybrid > learned.dense + 0.19);
        assert!(sentence(&learned).starts_with("words help"));
    }

    #[test]
    fn words_that_help_by_chance_only_say_so() {
        let noise = |q: usize| ((q * 37 % 13) as f64 - 6.0) / 10.0;
        let learned = measured(|q, alpha| 0.5 + (0.03 + noise(q)) * (1.0 - alpha)).learned().unwrap();
        assert!(learned.words_help && learned.p_value > 0.05);
        assert!(sentence(&learned).starts_with("words probably help"));
    }

    #[test]
    fn words_that_do_not_help_are_left_out() {
        // No difference at all, and one for the worse.
        for loss in [0.0, 1.0] {
            let learned = measured(|_, alpha| 0.5 - loss * (1.0 - alpha)).learned().unwrap();
            assert!(!learned.words_help, "{loss}");
            assert_eq!(learned.alpha, 1.0);
            assert!(sentence(&learned).starts_with("words do not help"));
        }
    }

    #[test]
    fn a_value_between_two_weights_is_interpolated() {
        let values: Vec<f64> = (0..WEIGHTS).map(|place| weight(place) * 2.0).collect();
        for alpha in [0.0, 0.31, 0.5, 0.99, 1.0] {
            assert!((at(&values, alpha) - alpha * 2.0).abs() < 1e-12, "{alpha}");
        }
    }
}
