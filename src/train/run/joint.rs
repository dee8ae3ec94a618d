//! The joint phase: Algorithm 1, its refreshes and early stopping.

use std::ops::ControlFlow;
use std::thread;
use std::time::Instant;

use super::{Run, tensor_error};
use crate::error::{Error, Result};
use crate::progress::{Progress, Stage};
use crate::train::balance::LoadReport;
use crate::train::batch::{Ahead, Prepared};
use crate::train::checkpoint::RngState;
use crate::train::dev;
use crate::train::error::TrainError;
use crate::train::optimizer::{AdamW, Gradients, Group, Parameter};
use crate::train::parameters::{self, Weights};
use crate::train::refresh::{Embedded, Snapshot};
use crate::train::report::{DevFigures, EarlyStop, EpochReport, LossParts, TrainEvent};
use crate::train::sampler::Sampler;
use crate::train::schedule;

/// Visited fraction at which early stopping compares recall@100.
const COMPARED_AT: f64 = 0.1;

/// How far the joint phase is, and how fast.
struct Pace {
    steps: usize,
    /// Steps that an earlier part of the run took.
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
    /// In an earlier part of the run.
    seconds_before: f64,
}

impl Run<'_, '_, '_> {
    /// Algorithm 1: encoder and tree together.
    pub(super) fn joint(
        &mut self,
        base: Embedded,
        mut snapshot: Option<Snapshot>,
        moments: Option<(Weights, Weights)>,
    ) -> Result<()> {
        let _span = tracing::info_span!("train_joint", epochs = self.config.epochs).entered();
        let config = self.config;
        let head = self.context.head.parameters().to_vec();
        let groups = vec![
            Group {
                parameters: head,
                learning_rate: config.encoder_learning_rate,
                weight_decay: config.weight_decay,
            },
            Group {
                parameters: self.context.indexer.parameters(),
                learning_rate: config.indexer_learning_rate,
                weight_decay: 0.0,
            },
        ];
        let mut optimizer = self.optimizer(groups, moments)?;
        // The first refresh takes it, so that it is not worked out twice.
        let mut base = Some(base);
        let sampler = Sampler::new(self.context.texts, config);
        let mut pace = Pace {
            steps: sampler.steps() * config.epochs,
            first_step: self.state.step,
            began: Instant::now(),
            pairs: 0,
        };
        while self.state.epoch < config.epochs {
            let epoch_started = Instant::now();
            if self.state.step_in_epoch == 0 {
                if self.state.epoch.is_multiple_of(config.refresh_interval) {
                    snapshot = Some(self.refresh(base.take(), &optimizer)?);
                    if self.state.stopped_early.is_some() {
                        return Ok(());
                    }
                }
                self.state.rng_at_epoch = RngState::of(&self.rng);
                self.state.sums = EpochReport::default();
            }
            let Some(snapshot) = &snapshot else {
                return Err(tensor_error(candle_core::Error::Msg("no refresh before an epoch".into())));
            };
            // The batches of an epoch follow from the generator as it began; where the epoch goes
            // on from a checkpoint, the generator is then put back to the step.
            let here = self.rng.clone();
            let mut epoch_rng = self.generator(&self.state.rng_at_epoch)?;
            let batches = sampler.epoch(self.context.texts, &mut epoch_rng);
            self.rng = if self.state.step_in_epoch == 0 { epoch_rng } else { here };
            let (left, context, rng) = (&batches[self.state.step_in_epoch..], self.context, self.rng.clone());
            let clock = EpochClock {
                steps: batches.len(),
                started: epoch_started,
                seconds_before: self.state.sums.seconds,
            };
            thread::scope(|scope| {
                let ahead = Ahead::start(scope, context, snapshot, left, rng);
                left.iter().try_for_each(|batch| {
                    pace.pairs += batch.queries.len();
                    self.step(ahead.next()?, &mut optimizer, &pace, &clock)
                })
            })?;
        }
        Ok(())
    }

    /// One step of both optimiser groups, its place in the report, and a checkpoint where one is due.
    fn step(
        &mut self,
        batch: Prepared,
        optimizer: &mut AdamW,
        pace: &Pace,
        clock: &EpochClock,
    ) -> Result<()> {
        let (config, step) = (self.config, self.state.step);
        self.rng = batch.rng.clone();
        let (parts, mut gradients) = self.context.step(batch, step)?;
        if step == 0 {
            check_gradients(optimizer, &gradients)?;
        }
        let most = if config.gradient_clip > 0.0 { config.gradient_clip } else { f64::INFINITY };
        let gradient_norm = gradients.clip(most).map_err(tensor_error)?;
        let factor = schedule::factor(config, step, pace.steps);
        optimizer.step(&gradients, factor).map_err(tensor_error)?;
        self.state.sums.add(&parts, 1.0 / clock.steps as f64);
        self.state.step += 1;
        self.state.step_in_epoch += 1;
        (self.on_event)(&pace.event(self.state.step, parts, gradient_norm, factor));
        self.state.sums.seconds = clock.seconds_before + clock.started.elapsed().as_secs_f64();
        if self.state.step_in_epoch == clock.steps {
            self.state.epoch += 1;
            self.state.step_in_epoch = 0;
            let epoch = EpochReport { epoch: self.state.epoch, ..self.state.sums };
            self.state.epochs.push(epoch);
            (self.on_event)(&TrainEvent::Epoch(epoch));
        }
        let progress = Progress::new(Stage::Train, self.state.step, pace.steps);
        let cancelled = (self.on_progress)(progress) == ControlFlow::Break(());
        let due = self.checkpoints.as_ref().is_some_and(|c| self.state.step.is_multiple_of(c.steps));
        if due || cancelled {
            self.checkpoint(optimizer)?;
        }
        if cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// A refresh between two epochs, with the figures that early stopping watches.
    fn refresh(&mut self, base: Option<Embedded>, optimizer: &AdamW) -> Result<Snapshot> {
        let _span = tracing::info_span!("train_refresh").entered();
        let all = self.parameters();
        let began = Instant::now();
        self.tensors.at_refresh = parameters::copy(&all).map_err(tensor_error)?;
        self.state.rng_at_refresh = RngState::of(&self.rng);
        let before = self.rng.clone();
        let unlabelled = self.distils_unlabelled();
        let refreshed = match base {
            Some(base) if self.state.epoch == 0 => {
                self.refresher.refresh_from(base, unlabelled, &mut self.rng)
            }
            _ => self.refresher.refresh(unlabelled, &mut self.rng, self.on_progress),
        };
        if matches!(refreshed, Err(Error::Cancelled)) {
            self.rng = before;
            self.checkpoint(optimizer)?;
        }
        let snapshot = refreshed?;
        let figures = dev::figures(&snapshot, self.context.texts)?;
        if self.state.epoch == 0 {
            self.state.before = figures.clone();
        }
        self.state.loads.push(LoadReport::new(self.state.epoch, &figures));
        self.watch(&figures, &all)?;
        let seconds = began.elapsed().as_secs_f64();
        (self.on_event)(&TrainEvent::Refreshed { epochs: self.state.epoch, figures, seconds });
        Ok(snapshot)
    }

    /// Early stopping: keeps the best weights, and goes back to them when patience is out.
    fn watch(&mut self, figures: &DevFigures, all: &[Parameter]) -> Result<()> {
        let patience = self.config.early_stopping_patience;
        let Some(now) = figures.watched(COMPARED_AT).filter(|_| patience > 0) else {
            return Ok(());
        };
        match self.state.best {
            Some((best, best_after)) if now <= best => {
                self.state.refreshes_without_better += 1;
                if self.state.refreshes_without_better >= patience {
                    let stop = EarlyStop { stopped_after: self.state.epoch, best_after };
                    parameters::restore(all, &self.tensors.best).map_err(tensor_error)?;
                    self.state.stopped_early = Some(stop);
                    (self.on_event)(&TrainEvent::StoppedEarly(stop));
                }
            }
            _ => {
                self.state.best = Some((now, self.state.epoch));
                self.state.refreshes_without_better = 0;
                self.tensors.best = parameters::copy(all).map_err(tensor_error)?;
            }
        }
        Ok(())
    }
}

/// Every trainable tensor must have a gradient: candle drops gradients without a word.
fn check_gradients(optimizer: &AdamW, gradients: &Gradients) -> Result<()> {
    match optimizer.parameters().find(|p| gradients.get(p).is_none()) {
        Some(Parameter { name, .. }) => Err(TrainError::NoGradient { tensor: name.clone() }.into()),
        None => Ok(()),
    }
}
