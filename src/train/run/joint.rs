//! The joint phase: Algorithm 1 and its refreshes.

use std::ops::ControlFlow;
use std::thread;
use std::time::Instant;

use super::TrainingRun;
use super::phase::Phase;
use crate::error::{Error, Result};
use crate::progress::{Progress, Stage};
use crate::train::batch::{Prepared, prepare_ahead};
use crate::train::checkpoint::RngState;
use crate::train::error::tensor_error;
use crate::train::inputs::EncoderInputs;
use crate::train::refresh::{Embedded, Snapshot};
use crate::train::report::{EpochReport, LossParts, TrainEvent};
use crate::train::sampler::Sampler;

/// Progress and speed of the joint phase.
struct Pace {
    steps: usize,
    /// Steps of the run before it was resumed.
    first_step: usize,
    began: Instant,
    pairs: usize,
}

impl Pace {
    fn event(&self, step: usize, losses: LossParts, gradient_norm: f64, factor: f64) -> TrainEvent {
        let seconds = self.began.elapsed().as_secs_f64();
        let per_step = seconds / (step - self.first_step) as f64;
        TrainEvent::Step {
            step,
            steps: self.steps,
            losses,
            gradient_norm,
            learning_rate_factor: factor,
            pairs_per_second: self.pairs as f64 / seconds,
            seconds_left: per_step * (self.steps - step) as f64,
        }
    }
}

/// An epoch's steps, and the time it has taken.
struct EpochClock {
    steps: usize,
    started: Instant,
    /// Seconds before the run was resumed.
    seconds_before: f64,
}

impl TrainingRun<'_, '_> {
    /// Algorithm 1: trains encoder and tree together.
    pub(super) fn joint(
        &mut self,
        phase: &mut Phase<'_>,
        encoder: EncoderInputs<'_>,
        base: Embedded,
        mut snapshot: Option<Snapshot>,
    ) -> Result<()> {
        let settings = &self.inputs.config.schedule;
        let _span = tracing::info_span!("train_joint", epochs = settings.epochs).entered();
        // Taken by the first refresh, so that it is not computed twice.
        let mut base = Some(base);
        let sampler = Sampler::new(self.inputs.texts, settings);
        let mut pace = Pace {
            steps: phase.schedule.steps,
            first_step: self.state.step,
            began: Instant::now(),
            pairs: 0,
        };
        while self.state.epoch < settings.epochs {
            let epoch_started = Instant::now();
            if self.state.step_in_epoch == 0 {
                if self.state.epoch.is_multiple_of(settings.refresh_interval) {
                    snapshot = Some(self.refresh(phase, base.take())?);
                }
                self.state.rng_at_epoch = RngState::of(&self.rng);
                self.state.sums = EpochReport::default();
            }
            let Some(snapshot) = &snapshot else {
                return Err(tensor_error(candle_core::Error::Msg("no refresh before an epoch".into())));
            };
            // The batches of an epoch depend on the generator at its start. If the epoch resumes from a
            // checkpoint, the generator is then set to the state of that step.
            let here = self.rng.clone();
            let mut epoch_rng = self.generator(&self.state.rng_at_epoch)?;
            let batches = sampler.epoch(&mut epoch_rng);
            self.rng = if self.state.step_in_epoch == 0 { epoch_rng } else { here };
            let (left, rng) = (&batches[self.state.step_in_epoch..], self.rng.clone());
            let inputs = (self.inputs, encoder);
            let clock = EpochClock {
                steps: batches.len(),
                started: epoch_started,
                seconds_before: self.state.sums.seconds,
            };
            thread::scope(|scope| {
                let ahead = prepare_ahead(scope, inputs, snapshot, left, rng);
                left.iter().zip(ahead).try_for_each(|(batch, prepared)| {
                    pace.pairs += batch.queries.len();
                    self.step(phase, encoder, prepared?, (&pace, &clock))
                })
            })?;
        }
        Ok(())
    }

    /// One step of both optimiser groups, with its report, and a checkpoint if one is due.
    fn step(
        &mut self,
        phase: &mut Phase<'_>,
        encoder: EncoderInputs<'_>,
        batch: Prepared,
        (pace, clock): (&Pace, &EpochClock),
    ) -> Result<()> {
        let step = self.state.step;
        self.rng = batch.rng.clone();
        let (parts, gradients) = self.inputs.step(encoder, phase.tree, batch, step)?;
        if step == 0 {
            phase.optimizer.check(&gradients)?;
        }
        let gradient_norm = gradients.norm().map_err(tensor_error)?;
        let factor = phase.descend(&gradients, step)?;
        self.state.sums.losses.add(&parts, 1.0 / clock.steps as f64);
        self.state.step += 1;
        self.state.step_in_epoch += 1;
        (self.listeners.on_event)(&pace.event(self.state.step, parts, gradient_norm, factor));
        self.state.sums.seconds = clock.seconds_before + clock.started.elapsed().as_secs_f64();
        if self.state.step_in_epoch == clock.steps {
            self.state.epoch += 1;
            self.state.step_in_epoch = 0;
            let epoch = EpochReport { epoch: self.state.epoch, ..self.state.sums };
            self.state.epochs.push(epoch);
            (self.listeners.on_event)(&TrainEvent::Epoch(epoch));
        }
        let progress = Progress::new(Stage::Train, self.state.step, pace.steps);
        let cancelled = (self.listeners.on_progress)(progress) == ControlFlow::Break(());
        let due = self.checkpoints.as_ref().is_some_and(|c| self.state.step.is_multiple_of(c.steps));
        if due || cancelled {
            self.checkpoint(phase)?;
        }
        if cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A refresh between two epochs.
    fn refresh(&mut self, phase: &Phase<'_>, base: Option<Embedded>) -> Result<Snapshot> {
        let _span = tracing::info_span!("train_refresh").entered();
        let began = Instant::now();
        self.keep_refresh(phase)?;
        let before = self.rng.clone();
        let embedded = match base {
            Some(base) if self.state.epoch == 0 => Ok(base),
            _ => self.embed(),
        };
        let refreshed = embedded.and_then(|embedded| self.snapshot(phase, embedded));
        if matches!(refreshed, Err(Error::Cancelled)) {
            self.rng = before;
            self.checkpoint(phase)?;
        }
        let snapshot = refreshed?;
        let figures = self.figures(&snapshot, self.state.epoch)?;
        let seconds = began.elapsed().as_secs_f64();
        (self.listeners.on_event)(&TrainEvent::Refreshed { epochs: self.state.epoch, figures, seconds });
        Ok(snapshot)
    }
}
