//! The outcome of a learning: its decision, the sentence with the reason, and its record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tree::Tuned;
use crate::index::{LearnedFusion, ModelChange, Near, Served, by_nearness};
use crate::model::DistilReport;
use crate::search::MOST_EXACT_DOCUMENTS;
use crate::train::policy::{Evidence, LEARN, LEARN_WITH_MEMORY, Policy};
use crate::train::{Difference, FEWEST_QUERIES, LEARN_HELD_OUT, Recommendation, Verdict};

/// Most questions of each kind listed in [`Learned`].
pub const QUESTIONS_NAMED: usize = 20;
/// Seed of the resampling in tests.
const SEED: u64 = 0;
/// Most characters of such a question.
const LONGEST_NAMED: usize = 1_000;
const WITH_JUDGMENTS: &str = "with judgments of near questions counted";

/// The outcome of [`Index::learn`](crate::Index::learn).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Learned {
    /// The decision.
    pub decision: Decision,
    /// The same with its reason, in one sentence.
    pub sentence: String,
    /// Pairs of a question and an answer that were learned from; before a training, those available.
    pub pairs: usize,
    /// Judgments of documents that are not in the index.
    pub without_document: usize,
    /// Questions that were learned from.
    pub learned: usize,
    /// Held-out questions that were measured.
    pub held_out: usize,
    /// nDCG@10 of default searches on the held-out questions, after against before, each with its question
    /// encoder and weight of words; `None` if nothing was trained.
    pub ndcg_at_10: Option<Difference>,
    /// Recall@10 of the same.
    pub recall_at_10: Option<Difference>,
    /// nDCG@10 of the same searches with the judgments of other questions, none of them held out; each model
    /// counts near ones as it has learned. It may not fall significantly.
    pub with_memory: Option<Difference>,
    /// nDCG@10 by how near the nearest of these judged questions is to the held-out one, least near first.
    pub by_nearness: Vec<ChangeByNearness>,
    /// nDCG@10 of the encoder alone: exact search by embeddings of the full encoder, after against before.
    pub encoder: Option<Difference>,
    /// Held-out questions with the largest gains in nDCG@10, at most [`QUESTIONS_NAMED`].
    pub better: Vec<QuestionChange>,
    /// Held-out questions with the largest losses.
    pub worse: Vec<QuestionChange>,
    /// The switch to the new model or tree; `None` if both are unchanged.
    pub change: Option<ModelChange>,
    /// The tree made without a training; `None` if a model was trained or no tree was due.
    pub tree: Option<Tuned>,
    /// The weight of words relative to embeddings; `None` if the index has no words or too few questions are
    /// judged.
    pub fusion: Option<LearnedFusion>,
    /// The new model's query encoder: its loss against the full encoder, and whether default searches use it;
    /// `None` if nothing was trained or none could be made.
    pub query_encoder: Option<DistilReport>,
}

/// The decision of a learning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// The index uses the new model.
    Changed,
    /// The same judgments were learned from before; nothing was trained.
    NothingNew,
    /// Too few judged questions to measure with; nothing was trained.
    #[default]
    TooFew,
    /// The new model is not shown to be better; the index is unchanged.
    NoGain,
    /// The new model is worse in some measure; the index is unchanged.
    Worse,
    /// The index uses the new model, although it is not shown to be better: it was accepted
    /// ([`LearnOptions::accept`](super::LearnOptions::accept)) or chosen
    /// ([`WithProgress::learn_if`](crate::WithProgress::learn_if)).
    Chosen,
    /// The new model is better, but the caller chose to keep the index unchanged.
    Left,
}

impl Decision {
    /// Whether the index uses an encoder that has learned.
    pub(super) fn changes_encoder(self) -> bool {
        matches!(self, Self::Changed | Self::Chosen)
    }
}

/// The effect of a learning on a held-out question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QuestionChange {
    /// The question.
    pub question: String,
    /// nDCG@10 of default searches, before and after.
    pub before: f64,
    /// See `before`.
    pub after: f64,
}

/// The effect of a learning on held-out questions at some distance from the other judged ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChangeByNearness {
    /// Least cosine of a held-out question and the nearest judged one, in the model before; they reach up to
    /// the next.
    pub from: f64,
    /// Number of held-out questions.
    pub questions: usize,
    /// Mean nDCG@10 of default searches without judgments.
    pub before: f64,
    /// See `before`.
    pub after: f64,
    /// The same with judgments of other questions.
    pub before_with_memory: f64,
    /// See `before_with_memory`.
    pub after_with_memory: f64,
}

/// The record of a learning that trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Learning {
    /// When it ended, in seconds since 1970 (UTC).
    pub time: u64,
    /// The decision.
    pub decision: Decision,
    /// The same with its reason, in one sentence.
    pub sentence: String,
}

/// Data recorded with the fingerprints of learnings.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Noted {
    pub learnings: Vec<Learning>,
}

impl Learned {
    /// Decides by searches before and after, and by the training's measurements of its tree.
    pub(super) fn judge(&mut self, verdict: &Verdict, documents: usize, before: &Served, after: &Served) {
        self.encoder = verdict.exact_ndcg;
        // Meanwhile a document may have been deleted that was the only answer of a question.
        let mut paired: Vec<_> = before
            .iter()
            .filter_map(|(question, before)| Some((question.as_str(), *before, *after.get(question)?)))
            .collect();
        paired.sort_unstable_by_key(|(question, ..)| *question);
        let difference = |metric: usize| {
            let after: Vec<f64> = paired.iter().map(|(_, _, after)| after.values[metric]).collect();
            let before: Vec<f64> = paired.iter().map(|(_, before, _)| before.values[metric]).collect();
            (!paired.is_empty()).then(|| Difference::of(&after, &before, SEED))
        };
        [self.ndcg_at_10, self.recall_at_10, self.with_memory] = [0, 1, 2].map(difference);
        let ndcg =
            paired.iter().map(|(question, before, after)| (*question, before.values[0], after.values[0]));
        (self.better, self.worse) = question_changes(ndcg);
        let values = paired.iter().map(|(_, before, after)| {
            let ([without, _, with], [then_without, _, then_with]) = (before.values, after.values);
            (before.nearest, [without, then_without, with, then_with])
        });
        let change = |Near { from, questions, means }| {
            let [before, after, before_with_memory, after_with_memory] = means;
            ChangeByNearness { from, questions, before, after, before_with_memory, after_with_memory }
        };
        self.by_nearness = by_nearness(&values.collect::<Vec<_>>()).into_iter().map(change).collect();
        let tree_loses =
            documents > MOST_EXACT_DOCUMENTS && verdict.recommendation == Recommendation::DoNotDeploy;
        self.held_out = paired.len();
        self.decision = match tree_loses {
            true => Decision::Worse,
            false => decide(self.held_out, self.ndcg_at_10, self.recall_at_10, self.with_memory),
        };
    }

    /// Whether the index should switch, by the caller's choice.
    pub(super) fn chosen(&mut self, choose: &mut dyn FnMut(&Self) -> bool) -> bool {
        *self = self.clone().decided();
        let is_chosen = choose(self);
        self.decision = match (self.decision, is_chosen) {
            (Decision::Changed, false) => Decision::Left,
            (Decision::NoGain | Decision::Worse | Decision::TooFew, true) => Decision::Chosen,
            (decision, _) => decision,
        };
        is_chosen
    }

    /// With its sentence.
    pub(super) fn decided(mut self) -> Self {
        let Self { pairs, learned, held_out, .. } = self;
        let measured = || {
            let measured = self.ndcg_at_10.map_or_else(String::new, |ndcg| measured(held_out, &ndcg));
            measured + &self.judgments_suffice()
        };
        const AS_BEFORE: &str = "the index is as before";
        self.sentence = match self.decision {
            Decision::Changed => format!(
                "The index has learned from {learned} questions with {pairs} answers: {}{}.",
                measured(),
                self.encoder_of_questions()
            ),
            Decision::NothingNew => format!("No judgment is new since the last learning: {AS_BEFORE}."),
            Decision::TooFew => {
                let judged = match learned + held_out {
                    0 => "No question is judged whose document the index holds".to_owned(),
                    all => format!(
                        "Too few questions are judged ({all}, of which {held_out} set aside to measure with); \
                         training needs {FEWEST_QUERIES} set aside, about {:.0} judged questions",
                        FEWEST_QUERIES as f64 / LEARN_HELD_OUT
                    ),
                };
                let tree = self.change.map(|_| "a tree was made for the documents");
                let words = self.fusion.as_ref().map(|_| "the weight of words was fitted");
                let parts: Vec<&str> = tree.into_iter().chain(words).collect();
                match parts.is_empty() {
                    true => format!("{judged}: {AS_BEFORE}."),
                    false => format!("{judged}: the encoder is as before; {}.", parts.join(", ")),
                }
            }
            Decision::NoGain => format!(
                "What was learned is not shown to be better: {}{}; {AS_BEFORE}.",
                measured(),
                needed(held_out, self.ndcg_at_10.as_ref())
            ),
            Decision::Worse => {
                format!("What was learned is worse: {}{}; {AS_BEFORE}.", measured(), self.losses())
            }
            Decision::Chosen if self.ndcg_at_10.is_none() => format!(
                "The index has learned from {learned} questions with {pairs} answers, as it was told to; no question \
                 was set aside to measure with."
            ),
            Decision::Chosen => format!(
                "What was learned is used, as it was told to, although it is not shown to be better: {}{}.",
                measured(),
                self.encoder_of_questions()
            ),
            Decision::Left => format!(
                "What was learned is better, and is not used, since that was chosen: {}; {AS_BEFORE}.",
                measured()
            ),
        };
        self
    }

    /// Says so if the gain is only where judgments of near questions give it without a training.
    fn judgments_suffice(&self) -> String {
        let is_gain = |policy: Policy, own: &Difference| policy.decide(self.held_out, own) == Evidence::Gain;
        let gains =
            self.decision != Decision::Worse && self.ndcg_at_10.is_some_and(|own| is_gain(LEARN, &own));
        match self.with_memory.filter(|own| gains && !is_gain(LEARN_WITH_MEMORY, own)) {
            Some(own) => format!("; {WITH_JUDGMENTS}, {}: not shown to be better", own.in_words("nDCG@10")),
            None => String::new(),
        }
    }

    /// What is worse, other than nDCG@10 without judgments.
    fn losses(&self) -> String {
        let lost = |policy: Policy, own: Option<Difference>| {
            own.filter(|own| policy.decide(self.held_out, own) == Evidence::Loss)
        };
        let recall = lost(LEARN, self.recall_at_10).map(|own| own.in_words("recall@10"));
        let with_memory = lost(LEARN_WITH_MEMORY, self.with_memory)
            .map(|own| format!("{WITH_JUDGMENTS}, {}", own.in_words("nDCG@10")));
        match (lost(LEARN, self.ndcg_at_10), &recall, &with_memory) {
            (None, None, None) => "; the new tree is worse than k-means".to_owned(),
            _ => [recall, with_memory].into_iter().flatten().map(|own| format!("; {own}")).collect(),
        }
    }

    /// Names the question encoder from now on, if it is the fast one.
    fn encoder_of_questions(&self) -> &'static str {
        match self.query_encoder.as_ref().is_some_and(|report| report.is_default) {
            true => "; the fast encoder reads questions",
            false => "",
        }
    }
}

/// The measurements on held-out questions, for a sentence.
pub(super) fn measured(questions: usize, ndcg: &Difference) -> String {
    format!("on {questions} judged questions that it did not learn from, {}", ndcg.in_words("nDCG@10"))
}

/// The number of questions needed to show a gain like the measured one.
fn needed(questions: usize, ndcg: Option<&Difference>) -> String {
    let gain = ndcg.filter(|ndcg| ndcg.difference > 0.0);
    let needed = gain.and_then(|gain| LEARN.questions_needed(gain)).filter(|needed| *needed > questions);
    needed.map_or_else(String::new, |needed| {
        let judged = needed as f64 / LEARN_HELD_OUT;
        format!("; to show such a gain takes about {needed} of them, {judged:.0} judged questions in all")
    })
}

/// Decides by nDCG@10, provided that recall@10 does not fall, and nDCG@10 with judgments not significantly.
pub(super) fn decide(
    questions: usize,
    ndcg: Option<Difference>,
    recall: Option<Difference>,
    with_memory: Option<Difference>,
) -> Decision {
    let evidence = |policy: Policy, own: Option<Difference>| {
        own.map_or(Evidence::TooFew, |own| policy.decide(questions, &own))
    };
    let all = [evidence(LEARN, ndcg), evidence(LEARN, recall), evidence(LEARN_WITH_MEMORY, with_memory)];
    match all[0] {
        Evidence::TooFew => Decision::TooFew,
        _ if all.contains(&Evidence::Loss) => Decision::Worse,
        Evidence::Gain => Decision::Changed,
        _ => Decision::NoGain,
    }
}

/// The recorded learnings; none if another version recorded a different form.
pub(super) fn noted(more: Option<Value>) -> Vec<Learning> {
    let noted = more.and_then(|more| serde_json::from_value::<Noted>(more).ok());
    noted.unwrap_or_default().learnings
}

/// The questions that gained and those that lost, largest changes first.
fn question_changes<'a>(
    ndcg: impl Iterator<Item = (&'a str, f64, f64)>,
) -> (Vec<QuestionChange>, Vec<QuestionChange>) {
    let changes = ndcg.map(|(question, before, after)| {
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
        assert_eq!(decide(20, gain, same, same), Decision::Changed);
        assert_eq!(decide(20, gain, same, difference(-0.02, 0.04)), Decision::Worse);
        assert_eq!(decide(20, gain, loss, None), Decision::Worse);
        assert_eq!(decide(20, loss, gain, None), Decision::Worse);
        assert_eq!(decide(20, same, gain, None), Decision::NoGain);
        assert_eq!(decide(20, difference(0.03, 0.06), gain, None), Decision::NoGain);
        assert_eq!(decide(19, gain, gain, None), Decision::TooFew);
        assert_eq!(decide(0, None, None, None), Decision::TooFew);
    }

    #[test]
    fn a_gain_that_judgments_give_too_is_called_so() {
        let sentence = |ndcg, with_memory| {
            let (held_out, ndcg_at_10, decision) = (20, ndcg, Decision::Changed);
            let learned = Learned { decision, held_out, ndcg_at_10, with_memory, ..Learned::default() };
            learned.decided().sentence
        };
        let gain = difference(0.03, 0.01);
        for (with_memory, says_so) in [
            (gain, false),
            (difference(0.006, 0.01), false),
            (difference(0.004, 0.01), true),
            (difference(0.03, 0.2), true),
            (difference(-0.03, 0.01), true),
        ] {
            let sentence = sentence(gain, with_memory);
            assert_eq!(sentence.ends_with(": not shown to be better."), says_so, "{sentence}");
        }
        assert!(!sentence(difference(0.03, 0.2), difference(0.0, 1.0)).contains("near questions"));
    }

    #[test]
    fn what_is_worse_is_named() {
        let sentence = |ndcg_at_10, recall_at_10, with_memory| {
            let (held_out, decision) = (20, Decision::Worse);
            Learned { decision, held_out, ndcg_at_10, recall_at_10, with_memory, ..Learned::default() }
                .decided()
                .sentence
        };
        let [gain, same, loss] = [(0.03, 0.01), (0.0, 1.0), (-0.02, 0.01)].map(|(by, p)| difference(by, p));
        let with =
            "with judgments of near questions counted, nDCG@10 is 0.480 after 0.500 (-2.0 points, p = 0.010)";
        for (of, named) in [
            ((gain, loss, same), "; recall@10 is 0.480 after 0.500 (-2.0 points, p = 0.010)".to_owned()),
            ((gain, same, loss), format!("; {with}")),
            ((gain, same, same), "; the new tree is worse than k-means".into()),
            ((loss, same, same), "nDCG@10 is 0.480 after 0.500 (-2.0 points, p = 0.010)".into()),
        ] {
            let sentence = sentence(of.0, of.1, of.2);
            assert!(sentence.ends_with(&format!("{named}; the index is as before.")), "{sentence}");
        }
    }

    #[test]
    fn questions_are_named_by_what_they_gained_and_lost() {
        let ndcg = [("same", 0.5, 0.5), ("up", 0.1, 0.2), ("down", 0.9, 0.0), ("far up", 0.0, 1.0)];
        let (better, worse) = question_changes(ndcg.into_iter());
        let names = |changes: &[QuestionChange]| {
            changes.iter().map(|change| change.question.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&better), names(&worse)),
            (vec!["far up".into(), "up".into()], vec!["down".into()])
        );
        let many: Vec<String> = (0..100).map(|number| "long ".repeat(1_000) + &number.to_string()).collect();
        let (better, worse) = question_changes(many.iter().map(|question| (question.as_str(), 0.0, 1.0)));
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
