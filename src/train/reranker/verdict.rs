//! Whether a trained reranker helps: nDCG@10 of the first search's hits in their own and in the reranked
//! order.

use std::time::Instant;

use super::first::Hits;
use super::report::{RerankerRecommendation, RerankerVerdict};
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::measure::p_in_words;
use crate::measure::{Judge, Metric, Ranking};
use crate::model::Reranker;
use crate::progress::{OnProgress, Progress, Stage};
use crate::train::dataset::TrainingSet;
use crate::train::policy::{Evidence, FEWEST_QUERIES, RERANK};
use crate::train::verdict::Difference;

const METRIC: [Metric; 1] = [Metric::NDCG_AT_10];
const SEED: u64 = 0;

/// Reranks the first `depth` hits of each held-out question.
pub(super) fn compute(
    reranker: &Reranker,
    set: &TrainingSet,
    hits: &Hits,
    depth: usize,
    on_progress: &mut OnProgress<'_>,
) -> Result<RerankerVerdict> {
    let relevant: Vec<Vec<u32>> = set.dev.iter().map(|query| query.positives.clone()).collect();
    let judge = Judge::binary(&METRIC, &relevant);
    let value = |query, order: &[u32]| {
        let ranking: Ranking =
            order.iter().zip(0u16..).map(|(&d, place)| (-f32::from(place), Row(d))).collect();
        judge.values(query, &ranking)[0]
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let (mut answers, mut within) = (0, 0);
    let mut seconds = 0.0;
    for (number, (query, hits)) in set.dev.iter().zip(hits).enumerate() {
        let (first, behind) = hits.split_at(depth.min(hits.len()));
        answers += query.positives.len();
        within += first.iter().filter(|document| query.positives.binary_search(document).is_ok()).count();
        let texts: Vec<_> = first.iter().map(|&d| set.documents[d as usize].embedding_text()).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let started = Instant::now();
        let scores = reranker.score(&query.text, &texts)?;
        seconds += started.elapsed().as_secs_f64();
        let mut order: Vec<(f32, u32)> = scores.into_iter().zip(first.iter().copied()).collect();
        // Stable, as in a search.
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let order = order.into_iter().map(|(_, document)| document).chain(behind.iter().copied());
        let order: Vec<u32> = order.collect();
        before.push(value(number, hits));
        after.push(value(number, &order));
        Progress::new(Stage::Evaluate, number + 1, set.dev.len()).tell(on_progress, Error::Cancelled)?;
    }
    let queries = set.dev.len();
    let ndcg_at_10 = (queries > 0).then(|| Difference::of(&after, &before, SEED));
    let (recommendation, sentence) = decide(ndcg_at_10.as_ref(), queries, depth);
    Ok(RerankerVerdict {
        recommendation,
        sentence,
        queries,
        depth,
        within_depth: within as f64 / f64::from(answers.max(1) as u32),
        ndcg_at_10,
        question_ms: seconds * 1e3 / queries.max(1) as f64,
    })
}

fn decide(found: Option<&Difference>, queries: usize, depth: usize) -> (RerankerRecommendation, String) {
    let measured = found.map_or_else(String::new, |found| {
        format!(
            "on {queries} questions set aside nDCG@10 is {:.3} with the best {depth} hits reranked, {:.3} without \
             ({})",
            found.value,
            found.against,
            p_in_words(found.p_value()),
        )
    });
    match found.map_or(Evidence::TooFew, |found| RERANK.decide(queries, found)) {
        Evidence::Gain => (RerankerRecommendation::Use, format!("use it: {measured}")),
        Evidence::Loss => (RerankerRecommendation::DoNotUse, format!("do not use it: {measured}")),
        Evidence::NotShown => (RerankerRecommendation::NoGainShown, format!("no gain was shown: {measured}")),
        Evidence::TooFew => (
            RerankerRecommendation::CannotSay,
            format!(
                "cannot say whether it is of use: {queries} questions were set aside, at least {FEWEST_QUERIES} \
                 are needed: train on more pairs, or set a larger share of the questions aside"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_follows_from_the_difference() {
        let noise = |q: usize| ((q * 37 % 11) as f64 - 5.0) / 100.0;
        let of = |queries: usize, gain: f64| {
            let before: Vec<f64> = (0..queries).map(|q| 0.5 + noise(q)).collect();
            let after: Vec<f64> = before.iter().enumerate().map(|(q, x)| x + gain + noise(q + 3)).collect();
            decide(Some(&Difference::of(&after, &before, SEED)), queries, 20)
        };
        use RerankerRecommendation::{CannotSay, DoNotUse, NoGainShown, Use};
        for (queries, gain, want, begins) in [
            (100, 0.1, Use, "use it: on 100 questions"),
            (100, -0.1, DoNotUse, "do not use it"),
            (100, 0.0, NoGainShown, "no gain was shown"),
            (FEWEST_QUERIES - 1, 0.1, CannotSay, "cannot say"),
        ] {
            let (found, sentence) = of(queries, gain);
            assert_eq!(found, want, "{sentence}");
            assert!(sentence.starts_with(begins), "{sentence}");
        }
        assert_eq!(decide(None, 0, 20).0, CannotSay);
    }
}
