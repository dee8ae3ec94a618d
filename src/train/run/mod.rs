//! A run: joint epochs, then the tree alone, with checkpoints in between.

use std::path::PathBuf;
use std::time::Instant;

use rand_chacha::ChaCha8Rng;

use super::checkpoint::{self, Identity, RngState, State, Tensors};
use super::config::Init;
use super::dev;
use super::error::TrainError;
use super::finish::Beginning;
use super::init;
use super::inputs::Inputs;
use super::parameters;
use super::plan::PhaseName;
use super::refresh::{Embedded, Snapshot};
use super::report::{DevFigures, MovedTensor, TrainEvent};
use super::trees::Trees;
use crate::error::{Error, Result};
use crate::model::ModelError;
use crate::progress::OnProgress;
pub(crate) use phase::INDEXER_BATCH;
use phase::Phase;

mod indexer_phase;
mod joint;
mod phase;

/// Where and how often checkpoints are written.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints {
    pub dir: PathBuf,
    /// Optimiser steps between two; a cancelled run leaves one as well.
    pub steps: usize,
    /// Whether to resume from an existing checkpoint.
    pub resume: bool,
}

/// The initial state of a run.
pub(crate) struct Start<'a> {
    pub inputs: Inputs<'a>,
    pub trees: &'a Trees,
    pub checkpoints: Option<Checkpoints>,
    pub identity: Identity,
    pub rng: ChaCha8Rng,
    /// When the run began, before the texts went through the frozen layers.
    pub started: Instant,
}

/// Callbacks of a run.
pub(crate) struct Listeners<'a, 'p, 'e> {
    pub on_progress: &'a mut OnProgress<'p>,
    pub on_event: &'a mut (dyn FnMut(&TrainEvent) + 'e),
}

/// Inputs and state of a run, except the state of its phase.
pub(crate) struct Run<'a, 'p, 'e> {
    inputs: Inputs<'a>,
    trees: &'a Trees,
    checkpoints: Option<Checkpoints>,
    listeners: Listeners<'a, 'p, 'e>,
    rng: ChaCha8Rng,
    state: State,
    tensors: Tensors,
    started: Instant,
}

/// The outcome of a finished run, to be reported and written.
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
    pub(crate) fn new(start: Start<'a>, listeners: Listeners<'a, 'p, 'e>) -> Self {
        let Start { inputs, trees, checkpoints, identity, rng, started } = start;
        let state = State::new(identity, &rng);
        let tensors = Tensors::default();
        Self { inputs, trees, checkpoints, listeners, rng, state, tensors, started }
    }

    /// Trains from the start or from a checkpoint to the end.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let base = self.embed()?;
        let stored = match &self.checkpoints {
            Some(own) if own.resume => checkpoint::read(&own.dir, &self.state.identity)?,
            _ => None,
        };
        let beginning = Beginning::of(&base, self.inputs.texts);
        let (mut phase, mut snapshot) = match stored {
            None => {
                let phase = self.phase(PhaseName::Joint)?;
                self.start_tree(&phase, &base)?;
                (phase, None)
            }
            Some((state, tensors)) => self.resume(state, tensors)?,
        };
        if phase.name == PhaseName::Joint {
            self.joint(&mut phase, base, snapshot.take())?;
            phase = self.phase(PhaseName::Indexer)?;
            self.state.phase = phase.name;
            (self.state.epoch, self.state.step_in_epoch) = (0, 0);
        }
        let last = self.indexer_alone(&mut phase, snapshot)?;
        let moved = self.check_moved(&phase)?;
        let seconds = self.seconds();
        Ok(Outcome { state: self.state, moved, last, beginning, seconds })
    }

    fn phase(&self, name: PhaseName) -> Result<Phase<'a>> {
        Phase::new(&self.inputs, self.trees, name)
    }

    /// Restores the state of a checkpoint, and recomputes the last refresh unless the next step is a refresh.
    fn resume(&mut self, state: State, tensors: Tensors) -> Result<(Phase<'a>, Option<Snapshot>)> {
        (self.state, self.tensors) = (state, tensors);
        let mut phase = self.phase(self.state.phase)?;
        let refreshes_next = phase.name == PhaseName::Joint
            && self.state.step_in_epoch == 0
            && self.state.epoch.is_multiple_of(self.inputs.config.schedule.refresh_interval);
        let mut snapshot = None;
        if !refreshes_next {
            phase.restore(&self.tensors.at_refresh)?;
            self.rng = self.generator(&self.state.rng_at_refresh)?;
            let embedded = self.embed()?;
            snapshot = Some(self.snapshot(&phase, embedded)?);
        }
        phase.restore(&self.tensors.now)?;
        self.rng = self.generator(&self.state.rng)?;
        let [first, second] = [&mut self.tensors.first_moment, &mut self.tensors.second_moment];
        let (first, second) = (std::mem::take(first), std::mem::take(second));
        phase.restore_moments(self.state.optimizer_step, &first, &second);
        let (epochs, step) = (self.state.epoch, self.state.step);
        (self.listeners.on_event)(&TrainEvent::Resumed { epochs, step });
        Ok((phase, snapshot))
    }

    /// Computes all current embeddings.
    fn embed(&mut self) -> Result<Embedded> {
        Embedded::now(&self.inputs, self.listeners.on_progress)
    }

    fn snapshot(&mut self, phase: &Phase<'_>, embedded: Embedded) -> Result<Snapshot> {
        Snapshot::take(&self.inputs, phase.tree, phase.taught, embedded, &mut self.rng)
    }

    /// Stores the inputs of a refresh: the current weights and generator.
    fn keep_refresh(&mut self, phase: &Phase<'_>) -> Result<()> {
        self.tensors.at_refresh = phase.weights()?;
        self.state.rng_at_refresh = RngState::of(&self.rng);
        Ok(())
    }

    /// Computes and records the figures of a refresh after `epochs` epochs.
    fn figures(&mut self, snapshot: &Snapshot, epochs: usize) -> Result<DevFigures> {
        let figures = dev::figures(snapshot, self.inputs.texts)?;
        if epochs == 0 {
            self.state.before = figures.clone();
        }
        self.state.loads.push(figures.load(epochs));
        Ok(figures)
    }

    /// Initialises the tree of a phase from the document embeddings, and records its initial weights.
    fn start_tree(&mut self, phase: &Phase<'_>, embedded: &Embedded) -> Result<()> {
        if let Some(centroids) = self.inputs.centroids {
            phase.tree.set_centroids(centroids).map_err(tensor_error)?;
        } else if self.inputs.config.tree.init == Init::KMeans {
            let (rows, dim) = (&embedded.documents, embedded.dim);
            init::from_kmeans(phase.tree, rows, dim, &mut self.rng, self.listeners.on_progress)?;
        }
        let head = self.inputs.head.parameters();
        if self.tensors.at_start.is_empty() {
            self.tensors.at_start = parameters::copy(head).map_err(tensor_error)?;
        }
        // The encoder's initial weights are those of the run; the final tree's are those of now.
        self.tensors.at_start.retain(|name, _| head.iter().any(|parameter| parameter.name == *name));
        let tree = parameters::copy(&phase.tree.parameters()).map_err(tensor_error)?;
        self.tensors.at_start.extend(tree);
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.state.seconds + self.started.elapsed().as_secs_f64()
    }

    fn generator(&self, state: &RngState) -> Result<ChaCha8Rng> {
        let path = self.checkpoints.as_ref().map(|c| c.dir.clone()).unwrap_or_default();
        let detail = "its random generator cannot be restored".to_owned();
        Ok(state.restore().ok_or(TrainError::Checkpoint { path, detail })?)
    }

    fn checkpoint(&mut self, phase: &Phase<'_>) -> Result<()> {
        let Some(own) = &self.checkpoints else {
            return Ok(());
        };
        self.tensors.now = phase.weights()?;
        let (steps, moments) = phase.optimizer.state();
        self.tensors.first_moment = moments.iter().map(|m| (m.0.to_owned(), m.1.clone())).collect();
        self.tensors.second_moment = moments.iter().map(|m| (m.0.to_owned(), m.2.clone())).collect();
        let mut state = self.state.clone();
        state.optimizer_step = steps;
        state.rng = RngState::of(&self.rng);
        state.seconds = self.seconds();
        checkpoint::write(&own.dir, &mut state, &self.tensors)?;
        (self.listeners.on_event)(&TrainEvent::Checkpoint { step: self.state.step });
        Ok(())
    }

    /// Checks that every trained tensor has moved.
    fn check_moved(&self, last: &Phase<'_>) -> Result<Vec<MovedTensor>> {
        let back_at_start = self.state.stopped_early.is_some_and(|stop| stop.best_after == 0);
        let joint = self.state.step > 0 && !back_at_start;
        let alone = !self.state.indexer_epochs.is_empty();
        let tree = last.tree.parameters();
        let trained = |name: &str| joint || (alone && tree.iter().any(|parameter| parameter.name == name));
        let moved = parameters::moved(&last.parameters, &self.tensors.at_start).map_err(tensor_error)?;
        moved
            .into_iter()
            .filter(|(name, _)| trained(name))
            .map(|(name, relative_change)| match relative_change == 0.0 {
                true => Err(TrainError::NotTrained { tensor: name }.into()),
                false => Ok(MovedTensor { name, relative_change }),
            })
            .collect()
    }
}
