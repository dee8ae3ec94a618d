//! The builder of a training run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{DType, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::balance::LeafSizes;
use super::card;
use super::checkpoint::Identity;
use super::config::{QueryEncoderChoice, TrainConfig};
use super::dataset::TrainingSet;
use super::dev;
use super::device::{self, TrainDevice};
use super::error::{TrainError, out_of_range};
use super::frozen::{CachePlace, Frozen, FrozenCache, Read};
use super::head::{Head, Scope};
use super::inputs::Inputs;
use super::log::Log;
use super::query_encoder::{DistilOptions, distil_trained};
use super::refresh::Embedded;
use super::report::{TrainEvent, TrainReport};
use super::run::{Checkpoints, Listeners, Outcome, Run, Start};
use super::texts::Texts;
use super::trees::Trees;
use super::verdict::Verdict;
use crate::error::{Error, Result};
use crate::model::{
    Bundle, BundleParts, CARD_FILE, Encoder, EncoderPrecision, EncoderSettings, LoadOptions, MANIFEST_FILE,
    ModelError, PackedTransformer, Role, RoutingProfile, RoutingProfiles, check_output, hex, publish,
};
use crate::progress::{OnProgress, Progress, no_progress};

/// File of the report inside a bundle.
pub const REPORT_FILE: &str = crate::model::REPORT_FILE;

/// Default for the bytes of hidden states that a run keeps on disk: 32 GiB.
pub const DEFAULT_CACHE_BYTES: u64 = 32 << 30;

/// Precomputed embeddings that a run reads instead of texts.
pub(crate) struct Given {
    pub texts: Texts,
    pub embedded: Embedded,
    /// Documents in the collection that these are a sample of.
    pub collection: usize,
    /// Centroids that the tree starts from, `[leaves, dim]` of unit norm: k-means of the documents.
    pub centroids: Vec<f32>,
}

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
pub struct Trainer<'a> {
    base: Option<PathBuf>,
    encoder_settings: EncoderSettings,
    output: Option<PathBuf>,
    config: TrainConfig,
    device: TrainDevice,
    checkpoints: Option<Checkpoints>,
    cache_dir: Option<PathBuf>,
    cache_bytes: u64,
    log: Option<PathBuf>,
    on_progress: ProgressCallback<'a>,
    on_event: Box<dyn FnMut(&TrainEvent) + 'a>,
}

impl std::fmt::Debug for Trainer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("base", &self.base)
            .field("output", &self.output)
            .field("config", &self.config)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

type ProgressCallback<'a> = Box<OnProgress<'a>>;

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
            log: None,
            on_progress: Box::new(no_progress),
            on_event: Box::new(|_| ()),
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

    /// Appends every [`TrainEvent`] to a file, one JSON object per line.
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Sets a callback for progress, which may cancel the run.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) -> std::ops::ControlFlow<()> + 'a) -> Self {
        self.on_progress = Box::new(callback);
        self
    }

    /// Sets a callback for every step, epoch, refresh and checkpoint.
    pub fn on_event(mut self, callback: impl FnMut(&TrainEvent) + 'a) -> Self {
        self.on_event = Box::new(callback);
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
    pub fn fit(self, set: &TrainingSet) -> Result<Fitted> {
        self.run(set, None)
    }

    /// Trains a tree on given embeddings; the bundle gets the base's encoder byte for byte.
    pub(crate) fn fit_tree(self, set: &TrainingSet, given: Given) -> Result<Fitted> {
        self.run(set, Some(given))
    }

    fn run(mut self, set: &TrainingSet, given: Option<Given>) -> Result<Fitted> {
        let _span = tracing::info_span!("train", documents = set.documents.len()).entered();
        let base = self.base.take().ok_or(TrainError::Missing { what: "base" })?;
        let output = self.output.take().ok_or(TrainError::Missing { what: "output" })?;
        let config = &self.config;
        config.check()?;
        check_output(&output)?;
        let device = device::open(self.device)?;
        let shape = config.shape(set.documents.len())?;
        if set.documents.len() < shape.leaves() as usize {
            let (documents, leaves) = (set.documents.len(), shape.leaves());
            return Err(TrainError::TooFewDocuments { documents, leaves }.into());
        }
        let mut log = self.log.as_deref().map(Log::open).transpose()?;
        let mut on_event = |event: &TrainEvent| {
            if let Some(log) = &mut log {
                log.write(event);
            }
            (self.on_event)(event);
        };
        let on_progress: &mut OnProgress<'_> = &mut *self.on_progress;

        let started = Instant::now();
        // Opening a bundle checks its checksums; only its encoder is trained.
        let bundle = base.join(MANIFEST_FILE).exists().then(|| Bundle::open(&base)).transpose()?;
        let plain;
        let encoder = match bundle.as_ref().filter(|_| self.encoder_settings.is_empty()) {
            Some(bundle) => bundle.model().encoder(),
            None => {
                plain = LoadOptions::new().encoder_with(&base, &self.encoder_settings)?;
                &plain
            }
        };
        let scope = scope(config, encoder)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
        let collection = given.as_ref().map_or(set.documents.len(), |given| given.collection);
        let (texts, given, centroids) = match given {
            Some(Given { texts, embedded, centroids, .. }) => (texts, Some(embedded), Some(centroids)),
            None => (Texts::new(set, encoder, config, &mut rng)?, None, None),
        };
        on_event(&TrainEvent::Started {
            documents: texts.documents.len(),
            train_queries: texts.train,
            dev_queries: texts.dev,
            leaves: shape.leaves(),
        });
        let dim = encoder.dim();
        let frozen = encoder.config().layers - scope.layers;
        // No part of the encoder is trained.
        let is_given_whole = scope.layers == 0 && !scope.embeddings;
        let identity = identity(config, encoder, &texts, given.as_ref())?;
        let frozen = Frozen {
            frozen: PackedTransformer::new(encoder.transformer()?, frozen, EncoderPrecision::F32)
                .map_err(ModelError::from)?,
            dim: if is_given_whole { dim } else { encoder.config().hidden_size },
            pooled: is_given_whole.then(|| encoder.pooler.clone()),
            second: None,
        };
        // The whole encoder reads token ids, so there is nothing to keep.
        let mut budget = if scope.embeddings { 0 } else { self.cache_bytes };
        let place = |tokens: &[Vec<u32>]| match &self.cache_dir {
            None => CachePlace::Nameless(parent(&output)),
            Some(dir) => CachePlace::Kept { dir: dir.clone(), name: cache_name(&identity, scope, tokens) },
        };
        let (queries, documents): (&[_], &[_]) = match given {
            Some(_) => (&[], &[]),
            None => (&texts.queries, &texts.documents),
        };
        let query_place = place(queries);
        let mut cache = |texts, role, place: &CachePlace| {
            FrozenCache::compute(
                &frozen,
                Read::single(texts, encoder.skipped(role)?),
                place,
                &mut budget,
                on_progress,
            )
        };
        let query_cache = cache(queries, Role::Query, &query_place)?;
        let document_place = place(documents);
        let document_cache = cache(documents, Role::Document, &document_place)?;
        let head = Head::new(encoder, scope, &device)?;
        let trees = Trees::random(config, shape, dim, &mut rng, &device).map_err(ModelError::from)?;
        let inputs = Inputs {
            config,
            texts: &texts,
            document_cache: &document_cache,
            query_cache: &query_cache,
            head: &head,
            device: &device,
            given: given.as_ref(),
            centroids: centroids.as_deref(),
        };
        let start =
            Start { inputs, trees: &trees, checkpoints: self.checkpoints.clone(), identity, rng, started };
        let outcome = Run::new(start, Listeners { on_progress, on_event: &mut on_event }).finish()?;
        let ending = outcome.beginning.ending(&outcome.last, &texts, config.seed, on_progress)?;
        let mut report = report(config, &texts, &outcome, ending.verdict, ending.leaf_sizes)?;
        report.routing = report.routing.map(|routing| routing.of_collection(collection));
        // Rewritten weights are rounded to f16.
        let is_given = given.is_some();
        let base_encoder = encoder;
        let encoder = if is_given { None } else { Some(head.named().map_err(ModelError::from)?) };
        let staged = stage(&output, (&base, base_encoder), encoder, &outcome, &report)?;
        let mut finish = || -> Result<()> {
            if !is_given && config.query_encoder == QueryEncoderChoice::Static {
                let rows = &outcome.last.embedded.documents;
                give_query_encoder(&Bundle::open(&staged)?, set, rows, config.seed, on_progress)?;
            }
            Ok(publish(&staged, &output)?)
        };
        if let Err(error) = finish() {
            // As in `BundleParts::stage`: removes the partial bundle and returns the error.
            let _ = std::fs::remove_dir_all(&staged);
            return Err(error);
        }
        on_event(&TrainEvent::Finished { seconds: report.seconds });
        Ok(Fitted { bundle: Bundle::open(&output)?, report })
    }
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
    encoder: &Encoder,
    texts: &Texts,
    given: Option<&Embedded>,
) -> Result<Identity> {
    let json = serde_json::to_string(config)
        .map_err(|source| ModelError::Json { path: REPORT_FILE.into(), source })?;
    let mut base = Sha256::new();
    for (name, tensor) in encoder.transformer()?.named().map_err(ModelError::from)? {
        base.update(name.as_bytes());
        let values = tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1());
        let values: Vec<f32> = values.map_err(ModelError::from)?;
        base.update(bytemuck::cast_slice::<f32, u8>(&values));
    }
    // The folder's settings also determine how hidden states become embeddings.
    base.update(format!("{:?}", encoder.folder()));
    let mut data = Sha256::new();
    for list in texts.documents.iter().chain(&texts.queries).chain(&texts.positives) {
        data.update((list.len() as u64).to_le_bytes());
        data.update(bytemuck::cast_slice::<u32, u8>(list));
    }
    for weights in texts.weights.iter().filter(|weights| !weights.is_empty()) {
        data.update(bytemuck::cast_slice::<f32, u8>(weights));
    }
    for rows in given.iter().flat_map(|given| [&given.documents, &given.queries]) {
        data.update(bytemuck::cast_slice::<f32, u8>(rows));
    }
    data.update((texts.train as u64).to_le_bytes());
    data.update((texts.dev as u64).to_le_bytes());
    Ok(Identity {
        config: hex(&Sha256::digest(json)),
        base: hex(&base.finalize()),
        data: hex(&data.finalize()),
    })
}

fn report(
    config: &TrainConfig,
    texts: &Texts,
    outcome: &Outcome,
    verdict: Verdict,
    leaf_sizes: LeafSizes,
) -> Result<TrainReport> {
    let mut config = config.clone();
    // The report shows the value chosen by the rule.
    config.tree.branching_factor = Some(outcome.last.indexer.shape().branching_factor());
    let after = dev::figures(&outcome.last, texts)?;
    let mut loads = outcome.state.loads.clone();
    loads.push(after.load(outcome.state.epochs.len() + outcome.state.indexer_epochs.len()));
    Ok(TrainReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config,
        documents: texts.documents.len(),
        train_queries: texts.train,
        train_pairs: texts.positives[..texts.train].iter().map(Vec::len).sum(),
        dev_queries: texts.dev,
        before: outcome.state.before.clone(),
        epochs: outcome.state.epochs.clone(),
        indexer_epochs: outcome.state.indexer_epochs.clone(),
        stopped_early: outcome.state.stopped_early,
        after,
        verdict: Some(verdict),
        loads,
        leaf_sizes,
        routing: Some(RoutingProfiles::new(
            RoutingProfile::measure(&outcome.last.indexer, &outcome.last.embedded.documents),
            RoutingProfile::measure(
                &outcome.last.indexer,
                &outcome.last.embedded.queries[..texts.train * outcome.last.embedded.dim],
            ),
        )),
        moved: outcome.moved.clone(),
        seconds: outcome.seconds,
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

/// Writes the bundle to a staging directory next to its final place, and returns its path.
fn stage(
    output: &Path,
    (base, base_encoder): (&Path, &Encoder),
    encoder: Option<Vec<(String, Tensor)>>,
    outcome: &Outcome,
    report: &TrainReport,
) -> Result<PathBuf> {
    let json = serde_json::to_vec_pretty(report)
        .map_err(|source| ModelError::Json { path: output.join(REPORT_FILE), source })?;
    let card = card::render(report, base, output, &outcome.last.indexer);
    let parts = BundleParts {
        base,
        base_encoder,
        encoder,
        indexer: &outcome.last.indexer,
        extras: vec![(REPORT_FILE, json), (CARD_FILE, card.into_bytes())],
    };
    Ok(parts.stage(output)?)
}

pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
