//! `ehi train-reranker`

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::Index;
use ehi::train::{Difference, RerankerConfig, RerankerEvent, RerankerReport, RerankerTrainer};

use crate::bars;
use crate::failure::Failure;
use crate::long::Watched;
use crate::models;
use crate::opening::open_read_only;
use crate::printing;
use crate::restart;
use crate::text::counted;
use crate::train::TrainingArgs;

/// Share of held-out questions for a dataset without a `dev` split.
const DEV_FRACTION: f64 = 0.1;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the encoder or bundle to start from, which gets a head, or of a reranker
    #[cfg_attr(feature = "hub", doc = "(or the name of a model to fetch)")]
    #[arg(long, value_name = "DIR")]
    base: PathBuf,
    #[command(flatten)]
    training: TrainingArgs,
    /// Index whose hits are to be reranked, of the same documents: wrong documents to learn from and the hits
    /// of the verdict are those of its searches. That of `--index` if absent, or else BM25 over the documents
    #[arg(long, value_name = "DIR", conflicts_with = "index")]
    first_stage: Option<PathBuf>,
    /// Share of the questions set aside for the verdict, where a dataset has no `dev` split
    #[arg(long, value_name = "SHARE", default_value_t = DEV_FRACTION)]
    dev_fraction: f64,
    /// Tokens of a pair of texts, longer ones are cut
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Hits that are read again for the verdict
    #[arg(long, value_name = "N")]
    rerank_depth: Option<usize>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn settings(&self) -> Result<RerankerConfig, Failure> {
        let config = self.training.config.as_deref().map(RerankerConfig::from_file).transpose()?;
        let mut config = config.unwrap_or_default();
        config.epochs = self.training.epochs.unwrap_or(config.epochs);
        config.depth = self.rerank_depth.unwrap_or(config.depth);
        config.max_tokens = self.max_tokens.or(config.max_tokens);
        config.seed = self.training.seed.unwrap_or(config.seed);
        config.check()?;
        Ok(config)
    }

    /// The first search, and its description.
    fn first(&self) -> Result<(Option<Index>, &'static str), Failure> {
        let index =
            self.first_stage.as_deref().or(self.training.set.index()).map(open_read_only).transpose()?;
        Ok(match index {
            None => (None, "hits of BM25 over the documents are reranked"),
            index => (index, "hits of the index are reranked"),
        })
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    restart::for_training();
    let config = args.settings()?;
    let base = models::directory(&args.base)?;
    let (first, said) = args.first()?;
    let set = args.training.set.read(args.dev_fraction)?;
    let epochs = config.epochs;
    let watched = Watched::begin();
    let mut trainer = RerankerTrainer::builder()
        .base(base)
        .output(&args.training.out)
        .config(config)
        .cache_bytes(args.training.cache_bytes)
        .on_progress(|progress| watched.show(progress))
        .on_event(|event| event_line(event, epochs, said).iter().for_each(|line| bars::say(line)));
    if let Some(index) = &first {
        trainer = trainer.first_stage(index);
    }
    let report = watched.end("no reranker was written", trainer.fit(&set))?.report;
    printing::report(out, args.json, &report, |out| {
        write_report(out, &report)?;
        writeln!(out, "reranker {} written after {:.1} s", printing::path(&args.training.out), report.seconds)
    })
}

fn event_line(event: &RerankerEvent, epochs: usize, first: &str) -> Option<String> {
    Some(match event {
        RerankerEvent::Started { documents, train_queries, dev_queries, pairs, steps } => format!(
            "{}, {}, {dev_queries} held out; {} of texts, {}; {first}",
            counted(*documents, "document"),
            counted(*train_queries, "training question"),
            counted(*pairs, "pair"),
            counted(*steps, "step")
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
        "{}, {} with {}, {} set aside",
        counted(report.documents, "document"),
        counted(report.train_queries, "training question"),
        counted(report.train_pairs, "pair"),
        counted(report.dev_queries, "question")
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
