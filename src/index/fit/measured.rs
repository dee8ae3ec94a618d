//! What each judged question finds by embeddings, words and judgments of other questions.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::nearness::{Recallable, nearest};
use super::questions::{BLOCK, Questions, asked};
use super::weights::PARTS;
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::index::ActiveModel;
use crate::index::search::{Asked, Fusion, Plan, QueryEncoder, RankBy, SearchRequest, fuse};
use crate::judgment::plain;
use crate::measure::{Judge, Metric, Ranking, RelevanceLevel};
use crate::memory::MemoryWeights;
use crate::progress::{OnProgress, Progress, Stage};
use crate::store::View;

/// Powers of the cosine that are tried.
pub(super) const MEMORY_POWERS: [f64; 4] = [2.0, 4.0, 8.0, 16.0];
/// Weights of embeddings, 0, 0.05, ... 1, that are tried.
pub(super) const ALPHAS: usize = 21;
const METRIC: [Metric; 1] = [Metric::NDCG_AT_10];
/// Hits that count.
const HITS: NonZeroUsize = NonZeroUsize::new(10).unwrap();
/// The reciprocal rank fusion to compare with.
const RRF: Fusion = Fusion::Rrf { k: 60.0 };

/// Questions with everything that may answer them.
pub(super) struct Measured {
    pub questions: Vec<MeasuredQuestion>,
    pub judge: Judge<'static>,
}

/// A question with everything that may answer it.
#[derive(Default)]
pub(super) struct MeasuredQuestion {
    number: usize,
    found: Vec<Found>,
    /// nDCG@10 by reciprocal rank fusion, and by words alone.
    pub rrf: f64,
    pub lexical: f64,
    /// nDCG@10 by each of [`ALPHAS`], without judgments.
    pub by_alpha: Vec<f64>,
    /// The part of the questions that it belongs to.
    pub part: u32,
    /// Cosine of the nearest judged question; 0 without one.
    pub nearest: f32,
}

/// A document that may answer a question.
struct Found {
    row: Row,
    /// By embedding and by words, from 0 to 1.
    dense: f64,
    lexical: f64,
    /// What judgments of near questions say together, from -1 to 1, by [`MEMORY_POWERS`].
    memory: [f64; MEMORY_POWERS.len()],
    /// Whether it is found without judgments.
    is_found: bool,
}

/// Searches for each question by embeddings, words and judgments, once.
pub(super) fn measure(
    questions: &Questions,
    recallable: &Recallable,
    model: &ActiveModel,
    view: &View,
    by_encoder: QueryEncoder,
    on_progress: &mut OnProgress<'_>,
) -> Result<Measured> {
    let judge = Judge::new(&METRIC, RelevanceLevel::default(), questions.judged.clone());
    let request = SearchRequest::default();
    let plan = Plan { parallel: false, ..Plan::new(HITS, &request) };
    let mut measured: Vec<MeasuredQuestion> = Vec::with_capacity(questions.texts.len());
    for block in questions.texts.chunks(BLOCK) {
        let first = measured.len();
        let asked = asked(model, block, RankBy::Lexical, Some(by_encoder))?;
        let one = |(place, asked): (usize, Asked<'_>)| {
            let recalled = recallable.recall(model, view, &block[place], &asked)?;
            let part = crc32fast::hash(plain(&block[place]).as_bytes()) % PARTS;
            MeasuredQuestion::of(first + place, part, Asked { recalled, ..asked }, model, view, &plan, &judge)
        };
        let asked: Vec<_> = asked.into_iter().enumerate().collect();
        measured.extend(asked.into_par_iter().map(one).collect::<Result<Vec<_>>>()?);
        let done = measured.len();
        Progress::new(Stage::Evaluate, done, questions.texts.len()).tell(on_progress, Error::Cancelled)?;
    }
    Ok(Measured { questions: measured, judge })
}

impl MeasuredQuestion {
    fn of(
        number: usize,
        part: u32,
        mut asked: Asked<'_>,
        model: &ActiveModel,
        view: &View,
        plan: &Plan<'_>,
        judge: &Judge<'_>,
    ) -> Result<Self> {
        // Every document that judgments name is a candidate.
        asked.recalled.iter_mut().for_each(|document| document.moved = 1.0);
        let nearest = nearest(&asked.recalled);
        let (mut candidates, _) = model.candidates(view, &asked, plan)?;
        for candidate in &mut candidates {
            // Judgments are for documents. A move would change the scores.
            (candidate.row, candidate.moved) = (view.head(candidate.row)?, 0.0);
        }
        candidates.sort_unstable_by_key(|candidate| candidate.row);
        // With all weight on one of them, the combined score is that one, scaled.
        let by_row = |fusion| {
            let mut scored = fuse(&candidates, fusion, 0.0, &|a, b| a.cmp(&b));
            scored.sort_unstable_by_key(|(_, row, _)| *row);
            scored
        };
        let both = by_row(Fusion::Convex(1.0)).into_iter().zip(by_row(Fusion::Convex(0.0)));
        let found = candidates.iter().zip(both).map(|(candidate, ((dense, ..), (lexical, ..)))| {
            let votes = asked.recalled_for(candidate.row).map_or(&[][..], |own| &own.votes);
            Found {
                row: candidate.row,
                dense: dense.into(),
                lexical: lexical.into(),
                memory: MEMORY_POWERS.map(|power| MemoryWeights { weight: 1.0, power }.moved(votes)),
                is_found: candidate.is_found,
            }
        });
        let found: Vec<Found> = found.collect();
        candidates.retain(|candidate| candidate.is_found);
        let by_ranks = fuse(&candidates, RRF, 0.0, &|a, b| a.cmp(&b)).into_iter();
        let by_ranks: Ranking = by_ranks.map(|(score, row, _)| (score, row)).collect();
        let rrf = judge.values(number, &by_ranks)[0];
        let mut one = Self { number, found, rrf, lexical: 0.0, by_alpha: Vec::new(), part, nearest };
        one.by_alpha = (0..ALPHAS).map(|place| one.value(judge, alpha(place), None)).collect();
        one.lexical = one.by_alpha[0];
        Ok(one)
    }

    /// nDCG@10 with a weight of embeddings, and with judgments by a weight and the place of a power.
    fn value(&self, judge: &Judge<'_>, alpha: f64, memory: Option<(f64, usize)>) -> f64 {
        let score = |own: &Found| {
            let moved = memory.map_or(0.0, |(weight, power)| weight * own.memory[power]);
            let score = alpha * own.dense + (1.0 - alpha) * own.lexical + moved;
            (own.is_found || moved > 0.0).then_some((score, own.row))
        };
        let mut scored: Vec<(f64, Row)> = self.found.iter().filter_map(score).collect();
        let best = |a: &(f64, Row), b: &(f64, Row)| -> Ordering { b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)) };
        if scored.len() > HITS.get() {
            scored.select_nth_unstable_by(HITS.get() - 1, best);
            scored.truncate(HITS.get());
        }
        scored.sort_unstable_by(best);
        let ranking: Ranking = scored.into_iter().map(|(score, row)| (score as f32, row)).collect();
        judge.values(self.number, &ranking)[0]
    }
}

impl Measured {
    /// nDCG@10 of a question with a weight of embeddings, and with judgments by a weight and the place of a
    /// power.
    pub fn value(&self, question: &MeasuredQuestion, alpha: f64, memory: Option<(f64, usize)>) -> f64 {
        question.value(&self.judge, alpha, memory)
    }
}

/// A weight of embeddings by its place.
pub(super) fn alpha(place: usize) -> f64 {
    place as f64 / (ALPHAS - 1) as f64
}
