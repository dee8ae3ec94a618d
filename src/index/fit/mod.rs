//! The weights of embeddings, words and judgments in a search, learned from judged questions.
//!
//! | File | Contents |
//! |---|---|
//! | `mod.rs` | `Index::fuse`: learns the weights, and stores them |
//! | `by_itself.rs` | the same on a thread, when judgments have changed |
//! | `questions.rs` | judged questions |
//! | `served.rs` | their default searches |
//! | `nearness.rs` | which judged questions are recalled, and figures by how near they are |
//! | `measured.rs` | what each question finds by embeddings, words and judgments |
//! | `weights.rs` | the weights with which questions find their answers best |
//! | `sentence.rs` | the outcome in a sentence |

mod by_itself;
mod measured;
mod nearness;
mod questions;
mod sentence;
#[cfg(feature = "train")]
mod served;
mod weights;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;

use super::active_model::ActiveModel;
use super::fusion::LearnedFusion;
use super::judgment_store::{all_judgments, count_judgments, encoder_has_learned};
use super::judgments::check_judgment;
use super::search::QueryEncoder;
use super::{Index, WithProgress};
use crate::data::is_held_out;
use crate::disk::Backend;
use crate::error::{InputError, Result};
use crate::judgment::Judgment;
use crate::progress::{OnProgress, Progress, no_progress};
use crate::store::{Store, StoreError};
pub(super) use by_itself::Fits;
use measured::measure;
use nearness::Recallable;
#[cfg(feature = "train")]
pub(crate) use nearness::{Near, by_nearness};
use questions::Questions;
#[cfg(feature = "train")]
pub(crate) use questions::by_question;
#[cfg(feature = "train")]
pub(crate) use served::Served;

/// Fewest judged questions for learning a weight.
pub const FEWEST_FUSION_QUESTIONS: usize = 40;
/// Most questions that are asked; of more, those with the smallest hashes.
const MOST_ASKED: usize = 1_000;

/// How often the memory is loaded if others clear it.
const COPY_ATTEMPTS: usize = 8;

/// The outcome of [`Index::fuse`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fused {
    /// Judged questions with an answer in the index.
    pub questions: usize,
    /// Judged questions without one; they are skipped.
    pub unanswered: usize,
    /// The learned and stored weights; `None` with fewer than [`FEWEST_FUSION_QUESTIONS`].
    pub fusion: Option<LearnedFusion>,
    /// The same in one sentence.
    pub sentence: String,
}

impl Index {
    /// Learns the weights of embeddings, words and judgments of near questions in a search from judged
    /// questions ([`Fusion::Learned`](crate::Fusion::Learned)), tests whether words and judgments help, and
    /// stores the result with the index.
    ///
    /// An index does this by itself, on a thread of its own, once 40 judgments are recorded, each time that
    /// their number has grown by a tenth, and after a change of the encoder. This call does it now.
    ///
    /// `pairs` are judgments in addition to those in the index ([`Self::record`]); they are not stored.
    /// In measuring a ranking, all count alike. Once the encoder has learned
    /// ([`Self::learn`](Self#method.learn)), only its held-out questions are used, because embeddings look
    /// better than they are on the others. With fewer than [`FEWEST_FUSION_QUESTIONS`] nothing changes; of
    /// more than 1,000 questions, 1,000 are asked.
    ///
    /// Of 21 weights, the one with the highest mean nDCG@10 over it and two weights on either side is chosen.
    /// It is shrunk towards [`DEFAULT_ALPHA`](crate::search::DEFAULT_ALPHA) as if 80 more questions had
    /// chosen that. If a hybrid search, with each question's weight learned on other questions, is on average
    /// not better than embeddings alone, words are left out: the weight is 1.
    ///
    /// The weight of judgments is measured by leaving out: each question is asked without its own judgments,
    /// with those of the others, and with the weights of embeddings and words just learned. It is shrunk
    /// towards 0 as if 80 more questions had chosen that, and is 0 unless the gain is significant.
    ///
    /// P-values are those of a paired t-test and a bootstrap, the larger of both, one-sided.
    ///
    /// If the model has a query encoder, weights are also learned for it, given enough questions that it did
    /// not learn from; for an index's own query encoder these are the fifth held out by
    /// [`Self::distil`](Self#method.distil). Otherwise the fast encoder uses the full encoder's weights.
    ///
    /// Costs a search for each question and encoder, and an encoding of each judged question the first time.
    ///
    /// # Errors
    /// Those of [`Self::record`] for the pairs; [`InputError::NoEncoder`](crate::InputError::NoEncoder);
    /// [`StoreError::NotLexical`](crate::store::StoreError::NotLexical);
    /// [`InputError::ChangeUnderWay`](crate::InputError::ChangeUnderWay); failures of the encoder and of the
    /// disk. On error the previous weights are kept.
    pub fn fuse(&self, pairs: &[Judgment]) -> Result<Fused> {
        self.with_progress(no_progress).fuse(pairs)
    }

    /// As [`Self::fuse`], for a caller that holds the lock ([`Self::alone`]).
    pub(crate) fn fuse_on(&self, pairs: &[Judgment], on_progress: &mut OnProgress<'_>) -> Result<Fused> {
        let _paused = self.pause_fits();
        let serving = &*self.serving();
        self.check_fusion(serving)?;
        let store = self.judgments_for_reading()?;
        serving.fit_and_keep(store.as_ref(), pairs, &*self.root.backend(), on_progress)
    }
}

#[cfg(feature = "train")]
impl Index {
    /// Learns the weights for a model that is not yet in service from these judgments.
    pub(crate) fn fit_next(
        &self,
        next: &ActiveModel,
        judgments: &[Judgment],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Fused> {
        next.fit_to(self.judgments_for_reading()?.as_ref(), judgments, &*self.root.backend(), on_progress)
    }

    /// What default searches with a model give for the questions of these judgments.
    pub(crate) fn served(
        &self,
        model: &ActiveModel,
        judgments: &[Judgment],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Served> {
        let (view, store) = (model.view(), self.judgments_for_reading()?);
        let recallable = model.recallable(store.as_ref(), &*self.root.backend(), on_progress)?;
        Questions::of(&view, judgments)?.served(model, &view, &recallable, on_progress)
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::fuse`], with progress in questions and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::fuse`], and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn fuse(mut self, pairs: &[Judgment]) -> Result<Fused> {
        let (index, on_progress) = self.parts();
        index.check_writable()?;
        index.serving().model().encoder()?;
        pairs.iter().try_for_each(check_judgment)?;
        let _only = index.alone()?;
        index.fuse_on(pairs, on_progress)
    }
}

impl ActiveModel {
    /// Learns the weights for this model from the judgments of a store and further ones, and stores them.
    fn fit_and_keep(
        &self,
        store: Option<&Arc<Store>>,
        pairs: &[Judgment],
        backend: &dyn Backend,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Fused> {
        let query_encoder = self.query_encoder_sum();
        let mut fused = self.fit(store, pairs, backend, on_progress)?;
        if let Some(fusion) = &mut fused.fusion {
            // It may have been replaced meanwhile.
            if self.query_encoder_sum() != query_encoder {
                fusion.fast = None;
            }
            self.set_fusion(backend, fusion.clone())?;
        }
        Ok(fused)
    }

    /// Learns the weights for this model from the judgments of a store and further ones.
    fn fit(
        &self,
        store: Option<&Arc<Store>>,
        pairs: &[Judgment],
        backend: &dyn Backend,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Fused> {
        let mut judgments = store.map_or(Ok(Vec::new()), |store| all_judgments(store))?;
        let has_learned = store.map_or(Ok(false), |store| encoder_has_learned(store))?;
        judgments.extend_from_slice(pairs);
        if has_learned {
            // Embeddings look better than they are on the other questions.
            judgments.retain(|judgment| is_held_out(&judgment.question));
        }
        let mut fused = self.fit_to(store, &judgments, backend, on_progress)?;
        if fused.fusion.is_none() && has_learned {
            fused.sentence += "; after a learning, only questions set aside from it count, a fifth of all";
        }
        Ok(fused)
    }

    /// Learns the weights for this model from these judgments; near questions are those of the store.
    ///
    /// # Errors
    /// Those of [`Index::fuse`].
    pub(crate) fn fit_to(
        &self,
        store: Option<&Arc<Store>>,
        judgments: &[Judgment],
        backend: &dyn Backend,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Fused> {
        let view = self.view();
        if !view.is_lexical() {
            return Err(StoreError::NotLexical.into());
        }
        let mut questions = Questions::of(&view, judgments)?;
        let (count, unanswered) = (questions.texts.len(), questions.unanswered);
        if count < FEWEST_FUSION_QUESTIONS {
            let sentence = format!(
                "judged questions with an answer in the index: {count}; at least {FEWEST_FUSION_QUESTIONS} are \
                 needed to learn a weight, so nothing is changed"
            );
            return Ok(Fused { questions: count, unanswered, fusion: None, sentence });
        }
        let recallable = self.recallable(store, backend, on_progress)?;
        questions.keep(MOST_ASKED);
        let of = store.map_or(Ok(0), |store| count_judgments(store))?.max(judgments.len());
        let mut learn = |questions: &Questions, encoder| {
            let measured = measure(questions, &recallable, self, &view, encoder, on_progress)?;
            Ok::<_, crate::Error>(LearnedFusion { judgments: of, ..measured.learned() })
        };
        let mut fusion = learn(&questions, QueryEncoder::Full)?;
        if let Some(fast) = self.bundle().fast().filter(|fast| fast.is_usable()) {
            let fresh = questions.fresh_for(fast.entry().of_index);
            if fresh.texts.len() >= FEWEST_FUSION_QUESTIONS {
                fusion.fast = Some(Box::new(learn(&fresh, QueryEncoder::Fast)?));
            }
        }
        Ok(Fused { questions: count, unanswered, sentence: fusion.sentence(), fusion: Some(fusion) })
    }

    /// The judged questions of a store, with vectors by this model: a copy, because judgments are recorded
    /// meanwhile.
    fn recallable(
        &self,
        store: Option<&Arc<Store>>,
        backend: &dyn Backend,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Recallable> {
        for _ in 0..COPY_ATTEMPTS {
            self.load_memory(|| Ok(store.cloned()))?;
            self.make_vectors(Some(backend), &HashMap::new(), on_progress)?;
            let copy = self.memory.with(|memory| (!memory.needs_vectors()).then(|| memory.clone()));
            if let Some(memory) = copy.flatten() {
                return Ok(Recallable::of(memory));
            }
        }
        // It was cleared, or cannot be read.
        Err(InputError::ChangeUnderWay.into())
    }
}
