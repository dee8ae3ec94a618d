//! Learning from use: trains on the judgments of an index, and switches to the new model if it gives better
//! searches on held-out questions.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use super::judged::{Judged, LearnOptions};
use super::outcome::{Decision, Learned, Learning, Noted, noted};
use super::tree::TuneOptions;
use crate::disk::names;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::index::{ActiveModel, Index, LearnedFusion, WithProgress, WithoutText};
use crate::judgment::{Judgment, now};
use crate::model::Bundle;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::train::policy::LEARN;
use crate::train::{FEWEST_QUERIES, TrainConfig, TrainError, Trainer, TrainingSet, is_held_out};

/// Learnings that are recorded, so that none is repeated.
const KNOWN_LEARNINGS: usize = 64;

/// The data available to a learning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Learnable {
    /// Questions to learn from.
    pub questions: usize,
    /// Held-out questions to measure with.
    pub held_out: usize,
    /// The smallest gain in nDCG@10 that this number of questions usually shows; `None` without held-out
    /// questions.
    pub can_show: Option<f64>,
    /// The same in one sentence.
    pub sentence: String,
}

impl Index {
    /// The last learnings that trained, at most 64, newest first.
    ///
    /// # Errors
    /// Failures of reading the judgments.
    pub fn learnings(&self) -> Result<Vec<Learning>> {
        Ok(noted(self.learned_from()?.and_then(|(_, more)| more)))
    }

    /// The data that [`Self::learn`] would learn from, and the gain needed for its questions to show it. Does
    /// not train.
    ///
    /// # Errors
    /// Those of [`Self::learn`] for the options; failures of reading.
    pub fn learnable(&self, options: &LearnOptions) -> Result<Learnable> {
        options.checked_config()?;
        let judged = Judged::of(self.judgments()?, self.half_life()?, options, |id| self.contains(id))?;
        let (held_out, questions) = judged.split(is_held_out);
        let can_show = (held_out > 0).then(|| LEARN.can_show(held_out));
        let sentence = match can_show {
            Some(points) if held_out >= FEWEST_QUERIES => format!(
                "judged questions to learn from: {questions}, set aside to measure with: {held_out}, which show a \
                 gain of about {:.0} points of nDCG@10 or more; judge more questions to show a smaller one",
                100.0 * points
            ),
            _ => format!(
                "judged questions to learn from: {questions}, set aside to measure with: {held_out}, of which \
                 {FEWEST_QUERIES} are needed to show anything"
            ),
        };
        Ok(Learnable { questions, held_out, can_show, sentence })
    }

    /// Trains encoder and tree further on the judgments stored here ([`Self::record`]), makes a query
    /// encoder, fits the weight of words, and switches to all of them if they make default searches better.
    ///
    /// Default searches are measured before and after on held-out judged questions, each time with the
    /// question encoder and the weight of words in service. They are better if nDCG@10 rises by
    /// [`SMALLEST_GAIN`](crate::train::SMALLEST_GAIN) or more, significant by two tests at
    /// [`SIGNIFICANCE_LEVEL`](crate::train::SIGNIFICANCE_LEVEL), recall@10 does not fall by as much, nDCG@10
    /// with the judgments of other questions does not fall significantly by as much and, in an index large
    /// enough for searches to use the tree, the tree loses nothing against k-means. Otherwise the index is
    /// unchanged, unless [`LearnOptions::accept`] is set.
    ///
    /// With too few judgments for a training, a tree is made if one is due ([`Self::tuning_due`]), and the
    /// weight of words is fitted if there are enough judgments for that ([`Self::fuse`]).
    ///
    /// Training starts from the model in service, so this may be called repeatedly; without new judgments it
    /// does nothing. Searches and writes continue meanwhile, as with [`Self::reencode`], and
    /// [`Self::rollback`] undoes the change. Judgments of documents that the index does not hold are counted
    /// and skipped. A judgment of grade 0 or less removes a pair given for the same question and document.
    /// Old judgments count less if there is a half-life ([`Self::set_half_life`]).
    ///
    /// Costs a training and an encoding of all documents: a few minutes for 5,000 abstracts
    /// (`docs/lab/experiments.md`).
    ///
    /// # Errors
    /// Those of [`Self::record`] for the pairs given; [`TrainError`] for settings out of range;
    /// [`InputError::WithoutText`](crate::InputError::WithoutText) if documents have no text;
    /// [`InputError::NoEncoder`](crate::InputError::NoEncoder);
    /// [`InputError::ChangeUnderWay`](crate::InputError::ChangeUnderWay); those of [`Trainer::fit`] and
    /// [`Self::reencode`]. On error the index is unchanged.
    pub fn learn(&self, options: &LearnOptions) -> Result<Learned> {
        self.with_progress(no_progress).learn(options)
    }

    fn learn_alone(
        &self,
        options: &LearnOptions,
        choose: &mut dyn FnMut(&Learned) -> bool,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Learned> {
        self.check_writable()?;
        self.serving().model().encoder()?;
        let config = options.checked_config()?;
        // Held until the change is done, because it starts from the model in service.
        let _only = self.alone()?;
        // Until the judgments that were learned from are noted, and so that before and after are measured
        // with the same weights.
        let _paused = self.pause_fits();
        self.clear_begun()?;
        let output = self.path().join(names::TRAINED);
        let mut replaced = None;
        // Training takes long and writes into the directory at its end, so the directory is checked
        // meanwhile.
        let mut watched = |progress| match self.check_place() {
            Ok(()) => on_progress(progress),
            Err(error) => {
                replaced = Some(error);
                ControlFlow::Break(())
            }
        };
        let learned = self.learn_into(&output, options, config, choose, &mut watched);
        if let Some(error) = replaced {
            return Err(error);
        }
        // The new model is in service or the index is unchanged; either way the bundle is not needed.
        self.discard_begun();
        learned
    }

    fn learn_into(
        &self,
        output: &Path,
        options: &LearnOptions,
        config: TrainConfig,
        choose: &mut dyn FnMut(&Learned) -> bool,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Learned> {
        let documents = self.iter().collect::<Result<Vec<Document>>>()?;
        if config.trains_encoder() {
            WithoutText::of(&documents).refuse(true)?;
        }
        let ids: HashSet<&str> = documents.iter().map(|own| own.id.as_str()).collect();
        let judged = Judged::of(self.judgments()?, self.half_life()?, options, |id| Ok(ids.contains(id)))?;
        let mut learned = Learned {
            pairs: judged.pairs.len(),
            without_document: judged.without_document,
            ..Learned::default()
        };
        let print = judged.fingerprint(&config)?;
        let (held_out, _) = judged.split(is_held_out);
        let set = match TrainingSet::of_index(self, documents, judged.pairs) {
            Err(Error::Train(TrainError::NoPairs)) => {
                learned.held_out = held_out;
                return self.learn_without_training(learned, output, options, on_progress);
            }
            set => set?,
        };
        (learned.learned, learned.held_out) = set.queries();
        learned.pairs = set.pairs();
        if learned.held_out < FEWEST_QUERIES && !options.accept {
            return self.learn_without_training(learned, output, options, on_progress);
        }
        let bundle = self.bundle();
        let from = with_encoder(&print, &bundle);
        let (known, more) = self.learned_from()?.unwrap_or_default();
        if known.lines().any(|line| line == from) {
            learned.decision = Decision::NothingNew;
            return Ok(learned.decided());
        }
        let aside = set.held_out();
        let before = self.served(&self.serving(), &aside, on_progress)?;
        let trainer = Trainer::builder().base(bundle.path()).output(output).config(config);
        let fitted = trainer.on_progress(&mut *on_progress).fit(&set)?;

        let mut check = |next: &ActiveModel, on_progress: &mut OnProgress<'_>| {
            learned.fusion = self.fuse_after(next, &aside, on_progress);
            let after = self.served(next, &aside, on_progress)?;
            learned.judge(&fitted.report.verdict, self.embeddings(), &before, &after);
            learned.query_encoder = fitted.bundle.query_encoder();
            let asked = learned.chosen(choose);
            // The callback may have cancelled. That is not a decision, so the same judgments can be learned
            // again.
            Progress::new(Stage::Evaluate, aside.len(), aside.len()).tell(on_progress, Error::Cancelled)?;
            Ok(asked)
        };
        let change = self.change_if(&fitted.bundle, &mut check, on_progress)?;
        learned.change = change;
        // Also recorded for the previous encoder, so that the same judgments do not undo a rollback.
        let mut lines = vec![from, with_encoder(&print, &self.bundle())];
        lines.dedup();
        lines.extend(known.lines().take(KNOWN_LEARNINGS).map(str::to_owned));
        let learned = learned.decided();
        let own = Learning { time: now(), decision: learned.decision, sentence: learned.sentence.clone() };
        let mut learnings = noted(more);
        learnings.insert(0, own);
        if learnings.len() > KNOWN_LEARNINGS {
            // Those that changed the encoder say that it has learned.
            let oldest = learnings.iter().rposition(|own| !own.decision.changes_encoder());
            learnings.remove(oldest.unwrap_or(KNOWN_LEARNINGS));
        }
        let noted = serde_json::to_value(Noted { learnings }).unwrap_or_default();
        let recorded = self.set_learned_from(&lines.join("\n"), noted);
        self.attempted(recorded, "the learning could not be recorded; the next one repeats it");
        Ok(learned)
    }

    /// The fallback with too few judgments for a training: a tree if one is due, and the weight of words.
    fn learn_without_training(
        &self,
        mut learned: Learned,
        output: &Path,
        options: &LearnOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Learned> {
        if self.tuning_due()?.is_some() {
            learned.tree = Some(self.tune_into(output, true, &TuneOptions::default(), on_progress)?);
            learned.change = learned.tree.as_ref().and_then(|tree| tree.change);
        }
        if self.is_lexical() {
            learned.fusion = self.fuse_on(&options.pairs, on_progress)?.fusion;
        }
        Ok(learned.decided())
    }

    /// Fits the weights of words and judgments for new embeddings; with too few questions, the new model
    /// takes over those of the current one, and is compared with these. The change is kept even if this
    /// fails.
    fn fuse_after(
        &self,
        next: &ActiveModel,
        aside: &[Judgment],
        on_progress: &mut OnProgress<'_>,
    ) -> Option<LearnedFusion> {
        if !self.is_lexical() {
            return None;
        }
        let fused = self.fit_next(next, aside, on_progress);
        let fusion = self.attempted(fused, "the weights were not learned; `ehi fuse` learns them");
        let fusion = fusion.and_then(|fused| fused.fusion);
        // The query encoder is another one.
        let taken_over = || Some(LearnedFusion { of_previous_model: true, fast: None, ..self.fusion()? });
        fusion.clone().or_else(taken_over).into_iter().for_each(|fusion| next.put_learned_fusion(fusion));
        fusion
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::learn`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::learn`], and [`Error::Cancelled`].
    pub fn learn(mut self, options: &LearnOptions) -> Result<Learned> {
        let (index, on_progress) = self.parts();
        index.learn_alone(options, &mut by_verdict(options), on_progress)
    }

    /// As [`Self::learn`], but `choose` decides whether the index switches to the new model, for instance by
    /// asking a user. It is called once if a model was trained, with the measurements and with the
    /// recommended `decision` and `sentence`. Until it returns, no other training or change of model can
    /// start; searches and writes continue.
    ///
    /// # Errors
    /// Those of [`Self::learn`].
    pub fn learn_if(
        mut self,
        options: &LearnOptions,
        mut choose: impl FnMut(&Learned) -> bool,
    ) -> Result<Learned> {
        let (index, on_progress) = self.parts();
        index.learn_alone(options, &mut choose, on_progress)
    }
}

fn by_verdict(options: &LearnOptions) -> impl FnMut(&Learned) -> bool + use<> {
    let accept = options.accept;
    move |learned| accept || learned.decision == Decision::Changed
}

/// A fingerprint of judgments together with the encoder that was trained on them.
fn with_encoder(print: &str, bundle: &Bundle) -> String {
    format!("{print} {}", bundle.encoder_digest())
}
