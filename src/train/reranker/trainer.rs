//! The builder of a reranker's training.

use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{Device, Tensor, Var};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::config::{RerankerConfig, RerankerLoss};
use super::first::{self, Hits};
use super::plan::RerankerPlan;
use super::report::{RerankerEpoch, RerankerEvent, RerankerReport};
use super::run::Inputs;
use super::verdict;
use crate::error::Result;
use crate::model::{
    CARD_FILE, DenseActivation, EncoderPrecision, ModelError, PackedTransformer, PairTokens, Precision,
    Reranker, RerankerDraft, check_output, publish,
};
use crate::progress::{OnProgress, Progress, no_progress};
use crate::train::card;
use crate::train::dataset::TrainingSet;
use crate::train::error::out_of_range;
use crate::train::frozen::{CachePlace, Frozen, FrozenCache, Read};
use crate::train::head::{Head, Scope};
use crate::train::optimizer::Parameter;
use crate::train::trainer::parent;
use crate::train::{DEFAULT_CACHE_BYTES, MovedTensor, REPORT_FILE, TrainError};

type FirstSearch<'a> = dyn Fn(&TrainingSet, &[&str], usize, &mut OnProgress<'_>) -> Result<Hits> + 'a;

/// Builder of a reranker's training, on the CPU.
///
/// The training reads each question with its answer and with wrong documents found by the first search, and
/// learns to rank the answer first. The first search is that of [`Self::first_stage`], or BM25 over the set's
/// documents. Finally the set's held-out questions decide whether the reranker helps
/// ([`RerankerVerdict`](super::RerankerVerdict)).
///
/// Disk: the hidden states below the trained layers, as f16 in an unnamed temporary file next to the output:
/// tokens times width times 2 bytes for each text pair, up to [`Self::cache_bytes`]. Memory: token ids of
/// these pairs, and the graphs of a batch.
///
/// ```no_run
/// use ehi::data::Dataset;
/// use ehi::train::{RerankerTrainer, TrainingSet};
///
/// let set = TrainingSet::read(&Dataset::open("my-data")?, 0.1)?;
/// let fitted = RerankerTrainer::builder().base("target/base-model").output("my-reranker").fit(&set)?;
/// println!("{}", fitted.report.verdict.sentence);
/// # Ok::<(), ehi::Error>(())
/// ```
#[must_use = "a run does nothing until `fit`"]
pub struct RerankerTrainer<'a> {
    base: Option<PathBuf>,
    output: Option<PathBuf>,
    config: RerankerConfig,
    first_search: Option<Box<FirstSearch<'a>>>,
    cache_bytes: u64,
    on_progress: Box<OnProgress<'a>>,
    on_event: Box<dyn FnMut(&RerankerEvent) + 'a>,
}

impl std::fmt::Debug for RerankerTrainer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RerankerTrainer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A finished training.
#[derive(Debug)]
pub struct FittedReranker {
    /// The reranker, read back from its folder.
    pub reranker: Reranker,
    /// The report of the run, stored in the folder as [`REPORT_FILE`].
    pub report: RerankerReport,
}

impl<'a> RerankerTrainer<'a> {
    /// A run with the default configuration; [`Self::base`] and [`Self::output`] must be given.
    pub fn builder() -> Self {
        Self {
            base: None,
            output: None,
            config: RerankerConfig::default(),
            first_search: None,
            cache_bytes: DEFAULT_CACHE_BYTES,
            on_progress: Box::new(no_progress),
            on_event: Box::new(|_| ()),
        }
    }

    /// The base: a reranker, or an encoder or bundle, which gets a head with one output. An encoder's prompts
    /// are ignored, because they are for single texts.
    pub fn base(mut self, dir: impl Into<PathBuf>) -> Self {
        self.base = Some(dir.into());
        self
    }

    /// Where the reranker's folder goes: a directory that does not exist yet or is empty.
    pub fn output(mut self, dir: impl Into<PathBuf>) -> Self {
        self.output = Some(dir.into());
        self
    }

    /// The settings of the run.
    pub fn config(mut self, config: RerankerConfig) -> Self {
        self.config = config;
        self
    }

    /// The search whose hits are reranked; it returns the best documents of some questions as positions in
    /// the set.
    pub(crate) fn first_search(
        mut self,
        search: impl Fn(&TrainingSet, &[&str], usize, &mut OnProgress<'_>) -> Result<Hits> + 'a,
    ) -> Self {
        self.first_search = Some(Box::new(search));
        self
    }

    /// Bytes of disk for the frozen layers' output, [`DEFAULT_CACHE_BYTES`] by default. Output beyond that is
    /// recomputed whenever it is read.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets a callback for progress, which may cancel the run.
    pub fn on_progress(mut self, callback: impl FnMut(Progress) -> std::ops::ControlFlow<()> + 'a) -> Self {
        self.on_progress = Box::new(callback);
        self
    }

    /// Sets a callback for the start and each epoch.
    pub fn on_event(mut self, callback: impl FnMut(&RerankerEvent) + 'a) -> Self {
        self.on_event = Box::new(callback);
        self
    }

    /// Trains, measures, writes the folder whatever the verdict, and opens it.
    ///
    /// # Errors
    /// [`TrainError`] for the configuration and the data, a NaN loss, and a tensor that gets no gradient or
    /// does not move; [`ModelError`] for the base: [`ModelError::OtherPurpose`] for one that is neither
    /// encoder nor reranker, [`ModelError::BadSetting`] for a family without a known head; for an existing
    /// output; failures of the first search; [`Error::Cancelled`](crate::Error::Cancelled). On error no
    /// folder is written.
    pub fn fit(mut self, set: &TrainingSet) -> Result<FittedReranker> {
        let _span = tracing::info_span!("train_reranker", documents = set.documents.len()).entered();
        let base = self.base.take().ok_or(TrainError::Missing { what: "base" })?;
        let output = self.output.take().ok_or(TrainError::Missing { what: "output" })?;
        self.config.check()?;
        if set.train.is_empty() {
            return Err(TrainError::NoPairs.into());
        }
        check_output(&output)?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.config.seed);
        let activation = match self.config.loss {
            RerankerLoss::Listwise => DenseActivation::Identity,
            RerankerLoss::Binary => DenseActivation::Sigmoid,
        };
        let draft = RerankerDraft::new(&base, &output, self.config.max_tokens, activation, &mut rng)?;
        let trained = self.train(&draft, set, (&base, &output), &mut rng);
        if trained.is_err() {
            // The draft is of no use after an error.
            let _ = std::fs::remove_dir_all(draft.dir());
        }
        let report = trained?;
        publish(draft.dir(), &output)?;
        (self.on_event)(&RerankerEvent::Finished { seconds: report.seconds });
        Ok(FittedReranker { reranker: Reranker::open(&output)?, report })
    }

    fn train(
        &mut self,
        draft: &RerankerDraft,
        set: &TrainingSet,
        (base, output): (&Path, &Path),
        rng: &mut ChaCha8Rng,
    ) -> Result<RerankerReport> {
        let started = Instant::now();
        let start = draft.reranker();
        let all_layers = start.transformer()?.config.layers;
        let layers = self.config.trainable_layers.unwrap_or(all_layers);
        if layers == 0 || layers > all_layers {
            let expected = format!("1 to the encoder's {all_layers}");
            return Err(out_of_range("trainable_layers", layers, expected));
        }
        let (train_hits, dev_hits) = self.first_hits(start, set)?;
        let plan = RerankerPlan::draw(set, &train_hits, &self.config, rng);
        if plan.pairs.is_empty() {
            return Err(TrainError::NoNegatives { documents: set.documents.len() }.into());
        }
        (self.on_event)(&RerankerEvent::Started {
            documents: set.documents.len(),
            train_queries: set.train.len(),
            dev_queries: set.dev.len(),
            pairs: plan.pairs.len(),
            steps: plan.steps(self.config.batch_size),
        });
        let (epochs, moved) = self.train_layers(draft, set, &plan, layers, output)?;
        // Measures the reranker as written.
        let written = Reranker::open(draft.dir())?;
        let depth = self.config.depth;
        let verdict = verdict::compute(&written, set, &dev_hits, depth, &mut *self.on_progress)?;
        let config = RerankerConfig {
            trainable_layers: Some(layers),
            max_tokens: Some(written.max_tokens()),
            ..self.config.clone()
        };
        let report = RerankerReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config,
            documents: set.documents.len(),
            train_queries: set.train.len(),
            train_pairs: set.pairs(),
            dev_queries: set.dev.len(),
            epochs,
            verdict,
            moved,
            seconds: started.elapsed().as_secs_f64(),
        };
        let json = serde_json::to_vec_pretty(&report)
            .map_err(|source| ModelError::Json { path: output.join(REPORT_FILE), source })?;
        let card = card::of_reranker(&report, base, output).into_bytes();
        draft.add(&[(REPORT_FILE, json), (CARD_FILE, card)])?;
        Ok(report)
    }

    /// Trains the last layers and the head, and writes them into the draft.
    fn train_layers(
        &mut self,
        draft: &RerankerDraft,
        set: &TrainingSet,
        plan: &RerankerPlan,
        layers: usize,
        output: &Path,
    ) -> Result<(Vec<RerankerEpoch>, Vec<MovedTensor>)> {
        let start = draft.reranker();
        let transformer = start.transformer()?;
        let tokens = tokenize(start, set, plan)?;
        let mut of_head = Vec::new();
        let pooler = draft.map_head(&mut |name, tensor| {
            let var = Var::from_tensor(&tensor.copy()?)?;
            let shared = var.as_tensor().clone();
            of_head.push(Parameter { name: name.to_owned(), var });
            Ok(shared)
        });
        let pooler = pooler.map_err(ModelError::from)?;
        let below = transformer.config.layers - layers;
        let frozen = Frozen {
            frozen: PackedTransformer::new(transformer, below, EncoderPrecision::F32)?,
            dim: transformer.config.hidden_size,
            pooled: None,
            second: start.second().map(<[f32]>::to_vec),
        };
        let read = Read { tokens: &tokens.ids, types: &tokens.types, skip: 0 };
        let place = CachePlace::Nameless(parent(output));
        let mut budget = self.cache_bytes;
        let cache = FrozenCache::compute(&frozen, read, &place, &mut budget, &mut *self.on_progress)?;
        let scope = Scope { layers, embeddings: false, precision: Precision::F32 };
        let mut head = Head::of(transformer, pooler, scope, &Device::Cpu)?;
        head.add_parameters(of_head.iter().cloned());
        let inputs =
            Inputs { config: &self.config, set, plan, cache: &cache, head: &head, of_head: &of_head };
        let trained = inputs.train(&mut *self.on_progress, &mut *self.on_event)?;
        let named = head.named().map_err(ModelError::from)?;
        let of_head: Vec<(String, Tensor)> =
            of_head.into_iter().map(|own| (own.name, own.var.as_detached_tensor())).collect();
        draft.write(&named, &of_head)?;
        Ok(trained)
    }

    /// Hits of the first search for the training and the held-out questions.
    fn first_hits(&mut self, start: &Reranker, set: &TrainingSet) -> Result<(Hits, Hits)> {
        let questions: Vec<&str> =
            set.train.iter().chain(&set.dev).map(|query| query.text.as_str()).collect();
        // Answers among the best hits are not negatives.
        let most = set.train.iter().map(|query| query.positives.len()).max().unwrap_or(0);
        let depth = (self.config.mining_depth + most).max(self.config.depth);
        let on_progress = &mut *self.on_progress;
        let mut hits = match &self.first_search {
            Some(search) => search(set, &questions, depth, on_progress)?,
            None => first::by_words(start, set, &questions, depth, on_progress)?,
        };
        let dev = hits.split_off(set.train.len());
        hits.iter_mut().zip(&set.train).for_each(|(hits, query)| {
            hits.truncate(self.config.mining_depth + query.positives.len());
        });
        Ok((hits, dev))
    }
}

/// Tokenises every pair.
pub(super) fn tokenize(start: &Reranker, set: &TrainingSet, plan: &RerankerPlan) -> Result<PairTokens> {
    let documents: Vec<_> = set.documents.iter().map(|document| document.embedding_text()).collect();
    let pair = |&(question, document): &(usize, u32)| {
        (set.train[question].text.as_str(), documents[document as usize].as_ref())
    };
    let pairs: Vec<(&str, &str)> = plan.pairs.iter().map(pair).collect();
    Ok(start.tokenize(&pairs)?)
}
