//! The weights of embeddings and words in a hybrid search, learned from judged questions.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::Serialize;

use super::questions::{BLOCK, Questions, asked};
use crate::error::{Error, Result};
use crate::index::{
    ActiveModel, Candidate, Index, LearnedFusion, LearnedMemory, MemoryByNearness, Plan, WithProgress,
    check_judgment, fuse,
};
use crate::judgment::{Judgment, now, plain};
use crate::measure::{Judge, Metric, PairedTests, Ranking, RelevanceLevel};
use crate::memory::{Memory, MemoryWeights, Vote};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::search::{DEFAULT_ALPHA, Fusion, QueryEncoder, RankBy, SearchRequest};
use crate::store::{StoreError, View};
use crate::train::verdict::p_in_words;
use crate::train::{SIGNIFICANCE_LEVEL, is_held_out};

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
/// Weights of memory that are tried, in units of the range of candidates' scores.
const MEMORY_WEIGHTS: [f64; 7] = [0.0, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0];
/// Powers of the cosine that are tried.
const MEMORY_POWERS: [f64; 4] = [2.0, 4.0, 8.0, 16.0];
const NO_MEMORY: MemoryWeights = MemoryWeights { weight: 0.0, power: 2.0 };
/// Least cosines of the nearest judged question, by which a report is divided.
const NEARNESS: [f32; 5] = [0.0, 0.6, 0.7, 0.8, 0.9];
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
        let stored = self.judgments()?;
        let mut judgments = [&stored, pairs].concat();
        let has_learned = self.learned_from()?.is_some();
        if has_learned {
            // Embeddings look better than they are on the other questions.
            judgments.retain(|judgment| is_held_out(&judgment.question));
        }
        let serving = &*self.serving();
        self.check_fusion(serving)?;
        let memory = serving.memory_of(&stored, self.half_life()?, None)?;
        let mut fused = fuse_model(serving, &judgments, &memory, on_progress)?;
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
    memory: &Memory,
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
    let mut fusion = measure(&questions, memory, model, &view, QueryEncoder::Full, on_progress)?.learned()?;
    if let Some(fast) = model.bundle().fast().filter(|fast| fast.is_usable()) {
        let fresh = questions.fresh_for(fast.entry().of_index);
        if fresh.texts.len() >= FEWEST_FUSION_QUESTIONS {
            let fast = measure(&fresh, memory, model, &view, QueryEncoder::Fast, on_progress)?.learned()?;
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

/// Searches for each question by embeddings, words and memory, once.
fn measure(
    questions: &Questions,
    memory: &Memory,
    model: &ActiveModel,
    view: &View,
    by_encoder: QueryEncoder,
    on_progress: &mut OnProgress<'_>,
) -> Result<Measured> {
    let judge = Judge::new(&METRIC, RelevanceLevel::default(), questions.judged.clone());
    let depth = NonZeroUsize::new(judge.depth()).unwrap_or(NonZeroUsize::MIN);
    let request = SearchRequest::default().exact().codes(false);
    let plan = Plan::new(depth, &request);
    let now = now();
    let mut measured = Measured::default();
    for block in questions.texts.chunks(BLOCK) {
        for mut asked in asked(model, block, RankBy::Lexical, Some(by_encoder))? {
            let number = measured.questions.len();
            let own = plain(&questions.texts[number]);
            let lexical = judge.values(number, &model.rank_asked(view, &asked, &plan)?.rows)[0];
            // Neither the question itself nor those set aside are looked up.
            let may_recall = |question: &str| plain(question) != own && !is_held_out(question);
            asked.recalled = model.recall_from(memory, view, &asked, true, now, &may_recall)?;
            // Every one of them is a candidate.
            asked.recalled.iter_mut().for_each(|document| document.moved = 1.0);
            let votes = asked.recalled.iter().flat_map(|document| &document.votes);
            let nearest = votes.map(|vote| vote.cosine).fold(0.0, f32::max);
            let (found, _) = model.candidates(view, &asked, &plan)?;
            let mut candidates = Vec::with_capacity(found.len());
            for mut candidate in found {
                // Judgments are for documents.
                candidate.row = view.head(candidate.row)?;
                let votes = asked.recalled_for(candidate.row).map(|own| own.votes.clone());
                candidates.push((candidate, votes.unwrap_or_default()));
            }
            let part = crc32fast::hash(own.as_bytes()) % PARTS;
            let mut one =
                MeasuredQuestion { candidates, lexical, part, nearest, ..MeasuredQuestion::default() };
            let weights = (0..WEIGHTS).map(|place| Fusion::Convex(weight(place)));
            one.weights = weights.map(|fusion| one.value(&judge, number, fusion, NO_MEMORY)).collect();
            one.rrf = one.value(&judge, number, RRF, NO_MEMORY);
            measured.questions.push(one);
        }
        let done = measured.questions.len();
        Progress::new(Stage::Questions, done, questions.texts.len()).tell(on_progress, Error::Cancelled)?;
    }
    measured.judge = Some(judge);
    Ok(measured)
}

fn weight(place: usize) -> f64 {
    place as f64 / (WEIGHTS - 1) as f64
}

/// A question with everything that may answer it.
#[derive(Default)]
struct MeasuredQuestion {
    /// With what judgments of near questions say of each.
    candidates: Vec<(Candidate, Vec<Vote>)>,
    /// nDCG@10 by weight.
    weights: Vec<f64>,
    rrf: f64,
    lexical: f64,
    /// The part that it belongs to.
    part: u32,
    /// Cosine of the nearest judged question; 0 without one.
    nearest: f32,
}

impl MeasuredQuestion {
    /// nDCG@10 by a fusion with memory.
    fn value(&self, judge: &Judge<'_>, number: usize, fusion: Fusion, memory: MemoryWeights) -> f64 {
        let candidates = self.candidates.iter().map(|(candidate, votes)| {
            let moved = memory.moved(votes);
            Candidate { moved, ..*candidate }
        });
        let candidates: Vec<Candidate> =
            candidates.filter(|candidate| candidate.is_found || candidate.moved > 0.0).collect();
        let fused = fuse(&candidates, fusion, 0.0, &|a, b| a.cmp(&b)).into_iter();
        judge.values(number, &fused.map(|(score, row, _)| (score, row)).collect::<Ranking>())[0]
    }
}

#[derive(Default)]
struct Measured {
    questions: Vec<MeasuredQuestion>,
    judge: Option<Judge<'static>>,
}

impl Measured {
    fn learned(&self) -> Result<LearnedFusion> {
        let all = &self.questions;
        let (means, alpha) = self.learned_on(|_| true);
        let own: Vec<f64> = (0..PARTS).map(|part| self.learned_on(|other| other != part).1).collect();
        let hybrid = all.iter().map(|question| at(&question.weights, own[question.part as usize]));
        let hybrid: Vec<f64> = hybrid.collect();
        let dense: Vec<f64> = all.iter().map(|question| question.weights[WEIGHTS - 1]).collect();
        let lexical: Vec<f64> = all.iter().map(|question| question.lexical).collect();
        let rrf: Vec<f64> = all.iter().map(|question| question.rrf).collect();
        Ok(LearnedFusion {
            alpha,
            words_help: alpha < 1.0,
            questions: all.len(),
            dense: mean(&dense),
            lexical: mean(&lexical),
            hybrid: mean(&hybrid),
            rrf: mean(&rrf),
            p_value: larger_p(&hybrid, &dense),
            weights: means,
            memory: self.learned_memory(alpha, &own),
            fast: None,
        })
    }

    /// The mean at each weight over the questions of some parts, and the weight learned from them.
    fn learned_on(&self, of: impl Fn(u32) -> bool) -> (Vec<f64>, f64) {
        let own: Vec<&Vec<f64>> =
            self.questions.iter().filter(|own| of(own.part)).map(|own| &own.weights).collect();
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

    /// The weight of memory for the weight `alpha` of embeddings; `own` are those learned without each part.
    fn learned_memory(&self, alpha: f64, own: &[f64]) -> Option<LearnedMemory> {
        let judge = self.judge.as_ref()?;
        if self.questions.iter().all(|question| question.nearest == 0.0) {
            return None;
        }
        let tried: Vec<MemoryWeights> = MEMORY_POWERS
            .iter()
            .flat_map(|&power| MEMORY_WEIGHTS.iter().map(move |&weight| MemoryWeights { weight, power }))
            .collect();
        // By question, for the weight of embeddings learned on everything and on the other parts.
        let values = |alpha: &(dyn Fn(&MeasuredQuestion) -> f64 + Sync)| -> Vec<Vec<f64>> {
            let numbered: Vec<(usize, &MeasuredQuestion)> = self.questions.iter().enumerate().collect();
            let value = |&(number, question): &(usize, &MeasuredQuestion)| {
                let value = |&memory| question.value(judge, number, Fusion::Convex(alpha(question)), memory);
                tried.iter().map(value).collect()
            };
            numbered.par_iter().map(value).collect()
        };
        let learned_on = |values: &[Vec<f64>], of: &dyn Fn(u32) -> bool| {
            let own: Vec<&Vec<f64>> = values
                .iter()
                .zip(&self.questions)
                .filter(|(_, own)| of(own.part))
                .map(|(own, _)| own)
                .collect();
            let mean = |place: usize| own.iter().map(|values| values[place]).sum::<f64>();
            let best = (0..tried.len()).max_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(b.cmp(&a)));
            let best = best.map_or(NO_MEMORY, |place| tried[place]);
            let count = own.len() as f64;
            MemoryWeights { weight: best.weight * count / (count + DEFAULT_COUNTS_FOR), ..best }
        };
        let of_all = learned_on(&values(&|_| alpha), &|_| true);
        let own = |question: &MeasuredQuestion| own[question.part as usize];
        let of_parts = values(&own);
        let of_part: Vec<MemoryWeights> =
            (0..PARTS).map(|part| learned_on(&of_parts, &|other| other != part)).collect();
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for (number, question) in self.questions.iter().enumerate() {
            let fusion = Fusion::Convex(own(question));
            with.push(question.value(judge, number, fusion, of_part[question.part as usize]));
            without.push(question.value(judge, number, fusion, NO_MEMORY));
        }
        let p_value = larger_p(&with, &without);
        let helps = mean(&with) > mean(&without) && p_value < SIGNIFICANCE_LEVEL;
        let by_nearness = NEARNESS.iter().zip(NEARNESS.iter().skip(1).chain(&[f32::INFINITY]));
        let by_nearness = by_nearness.map(|(&from, &to)| {
            let own = |values: &[f64]| -> Vec<f64> {
                let near = |question: &MeasuredQuestion| (from..to).contains(&question.nearest);
                values
                    .iter()
                    .zip(&self.questions)
                    .filter(|(_, own)| near(own))
                    .map(|(value, _)| *value)
                    .collect()
            };
            let (without, with) = (own(&without), own(&with));
            MemoryByNearness {
                from: from.into(),
                questions: with.len(),
                without: mean(&without),
                with: mean(&with),
            }
        });
        Some(LearnedMemory {
            weight: if helps { of_all.weight } else { 0.0 },
            power: of_all.power,
            without: mean(&without),
            with: mean(&with),
            p_value,
            by_nearness: by_nearness.filter(|own| own.questions > 0).collect(),
        })
    }
}

/// Whether the first values are larger than the second ones, one-sided.
fn larger_p(values: &[f64], than: &[f64]) -> f64 {
    let both = PairedTests::new(values, than, SEED).map_or(1.0, |tests| tests.larger_p());
    if mean(values) > mean(than) { both / 2.0 } else { 1.0 - both / 2.0 }
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
    format!("{}{}", words_sentence(fusion), fusion.memory.as_ref().map_or_else(String::new, memory_sentence))
}

fn memory_sentence(memory: &LearnedMemory) -> String {
    let LearnedMemory { weight, without, with, p_value, .. } = memory;
    let p = p_in_words(*p_value);
    let measured = format!("nDCG@10 is {with:.3} with them, {without:.3} without ({p})");
    match *weight > 0.0 {
        true => format!("; judgments of near questions help: {measured}"),
        false => format!(
            "; judgments of near questions are not shown to help, so only those of the same question count: {measured}"
        ),
    }
}

fn words_sentence(fusion: &LearnedFusion) -> String {
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
        let one = |q: usize| MeasuredQuestion {
            weights: (0..WEIGHTS).map(|p| value(q, weight(p))).collect(),
            rrf: 0.5,
            lexical: value(q, 0.0),
            part: q as u32 % PARTS,
            ..MeasuredQuestion::default()
        };
        Measured { questions: (0..100).map(one).collect(), judge: None }
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
