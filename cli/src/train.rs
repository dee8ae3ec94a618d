//! `ehi train`

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ehi::data::{Dataset, JudgmentFormat};
use ehi::train::{Init, Preset, TrainConfig, TrainDevice, TrainEvent, Trainer, TrainingSet};
use ehi::{Document, Judgment};
use serde_json::json;

use crate::arguments::one_of;
use crate::bars;
use crate::failure::Failure;
use crate::fields::FieldArgs;
use crate::insert::origin;
use crate::judge;
use crate::long::Watched;
use crate::models::{self, EncoderArgs};
use crate::opening::open_read_only;
use crate::printing;
use crate::restart;
use crate::text::{counted, escaped};
use crate::training;

const PRESETS: [(&str, Preset); 4] = [
    ("scifact", Preset::SciFact),
    ("fiqa", Preset::Fiqa),
    ("msmarco", Preset::MsMarco),
    ("nq320k", Preset::Nq320k),
];

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the encoder to start from, or a bundle
    #[cfg_attr(feature = "hub", doc = "(or the name of a model to fetch)")]
    #[cfg_attr(feature = "hub", arg(long, value_name = "DIR", default_value = ehi::model::DEFAULT_MODEL))]
    #[cfg_attr(not(feature = "hub"), arg(long, value_name = "DIR"))]
    base: PathBuf,
    #[command(flatten)]
    encoder: EncoderArgs,
    #[command(flatten)]
    training: TrainingArgs,
    /// Branching factor B; by the size of the corpus if absent
    #[arg(long)]
    branching: Option<u32>,
    /// Height H; the tree has B^H leaves
    #[arg(long)]
    height: Option<u32>,
    /// Start of the tree
    #[arg(long, value_parser = one_of([("random", Init::Random), ("kmeans", Init::KMeans)]))]
    init: Option<Init>,
    /// Where to train
    #[arg(long, default_value = "cpu", value_parser = one_of([("cpu", TrainDevice::Cpu), ("cuda", TrainDevice::Cuda)]))]
    device: TrainDevice,
    /// The paper's settings for a dataset
    #[arg(long, value_parser = one_of(PRESETS), conflicts_with = "config")]
    preset: Option<Preset>,
    /// Leave a checkpoint in this directory now and then, and when interrupted
    #[arg(long, value_name = "DIR")]
    checkpoints: Option<PathBuf>,
    /// Optimiser steps between two checkpoints
    #[arg(long, value_name = "N", default_value_t = 100, requires = "checkpoints")]
    checkpoint_steps: usize,
    /// Go on from the checkpoint in that directory, if there is one
    #[arg(long, requires = "checkpoints")]
    resume: bool,
    /// Append every step, epoch and refresh to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Keep the frozen layers' output in this directory, for later runs over the same texts
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// What is trained on, and how, for a model or a reranker.
#[derive(clap::Args)]
pub struct TrainingArgs {
    #[command(flatten)]
    pub set: SetArgs,
    /// Directory of what is trained; must be missing or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Passes over the training pairs
    #[arg(long)]
    pub epochs: Option<usize>,
    /// Seed of everything random
    #[arg(long)]
    pub seed: Option<u64>,
    /// JSON file of settings; absent ones take their default
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Disk for the frozen layers' output
    #[arg(long, value_name = "BYTES", default_value_t = ehi::train::DEFAULT_CACHE_BYTES)]
    pub cache_bytes: u64,
}

/// What is trained on.
#[derive(clap::Args)]
#[group(id = "trained_on", required = true, multiple = false, args = ["data", "pairs"])]
pub struct SetArgs {
    /// Dataset: a folder with corpus.jsonl, queries.jsonl and qrels/train.tsv, or in the layout of
    /// MS MARCO (TSV) or extreme classification
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Questions and the ids of documents that answer them: CSV, TSV or JSON lines of question, id, and if
    /// there are more grade, weight and time, as `ehi judge --file` reads them; with --corpus or --index
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Form of that file; by the ending of its name, or its content, if absent
    #[arg(long, value_name = "FORM", requires = "pairs", value_parser = one_of(judge::FORMATS))]
    pairs_format: Option<JudgmentFormat>,
    /// The documents of the pairs: a file or folder that `ehi insert` reads
    #[arg(long, value_name = "FILE", requires = "pairs")]
    corpus: Option<PathBuf>,
    /// The documents of the pairs: those of an index
    #[arg(long, value_name = "DIR", requires = "pairs", conflicts_with = "corpus")]
    index: Option<PathBuf>,
    #[command(flatten)]
    fields: FieldArgs,
}

impl SetArgs {
    /// The index whose documents they are.
    pub fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }

    pub fn read(&self, dev_fraction: f64) -> Result<TrainingSet, Failure> {
        if self.fields.are_given() && self.corpus.is_none() {
            return Err(Failure::Usage("the names of fields and `--format` are for `--corpus`".to_owned()));
        }
        if let Some(data) = &self.data {
            return Ok(TrainingSet::read(&Dataset::open(data)?, dev_fraction)?);
        }
        let pairs = self.pairs.as_deref().unwrap_or(Path::new(""));
        let (judgments, _) = judge::read(pairs, self.pairs_format)?;
        let documents: Vec<Document> = match (&self.corpus, &self.index) {
            (Some(corpus), _) => {
                let documents = origin::documents(corpus, &self.fields)?;
                documents.collect::<Result<_, _>>()?
            }
            (None, Some(index)) => open_read_only(index)?.iter().collect::<Result<_, _>>()?,
            (None, None) => {
                return Err(Failure::Usage("`--pairs` needs `--corpus` or `--index`".to_owned()));
            }
        };
        let ids: HashSet<&str> = documents.iter().map(|document| document.id.as_str()).collect();
        let is_there = |judged: &&Judgment| ids.contains(judged.id.as_str());
        if let Some(Judgment { question, id, .. }) = judgments.iter().find(|judged| !is_there(judged)) {
            return Err(Failure::Usage(format!(
                "{}: a pair of the question `{}` names the document `{}`, which is missing from the {} given; remove \
                 the pair, or add the document",
                printing::path(pairs),
                escaped(question),
                escaped(id),
                counted(documents.len(), "document")
            )));
        }
        Ok(TrainingSet::from_judgments(documents, &judgments, dev_fraction)?)
    }
}

impl Args {
    fn settings(&self) -> Result<TrainConfig, Failure> {
        let mut config = match (&self.training.config, self.preset) {
            (Some(path), _) => TrainConfig::from_file(path)?,
            (None, Some(preset)) => TrainConfig::preset(preset),
            (None, None) => TrainConfig::default(),
        };
        config.tree.branching_factor = self.branching.or(config.tree.branching_factor);
        config.tree.height = self.height.unwrap_or(config.tree.height);
        config.schedule.epochs = self.training.epochs.unwrap_or(config.schedule.epochs);
        config.seed = self.training.seed.unwrap_or(config.seed);
        config.tree.init = self.init.unwrap_or(config.tree.init);
        config.check()?;
        Ok(config)
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    restart::for_training();
    let config = args.settings()?;
    let base = models::directory(&args.base)?;
    let set = args.training.set.read(config.dev_fraction)?;
    let epochs = config.schedule.epochs;
    let open =
        |path| File::options().create(true).append(true).open(path).map_err(Failure::file("open", path));
    let mut log = args.log.as_deref().map(open).transpose()?;
    let (watched, started) = (Watched::begin(), Instant::now());
    let mut trainer = Trainer::builder()
        .base(base)
        .encoder_settings(args.encoder.settings())
        .output(&args.training.out)
        .config(config)
        .device(args.device)
        .cache_bytes(args.training.cache_bytes)
        .on_progress(|progress| watched.show(progress))
        .on_event(|event| {
            training::event_line(event, epochs).iter().for_each(|line| bars::say(&escaped(line)));
            // A full disk must not end a long run, only its log.
            if let Some(Err(error)) = log.as_mut().map(|log| write_event(log, started, event)) {
                tracing::warn!(%error, "the training log cannot be written");
                log = None;
            }
        });
    if let Some(dir) = &args.checkpoints {
        trainer = trainer.checkpoints(dir, args.checkpoint_steps).resume(args.resume);
    }
    trainer = args.cache.iter().fold(trainer, |trainer, dir| trainer.cache(dir));
    let hint = match &args.checkpoints {
        Some(_) => "run the same command with `--resume` to go on from the checkpoint",
        None => "with `--checkpoints` a later run can go on from where this one ended",
    };
    let report = watched.end(&format!("no bundle was written; {hint}"), trainer.fit(&set))?.report;
    training::write_training(out, &report).map_err(Failure::Output)?;
    writeln!(out, "bundle {} written after {:.1} s", printing::path(&args.training.out), report.seconds)
        .map_err(Failure::Output)
}

/// Writes an event on a line, with the seconds since the run began as `at`.
fn write_event(log: &mut File, started: Instant, event: &TrainEvent) -> io::Result<()> {
    let mut line = json!(event);
    line["at"] = json!(started.elapsed().as_secs_f64());
    log.write_all(format!("{line}\n").as_bytes())
}
