//! Decides whether a change improves search, from rankings of judged questions that the change has not seen:
//! the rule of [`Index::learn`](crate::Index::learn), for external searches.

use serde::Serialize;

use super::outcome::{Decision, decide, measured};
use crate::data::Judgments;
use crate::measure::{Metric, RelevanceLevel};
use crate::train::{Difference, FEWEST_QUERIES};

/// A judged question, with the ids found for it before and after a change, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgedRankings {
    /// Grades of documents by id.
    pub judgments: Judgments,
    /// Ids found before.
    pub before: Vec<String>,
    /// Ids found after.
    pub after: Vec<String>,
}

/// The comparison of rankings before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankingVerdict {
    /// Changed if the rankings after are better.
    pub decision: Decision,
    /// The same with its reason, in one sentence.
    pub sentence: String,
    /// Questions that have a document that answers them.
    pub questions: usize,
    /// nDCG@10, after against before; `None` without questions.
    pub ndcg_at_10: Option<Difference>,
    /// Recall@10 of the same.
    pub recall_at_10: Option<Difference>,
}

/// Compares rankings of the first ten documents. The rankings after are better if nDCG@10 rises by
/// [`SMALLEST_GAIN`](crate::train::SMALLEST_GAIN) or more, significant by two tests at
/// [`SIGNIFICANCE_LEVEL`](crate::train::SIGNIFICANCE_LEVEL), and recall@10 does not fall by as much. Fewer
/// than [`FEWEST_QUERIES`] questions with an answer allow no decision. `seed` is that of the resampling.
pub fn compare_rankings(questions: &[JudgedRankings], seed: u64) -> RankingVerdict {
    let level = RelevanceLevel::default();
    let answered = |own: &&JudgedRankings| own.judgments.values().any(|grade| *grade >= level.0);
    let questions: Vec<&JudgedRankings> = questions.iter().filter(answered).collect();
    let compared = |metric: Metric| {
        let of = |ranked: fn(&JudgedRankings) -> &[String]| -> Vec<f64> {
            questions.iter().map(|own| metric.of_query(ranked(own), &own.judgments, level)).collect()
        };
        let (after, before) = (of(|own| &own.after), of(|own| &own.before));
        (!questions.is_empty()).then(|| Difference::of(&after, &before, seed))
    };
    let (ndcg, recall) = (compared(Metric::NDCG_AT_10), compared(Metric::RECALL_AT_10));
    let decision = decide(questions.len(), ndcg, recall, None);
    RankingVerdict {
        decision,
        sentence: sentence(decision, questions.len(), ndcg),
        questions: questions.len(),
        ndcg_at_10: ndcg,
        recall_at_10: recall,
    }
}

fn sentence(decision: Decision, questions: usize, ndcg: Option<Difference>) -> String {
    let said = match decision {
        Decision::Changed => "The change is better",
        Decision::Worse => "The change is worse in something",
        Decision::TooFew => {
            return format!(
                "{questions} judged questions were set aside; {FEWEST_QUERIES} are needed to measure with."
            );
        }
        _ => "The change is not shown to be better",
    };
    match ndcg {
        Some(ndcg) => format!("{said}: {}.", measured(questions, &ndcg)),
        None => format!("{said}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(before: &[&str], after: &[&str]) -> JudgedRankings {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        JudgedRankings { judgments: [("a".to_owned(), 1)].into(), before: ids(before), after: ids(after) }
    }

    #[test]
    fn a_change_is_judged_by_what_is_found() {
        let (good, bad) = (["a", "b"], ["b", "c"]);
        let verdict = compare_rankings(&vec![ranked(&bad, &good); 30], 0);
        assert_eq!((verdict.decision, verdict.questions), (Decision::Changed, 30));
        assert_eq!(verdict.recall_at_10.unwrap().difference, 1.0);
        assert!(verdict.sentence.starts_with("The change is better: on 30 judged"), "{}", verdict.sentence);
        assert_eq!(compare_rankings(&vec![ranked(&good, &bad); 30], 0).decision, Decision::Worse);
        assert_eq!(compare_rankings(&vec![ranked(&good, &good); 30], 0).decision, Decision::NoGain);
        assert_eq!(compare_rankings(&vec![ranked(&bad, &good); 19], 0).decision, Decision::TooFew);
        assert_eq!(compare_rankings(&[], 0).decision, Decision::TooFew);
        // A question without an answer does not count.
        let unanswered = JudgedRankings { judgments: [("a".to_owned(), 0)].into(), ..ranked(&bad, &good) };
        assert_eq!(compare_rankings(&vec![unanswered; 30], 0).questions, 0);
    }
}
