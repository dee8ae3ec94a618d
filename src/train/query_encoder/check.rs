//! Evaluation of a query encoder: its distance from the full encoder, and the results of both.

use std::num::NonZeroUsize;
use std::time::Instant;

use rayon::prelude::*;

use super::lesson::Lesson;
use super::start::solve;
use crate::cluster::Panels;
use crate::ids::{LeafId, Row};
use crate::measure::p_in_words;
use crate::measure::{Judge, Metric, PairedTests};
use crate::model::{
    EncodeMicroseconds, Encoder, EncoderQuality, Indexer, LoadedQueryEncoder, ModelError, Role, SIGNALS,
    SignificantDifference, TreeQuality,
};
use crate::train::distil::nearest_documents;

/// Share of the held-out texts that the student is considered unsure of.
const UNSURE_SHARE: f64 = 0.02;
/// Nearest documents compared.
const NEAREST: usize = 10;
/// Beam for comparing routing, as a share of the leaves.
const BEAM_SHARE: f64 = 0.02;
/// Largest loss in nDCG@10, on average and at the confidence bound, with which the fast encoder may be the
/// default.
const MOST_LOSS: f64 = 0.02;
const MOST_POSSIBLE_LOSS: f64 = 0.04;
/// Fewest judged questions for the fast encoder to become the default.
const FEWEST_QUESTIONS: usize = 40;
/// Texts timed.
const TIMED: usize = 100;
/// Rows scored against all documents at once.
const BLOCK: usize = 64;
/// Added to the diagonal of the normal equations of the confidence.
const RIDGE: f64 = 1e-6;

const METRICS: [Metric; 3] = [Metric::NDCG_AT_10, Metric::RECALL_AT_10, Metric::RECALL_AT_100];
const SEED: u64 = 0;

/// Documents and their tree.
pub(super) struct Collection<'a> {
    pub dim: usize,
    /// `[documents, dim]` unit rows.
    pub documents: &'a [f32],
    pub indexer: &'a Indexer,
}

/// Documents with their scores, best first.
type Nearest = Vec<(u32, f32)>;

/// The metrics of each question.
type Values = Vec<Vec<f64>>;

/// The student's embeddings of a lesson's texts.
pub(super) struct Answers<'a> {
    lesson: &'a Lesson,
    /// `[texts, dim]`
    rows: Vec<f32>,
    confidences: Vec<f32>,
}

/// The weights of the signals, by least squares against the cosine to the full encoder's embeddings.
pub(super) fn confidence(
    student: &LoadedQueryEncoder,
    lessons: [&Lesson; 2],
    dim: usize,
) -> Result<[f32; SIGNALS], ModelError> {
    let (mut normal, mut right) = ([0f64; SIGNALS * SIGNALS], [0f64; SIGNALS]);
    let all = lessons.iter().map(|lesson| lesson.len()).sum::<usize>().max(1);
    let pairs = lessons.iter().flat_map(|lesson| lesson.tokens.iter().zip(lesson.targets.chunks_exact(dim)));
    for (tokens, target) in pairs {
        let signals = student.signals(tokens)?.map(f64::from);
        let cosine = f64::from(dot(&student.embed(tokens)?.row, target));
        for (i, signal) in signals.iter().enumerate() {
            normal[i * SIGNALS..][..SIGNALS].iter_mut().zip(&signals).for_each(|(sum, x)| *sum += signal * x);
            right[i] += signal * cosine;
        }
    }
    (0..SIGNALS).for_each(|i| normal[i * SIGNALS + i] += RIDGE * all as f64);
    solve(&mut normal, &mut right, SIGNALS, 1);
    Ok(right.map(|x| x as f32))
}

impl<'a> Answers<'a> {
    pub fn of(student: &LoadedQueryEncoder, lesson: &'a Lesson) -> Result<Self, ModelError> {
        let mut answers = Self { lesson, rows: Vec::new(), confidences: Vec::new() };
        for tokens in &lesson.tokens {
            let own = student.embed(tokens)?;
            answers.rows.extend_from_slice(&own.row);
            answers.confidences.push(own.confidence);
        }
        Ok(answers)
    }

    /// The confidence below which the student is unsure: a low quantile over these texts.
    pub fn unsure_below(&self) -> f32 {
        let mut confidences = self.confidences.clone();
        confidences.sort_unstable_by(f32::total_cmp);
        let place = (confidences.len() as f64 * UNSURE_SHARE).ceil() as usize;
        confidences.get(place).copied().unwrap_or(f32::MIN)
    }

    /// The embeddings of a search: those of the full encoder for texts that the student is unsure of.
    fn mixed(&self, unsure_below: f32, dim: usize) -> Vec<f32> {
        let both = self.rows.chunks_exact(dim).zip(self.lesson.targets.chunks_exact(dim));
        let chosen = both.zip(&self.confidences);
        chosen.flat_map(|((own, full), c)| if *c < unsure_below { full } else { own }).copied().collect()
    }
}

impl Collection<'_> {
    /// Share of unsure texts, mean cosine, and mean overlap of the nearest documents. Includes texts that the
    /// student is unsure of, because this measures the student itself.
    pub fn agreement(&self, answers: &Answers<'_>, unsure_below: f32) -> [f64; 3] {
        let Answers { lesson, rows, confidences } = answers;
        let unsure = confidences.iter().filter(|own| **own < unsure_below).count();
        let texts = lesson.len().max(1) as f64;
        let pairs = rows.chunks_exact(self.dim).zip(lesson.targets.chunks_exact(self.dim));
        let cosine: f64 = pairs.map(|(a, b)| f64::from(dot(a, b))).sum();
        let (mine, theirs) = (self.nearest(rows, NEAREST), self.nearest(&lesson.targets, NEAREST));
        let overlap = |(mine, theirs): (&Nearest, &Nearest)| {
            let both = mine.iter().filter(|(document, _)| theirs.iter().any(|other| other.0 == *document));
            both.count() as f64 / theirs.len().max(1) as f64
        };
        let overlap: f64 = mine.iter().zip(&theirs).map(overlap).sum();
        [unsure as f64 / texts, cosine / texts, overlap / texts]
    }

    /// The metrics of each judged question, by the full encoder and by the fast one.
    pub fn values(&self, answers: &Answers<'_>, unsure_below: f32) -> Option<[Values; 2]> {
        let questions = answers.lesson;
        if questions.len() == 0 {
            return None;
        }
        let judge = Judge::binary(&METRICS, &questions.positives);
        let fast = answers.mixed(unsure_below, self.dim);
        Some([&questions.targets, &fast].map(|rows| {
            let found = self.nearest(rows, judge.depth());
            let values = found.into_iter().enumerate().map(|(query, found)| {
                let ranking = found.into_iter().map(|(document, score)| (score, Row(document))).collect();
                judge.values(query, &ranking)
            });
            values.collect()
        }))
    }

    /// Compares the routing of both kinds of embeddings of the held-out texts.
    pub fn tree(&self, answers: &Answers<'_>, unsure_below: f32) -> Option<TreeQuality> {
        let indexer = self.indexer;
        if !indexer.has_tree() {
            return None;
        }
        let leaves = indexer.shape().leaves();
        let beam = NonZeroUsize::new((f64::from(leaves) * BEAM_SHARE) as usize).unwrap_or(NonZeroUsize::MIN);
        let place = indexer.route_rows(self.documents);
        let targets = &answers.lesson.targets;
        let nearest = self.nearest(targets, NEAREST);
        let [full, fast] = [targets, &answers.mixed(unsure_below, self.dim)].map(|rows| {
            let share = |(row, nearest): (&[f32], &Nearest)| {
                let routes = indexer.route(row, beam, Role::Document).search.leaves;
                let is_reached = |leaf: LeafId| routes.iter().any(|scored| scored.leaf == leaf);
                let found = nearest.iter().filter(|(document, _)| is_reached(place[*document as usize]));
                found.count() as f64 / nearest.len().max(1) as f64
            };
            let shares: Vec<f64> = rows.par_chunks_exact(self.dim).zip(&nearest).map(share).collect();
            shares.iter().sum::<f64>() / nearest.len().max(1) as f64
        });
        Some(TreeQuality { beam: beam.get(), full, fast })
    }

    fn nearest(&self, rows: &[f32], depth: usize) -> Vec<Nearest> {
        let panels = Panels::pack(self.documents, self.dim);
        let depth = depth.min(self.documents.len() / self.dim);
        rows.par_chunks(BLOCK * self.dim)
            .flat_map_iter(|block| nearest_documents(&panels, block, depth))
            .collect()
    }
}

/// Median times to encode a text, including tokenization.
pub(super) fn encode_us(
    encoder: &Encoder,
    student: &LoadedQueryEncoder,
    texts: &[&str],
) -> Result<EncodeMicroseconds, ModelError> {
    let (mut full, mut fast) = (Vec::new(), Vec::new());
    for text in texts.iter().take(TIMED) {
        let started = Instant::now();
        encoder.embed(&[text], Role::Query)?;
        full.push(started.elapsed().as_secs_f64() * 1e6);
        let started = Instant::now();
        student.embed(&encoder.tokenize(text, Role::Query)?)?;
        fast.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Ok(EncodeMicroseconds { full: median(full), fast: median(fast) })
}

/// Whether the fast encoder may be the default, and why.
pub(super) fn decide(questions: usize, difference: Option<SignificantDifference>) -> (bool, String) {
    let Some(difference) = difference.filter(|_| questions >= FEWEST_QUESTIONS) else {
        let sentence = format!(
            "searches use the full encoder unless asked otherwise: {questions} judged questions were set \
             aside, and {FEWEST_QUESTIONS} at least, often some hundreds, are needed to know what the fast \
             one loses"
        );
        return (false, sentence);
    };
    let SignificantDifference { value, at_least, p_value } = difference;
    let is_default = value >= -MOST_LOSS && at_least >= -MOST_POSSIBLE_LOSS;
    let p = p_in_words(p_value);
    let found = format!(
        "on {questions} judged questions nDCG@10 differs by {:+.1} points ({p}; the 95% interval begins at \
         {:+.1})",
        100.0 * value,
        100.0 * at_least,
    );
    let sentence = match is_default {
        true => format!("searches use the fast encoder unless asked otherwise: {found}"),
        false => format!(
            "searches use the full encoder unless asked otherwise: {found}, where -{:.0} and -{:.0} are the \
             least",
            100.0 * MOST_LOSS,
            100.0 * MOST_POSSIBLE_LOSS,
        ),
    };
    (is_default, sentence)
}

/// nDCG@10 of the fast encoder minus that of the full one.
pub(super) fn difference([full, fast]: &[Values; 2]) -> Option<SignificantDifference> {
    let [full, fast] = [full, fast].map(|own| own.iter().map(|values| values[0]).collect::<Vec<f64>>());
    let tests = PairedTests::new(&fast, &full, SEED)?;
    Some(SignificantDifference { value: tests.mean, at_least: tests.at_least(), p_value: tests.larger_p() })
}

pub(super) fn quality(values: &Values) -> EncoderQuality {
    let mean = |place: usize| values.iter().map(|own| own[place]).sum::<f64>() / values.len() as f64;
    EncoderQuality { ndcg_at_10: mean(0), recall_at_10: mean(1), recall_at_100: mean(2) }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_encoder_is_the_default_only_where_it_is_known_to_lose_little() {
        let of = |value, at_least| Some(SignificantDifference { value, at_least, p_value: 0.5 });
        assert!(decide(500, of(-0.01, -0.03)).0 && decide(40, of(0.01, -0.01)).0);
        for (questions, difference) in
            [(500, of(-0.021, -0.03)), (500, of(0.0, -0.041)), (39, of(0.1, 0.05)), (500, None)]
        {
            let (is_default, sentence) = decide(questions, difference);
            assert!(!is_default && sentence.contains("full encoder"), "{sentence}");
        }
    }
}
