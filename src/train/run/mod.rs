//! The course of a run: joint epochs, then the tree alone, with checkpoints in between.

use std::path::PathBuf;
use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::checkpoint::{self, Identity, Phase, RngState, State, Tensors};
use super::config::{Init, TrainConfig};
use super::error::TrainError;
use super::finish::Beginning;
use super::indexer::TrainableIndexer;
use super::init;
use super::optimizer::{AdamW, Group, Parameter};
use super::parameters::{self, Weights};
use super::refresh::{Embedded, Refresher, Snapshot};
use super::report::{DevFigures, EpochReport, MovedTensor, TrainEvent};
use super::step::StepContext;
use crate::error::{Error, Result};
use crate::model::ModelError;
use crate::progress::OnProgress;

mod indexer_phase;
mod joint;

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
            self.tensors.at_start = parameters::copy(self.context.head.parameters()).map_err(tensor_error)?;
        }
        // The encoder started where the run did, a tree for good only now.
        let encoder: Vec<&str> = self.context.head.parameters().iter().map(|p| p.name.as_str()).collect();
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
        let mut all = self.context.head.parameters().to_vec();
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

/// The generator that a run begins with.
pub(crate) fn generator(config: &TrainConfig) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(config.seed)
}
