//! The phase in which the tree alone is trained; not in the paper.

use std::ops::ControlFlow;
use std::time::Instant;

use candle_core::Tensor;
use rand::seq::SliceRandom;

use super::{Run, tensor_error};
use crate::error::{Error, Result};
use crate::progress::{Progress, Stage};
use crate::train::balance::LoadReport;
use crate::train::batch::Distillation;
use crate::train::checkpoint::RngState;
use crate::train::dev;
use crate::train::error::TrainError;
use crate::train::losses;
use crate::train::optimizer::{Gradients, Group, Parameter};
use crate::train::parameters::{self, Weights};
use crate::train::refresh::Snapshot;
use crate::train::report::{IndexerEpochReport, LossParts, TrainEvent};
use crate::train::schedule;

/// Texts in a batch of the phase that trains the tree alone.
const INDEXER_BATCH: usize = 512;
impl Run<'_, '_, '_> {
    /// The tree alone, with the encoder as the joint phase left it: routing distillation and
    /// balance over the texts of one last refresh, the targets following the tree.
    pub(super) fn indexer_alone(
        &mut self,
        snapshot: Option<Snapshot>,
        moments: Option<(Weights, Weights)>,
    ) -> Result<Snapshot> {
        let _span = tracing::info_span!("train_indexer", epochs = self.config.indexer_epochs).entered();
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
}
