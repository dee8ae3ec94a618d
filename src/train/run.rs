//! The course of a run: joint epochs, then the tree alone, with checkpoints in between.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use candle_core::Tensor;

use super::checkpoint::{self, Identity, Phase, RngState, State, Tensors};
use super::config::TrainConfig;
use super::ending::Beginning;
use super::error::TrainError;
use super::indexer::TrainableIndexer;
use super::init;
use super::load::LoadReport;
use super::losses;
use super::optimizer::{AdamW, Gradients, Group, Parameter};
use super::parameters::{self, Weights};
use super::refresh::{Embedded, Refresher, Snapshot};
use super::report::{
    DevFigures, EarlyStop, EpochReport, IndexerEpochReport, LossParts, MovedTensor, TrainEvent,
};
use super::sampler::Sampler;
use super::schedule;
use super::step::{Distillation, StepContext};
use super::{config::Init, dev};
use crate::error::{Error, Result};
use crate::model::ModelError;
use crate::progress::{OnProgress, Progress, Stage};

/// Where and how often checkpoints are written.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints {
    pub dir: PathBuf,
    /// Optimiser steps between two; a cancelled run leaves one as well.
    pub steps: usize,
    /// Go on from the one that is there.
    pub resume: bool,
}

/// The borrowed parts of a run and everything that changes in it.
pub(crate) struct Run<'a, 'p, 'e> {
    pub config: &'a TrainConfig,
    pub refresher: Refresher<'a>,
    pub context: StepContext<'a>,
    /// The tree for good, where the joint phase trains a coarser one.
    indexer: &'a TrainableIndexer,
    pub checkpoints: Option<Checkpoints>,
    pub on_progress: &'a mut OnProgress<'p>,
    pub on_event: &'a mut (dyn FnMut(&TrainEvent) + 'e),
    rng: ChaCha8Rng,
    state: State,
    tensors: Tensors,
    started: Instant,
}

/// What a finished run leaves to be reported and written.
pub(crate) struct Outcome {
    pub state: State,
    pub moved: Vec<MovedTensor>,
    pub last: Snapshot,
    pub beginning: Beginning,
    pub seconds: f64,
}

/// Texts in a batch of the phase that trains the tree alone.
const INDEXER_BATCH: usize = 512;
/// Visited fraction at which early stopping compares recall@100.
const COMPARED_AT: f64 = 0.1;

fn tensor_error(e: candle_core::Error) -> Error {
    ModelError::from(e).into()
}

impl<'a, 'p, 'e> Run<'a, 'p, 'e> {
    #[allow(clippy::too_many_arguments, reason = "the parts of a run, named at the one call")]
    pub(crate) fn new(
        config: &'a TrainConfig,
        refresher: Refresher<'a>,
        context: StepContext<'a>,
        indexer: &'a TrainableIndexer,
        checkpoints: Option<Checkpoints>,
        identity: Identity,
        rng: ChaCha8Rng,
        on_progress: &'a mut OnProgress<'p>,
        on_event: &'a mut (dyn FnMut(&TrainEvent) + 'e),
    ) -> Self {
        let at = RngState::of(&rng);
        let state = State {
            format: 0,
            identity,
            phase: Phase::Joint,
            epoch: 0,
            step_in_epoch: 0,
            step: 0,
            optimizer_step: 0,
            rng: at.clone(),
            rng_at_refresh: at.clone(),
            rng_at_epoch: at,
            seconds: 0.0,
            before: DevFigures::default(),
            epochs: Vec::new(),
            sums: EpochReport::default(),
            indexer_epochs: Vec::new(),
            best: None,
            loads: Vec::new(),
            refreshes_without_better: 0,
            stopped_early: None,
            checksum: 0,
        };
        let (tensors, started) = (Tensors::default(), Instant::now());
        Self {
            config,
            refresher,
            context,
            indexer,
            checkpoints,
            on_progress,
            on_event,
            rng,
            state,
            tensors,
            started,
        }
    }

    /// Trains from the start or from a checkpoint to the end.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let base = self.refresher.embed(self.on_progress)?;
        let stored = match &self.checkpoints {
            Some(own) if own.resume => checkpoint::read(&own.dir, &self.state.identity)?,
            _ => None,
        };
        let beginning = Beginning::of(&base, self.context.texts);
        let mut snapshot = None;
        let mut moments = None;
        match stored {
            None => self.start_tree(&base)?,
            Some((state, tensors)) => {
                let event = TrainEvent::Resumed { epochs: state.epoch, step: state.step };
                self.state = state;
                self.tensors = tensors;
                if self.state.phase == Phase::Indexer {
                    self.take_tree_for_good();
                }
                let all = self.parameters();
                let refreshes_next = self.state.phase == Phase::Joint
                    && self.state.step_in_epoch == 0
                    && self.state.epoch.is_multiple_of(self.config.refresh_interval);
                if !refreshes_next {
                    parameters::restore(&all, &self.tensors.at_refresh).map_err(tensor_error)?;
                    self.rng = self.generator(&self.state.rng_at_refresh)?;
                    let unlabelled = self.distils_unlabelled();
                    snapshot = Some(self.refresher.refresh(unlabelled, &mut self.rng, self.on_progress)?);
                }
                parameters::restore(&all, &self.tensors.now).map_err(tensor_error)?;
                self.rng = self.generator(&self.state.rng)?;
                moments = Some((
                    std::mem::take(&mut self.tensors.first_moment),
                    std::mem::take(&mut self.tensors.second_moment),
                ));
                (self.on_event)(&event);
            }
        }
        if self.state.phase == Phase::Joint {
            self.joint(base, snapshot.take(), moments.take())?;
            self.state.phase = Phase::Indexer;
            (self.state.epoch, self.state.step_in_epoch) = (0, 0);
        }
        let last = self.indexer_alone(snapshot, moments)?;
        let moved = self.check_moved(&self.parameters())?;
        let seconds = self.seconds();
        Ok(Outcome { state: self.state, moved, last, beginning, seconds })
    }

    /// Starts the tree of the moment from the document embeddings, and notes where it started.
    fn start_tree(&mut self, embedded: &Embedded) -> Result<()> {
        if self.config.init == Init::KMeans {
            let (rows, dim) = (&embedded.documents, embedded.dim);
            init::from_kmeans(self.context.indexer, rows, dim, &mut self.rng, self.on_progress)?;
        }
        let tree = parameters::copy(&self.context.indexer.parameters()).map_err(tensor_error)?;
        if self.tensors.at_start.is_empty() {
            self.tensors.at_start = parameters::copy(self.context.tail.parameters()).map_err(tensor_error)?;
        }
        // The encoder started where the run did, a tree for good only now.
        let encoder: Vec<&str> = self.context.tail.parameters().iter().map(|p| p.name.as_str()).collect();
        self.tensors.at_start.retain(|name, _| encoder.contains(&name.as_str()));
        self.tensors.at_start.extend(tree);
        Ok(())
    }

    /// Whether the joint phase trains a coarser tree than that for good.
    fn is_coarse(&self) -> bool {
        !std::ptr::eq(self.context.indexer, self.indexer)
    }

    fn take_tree_for_good(&mut self) {
        self.context.indexer = self.indexer;
        self.refresher.indexer = self.indexer;
        // They were of the other tree.
        self.tensors.best.clear();
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.context.tail.parameters().to_vec();
        all.extend(self.context.indexer.parameters());
        all
    }

    fn seconds(&self) -> f64 {
        self.state.seconds + self.started.elapsed().as_secs_f64()
    }

    fn generator(&self, state: &RngState) -> Result<ChaCha8Rng> {
        let path = self.checkpoints.as_ref().map(|c| c.dir.clone()).unwrap_or_default();
        let detail = "its random generator cannot be restored".to_owned();
        Ok(state.restore().ok_or(TrainError::Checkpoint { path, detail })?)
    }

    /// Whether this phase distils other texts than the training queries.
    fn distils_unlabelled(&self) -> bool {
        match self.state.phase {
            Phase::Joint => self.config.distilled_texts_per_step > 0,
            Phase::Indexer => self.config.indexer_epochs > 0,
        }
    }

    /// AdamW over some groups, with the moments of a checkpoint if there are any.
    fn optimizer(&self, groups: Vec<Group>, moments: Option<(Weights, Weights)>) -> Result<AdamW> {
        let mut optimizer = AdamW::new(groups).map_err(tensor_error)?;
        if let Some((first, second)) = moments {
            optimizer.restore(self.state.optimizer_step, |parameter| {
                let device = parameter.var.device();
                let own = |weights: &Weights| weights.get(&parameter.name)?.to_device(device).ok();
                Some((own(&first)?, own(&second)?))
            });
        }
        Ok(optimizer)
    }

    /// Algorithm 1: encoder and tree together.
    fn joint(
        &mut self,
        base: Embedded,
        mut snapshot: Option<Snapshot>,
        moments: Option<(Weights, Weights)>,
    ) -> Result<()> {
        let config = self.config;
        let tail = self.context.tail.parameters().to_vec();
        let groups = vec![
            Group {
                parameters: tail,
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
        let total = sampler.steps() * config.epochs;
        let (began, first_step, mut pairs) = (Instant::now(), self.state.step, 0);
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
            let before_epoch = self.state.sums.seconds;
            let Some(snapshot) = &snapshot else {
                return Err(tensor_error(candle_core::Error::Msg("no refresh before an epoch".into())));
            };
            // The batches of an epoch follow from the generator as it began; where the epoch goes
            // on from a checkpoint, the generator is then put back to the step.
            let here = self.rng.clone();
            let mut epoch_rng = self.generator(&self.state.rng_at_epoch)?;
            let batches = sampler.epoch(self.context.texts, &mut epoch_rng);
            self.rng = if self.state.step_in_epoch == 0 { epoch_rng } else { here };
            for batch in &batches[self.state.step_in_epoch..] {
                let step = self.state.step;
                let (parts, mut gradients) = self.context.step(batch, snapshot, step, &mut self.rng)?;
                if step == 0 {
                    check_gradients(&optimizer, &gradients)?;
                }
                let most = if config.gradient_clip > 0.0 { config.gradient_clip } else { f64::INFINITY };
                let gradient_norm = gradients.clip(most).map_err(tensor_error)?;
                let factor = schedule::factor(config, step, total);
                optimizer.step(&gradients, factor).map_err(tensor_error)?;
                self.state.sums.add(&parts, 1.0 / batches.len() as f64);
                self.state.step += 1;
                self.state.step_in_epoch += 1;
                pairs += batch.queries.len();
                let per_step = began.elapsed().as_secs_f64() / (self.state.step - first_step) as f64;
                (self.on_event)(&TrainEvent::Step {
                    step: self.state.step,
                    steps: total,
                    losses: parts,
                    gradient_norm,
                    learning_rate_factor: factor,
                    pairs_per_second: pairs as f64 / began.elapsed().as_secs_f64(),
                    seconds_left: per_step * (total - self.state.step) as f64,
                });
                if self.state.step_in_epoch == batches.len() {
                    let mut epoch = self.state.sums;
                    self.state.epoch += 1;
                    self.state.step_in_epoch = 0;
                    epoch.epoch = self.state.epoch;
                    epoch.seconds = before_epoch + epoch_started.elapsed().as_secs_f64();
                    self.state.epochs.push(epoch);
                    (self.on_event)(&TrainEvent::Epoch(epoch));
                } else {
                    self.state.sums.seconds = before_epoch + epoch_started.elapsed().as_secs_f64();
                }
                let progress = Progress::new(Stage::Train, self.state.step, total);
                let cancelled = (self.on_progress)(progress) == ControlFlow::Break(());
                let due = self.checkpoints.as_ref().is_some_and(|c| self.state.step.is_multiple_of(c.steps));
                if due || cancelled {
                    self.checkpoint(&optimizer)?;
                }
                if cancelled {
                    return Err(Error::Cancelled);
                }
            }
        }
        Ok(())
    }

    /// A refresh between two epochs, with the figures that early stopping watches.
    fn refresh(&mut self, base: Option<Embedded>, optimizer: &AdamW) -> Result<Snapshot> {
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
        let Some(now) = figures.recall_at_100(COMPARED_AT).filter(|_| patience > 0) else {
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

    /// The tree alone, with the encoder as the joint phase left it: routing distillation and
    /// balance over the texts of one last refresh, the targets following the tree.
    fn indexer_alone(
        &mut self,
        snapshot: Option<Snapshot>,
        moments: Option<(Weights, Weights)>,
    ) -> Result<Snapshot> {
        let config = self.config;
        let resumed = snapshot.is_some();
        let mut snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => {
                let embedded = self.refresher.embed(self.on_progress)?;
                if self.is_coarse() {
                    self.take_tree_for_good();
                    self.start_tree(&embedded)?;
                }
                self.tensors.at_refresh = parameters::copy(&self.parameters()).map_err(tensor_error)?;
                self.state.rng_at_refresh = RngState::of(&self.rng);
                self.state.optimizer_step = 0;
                let began = Instant::now();
                let unlabelled = self.distils_unlabelled();
                let snapshot = self.refresher.refresh_from(embedded, unlabelled, &mut self.rng)?;
                let figures = dev::figures(&snapshot, self.context.texts)?;
                if config.epochs == 0 {
                    self.state.before = figures.clone();
                }
                let (epochs, seconds) = (self.state.epochs.len(), began.elapsed().as_secs_f64());
                self.state.loads.push(LoadReport::new(epochs, &figures));
                (self.on_event)(&TrainEvent::Refreshed { epochs, figures, seconds });
                snapshot
            }
        };
        let parameters = self.context.indexer.parameters();
        let group = Group {
            parameters: parameters.clone(),
            learning_rate: config.indexer_learning_rate,
            weight_decay: 0.0,
        };
        let mut optimizer = self.optimizer(vec![group], moments.filter(|_| resumed))?;
        let texts = snapshot.distilled.as_ref().map_or(0, |d| d.neighbours.texts.len());
        let per_epoch = texts.div_ceil(INDEXER_BATCH);
        let total = per_epoch * config.indexer_epochs;
        while self.state.epoch < config.indexer_epochs && texts > 0 {
            let began = Instant::now();
            self.refresher.reroute(&mut snapshot)?;
            let mut order: Vec<usize> = (0..texts).collect();
            order.shuffle(&mut self.rng);
            let mut epoch = IndexerEpochReport { epoch: self.state.epoch + 1, ..Default::default() };
            for (number, batch) in order.chunks(INDEXER_BATCH).enumerate() {
                let step = self.state.epoch * per_epoch + number;
                let (parts, gradients) = self.indexer_step(&snapshot, batch, &parameters, step)?;
                let factor = schedule::factor(config, step, total);
                optimizer.step(&gradients, factor).map_err(tensor_error)?;
                epoch.distillation += f64::from(parts.distillation) / per_epoch as f64;
                epoch.balance += f64::from(parts.balance) / per_epoch as f64;
                let progress = Progress::new(Stage::TrainIndexer, step + 1, total);
                if (self.on_progress)(progress) == ControlFlow::Break(()) {
                    // The last checkpoint stands: an epoch of this phase is short.
                    return Err(Error::Cancelled);
                }
            }
            epoch.seconds = began.elapsed().as_secs_f64();
            self.state.epoch += 1;
            self.state.indexer_epochs.push(epoch);
            (self.on_event)(&TrainEvent::IndexerEpoch(epoch));
            if self.checkpoints.is_some() {
                self.checkpoint(&optimizer)?;
            }
        }
        self.refresher.reroute(&mut snapshot)?;
        Ok(snapshot)
    }

    fn indexer_step(
        &self,
        snapshot: &Snapshot,
        batch: &[usize],
        parameters: &[Parameter],
        step: usize,
    ) -> Result<(LossParts, Gradients)> {
        let (indexer, weights) = (self.context.indexer, &self.config.loss_weights);
        let mut term = Distillation::default();
        let mut rows: Vec<f32> = Vec::new();
        if let Some(distilled) = &snapshot.distilled {
            for (row, &place) in (0u32..).zip(batch) {
                term.add(row, distilled.targets.of(place));
                let text = distilled.neighbours.texts[place];
                rows.extend(snapshot.embedded.rows().text(text));
            }
        }
        let run = || -> candle_core::Result<(LossParts, Gradients)> {
            let shape = (batch.len(), snapshot.embedded.dim);
            let unit = Tensor::from_vec(rows, shape, self.context.device)?;
            let distillation = self.context.distillation(&term, &unit)?;
            let balance = losses::balance(&indexer.paths(&unit)?.children)?;
            let total = ((&distillation * weights.distillation)? + (&balance * weights.balance)?)?;
            let mut gradients = Gradients::default();
            gradients.add(parameters, &total.backward()?)?;
            let parts = LossParts {
                total: total.to_scalar()?,
                distillation: distillation.to_scalar()?,
                balance: balance.to_scalar()?,
                ..LossParts::default()
            };
            Ok((parts, gradients))
        };
        let (parts, gradients) = run().map_err(tensor_error)?;
        match parts.first_non_finite() {
            Some((part, value)) => {
                Err(TrainError::NonFiniteLoss { part, value, step, batch: Vec::new() }.into())
            }
            None => Ok((parts, gradients)),
        }
    }

    fn checkpoint(&mut self, optimizer: &AdamW) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        let dir = own.dir.clone();
        let all = self.parameters();
        self.tensors.now = parameters::copy(&all).map_err(tensor_error)?;
        let (steps, moments) = optimizer.state();
        self.tensors.first_moment = moments.iter().map(|m| (m.0.to_owned(), m.1.clone())).collect();
        self.tensors.second_moment = moments.iter().map(|m| (m.0.to_owned(), m.2.clone())).collect();
        let mut state = self.state.clone();
        state.optimizer_step = steps;
        state.rng = RngState::of(&self.rng);
        state.seconds = self.seconds();
        checkpoint::write(&dir, &mut state, &self.tensors)?;
        (self.on_event)(&TrainEvent::Checkpoint { step: self.state.step });
        Ok(())
    }

    /// Every tensor that the run trained must have moved.
    fn check_moved(&self, all: &[Parameter]) -> Result<Vec<MovedTensor>> {
        let back_at_start = self.state.stopped_early.is_some_and(|stop| stop.best_after == 0);
        let joint = self.state.step > 0 && !back_at_start;
        let alone: Vec<String> =
            self.context.indexer.parameters().into_iter().map(|parameter| parameter.name).collect();
        let alone = if self.state.indexer_epochs.is_empty() { Vec::new() } else { alone };
        let moved = parameters::moved(all, &self.tensors.at_start).map_err(tensor_error)?;
        moved
            .into_iter()
            .filter(|(name, _)| joint || alone.contains(name))
            .map(|(name, relative_change)| match relative_change == 0.0 {
                true => Err(TrainError::NotTrained { tensor: name }.into()),
                false => Ok(MovedTensor { name, relative_change }),
            })
            .collect()
    }
}

/// Every trainable tensor must have a gradient: candle drops gradients without a word.
fn check_gradients(optimizer: &AdamW, gradients: &Gradients) -> Result<()> {
    match optimizer.parameters().find(|p| gradients.get(p).is_none()) {
        Some(Parameter { name, .. }) => Err(TrainError::NoGradient { tensor: name.clone() }.into()),
        None => Ok(()),
    }
}

/// The generator that a run begins with.
pub(crate) fn generator(config: &TrainConfig) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(config.seed)
}
