//! The phase that trains only the tree; not in the paper.

use std::time::Instant;

use candle_core::Tensor;
use rand::seq::SliceRandom;

use super::TrainingRun;
use super::phase::{INDEXER_BATCH, Phase};
use crate::error::{Error, Result};
use crate::progress::{Progress, Stage};
use crate::train::batch::Distillation;
use crate::train::error::{TrainError, tensor_error};
use crate::train::losses;
use crate::train::optimizer::Gradients;
use crate::train::refresh::Snapshot;
use crate::train::report::{EpochReport, LossParts, TrainEvent};

impl TrainingRun<'_, '_> {
    /// Trains only the tree, with the encoder from the joint phase, by routing distillation and balance over
    /// the texts of a last refresh. The targets follow the tree.
    ///
    /// `snapshot` is that refresh if the phase resumes from a checkpoint.
    pub(super) fn indexer_alone(
        &mut self,
        phase: &mut Phase<'_>,
        snapshot: Option<Snapshot>,
    ) -> Result<Snapshot> {
        let epochs = self.inputs.config.schedule.indexer_epochs;
        let _span = tracing::info_span!("train_indexer", epochs).entered();
        let mut snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => self.begin_indexer_phase(phase)?,
        };
        let total = phase.schedule.steps;
        let texts = snapshot.distilled.as_ref().map_or(0, |distilled| distilled.len());
        let per_epoch = texts.div_ceil(INDEXER_BATCH);
        while self.state.epoch < epochs && texts > 0 {
            let began = Instant::now();
            snapshot.reroute(phase.tree)?;
            let mut order: Vec<usize> = (0..texts).collect();
            order.shuffle(&mut self.rng);
            let mut epoch = EpochReport { epoch: self.state.epoch + 1, ..Default::default() };
            for (number, batch) in order.chunks(INDEXER_BATCH).enumerate() {
                let step = self.state.epoch * per_epoch + number;
                let (parts, gradients) = self.indexer_step(phase, &snapshot, batch, step)?;
                phase.descend(&gradients, step)?;
                epoch.losses.add(&parts, 1.0 / per_epoch as f64);
                // If cancelled, the last checkpoint is enough: an epoch of this phase is short.
                Progress::new(Stage::TrainIndexer, step + 1, total)
                    .tell(&mut *self.listeners.on_progress, Error::Cancelled)?;
            }
            epoch.seconds = began.elapsed().as_secs_f64();
            self.state.epoch += 1;
            self.state.indexer_epochs.push(epoch);
            (self.listeners.on_event)(&TrainEvent::IndexerEpoch(epoch));
            if self.checkpoints.is_some() {
                self.checkpoint(phase)?;
            }
        }
        snapshot.reroute(phase.tree)?;
        Ok(snapshot)
    }

    /// The last refresh, before the first step; a separate tree starts from the current encoder.
    fn begin_indexer_phase(&mut self, phase: &Phase<'_>) -> Result<Snapshot> {
        let embedded = self.embed()?;
        if self.trees.are_two() {
            self.start_tree(phase, &embedded)?;
        }
        self.keep_refresh(phase)?;
        let began = Instant::now();
        let snapshot = self.snapshot(phase, embedded)?;
        let epochs = self.state.epochs.len();
        let figures = self.figures(&snapshot, epochs)?;
        let seconds = began.elapsed().as_secs_f64();
        (self.listeners.on_event)(&TrainEvent::Refreshed { epochs, figures, seconds });
        Ok(snapshot)
    }

    fn indexer_step(
        &self,
        phase: &Phase<'_>,
        snapshot: &Snapshot,
        batch: &[usize],
        step: usize,
    ) -> Result<(LossParts, Gradients)> {
        let (tree, weights) = (phase.tree, &self.inputs.config.losses.weights);
        let mut term = Distillation::default();
        let mut rows: Vec<f32> = Vec::new();
        if let Some(distilled) = &snapshot.distilled {
            for (row, &place) in (0u32..).zip(batch) {
                term.add(row, distilled.target(place));
                rows.extend(snapshot.embedded.rows().text(distilled.text(place)));
            }
        }
        let run = || -> candle_core::Result<(LossParts, Gradients)> {
            let shape = (batch.len(), snapshot.embedded.dim);
            let unit = Tensor::from_vec(rows, shape, self.inputs.device)?;
            let root = tree.at_root(&unit)?;
            let distillation = self.inputs.distillation(tree, &term, &root)?;
            let balance = losses::balance(&tree.paths(&root)?.children)?;
            let total = ((&distillation * weights.distillation)? + (&balance * weights.balance)?)?;
            let mut gradients = Gradients::default();
            gradients.add(&tree.parameters(), &total.backward()?)?;
            let parts = LossParts {
                loss: losses::value(&total)?,
                distillation: losses::value(&distillation)?,
                balance: losses::value(&balance)?,
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
