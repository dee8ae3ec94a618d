//! The steps of a reranker's training.

use std::time::Instant;

use candle_core::{Device, Var};

use super::config::RerankerConfig;
use super::loss::Layout;
use super::plan::{Example, RerankerPlan};
use super::report::{RerankerEpoch, RerankerEvent};
use crate::error::{Error, Result};
use crate::progress::{OnProgress, Progress, Stage};
use crate::train::batch::BatchTexts;
use crate::train::config::ScheduleSettings;
use crate::train::dataset::TrainingSet;
use crate::train::error::tensor_error;
use crate::train::frozen::FrozenCache;
use crate::train::head::Head;
use crate::train::optimizer::{AdamW, Gradients, Group, Parameter};
use crate::train::schedule::Schedule;
use crate::train::{MovedTensor, TrainError, parameters};

/// The inputs of a step.
pub(super) struct Inputs<'a> {
    pub config: &'a RerankerConfig,
    pub set: &'a TrainingSet,
    pub plan: &'a RerankerPlan,
    pub cache: &'a FrozenCache<'a>,
    pub head: &'a Head<'a>,
    /// Its parameters other than those of the layers.
    pub of_head: &'a [Parameter],
}

impl Inputs<'_> {
    /// Runs all steps and returns how far each tensor moved.
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
                if step == 0 {
                    optimizer.check(&gradients)?;
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
        Ok((epochs, parameters::moved(all, &start, |_| true)?))
    }

    /// The loss of some examples and its gradients.
    fn step(&self, batch: &[Example], step: usize) -> Result<(f32, Gradients)> {
        // A question with two answers may repeat a document.
        let mut pairs = BatchTexts::default();
        let examples: Vec<Vec<u32>> =
            batch.iter().map(|example| example.iter().map(|&pair| pairs.add(pair)).collect()).collect();
        let gathered = self.head.gather(self.cache, &pairs.texts).map_err(tensor_error)?;
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
            return Err(
                TrainError::NonFiniteLoss { part: "reranking", value: value.into(), step, batch }.into()
            );
        }
        Ok((value, gradients))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candle_core::Tensor;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::document::Document;
    use crate::judgment::Judgment;
    use crate::model::{DenseActivation, EncoderPrecision, PackedTransformer, Precision, RerankerDraft};
    use crate::progress::no_progress;
    use crate::train::frozen::{CachePlace, Frozen, Read};
    use crate::train::head::Scope;
    use crate::train::reranker::RerankerLoss;
    use crate::train::reranker::trainer::tokenize;

    const TEXTS: [&str; 5] =
        ["a tree of leaves", "the sea is deep", "words are counted", "a leaf falls", "nothing at all"];

    /// Training and inference give the same scores, and gradients match finite differences.
    #[test]
    fn scores_and_gradients_are_right() {
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rerankers/6.2/identity");
        let dir = tempfile::tempdir().unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let draft =
            RerankerDraft::new(&base, &dir.path().join("out"), None, DenseActivation::Identity, &mut rng)
                .unwrap();
        let documents =
            TEXTS.iter().enumerate().map(|(place, text)| Document::new(place.to_string(), "", *text));
        let pairs = [("what is a tree?", "0"), ("how deep is the sea?", "1"), ("what falls?", "3")];
        let judgments = pairs.map(|(question, id)| Judgment::new(question, id, 1));
        let set = TrainingSet::from_judgments(documents, &judgments, 0.0).unwrap();
        let start = draft.reranker();
        let mut config = RerankerConfig::default();
        (config.epochs, config.negatives, config.random_negatives) = (1, 0, 2);
        let plan = RerankerPlan::draw(&set, &vec![Vec::new(); 3], &config, &mut rng);
        let tokens = tokenize(start, &set, &plan).unwrap();
        let transformer = start.transformer().unwrap();
        let mut of_head = Vec::new();
        let pooler = draft
            .map_head(&mut |name, tensor| {
                let var = Var::from_tensor(&tensor.copy()?)?;
                of_head.push(Parameter { name: name.to_owned(), var: var.clone() });
                Ok(var.as_tensor().clone())
            })
            .unwrap();
        let frozen = Frozen {
            frozen: PackedTransformer::new(transformer, 1, EncoderPrecision::F32).unwrap(),
            dim: transformer.config.hidden_size,
            pooled: None,
            second: start.second().map(<[f32]>::to_vec),
        };
        let read = Read { tokens: &tokens.ids, types: &tokens.types, skip: 0 };
        let place = CachePlace::Nameless(dir.path().to_owned());
        let cache = FrozenCache::compute(&frozen, read, &place, &mut (1 << 20), &mut no_progress).unwrap();
        let scope = Scope { layers: 1, embeddings: false, precision: Precision::F32 };
        let mut head = Head::of(transformer, pooler, scope, &Device::Cpu).unwrap();
        head.add_parameters(of_head.iter().cloned());

        let all: Vec<usize> = (0..plan.pairs.len()).collect();
        let (scores, _) = head.forward(&cache, head.gather(&cache, &all).unwrap()).unwrap();
        let scores: Vec<f32> = scores.flatten_all().unwrap().to_vec1().unwrap();
        for (&(question, document), found) in plan.pairs.iter().zip(scores) {
            let text = &set.documents[document as usize].text;
            let want = start.score(&set.train[question].text, &[text]).unwrap()[0];
            // States are kept as f16.
            assert!((found - want).abs() < 2e-2 * want.abs().max(1.0), "{found} {want}");
        }

        for loss in [RerankerLoss::Listwise, RerankerLoss::Binary] {
            config.loss = loss;
            let inputs = Inputs {
                config: &config,
                set: &set,
                plan: &plan,
                cache: &cache,
                head: &head,
                of_head: &of_head,
            };
            let examples = &plan.epochs[0];
            let (_, gradients) = inputs.step(examples, 0).unwrap();
            assert_eq!(head.parameters().len(), 20, "16 of a layer, 4 of the head");
            for parameter in head.parameters() {
                let gradient: Vec<f32> =
                    gradients.get(parameter).unwrap().flatten_all().unwrap().to_vec1().unwrap();
                let start: Vec<f32> = parameter.var.flatten_all().unwrap().to_vec1().unwrap();
                for place in [0, gradient.len() / 2] {
                    let at = |by: f32| {
                        let mut moved = start.clone();
                        moved[place] += by;
                        let moved = Tensor::from_vec(moved, parameter.var.shape(), &Device::Cpu).unwrap();
                        parameter.var.set(&moved).unwrap();
                        f64::from(inputs.step(examples, 1).unwrap().0)
                    };
                    let by = 1e-2;
                    let expected = (at(by) - at(-by)) / f64::from(2.0 * by);
                    at(0.0);
                    let found = f64::from(gradient[place]);
                    let name = &parameter.name;
                    assert!(
                        (found - expected).abs() < 2e-3 + 0.03 * expected.abs(),
                        "{name}: {found} {expected}"
                    );
                }
            }
        }
    }
}
