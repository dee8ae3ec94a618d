//! The builder of a training run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::card;
use super::checkpoint::{Identity, RunState, Tensors};
use super::config::{QueryEncoderChoice, TrainConfig};
use super::dataset::TrainingSet;
use super::device::{self, TrainDevice};
use super::error::{TrainError, out_of_range};
use super::frozen::{CachePlace, Frozen, FrozenCache, Read};
use super::head::{Head, Scope};
use super::inputs::{EmbeddedBy, EncoderInputs, GivenEmbeddings, Inputs};
use super::query_encoder::{DistilOptions, distil_trained};
use super::report::{TrainEvent, TrainReport};
use super::run::{Checkpoints, Listeners, Outcome, TrainingRun};
use super::texts::Texts;
use super::trees::Trees;
use crate::error::{Error, Result};
use crate::model::{
    Bundle, BundleParts, CARD_FILE, Encoder, EncoderPrecision, EncoderSettings, LoadOptions, MANIFEST_FILE,
    Model, ModelError, PackedTransformer, Role, check_output, hex, publish,
};
use crate::progress::{OnProgress, Progress, no_progress};
use crate::tree::TreeShape;

/// File of the report inside a bundle.
pub const REPORT_FILE: &str = crate::model::REPORT_FILE;

/// Default for the bytes of hidden states that a run keeps on disk: 32 GiB.
pub const DEFAULT_CACHE_BYTES: u64 = 32 << 30;

/// Builder of a training run.
///
/// Disk: the hidden states below the trainable layers are kept as f16 in an unnamed temporary file next to
/// the output: tokens times width times 2 bytes, up to [`Self::cache_bytes`]; about 0.9 GB for 5,000
/// abstracts and MiniLM. Memory: token ids of every text, and embeddings of all texts in f32.
///
/// ```no_run
/// use ehi::data::Dataset;
/// use ehi::train::{TrainConfig, Trainer, TrainingSet};
///
/// let config = TrainConfig::default();
/// let set = TrainingSet::read(&Dataset::open("my-data")?, config.dev_fraction)?;
/// let fitted = Trainer::builder().base("target/base-model").output("my-bundle").config(config).fit(&set)?;
/// println!("{} leaves", fitted.bundle.model().indexer().shape().leaves());
/// # Ok::<(), ehi::Error>(())
/// ```
#[must_use = "a run does nothing until `fit`"]
#[derive(Debug)]
pub struct Trainer<'a> {
    base: Option<PathBuf>,
    encoder_settings: EncoderSettings,
    output: Option<PathBuf>,
    config: TrainConfig,
    device: TrainDevice,
    checkpoints: Option<Checkpoints>,
    cache_dir: Option<PathBuf>,
    cache_bytes: u64,
    listeners: Listeners<'a>,
}

/// A finished run.
#[derive(Debug)]
pub struct Fitted {
    /// The trained model, as written.
    pub bundle: Bundle,
    /// The report of the run, stored in the bundle as [`REPORT_FILE`].
    pub report: TrainReport,
}

impl<'a> Trainer<'a> {
    /// A run with the default configuration on the CPU; [`Self::base`] and [`Self::output`] must
    /// be given.
    pub fn builder() -> Self {
        Self {
            base: None,
            encoder_settings: EncoderSettings::default(),
            output: None,
            config: TrainConfig::default(),
            device: TrainDevice::default(),
            checkpoints: None,
            cache_dir: None,
            cache_bytes: DEFAULT_CACHE_BYTES,
            listeners: Listeners { on_progress: Box::new(no_progress), on_event: Box::new(|_| ()) },
        }
    }

    /// The encoder to start from: a sentence-transformers directory or a bundle.
    pub fn base(mut self, dir: impl Into<PathBuf>) -> Self {
        self.base = Some(dir.into());
        self
    }

    /// Prompts and dimensions that override those of the base and are stored in the new bundle.
    pub fn encoder_settings(mut self, settings: EncoderSettings) -> Self {
        self.encoder_settings = settings;
        self
    }

    /// Where the bundle goes: a directory that does not exist yet or is empty.
    pub fn output(mut self, dir: impl Into<PathBuf>) -> Self {
        self.output = Some(dir.into());
        self
    }

    /// The settings of the run.
    pub fn config(mut self, config: TrainConfig) -> Self {
        self.config = config;
        self
    }

    /// Where to train.
    pub fn device(mut self, device: TrainDevice) -> Self {
        self.device = device;
        self
    }

    /// Writes a checkpoint to `dir` every `steps` optimiser steps, after each tree-only pass, and when the
    /// run is cancelled. A new checkpoint replaces the previous one.
    pub fn checkpoints(mut self, dir: impl Into<PathBuf>, steps: usize) -> Self {
        let resume = self.checkpoints.is_some_and(|c| c.resume);
        self.checkpoints = Some(Checkpoints { dir: dir.into(), steps: steps.max(1), resume });
        self
    }

    /// Resumes from the checkpoint in the directory given to [`Self::checkpoints`], if there is one.
    ///
    /// On the CPU the result is bit for bit that of a run that never stopped, on a machine with the
    /// same vector instructions.
    pub fn resume(mut self, resume: bool) -> Self {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.resume = resume;
        }
        self
    }

    /// Keeps the frozen layers' output in a directory, for later runs over the same texts and the same base.
    /// By default it is in an unnamed temporary file next to the output.
    pub fn cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Most bytes of this cache, [`DEFAULT_CACHE_BYTES`] by default. Texts beyond it pass the frozen layers
    /// whenever they are needed, which is slower and changes results only by rounding.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets a callback for progress, which may cancel the run.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) -> std::ops::ControlFlow<()> + 'a) -> Self {
        self.listeners.on_progress = Box::new(callback);
        self
    }

    /// Sets a callback for every step, epoch, refresh and checkpoint.
    pub fn on_event(mut self, callback: impl FnMut(&TrainEvent) + 'a) -> Self {
        self.listeners.on_event = Box::new(callback);
        self
    }

    /// Trains, writes the bundle and opens it.
    ///
    /// # Paper
    /// Algorithm 1; deviations in `docs/lab/paper-map.md`.
    ///
    /// # Errors
    /// [`TrainError`] for the configuration, the data, a NaN loss, a tensor that gets no gradient or does not
    /// move, and a checkpoint that is damaged or belongs to another run; [`ModelError`] for the base model;
    /// [`Error::Cancelled`](crate::Error::Cancelled). On error no bundle is written.
    pub fn fit(mut self, set: &TrainingSet) -> Result<Fitted> {
        let _span = tracing::info_span!("train", documents = set.documents.len()).entered();
        let (job, mut rng) = self.begin(set)?;
        let (config, encoder) = (&self.config, job.encoder()?);
        let scope = scope(config, encoder)?;
        let texts = Texts::new(set, encoder, config, &mut rng)?;
        (self.listeners.on_event)(&job.started(&texts));
        let identity = identity(config, Some(encoder), &texts, &[])?;
        let frozen = frozen(encoder, scope)?;
        // The whole encoder reads token ids, so there is nothing to keep.
        let mut budget = if scope.embeddings { 0 } else { self.cache_bytes };
        let mut cache = |tokens, role| {
            let place = match &self.cache_dir {
                None => CachePlace::Nameless(parent(&job.output)),
                Some(dir) => {
                    CachePlace::Kept { dir: dir.clone(), name: cache_name(&identity, scope, tokens) }
                }
            };
            let read = Read { tokens, types: &[], skip: encoder.skipped(role)? };
            FrozenCache::compute(&frozen, read, &place, &mut budget, &mut *self.listeners.on_progress)
        };
        let (query_cache, document_cache) =
            (cache(&texts.queries, Role::Query)?, cache(&texts.documents, Role::Document)?);
        let head = Head::new(encoder, scope, &job.device)?;
        let by = EncoderInputs { head: &head, document_cache: &document_cache, query_cache: &query_cache };
        let inputs = Inputs { config, texts: &texts, device: &job.device, by: EmbeddedBy::Encoder(by) };
        let outcome = job.run(inputs, &self.checkpoints, identity, rng, &mut self.listeners)?;
        let on_progress = &mut *self.listeners.on_progress;
        let report = outcome.report(&inputs, set.documents.len(), on_progress)?;
        let weights = head.named().map_err(ModelError::from)?;
        let fitted = job.write(Some(weights), &outcome, report, |staged| match config.query_encoder {
            QueryEncoderChoice::None => Ok(()),
            QueryEncoderChoice::Static => {
                let rows = &outcome.last.embedded.documents;
                give_query_encoder(&Bundle::open(staged)?, set, rows, config.seed, on_progress)
            }
        })?;
        (self.listeners.on_event)(&TrainEvent::Finished { seconds: fitted.report.seconds });
        Ok(fitted)
    }

    /// Trains a tree on given embeddings; the bundle gets the base's encoder byte for byte.
    pub(crate) fn fit_tree(mut self, set: &TrainingSet, given: &GivenEmbeddings) -> Result<Fitted> {
        let _span = tracing::info_span!("train", documents = set.documents.len()).entered();
        let (job, rng) = self.begin(set)?;
        let GivenEmbeddings { texts, embedded, collection, .. } = given;
        (self.listeners.on_event)(&job.started(texts));
        let rows = [&*embedded.documents, &embedded.queries];
        let identity = identity(&self.config, job.encoder().ok(), texts, &rows)?;
        let inputs =
            Inputs { config: &self.config, texts, device: &job.device, by: EmbeddedBy::Given(given) };
        let outcome = job.run(inputs, &self.checkpoints, identity, rng, &mut self.listeners)?;
        let report = outcome.report(&inputs, *collection, &mut *self.listeners.on_progress)?;
        let fitted = job.write(None, &outcome, report, |_| Ok(()))?;
        (self.listeners.on_event)(&TrainEvent::Finished { seconds: fitted.report.seconds });
        Ok(fitted)
    }

    /// Checks settings and places, and opens the base.
    fn begin(&mut self, set: &TrainingSet) -> Result<(Job, ChaCha8Rng)> {
        let base = self.base.take().ok_or(TrainError::Missing { what: "base" })?;
        let output = self.output.take().ok_or(TrainError::Missing { what: "output" })?;
        self.config.check()?;
        check_output(&output)?;
        let device = device::open(self.device)?;
        let shape = self.config.shape(set.documents.len())?;
        if set.documents.len() < shape.leaves() as usize {
            let (documents, leaves) = (set.documents.len(), shape.leaves());
            return Err(TrainError::TooFewDocuments { documents, leaves }.into());
        }
        let started = Instant::now();
        // Opening a bundle checks its checksums; only its encoder is trained.
        let bundle = base.join(MANIFEST_FILE).exists().then(|| Bundle::open(&base)).transpose()?;
        let opened = match bundle.filter(|_| self.encoder_settings.is_empty()) {
            Some(bundle) => Opened::Model(Arc::clone(bundle.model())),
            None => {
                Opened::Encoder(Box::new(LoadOptions::new().encoder_with(&base, &self.encoder_settings)?))
            }
        };
        let rng = ChaCha8Rng::seed_from_u64(self.config.seed);
        Ok((Job { base, opened, output, device, shape, started }, rng))
    }
}

/// A run that has begun.
struct Job {
    base: PathBuf,
    opened: Opened,
    output: PathBuf,
    device: Device,
    shape: TreeShape,
    started: Instant,
}

/// The encoder of the base.
enum Opened {
    Model(Arc<Model>),
    Encoder(Box<Encoder>),
}

impl Job {
    fn encoder(&self) -> std::result::Result<&Encoder, ModelError> {
        match &self.opened {
            Opened::Model(model) => model.encoder(),
            Opened::Encoder(encoder) => Ok(encoder),
        }
    }

    /// Width of the embeddings.
    fn dim(&self) -> usize {
        match &self.opened {
            Opened::Model(model) => model.dim(),
            Opened::Encoder(encoder) => encoder.dim(),
        }
    }

    fn started(&self, texts: &Texts) -> TrainEvent {
        TrainEvent::Started {
            documents: texts.documents.len(),
            train_queries: texts.train,
            dev_queries: texts.dev,
            leaves: self.shape.leaves(),
        }
    }

    fn run(
        &self,
        inputs: Inputs<'_>,
        checkpoints: &Option<Checkpoints>,
        identity: Identity,
        mut rng: ChaCha8Rng,
        listeners: &mut Listeners<'_>,
    ) -> Result<Outcome> {
        let trees = Trees::random(inputs.config, self.shape, self.dim(), &mut rng, &self.device);
        let run = TrainingRun {
            inputs,
            trees: &trees.map_err(ModelError::from)?,
            checkpoints: checkpoints.clone(),
            listeners,
            state: RunState::new(identity, &rng),
            rng,
            tensors: Tensors::default(),
            started: self.started,
        };
        run.finish()
    }

    /// Writes the bundle to a staging directory next to its final place, lets `complete` add to it, and moves
    /// it there. `weights` are those of the encoder, unless it is the base's.
    fn write(
        &self,
        weights: Option<Vec<(String, Tensor)>>,
        outcome: &Outcome,
        report: TrainReport,
        complete: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Fitted> {
        let (output, indexer) = (&self.output, &outcome.last.indexer);
        let json = serde_json::to_vec_pretty(&report)
            .map_err(|source| ModelError::Json { path: output.join(REPORT_FILE), source })?;
        let card = card::render(&report, &self.base, output, indexer);
        let parts = BundleParts {
            base: &self.base,
            base_encoder: self.encoder().ok(),
            encoder: weights,
            indexer,
            extras: vec![(REPORT_FILE, json), (CARD_FILE, card.into_bytes())],
        };
        let staged = parts.stage(output)?;
        let published = complete(&staged).and_then(|()| Ok(publish(&staged, output)?));
        if published.is_err() {
            // As in `BundleParts::stage`: removes the partial bundle and returns the error.
            let _ = std::fs::remove_dir_all(&staged);
        }
        published?;
        Ok(Fitted { bundle: Bundle::open(output)?, report })
    }
}

/// The layers below those that are trained.
fn frozen(encoder: &Encoder, scope: Scope) -> Result<Frozen> {
    let layers = encoder.config().layers - scope.layers;
    // No part of the encoder is trained.
    let is_whole = scope.layers == 0 && !scope.embeddings;
    Ok(Frozen {
        frozen: PackedTransformer::new(encoder.transformer()?, layers, EncoderPrecision::F32)?,
        dim: if is_whole { encoder.dim() } else { encoder.config().hidden_size },
        pooled: is_whole.then(|| encoder.pooler.clone()),
        second: None,
    })
}

/// The part of this encoder that the configuration trains.
fn scope(config: &TrainConfig, encoder: &Encoder) -> Result<Scope> {
    let layers = encoder.config().layers;
    if config.encoder.trainable_layers > layers {
        let expected = match layers {
            0 => {
                "0: the encoder is a table of token vectors, without layers; encoder.train_embeddings trains \
                 the table"
                    .to_owned()
            }
            _ => format!("at most the encoder's {layers}"),
        };
        return Err(out_of_range("encoder.trainable_layers", config.encoder.trainable_layers, expected));
    }
    if config.encoder.train_embeddings && config.encoder.trainable_layers < layers {
        let expected = format!("all {layers} layers with encoder.train_embeddings");
        return Err(out_of_range("encoder.trainable_layers", config.encoder.trainable_layers, expected));
    }
    Ok(Scope {
        layers: config.encoder.trainable_layers,
        embeddings: config.encoder.train_embeddings,
        precision: config.encoder.precision,
    })
}

/// Name of the kept file for some texts: a hash of everything that determines their states.
fn cache_name(identity: &Identity, scope: Scope, tokens: &[Vec<u32>]) -> String {
    let mut digest = Sha256::new_with_prefix(&identity.base);
    digest.update((scope.layers as u64).to_le_bytes());
    for list in tokens {
        digest.update((list.len() as u64).to_le_bytes());
        digest.update(bytemuck::cast_slice::<u32, u8>(list));
    }
    hex(&digest.finalize()[..16])
}

/// The identity that a checkpoint must match.
fn identity(
    config: &TrainConfig,
    encoder: Option<&Encoder>,
    texts: &Texts,
    given: &[&[f32]],
) -> Result<Identity> {
    let json = serde_json::to_string(config)
        .map_err(|source| ModelError::Json { path: REPORT_FILE.into(), source })?;
    // The rule for the number of leaves is not among the settings.
    let shape = config.shape(texts.documents.len())?;
    let mut base = Sha256::new();
    if let Some(encoder) = encoder {
        for (name, tensor) in encoder.transformer()?.named().map_err(ModelError::from)? {
            base.update(name.as_bytes());
            let values = tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1());
            let values: Vec<f32> = values.map_err(ModelError::from)?;
            base.update(bytemuck::cast_slice::<f32, u8>(&values));
        }
        // The folder's settings also determine how hidden states become embeddings.
        base.update(format!("{:?}", encoder.folder()));
    }
    let mut data = Sha256::new();
    for list in texts.documents.iter().chain(&texts.queries).chain(&texts.positives) {
        data.update((list.len() as u64).to_le_bytes());
        data.update(bytemuck::cast_slice::<u32, u8>(list));
    }
    for weights in texts.weights.iter().filter(|weights| !weights.is_empty()) {
        data.update(bytemuck::cast_slice::<f32, u8>(weights));
    }
    for rows in given {
        data.update(bytemuck::cast_slice::<f32, u8>(rows));
    }
    data.update((texts.train as u64).to_le_bytes());
    data.update((texts.dev as u64).to_le_bytes());
    Ok(Identity {
        config: hex(&Sha256::digest(format!("{json} {} {}", shape.branching_factor(), shape.height()))),
        base: hex(&base.finalize()),
        data: hex(&data.finalize()),
    })
}

/// Adds a query encoder to a bundle, if one can be made.
fn give_query_encoder(
    bundle: &Bundle,
    set: &TrainingSet,
    rows: &[f32],
    seed: u64,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let options = DistilOptions { seed, ..DistilOptions::default() };
    match distil_trained(bundle, set, rows, &options, on_progress) {
        // It is on by default, so its absence is not an error: searches work without it.
        Err(Error::Train(
            error @ (TrainError::TooFewTexts { .. } | TrainError::NoUnitNorm | TrainError::StaticEncoder),
        )) => {
            tracing::warn!(%error, "the bundle has no query encoder");
            Ok(())
        }
        distilled => distilled,
    }
}

pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
