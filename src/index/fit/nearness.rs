//! Which judged questions a measurement recalls, and its figures by how near the nearest of them is.

use crate::data::is_held_out;
use crate::error::Result;
use crate::index::ActiveModel;
use crate::index::search::{Asked, RecalledDocument};
use crate::judgment::{now, plain};
use crate::memory::Memory;
use crate::store::View;

/// Least cosines of the nearest judged question, by which a report is divided.
const STEPS: [f64; 5] = [0.0, 0.6, 0.7, 0.8, 0.9];

/// The judged questions that a measurement may recall.
pub(super) struct Recallable {
    memory: Memory,
    /// By their numbers in the memory; `None` for those set aside.
    texts: Vec<Option<String>>,
    now: u64,
}

/// The questions from one step of nearness to the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Near<const N: usize> {
    pub from: f64,
    pub questions: usize,
    pub means: [f64; N],
}

impl Recallable {
    pub fn of(memory: Memory) -> Self {
        let texts = memory.all_texts().map(|text| (!is_held_out(text)).then(|| plain(text))).collect();
        Self { memory, texts, now: now() }
    }

    /// As [`ActiveModel::recall_from`], without the question itself and those set aside.
    pub fn recall(
        &self,
        model: &ActiveModel,
        view: &View,
        text: &str,
        asked: &Asked<'_>,
    ) -> Result<Vec<RecalledDocument>> {
        let own = plain(text);
        let may_recall = |place: u32| self.texts[place as usize].as_deref().is_some_and(|other| other != own);
        model.recall_from(&self.memory, view, asked, true, self.now, &may_recall)
    }
}

/// Cosine of the nearest question whose judgments these are; 0 without one.
pub(super) fn nearest(recalled: &[RecalledDocument]) -> f32 {
    let votes = recalled.iter().flat_map(|document| &document.votes);
    votes.map(|vote| vote.cosine).fold(0.0, f32::max)
}

/// The means of questions' values, by the cosine of each question's nearest judged one; least near first,
/// without steps that no question is on.
pub(crate) fn by_nearness<const N: usize>(questions: &[(f32, [f64; N])]) -> Vec<Near<N>> {
    let step = |(&from, &to): (&f64, &f64)| {
        let on_step = questions.iter().filter(|(nearest, _)| (from..to).contains(&f64::from(*nearest)));
        let own: Vec<&[f64; N]> = on_step.map(|(_, values)| values).collect();
        let mean = |place: usize| own.iter().map(|values| values[place]).sum::<f64>() / own.len() as f64;
        (!own.is_empty()).then(|| Near { from, questions: own.len(), means: std::array::from_fn(mean) })
    };
    STEPS.iter().zip(STEPS.iter().skip(1).chain(&[f64::INFINITY])).filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_divided_by_their_nearest_judged_one() {
        let questions = [0.65, 0.92, 0.0, 1.0, 0.59].map(|nearest| (nearest, [f64::from(nearest), 1.0]));
        let means = [0.295, 0.65, 0.96];
        let steps = by_nearness(&questions);
        let counts: Vec<(f64, usize)> = steps.iter().map(|own| (own.from, own.questions)).collect();
        assert_eq!(counts, [(0.0, 2), (0.6, 1), (0.9, 2)]);
        assert!(steps.iter().zip(means).all(|(own, mean)| (own.means[0] - mean).abs() < 1e-6));
        assert!(steps.iter().all(|own| own.means[1] == 1.0) && by_nearness::<1>(&[]).is_empty());
    }
}
