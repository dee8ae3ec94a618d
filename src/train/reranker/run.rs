//! The steps of a reranker's training.

use std::collections::HashMap;
use std::time::Instant;

use candle_core::{Device, Var};

use super::config::RerankerConfig;
use super::loss::Layout;
use super::plan::{Example, Plan};
use super::report::{RerankerEpoch, RerankerEvent};
use crate::error::{Error, Result};
use crate::model::ModelError;
use crate::progress::{OnProgress, Progress, Stage};
use crate::train::config::ScheduleSettings;
use crate::train::dataset::TrainingSet;
use crate::train::frozen::FrozenCache;
use crate::train::head::Head;
use crate::train::optimizer::{AdamW, Gradients, Group, Parameter};
use crate::train::schedule::Schedule;
use crate::train::{MovedTensor, TrainError, parameters};

/// All that a step reads.
pub(super) struct Inputs<'a> {
    pub config: &'a RerankerConfig,
    pub set: &'a TrainingSet,
    pub plan: &'a Plan,
    pub cache: &'a FrozenCache<'a>,
    pub head: &'a Head<'a>,
    /// Of its parameters those that are not the layers'.
    pub of_head: &'a [Parameter],
}

fn tensor_error(error: candle_core::Error) -> Error {
    ModelError::from(error).into()
}

impl Inputs<'_> {
    /// All steps; how far each tensor moved.
    ///
    /// # Errors
    /// [`TrainError::NonFiniteLoss`], [`TrainError::NoGradient`], [`TrainError::NotTrained`],
    /// [`Error::Cancelled`].
    pub(super) fn train(
        &self,
        on_progress: &mut OnProgress<'_>,
        on_event: &mut dyn FnMut(&RerankerEvent),
    ) -> Result<(Vec<RerankerEpoch>, Vec<MovedTensor>)> {
        let config = self.config;
        let all = self.head.parameters();
        let of_head = |own: &&Parameter| self.of_head.iter().any(|other| other.name == own.name);
        let weight_decay = config.weight_decay;
        let group = |parameters, learning_rate| Group { parameters, learning_rate, weight_decay };
        let layers = all.iter().filter(|own| !of_head(own)).cloned().collect();
        let groups = vec![
            group(layers, config.learning_rate),
            group(self.of_head.to_vec(), config.head_learning_rate),
        ];
        let mut optimizer = AdamW::new(groups).map_err(tensor_error)?;
        let steps = self.plan.steps(config.batch_size);
        let settings = ScheduleSettings { warmup_fraction: config.warmup_fraction, ..Default::default() };
        let schedule = Schedule::new(&settings, steps);
        let start = parameters::copy(all).map_err(tensor_error)?;
        let mut step = 0;
        let mut epochs = Vec::new();
        for (number, examples) in self.plan.epochs.iter().enumerate() {
            let began = Instant::now();
            let mut sum = 0.0;
            for batch in examples.chunks(config.batch_size) {
                let (loss, gradients) = self.step(batch, step)?;
                if let (0, Some(missing)) = (step, all.iter().find(|own| gradients.get(own).is_none())) {
                    return Err(TrainError::NoGradient { tensor: missing.name.clone() }.into());
                }
                optimizer.step(&gradients, schedule.factor(step)).map_err(tensor_error)?;
                sum += f64::from(loss) * batch.len() as f64;
                step += 1;
                Progress::new(Stage::Train, step, steps).tell(on_progress, Error::Cancelled)?;
            }
            let loss = sum / examples.len().max(1) as f64;
            let epoch = RerankerEpoch { epoch: number + 1, loss, seconds: began.elapsed().as_secs_f64() };
            on_event(&RerankerEvent::Epoch(epoch));
            epochs.push(epoch);
        }
        let moved = parameters::moved(all, &start).map_err(tensor_error)?;
        let moved = moved.into_iter().map(|(name, relative_change)| match relative_change == 0.0 {
            true => Err(TrainError::NotTrained { tensor: name }.into()),
            false => Ok(MovedTensor { name, relative_change }),
        });
        Ok((epochs, moved.collect::<Result<_>>()?))
    }

    /// The loss of some examples and its gradients.
    fn step(&self, batch: &[Example], step: usize) -> Result<(f32, Gradients)> {
        // A question with two answers may have one document twice.
        let mut pairs: Vec<usize> = Vec::new();
        let mut rows: HashMap<usize, u32> = HashMap::new();
        let mut row = |pair: usize| {
            *rows.entry(pair).or_insert_with(|| {
                pairs.push(pair);
                pairs.len() as u32 - 1
            })
        };
        let examples: Vec<Vec<u32>> =
            batch.iter().map(|example| example.iter().map(|&pair| row(pair)).collect()).collect();
        let gathered = self.head.gather(self.cache, &pairs).map_err(tensor_error)?;
        let (scores, forward) = self.head.forward(self.cache, gathered)?;
        let layout = Layout::new(&examples);
        let run = || -> candle_core::Result<(f32, Gradients)> {
            let scores = Var::from_tensor(&scores.to_device(&Device::Cpu)?)?;
            let loss = layout.loss(scores.as_tensor(), self.config.loss)?;
            let value: f32 = loss.to_scalar()?;
            let mut gradients = Gradients::default();
            if value.is_finite()
                && let Some(gradient) = loss.backward()?.get(scores.as_tensor())
            {
                self.head.backward(self.cache, &forward, gradient, &mut gradients)?;
            }
            Ok((value, gradients))
        };
        let (value, gradients) = run().map_err(tensor_error)?;
        if !value.is_finite() {
            let question = |example: &Example| self.set.train[self.plan.pairs[example[0]].0].id.clone();
            let batch = batch.iter().map(question).collect();
            return Err(TrainError::NonFiniteLoss { part: "reranking", value, step, batch }.into());
        }
        Ok((value, gradients))
    }
}
