//! Joint training of encoder and tree from queries and the documents that answer them
//! (section 3.5, Algorithm 1).

mod config;
mod dataset;
mod dev;
mod ending;
mod error;
mod indexer;
mod init;
mod load;
mod losses;
mod optimizer;
mod page;
mod refresh;
mod report;
mod sampler;
mod step;
mod tail;
mod texts;
mod trunk;
mod verdict;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use config::{Init, IntraLeaf, LossWeights, Negatives, Preset, TrainConfig};
pub use dataset::TrainingSet;
pub use error::TrainError;
pub use load::{LeafSizes, LoadReport};
pub use report::{DevFigures, DevPoint, EpochReport, MovedTensor, TrainReport};
pub use verdict::{
    CEILING, ComparedMetric, Comparison, DECISION_FRACTION, Difference, FEWEST_QUERIES, FRACTIONS, Figures,
    FractionPoint, MeasuredPoint, Method, MethodFigures, Recommendation, SIGNIFICANCE_LEVEL, SMALLEST_GAIN,
    Verdict,
};

use crate::error::{Error, Result};
use crate::model::{BundleParts, Encoder, ModelError, PackedTransformer, check_output};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use ending::Beginning;
use indexer::TrainableIndexer;
use optimizer::{AdamW, Group, Parameter};
use refresh::{Refresher, Snapshot};
use sampler::Sampler;
use step::StepContext;
use tail::Tail;
use texts::Texts;
use trunk::TrunkCache;

/// File of the report inside a bundle.
pub const REPORT_FILE: &str = "training.json";
/// File of the report as a page for a browser inside a bundle.
pub const PAGE_FILE: &str = "report.html";

/// Where the tensors of a run live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainDevice {
    /// The CPU.
    #[default]
    Cpu,
    /// The first NVIDIA GPU; needs the `cuda` feature.
    Cuda,
}

/// A training run about to start.
///
/// Memory: the hidden states below the trainable layers are kept for every document and query
/// as f16, that is tokens times width times 2 bytes; about 0.6 GB for 5,000 abstracts and
/// MiniLM.
pub struct Trainer {
    base: PathBuf,
    config: TrainConfig,
    device: TrainDevice,
}

impl Trainer {
    /// A run that starts from the encoder in `base`: a sentence-transformers directory or a bundle.
    pub fn new(base: impl Into<PathBuf>, config: TrainConfig) -> Self {
        Self { base: base.into(), config, device: TrainDevice::Cpu }
    }

    /// The same run on another device.
    #[must_use]
    pub fn device(mut self, device: TrainDevice) -> Self {
        self.device = device;
        self
    }

    /// Trains, and writes the bundle to `out`, which must not hold anything yet.
    ///
    /// `on_progress` hears of every stage and may cancel; `on_epoch` gets each epoch's figures.
    ///
    /// # Paper
    /// Algorithm 1; deviations in `docs/paper-map.md`.
    ///
    /// # Errors
    /// [`TrainError`] for the configuration, the data, a NaN loss or a tensor that gets no
    /// gradient or does not move; [`ModelError`] for the base model; [`Error::Cancelled`]. No
    /// bundle is written then.
    pub fn fit(
        &self,
        set: &TrainingSet,
        out: &Path,
        on_progress: &mut OnProgress<'_>,
        on_epoch: &mut dyn FnMut(&EpochReport),
    ) -> Result<TrainReport> {
        let config = &self.config;
        config.check()?;
        check_output(out)?;
        let device = self.open_device()?;
        let shape = config.shape()?;
        if set.documents.len() < shape.leaves() as usize {
            return Err(TrainError::TooFewDocuments {
                documents: set.documents.len(),
                leaves: shape.leaves(),
            }
            .into());
        }
        let started = Instant::now();
        let encoder = Encoder::load(&self.base)?;
        let layers = encoder.transformer.layers.len();
        if config.trainable_layers > layers {
            return Err(TrainError::Config {
                field: "trainable_layers",
                found: config.trainable_layers.to_string(),
                expected: format!("at most the encoder's {layers}"),
            }
            .into());
        }
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        let texts = Texts::new(set, &encoder, config, &mut rng)?;
        let dim = encoder.dim();
        let trunk = PackedTransformer::new(&encoder.transformer, layers - config.trainable_layers)
            .map_err(ModelError::from)?;
        let document_cache = TrunkCache::compute(&trunk, dim, &texts.documents, on_progress)?;
        let query_cache = TrunkCache::compute(&trunk, dim, &texts.queries, on_progress)?;
        drop(trunk);
        let tail = Tail::new(&encoder, config.trainable_layers, &device).map_err(ModelError::from)?;
        let indexer = TrainableIndexer::random(shape, dim, config.logit_scale, &mut rng, &device)
            .map_err(ModelError::from)?;
        let refresher = Refresher {
            config,
            texts: &texts,
            document_cache: &document_cache,
            query_cache: &query_cache,
            tail: &tail,
            indexer: &indexer,
            dim,
        };
        let documents = refresher.embed_documents(on_progress)?;
        if config.init == Init::KMeans {
            init::from_kmeans(&indexer, shape, &documents, dim, &mut rng, on_progress)?;
        }
        let mut optimizer = self.optimizer(&tail, &indexer).map_err(ModelError::from)?;
        let start = copy_parameters(&optimizer).map_err(ModelError::from)?;

        let sampler = Sampler::new(&texts, config);
        let total_steps = sampler.steps() * config.epochs;
        let context = StepContext {
            config,
            texts: &texts,
            document_cache: &document_cache,
            query_cache: &query_cache,
            tail: &tail,
            indexer: &indexer,
            device: &device,
        };
        let mut snapshot = refresher.refresh_from(documents, &mut rng)?;
        let before = dev::figures(&snapshot, &texts, dim)?;
        let beginning = Beginning::of(&snapshot, &texts, dim);
        let mut loads = vec![LoadReport::new(0, &before)];
        let mut epochs = Vec::with_capacity(config.epochs);
        let mut step = 0;
        for epoch in 0..config.epochs {
            let epoch_started = Instant::now();
            if epoch > 0 && epoch % config.refresh_interval == 0 {
                snapshot = refresher.refresh(&mut rng, on_progress)?;
                let figures = dev::figures(&snapshot, &texts, dim)?;
                log_load(epoch, &figures);
                loads.push(LoadReport::new(epoch, &figures));
            }
            let mut sums = EpochReport::default();
            let batches = sampler.epoch(&texts, &mut rng);
            for batch in &batches {
                let (parts, gradients) = context.step(batch, &snapshot, step, &mut rng)?;
                if step == 0 {
                    check_gradients(&optimizer, &gradients)?;
                }
                let factor = learning_rate_factor(config, step, total_steps);
                optimizer.step(&gradients, factor).map_err(ModelError::from)?;
                sums.add(&parts, 1.0 / batches.len() as f64);
                step += 1;
                if on_progress(Progress::new(Stage::Train, step, total_steps)) == ControlFlow::Break(()) {
                    return Err(Error::Cancelled);
                }
            }
            sums.epoch = epoch + 1;
            sums.seconds = epoch_started.elapsed().as_secs_f64();
            on_epoch(&sums);
            epochs.push(sums);
        }
        let moved = check_moved(&optimizer, &start)?;
        let last: Snapshot = refresher.refresh(&mut rng, on_progress)?;
        let after = dev::figures(&last, &texts, dim)?;
        loads.push(LoadReport::new(config.epochs, &after));
        let ending = beginning.ending(&last, set, &texts, config.seed, on_progress)?;
        let report = TrainReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.clone(),
            documents: texts.documents.len(),
            train_queries: texts.train,
            train_pairs: texts.positives[..texts.train].iter().map(Vec::len).sum(),
            dev_queries: texts.dev,
            before,
            epochs,
            after,
            verdict: Some(ending.verdict),
            loads,
            leaf_sizes: ending.leaf_sizes,
            moved,
            seconds: started.elapsed().as_secs_f64(),
        };
        self.write(out, &tail, &indexer, &report, page::render(&report, &ending.leaves))?;
        Ok(report)
    }

    /// As [`Self::fit`], without callbacks.
    ///
    /// # Errors
    /// Those of [`Self::fit`] but for the cancellation.
    pub fn fit_quietly(&self, set: &TrainingSet, out: &Path) -> Result<TrainReport> {
        self.fit(set, out, &mut no_progress, &mut |_| ())
    }

    fn write(
        &self,
        out: &Path,
        tail: &Tail<'_>,
        indexer: &TrainableIndexer,
        report: &TrainReport,
        page: String,
    ) -> Result<()> {
        let frozen = indexer.freeze()?;
        let json = serde_json::to_vec_pretty(report)
            .map_err(|source| ModelError::Json { path: out.join(REPORT_FILE), source })?;
        BundleParts {
            base: &self.base,
            encoder: tail.named(),
            indexer: &frozen,
            leaves_per_document: self.config.leaves_per_document,
            extras: vec![(REPORT_FILE, json), (PAGE_FILE, page.into_bytes())],
        }
        .write(out)?;
        Ok(())
    }

    fn optimizer(&self, tail: &Tail<'_>, indexer: &TrainableIndexer) -> candle_core::Result<AdamW> {
        AdamW::new(vec![
            Group {
                parameters: tail.parameters().to_vec(),
                learning_rate: self.config.encoder_learning_rate,
                weight_decay: self.config.weight_decay,
            },
            Group {
                parameters: indexer.parameters(),
                learning_rate: self.config.indexer_learning_rate,
                weight_decay: 0.0,
            },
        ])
    }

    fn open_device(&self) -> Result<Device> {
        match self.device {
            TrainDevice::Cpu => Ok(Device::Cpu),
            TrainDevice::Cuda if !cfg!(feature = "cuda") => {
                Err(TrainError::NoCuda { reason: "this build lacks the `cuda` feature".to_owned() }.into())
            }
            TrainDevice::Cuda => {
                Device::new_cuda(0).map_err(|e| TrainError::NoCuda { reason: e.to_string() }.into())
            }
        }
    }
}

/// Linear warm-up, then linear decay.
fn learning_rate_factor(config: &TrainConfig, step: usize, total: usize) -> f64 {
    let warmup = (config.warmup_fraction * total as f64).ceil();
    let at = step as f64 + 1.0;
    if at <= warmup {
        return at / warmup;
    }
    let rest = (at - warmup) / (total as f64 - warmup).max(1.0);
    1.0 - rest * (1.0 - config.final_learning_rate_fraction)
}

fn copy_parameters(optimizer: &AdamW) -> candle_core::Result<BTreeMap<String, Tensor>> {
    optimizer.parameters().map(|p| Ok((p.name.clone(), p.var.as_tensor().detach().copy()?))).collect()
}

/// Every trainable tensor must have a gradient: candle drops gradients without a word.
fn check_gradients(optimizer: &AdamW, gradients: &optimizer::Gradients) -> Result<()> {
    match optimizer.parameters().find(|p| gradients.get(p).is_none()) {
        Some(Parameter { name, .. }) => Err(TrainError::NoGradient { tensor: name.clone() }.into()),
        None => Ok(()),
    }
}

fn check_moved(optimizer: &AdamW, start: &BTreeMap<String, Tensor>) -> Result<Vec<MovedTensor>> {
    let mut moved = Vec::new();
    for parameter in optimizer.parameters() {
        let change = || -> candle_core::Result<f64> {
            let start = &start[&parameter.name];
            let norm = |t: &Tensor| -> candle_core::Result<f64> {
                Ok(f64::from(t.sqr()?.sum_all()?.to_scalar::<f32>()?).sqrt())
            };
            Ok(norm(&(parameter.var.as_tensor() - start)?)? / norm(start)?.max(f64::from(f32::MIN_POSITIVE)))
        };
        let relative_change = change().map_err(ModelError::from)?;
        if relative_change == 0.0 {
            return Err(TrainError::NotTrained { tensor: parameter.name.clone() }.into());
        }
        moved.push(MovedTensor { name: parameter.name.clone(), relative_change });
    }
    Ok(moved)
}

fn log_load(epoch: usize, figures: &DevFigures) {
    let points: Vec<String> = figures
        .points
        .iter()
        .map(|p| format!("{:.3}:{:.4}/{:.4}", p.visited_fraction, p.recall_at_10, p.recall_at_100))
        .collect();
    tracing::info!(
        epoch,
        expected_documents_per_leaf = figures.expected_documents_per_leaf,
        empty_leaves = figures.empty_leaves,
        exact_recall_at_100 = figures.exact_recall_at_100,
        exact_recall_at_10 = figures.exact_recall_at_10,
        tree = points.join(" "),
        "refreshed"
    );
}
