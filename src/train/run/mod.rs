//! A run: joint epochs, then the tree alone, with checkpoints in between.

use std::path::PathBuf;
use std::time::Instant;

use rand_chacha::ChaCha8Rng;

use super::checkpoint::{self, RngState, RunState, Tensors};
use super::config::Init;
use super::dev;
use super::error::{TrainError, tensor_error};
use super::init;
use super::inputs::{EmbeddedBy, Inputs};
use super::parameters;
use super::plan::PhaseName;
use super::refresh::{Embedded, Snapshot};
use super::report::{DevFigures, MovedTensor, TrainEvent};
use super::trees::Trees;
use crate::error::Result;
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

/// Callbacks of a run.
pub(crate) struct Listeners<'a> {
    pub on_progress: Box<OnProgress<'a>>,
    pub on_event: Box<dyn FnMut(&TrainEvent) + 'a>,
}

impl std::fmt::Debug for Listeners<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}

/// Inputs and state of a run, except the state of its phase.
pub(crate) struct TrainingRun<'a, 'l> {
    pub inputs: Inputs<'a>,
    pub trees: &'a Trees,
    pub checkpoints: Option<Checkpoints>,
    pub listeners: &'a mut Listeners<'l>,
    pub rng: ChaCha8Rng,
    pub state: RunState,
    pub tensors: Tensors,
    /// When the run began, before the texts went through the frozen layers.
    pub started: Instant,
}

/// The outcome of a finished run, to be reported and written.
pub(crate) struct Outcome {
    pub state: RunState,
    pub moved: Vec<MovedTensor>,
    pub last: Snapshot,
    /// The base encoder's rows of documents and dev queries; none without dev queries.
    pub base: Embedded,
    pub seconds: f64,
}

impl<'a> TrainingRun<'a, '_> {
    /// Trains from the start or from a checkpoint to the end.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let base = self.embed()?;
        let stored = match &self.checkpoints {
            Some(own) if own.resume => checkpoint::read(&own.dir, &self.state.identity)?,
            _ => None,
        };
        let kept = base.of_dev(self.inputs.texts);
        let (mut phase, mut snapshot) = match stored {
            None => {
                let phase = self.phase(PhaseName::Joint)?;
                self.start_tree(&phase, &base)?;
                (phase, None)
            }
            Some((state, tensors)) => self.resume(state, tensors)?,
        };
        if phase.name == PhaseName::Joint {
            if let EmbeddedBy::Encoder(encoder) = self.inputs.by {
                self.joint(&mut phase, encoder, base, snapshot.take())?;
            }
            phase = self.phase(PhaseName::Indexer)?;
            self.state.phase = phase.name;
            (self.state.epoch, self.state.step_in_epoch) = (0, 0);
        }
        let last = self.indexer_alone(&mut phase, snapshot)?;
        let moved = self.check_moved(&phase)?;
        let seconds = self.seconds();
        Ok(Outcome { state: self.state, moved, last, base: kept, seconds })
    }

    fn phase(&self, name: PhaseName) -> Result<Phase<'a>> {
        Phase::new(&self.inputs, self.trees, name)
    }

    /// Restores the state of a checkpoint, and recomputes the last refresh unless the next step is a refresh.
    fn resume(&mut self, state: RunState, tensors: Tensors) -> Result<(Phase<'a>, Option<Snapshot>)> {
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
        let Tensors { first_moment, second_moment, .. } = &self.tensors;
        let restored = phase.optimizer.restore(self.state.optimizer_step, first_moment, second_moment);
        restored.map_err(tensor_error)?;
        let (epochs, step) = (self.state.epoch, self.state.step);
        (self.listeners.on_event)(&TrainEvent::Resumed { epochs, step });
        Ok((phase, snapshot))
    }

    /// Computes all current embeddings.
    fn embed(&mut self) -> Result<Embedded> {
        Embedded::now(&self.inputs, &mut *self.listeners.on_progress)
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
        let figures = dev::figures(snapshot, self.inputs.texts, epochs)?;
        if epochs == 0 {
            self.state.before = figures.clone();
        }
        self.state.loads.push(figures.load);
        Ok(figures)
    }

    /// Initialises the tree of a phase from the document embeddings, and records its initial weights.
    fn start_tree(&mut self, phase: &Phase<'_>, embedded: &Embedded) -> Result<()> {
        if let EmbeddedBy::Given(given) = self.inputs.by {
            phase.tree.set_centroids(&given.centroids).map_err(tensor_error)?;
        } else if self.inputs.config.tree.init == Init::KMeans {
            let (rows, dim) = (&embedded.documents, embedded.dim);
            init::from_kmeans(phase.tree, rows, dim, &mut self.rng, &mut *self.listeners.on_progress)?;
        }
        let head = self.inputs.encoder_parameters();
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
        let mut state = self.state.clone();
        (state.optimizer_step, self.tensors.first_moment, self.tensors.second_moment) =
            phase.optimizer.state();
        state.rng = RngState::of(&self.rng);
        state.seconds = self.seconds();
        checkpoint::write(&own.dir, &state, &self.tensors)?;
        (self.listeners.on_event)(&TrainEvent::Checkpoint { step: self.state.step });
        Ok(())
    }

    /// Checks that every trained tensor has moved.
    fn check_moved(&self, last: &Phase<'_>) -> Result<Vec<MovedTensor>> {
        let joint = self.state.step > 0;
        let alone = !self.state.indexer_epochs.is_empty();
        let tree = last.tree.parameters();
        let trained = |name: &str| joint || (alone && tree.iter().any(|parameter| parameter.name == name));
        parameters::moved(&last.parameters, &self.tensors.at_start, trained)
    }
}
