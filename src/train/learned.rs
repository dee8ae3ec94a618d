//! What a learning came to: its decision, the sentence that says why, and the record that is kept of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::held_out::LEARN_HELD_OUT;
use super::verdict::{
    ComparedMetric, Difference, FEWEST_QUERIES, Method, Recommendation, SIGNIFICANCE_LEVEL, SMALLEST_GAIN,
    Verdict,
};
use crate::index::{LearnedFusion, ModelChange};
use crate::search::MOST_EXACT_DOCUMENTS;

/// Questions of each kind that [`Learned`] names, at most.
pub const QUESTIONS_NAMED: usize = 20;
/// Characters of such a question, at most.
const LONGEST_NAMED: usize = 1_000;

/// What [`Index::learn`](crate::Index::learn) did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Learned {
    /// What came of it.
    pub decision: Decision,
    /// The same with its reason, in one sentence.
    pub sentence: String,
    /// Questions and documents that answer them that were learned from; before a training, those that could
    /// be.
    pub pairs: usize,
    /// Judgments of documents that it does not hold.
    pub without_document: usize,
    /// Questions that were learned from.
    pub learned: usize,
    /// Questions that were set aside and measured.
    pub held_out: usize,
    /// nDCG@10 of exact search on the latter, after against before; `None` where nothing was trained.
    pub ndcg_at_10: Option<Difference>,
    /// Recall@10 of the same.
    pub recall_at_10: Option<Difference>,
    /// Those of them that gained most in nDCG@10, [`QUESTIONS_NAMED`] at most.
    pub better: Vec<QuestionChange>,
    /// Those that lost most.
    pub worse: Vec<QuestionChange>,
    /// The change over to the new model; `None` where the index is as before.
    pub change: Option<ModelChange>,
    /// How words count beside the new model, learned from the questions that were set aside; `None` where the
    /// index is as before, has no words, or too few questions were set aside.
    pub fusion: Option<LearnedFusion>,
}

/// What came of a learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// The index is served by what was learned.
    Changed,
    /// The same judgments were learned from before; nothing was trained.
    NothingNew,
    /// Too few judged questions to measure with; nothing was trained.
    TooFew,
    /// What was learned is not shown to be better; the index is as before.
    NoGain,
    /// What was learned is worse in something; the index is as before.
    Worse,
    /// The index is served by what was learned, although it is not shown to be better: it was chosen
    /// ([`WithProgress::learn_if`](crate::WithProgress::learn_if)).
    Chosen,
    /// What was learned is better; the index is as before, since that was chosen.
    Left,
}

/// What a learning did to a question that was set aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuestionChange {
    /// The question.
    pub question: String,
    /// nDCG@10 of exact search, before and after.
    pub before: f64,
    /// See `before`.
    pub after: f64,
}

/// A learning that trained, as it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Learning {
    /// When it ended, in seconds since 1970 (UTC).
    pub time: u64,
    /// What came of it.
    pub decision: Decision,
    /// The same with its reason, in one sentence.
    pub sentence: String,
}

/// What is noted beside the fingerprints of learnings.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Noted {
    pub learnings: Vec<Learning>,
}

impl Learned {
    pub(super) fn judge(&mut self, verdict: &Verdict, documents: usize) {
        let recall =
            verdict.difference(Method::TrainedExact, Method::BaseExact, 1.0, ComparedMetric::RecallAt10);
        (self.ndcg_at_10, self.recall_at_10) = (verdict.exact_ndcg, recall);
        let tree_loses =
            documents > MOST_EXACT_DOCUMENTS && verdict.recommendation == Recommendation::DoNotDeploy;
        self.decision = decide(self.ndcg_at_10, recall, tree_loses);
    }

    /// Whether the index is to change over, by somebody's choice.
    pub(super) fn chosen(&mut self, choose: &mut dyn FnMut(&Self) -> bool) -> bool {
        if !matches!(self.decision, Decision::Changed | Decision::NoGain | Decision::Worse) {
            return false;
        }
        let is_chosen = choose(self);
        self.decision = match (self.decision, is_chosen) {
            (Decision::Changed, false) => Decision::Left,
            (Decision::NoGain | Decision::Worse, true) => Decision::Chosen,
            (decision, _) => decision,
        };
        is_chosen
    }

    /// With its sentence.
    pub(super) fn decided(mut self) -> Self {
        let Self { pairs, learned, held_out, .. } = self;
        let measured = || self.ndcg_at_10.map_or_else(String::new, |ndcg| measured(held_out, &ndcg));
        self.sentence = match self.decision {
            Decision::Changed => format!(
                "The index has learned from {learned} questions with {pairs} answers: {}.",
                measured()
            ),
            Decision::NothingNew => {
                "No judgment is new since the last learning: the index is as before.".to_owned()
            }
            Decision::TooFew if learned + held_out == 0 => {
                "No question is judged whose document the index holds: the index is as before.".to_owned()
            }
            Decision::TooFew => format!(
                "Only {} questions are judged, and {held_out} of them were set aside to measure with; learning needs \
                 {FEWEST_QUERIES} set aside, about {:.0} judged questions: the index is as before.",
                learned + held_out,
                FEWEST_QUERIES as f64 / LEARN_HELD_OUT,
            ),
            Decision::NoGain => {
                format!("What was learned is not shown to be better: {}; the index is as before.", measured())
            }
            Decision::Worse => {
                format!("What was learned is worse in something: {}; the index is as before.", measured())
            }
            Decision::Chosen => format!(
                "What was learned is used, since that was chosen; it is not shown to be better: {}.",
                measured()
            ),
            Decision::Left => format!(
                "What was learned is better, and is not used, since that was chosen: {}; the index is as before.",
                measured()
            ),
        };
        self
    }
}

/// What judged questions that were set aside say, for a sentence.
pub(super) fn measured(questions: usize, ndcg: &Difference) -> String {
    format!(
        "on {questions} judged questions that it did not learn from, nDCG@10 is {:.3} after {:.3} ({:+.1} points, \
         p {})",
        ndcg.value,
        ndcg.against,
        ndcg.difference * 100.0,
        match p_value(ndcg) {
            p if p < 0.001 => "< 0.001".to_owned(),
            p => format!("= {p:.3}"),
        },
    )
}

/// The larger of the two p-values.
fn p_value(difference: &Difference) -> f64 {
    let [bootstrap, t_test] = [difference.bootstrap_p, difference.t_test_p].map(|p| p.unwrap_or(1.0));
    bootstrap.max(t_test)
}

pub(super) fn decide(ndcg: Option<Difference>, recall: Option<Difference>, tree_loses: bool) -> Decision {
    let lost = |difference: &Difference| difference.difference <= -SMALLEST_GAIN;
    if tree_loses || [ndcg, recall].iter().flatten().any(lost) {
        return Decision::Worse;
    }
    let gained = |difference: Difference| {
        difference.difference >= SMALLEST_GAIN && p_value(&difference) < SIGNIFICANCE_LEVEL
    };
    if ndcg.is_some_and(gained) { Decision::Changed } else { Decision::NoGain }
}

/// The learnings that were noted; none where another version has noted something else.
pub(super) fn noted(more: Option<Value>) -> Vec<Learning> {
    let noted = more.and_then(|more| serde_json::from_value::<Noted>(more).ok());
    noted.unwrap_or_default().learnings
}

/// The questions that gained and that lost, those first that did so most.
pub(super) fn question_changes<'a>(
    questions: impl Iterator<Item = &'a str>,
    ndcg: &[(f64, f64)],
) -> (Vec<QuestionChange>, Vec<QuestionChange>) {
    let changes = questions.zip(ndcg).map(|(question, &(before, after))| {
        let question = question.chars().take(LONGEST_NAMED).collect();
        QuestionChange { question, before, after }
    });
    let gain = |change: &QuestionChange| change.after - change.before;
    let mut changes: Vec<QuestionChange> = changes.collect();
    changes.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then_with(|| a.question.cmp(&b.question)));
    let better = changes.iter().filter(|change| gain(change) > 0.0).take(QUESTIONS_NAMED);
    let worse = changes.iter().rev().filter(|change| gain(change) < 0.0).take(QUESTIONS_NAMED);
    (better.cloned().collect(), worse.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(difference: f64, p: f64) -> Option<Difference> {
        let (value, against) = (0.5 + difference, 0.5);
        let (bootstrap_p, t_test_p, deviation) = (Some(p), Some(p / 2.0), Some(0.1));
        Some(Difference { value, against, difference, bootstrap_p, t_test_p, deviation })
    }

    #[test]
    fn only_a_significant_gain_without_a_loss_changes_the_index() {
        let [gain, same, loss] = [(0.03, 0.01), (0.0, 1.0), (-0.02, 0.01)].map(|(by, p)| difference(by, p));
        assert_eq!(decide(gain, same, false), Decision::Changed);
        assert_eq!(decide(gain, loss, false), Decision::Worse);
        assert_eq!(decide(gain, same, true), Decision::Worse);
        assert_eq!(decide(loss, gain, false), Decision::Worse);
        assert_eq!(decide(same, gain, false), Decision::NoGain);
        assert_eq!(decide(difference(0.03, 0.06), gain, false), Decision::NoGain);
        assert_eq!(decide(difference(0.009, 0.001), gain, false), Decision::NoGain);
        assert_eq!(decide(None, None, false), Decision::NoGain);
    }

    #[test]
    fn questions_are_named_by_what_they_gained_and_lost() {
        let questions = ["same", "up", "down", "far up"];
        let ndcg = [(0.5, 0.5), (0.1, 0.2), (0.9, 0.0), (0.0, 1.0)];
        let (better, worse) = question_changes(questions.into_iter(), &ndcg);
        let names = |changes: &[QuestionChange]| {
            changes.iter().map(|change| change.question.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&better), names(&worse)),
            (vec!["far up".into(), "up".into()], vec!["down".into()])
        );
        let many: Vec<String> = (0..100).map(|number| "long ".repeat(1_000) + &number.to_string()).collect();
        let (better, worse) = question_changes(many.iter().map(String::as_str), &[(0.0, 1.0); 100]);
        assert_eq!((better.len(), worse.len()), (QUESTIONS_NAMED, 0));
        assert!(better.iter().all(|change| change.question.len() == LONGEST_NAMED));
    }

    #[test]
    fn what_another_version_noted_is_passed_over() {
        assert_eq!(noted(None), []);
        assert_eq!(noted(Some(serde_json::json!({ "learnings": 1 }))), []);
        let own = Learning { time: 1, decision: Decision::Left, sentence: "It is.".into() };
        let value = serde_json::to_value(Noted { learnings: vec![own.clone()] }).unwrap();
        assert_eq!(noted(Some(value)), [own]);
    }
}
