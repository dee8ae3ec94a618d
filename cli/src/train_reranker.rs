//! `ehi train-reranker`

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ehi::train::{Difference, RerankerConfig, RerankerEvent, RerankerLoss, RerankerReport, RerankerTrainer};
use ehi::{Error, Index};

use crate::bars::Bars;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::long;
use crate::models;
use crate::opening::open_read_only;
use crate::printing;
use crate::restart;
use crate::train::SetArgs;

/// Share of held-out questions for a dataset without a `dev` split.
const DEV_FRACTION: f64 = 0.1;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the encoder or bundle to start from, which gets a head, or of a reranker
    #[cfg_attr(feature = "hub", doc = "(or the name of a model to fetch)")]
    #[arg(long, value_name = "DIR")]
    base: PathBuf,
    #[command(flatten)]
    set: SetArgs,
    /// Index whose hits are to be reranked, of the same documents: wrong documents to learn from and the hits
    /// of the verdict are those of its searches. That of `--index` if absent, or else BM25 over the documents
    #[arg(long, value_name = "DIR", conflicts_with = "index")]
    first_stage: Option<PathBuf>,
    /// Directory of the new reranker; must be missing or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Share of the questions set aside for the verdict, where a dataset has no `dev` split
    #[arg(long, value_name = "SHARE", default_value_t = DEV_FRACTION)]
    dev_fraction: f64,
    /// Passes over the training pairs
    #[arg(long)]
    epochs: Option<usize>,
    /// Questions of an optimiser step
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Layers trained beside the head, from the top; all if absent
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Learning rate of the layers
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,
    /// Learning rate of the head
    #[arg(long, value_name = "RATE")]
    head_learning_rate: Option<f64>,
    /// What is minimised
    #[arg(long)]
    loss: Option<LossName>,
    /// Wrong documents beside each answer, from the first search's best
    #[arg(long, value_name = "N")]
    negatives: Option<usize>,
    /// More of them, from all documents
    #[arg(long, value_name = "N")]
    random_negatives: Option<usize>,
    /// The first search's best documents that wrong ones are drawn from
    #[arg(long, value_name = "N")]
    mining_depth: Option<usize>,
    /// Tokens of a pair of texts, longer ones are cut
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Hits that are read again for the verdict
    #[arg(long, value_name = "N")]
    rerank_depth: Option<usize>,
    /// Seed of everything random
    #[arg(long)]
    seed: Option<u64>,
    /// JSON file of settings; absent ones take their default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Disk for the frozen layers' output
    #[arg(long, value_name = "BYTES", default_value_t = ehi::train::DEFAULT_CACHE_BYTES)]
    cache_bytes: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LossName {
    /// The answer before the others, by a softmax over them
    Listwise,
    /// Each document right or wrong
    Binary,
}

impl Args {
    fn settings(&self) -> Result<RerankerConfig, Failure> {
        let mut config = match &self.config {
            Some(path) => RerankerConfig::from_file(path)?,
            None => RerankerConfig::default(),
        };
        let set = |to: &mut usize, given: Option<usize>| *to = given.unwrap_or(*to);
        set(&mut config.epochs, self.epochs);
        set(&mut config.batch_size, self.batch_size);
        set(&mut config.negatives, self.negatives);
        set(&mut config.random_negatives, self.random_negatives);
        set(&mut config.mining_depth, self.mining_depth);
        set(&mut config.depth, self.rerank_depth);
        config.trainable_layers = self.layers.or(config.trainable_layers);
        config.max_tokens = self.max_tokens.or(config.max_tokens);
        config.learning_rate = self.learning_rate.unwrap_or(config.learning_rate);
        config.head_learning_rate = self.head_learning_rate.unwrap_or(config.head_learning_rate);
        config.seed = self.seed.unwrap_or(config.seed);
        config.loss = match self.loss {
            Some(LossName::Listwise) => RerankerLoss::Listwise,
            Some(LossName::Binary) => RerankerLoss::Binary,
            None => config.loss,
        };
        config.check()?;
        Ok(config)
    }

    /// The first search, and its description.
    fn first(&self) -> Result<(Option<Index>, &'static str), Failure> {
        let open = |dir: &Path| open_read_only(dir);
        match (&self.first_stage, self.set.index()) {
            (Some(dir), _) => Ok((Some(open(dir)?), "hits of the index are reranked")),
            (None, Some(dir)) => Ok(match open(dir)? {
                index if index.passages().is_none() => (Some(index), "hits of the index are reranked"),
                _ => (None, "the index has passages: hits of BM25 over whole documents are reranked"),
            }),
            (None, None) => Ok((None, "hits of BM25 over the documents are reranked")),
        }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    restart::for_training();
    let interrupts = Interrupts::watch();
    let config = args.settings()?;
    let base = models::directory(&args.base)?;
    let (first, said) = args.first()?;
    let set = args.set.read(args.dev_fraction)?;
    let epochs = config.epochs;
    let bars = RefCell::new(Bars::new());
    let mut trainer = RerankerTrainer::builder()
        .base(base)
        .output(&args.out)
        .config(config)
        .cache_bytes(args.cache_bytes)
        .on_progress(|progress| long::show(&mut bars.borrow_mut(), &interrupts, progress))
        .on_event(|event| {
            if let Some(line) = event_line(event, epochs, said) {
                bars.borrow().say(&line);
            }
        });
    if let Some(index) = &first {
        trainer = trainer.first_stage(index);
    }
    let fitted = trainer.fit(&set);
    bars.borrow_mut().clear();
    let report = match (fitted, interrupts.signal()) {
        (Err(Error::Cancelled), Some(signal)) => {
            return Err(Failure::Stopped { signal, left: "no reranker was written".to_owned() });
        }
        (fitted, _) => fitted?.report,
    };
    if args.json {
        return printing::json(out, &report);
    }
    write_report(out, &report).map_err(Failure::Output)?;
    writeln!(out, "reranker {} written after {:.1} s", printing::path(&args.out), report.seconds)
        .map_err(Failure::Output)
}

fn event_line(event: &RerankerEvent, epochs: usize, first: &str) -> Option<String> {
    Some(match event {
        RerankerEvent::Started { documents, train_queries, dev_queries, pairs, steps } => format!(
            "{documents} documents, {train_queries} training questions, {dev_queries} held out; {pairs} pairs of \
             texts, {steps} steps; {first}"
        ),
        RerankerEvent::Epoch(epoch) => {
            format!("epoch {}/{epochs}: loss {:.4} in {:.1} s", epoch.epoch, epoch.loss, epoch.seconds)
        }
        _ => return None,
    })
}

fn write_report(out: &mut dyn Write, report: &RerankerReport) -> io::Result<()> {
    let verdict = &report.verdict;
    writeln!(
        out,
        "{} documents, {} training questions with {} pairs, {} questions set aside",
        report.documents, report.train_queries, report.train_pairs, report.dev_queries
    )?;
    if let Some(Difference { value, against, .. }) = verdict.ndcg_at_10 {
        writeln!(out, "nDCG@10    {against:.4} without the reranker, {value:.4} with it")?;
        writeln!(
            out,
            "answers among the best {}: {:.1}%; {:.0} ms a question",
            verdict.depth,
            verdict.within_depth * 100.0,
            verdict.question_ms
        )?;
    }
    writeln!(out, "{}", verdict.sentence)
}
