//! A phase of a run.

use crate::error::Result;
use crate::train::distil;
use crate::train::error::tensor_error;
use crate::train::indexer::TrainableIndexer;
use crate::train::inputs::Inputs;
use crate::train::optimizer::{AdamW, Gradients, Group, Parameter};
use crate::train::parameters::{self, Weights};
use crate::train::plan::{PhaseName, Taught};
use crate::train::sampler::Sampler;
use crate::train::schedule::Schedule;
use crate::train::trees::Trees;

/// Batch size of the phase that trains only the tree.
pub(crate) const INDEXER_BATCH: usize = 512;

/// The tree that a phase trains, its optimiser and its learning rates.
pub(super) struct Phase<'a> {
    pub name: PhaseName,
    pub tree: &'a TrainableIndexer,
    pub taught: Taught,
    pub optimizer: AdamW,
    pub schedule: Schedule,
    /// The encoder's trainable tensors and the tree's, whether this phase changes them or not.
    pub parameters: Vec<Parameter>,
}

impl<'a> Phase<'a> {
    /// A phase before its first step.
    pub(super) fn new(inputs: &Inputs<'a>, trees: &'a Trees, name: PhaseName) -> Result<Self> {
        let (config, texts, tree) = (inputs.config, inputs.texts, trees.of(name));
        let taught = config.taught(name);
        let encoder = Group {
            parameters: inputs.encoder_parameters().to_vec(),
            learning_rate: config.encoder.learning_rate,
            weight_decay: config.encoder.weight_decay,
        };
        let own = Group {
            parameters: tree.parameters(),
            learning_rate: config.tree.learning_rate,
            weight_decay: 0.0,
        };
        let parameters = [&encoder, &own].iter().flat_map(|group| group.parameters.clone()).collect();
        let (groups, steps) = match name {
            PhaseName::Joint => {
                let steps = Sampler::new(texts, &config.schedule).steps() * config.schedule.epochs;
                (vec![encoder, own], steps)
            }
            PhaseName::Indexer => {
                let texts = distil::taught_texts(texts, &config.distillation, taught);
                (vec![own], texts.div_ceil(INDEXER_BATCH) * config.schedule.indexer_epochs)
            }
        };
        let optimizer = AdamW::new(groups).map_err(tensor_error)?;
        let schedule = Schedule::new(&config.schedule, steps);
        Ok(Self { name, tree, taught, optimizer, schedule, parameters })
    }

    /// Applies the gradients of step number `step`; returns the factor on the learning rates.
    pub(super) fn descend(&mut self, gradients: &Gradients, step: usize) -> Result<f64> {
        let factor = self.schedule.factor(step);
        self.optimizer.step(gradients, factor).map_err(tensor_error)?;
        Ok(factor)
    }

    /// The current trainable tensors.
    pub(super) fn weights(&self) -> Result<Weights> {
        parameters::copy(&self.parameters).map_err(tensor_error)
    }

    /// Restores the trainable tensors.
    pub(super) fn restore(&self, weights: &Weights) -> Result<()> {
        parameters::restore(&self.parameters, weights).map_err(tensor_error)
    }
}
