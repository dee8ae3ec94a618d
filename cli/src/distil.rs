//! `ehi distil`

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::data::Dataset;
use ehi::model::{DistilReport, EncoderQuality};
use ehi::train::{
    self, DEFAULT_PASSES, DEFAULT_TEXTS, DistilOptions, QueryEncoderChoice, TrainConfig, TrainingSet,
};
use ehi::{Bundle, no_progress};

use crate::arguments::one_of;
use crate::calibrate::questions;
use crate::failure::Failure;
use crate::judge::PairsArgs;
use crate::long::{self, AS_BEFORE};
use crate::opening::WaitArgs;
use crate::printing;

/// The state after a signal ends a distillation.
const BUNDLE_AS_BEFORE: &str = "the bundle is as before";

#[derive(clap::Args)]
#[group(id = "where", required = true, multiple = false, args = ["model", "index"])]
pub struct Args {
    /// Bundle that gets the query encoder; with --data, unless one is taken away
    #[arg(long, value_name = "BUNDLE")]
    model: Option<PathBuf>,
    /// Directory of an index whose model gets it; it learns from what is stored, and nothing is encoded again
    #[arg(long, value_name = "DIR", conflicts_with = "data")]
    index: Option<PathBuf>,
    /// Dataset that the bundle's query encoder learns from: a folder in the layout of BEIR, MS MARCO (TSV) or
    /// extreme classification
    #[arg(long, value_name = "DIR", requires = "model")]
    data: Option<PathBuf>,
    #[command(flatten)]
    pairs: PairsArgs,
    /// Questions that are asked, as BEIR query lines, plain or gzip
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// What is made: static, a vector for each token; or none, to take away one that is there
    #[arg(long, value_name = "KIND", default_value = "static", value_parser = one_of(
        [("none", QueryEncoderChoice::None), ("static", QueryEncoderChoice::Static)]))]
    query_encoder: QueryEncoderChoice,
    /// Texts that it learns from at most: questions, titles and sentences
    #[arg(long, default_value_t = DEFAULT_TEXTS)]
    texts: usize,
    /// Passes over them
    #[arg(long, default_value_t = DEFAULT_PASSES)]
    passes: usize,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    wait: WaitArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let options = DistilOptions {
        query_encoder: args.query_encoder,
        texts: args.texts,
        passes: args.passes,
        questions: args.queries.as_deref().map(questions).transpose()?.unwrap_or_default(),
        pairs: args.pairs.read()?,
        seed: args.seed,
    };
    let report = match (&args.index, &args.model, &args.data) {
        (Some(index), ..) => {
            let index = args.wait.open(index)?;
            long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).distil(&options))?
        }
        (None, Some(model), None) if options.query_encoder == QueryEncoderChoice::None => {
            train::distil(&Bundle::open(model)?, &TrainingSet::default(), &options, &mut no_progress)?
        }
        (None, Some(model), Some(data)) => {
            let bundle = Bundle::open(model)?;
            let set = TrainingSet::read(&Dataset::open(data)?, TrainConfig::default().dev_fraction)?;
            long::run(BUNDLE_AS_BEFORE, |on_progress| train::distil(&bundle, &set, &options, on_progress))?
        }
        _ => return Err(Failure::Usage("`--model` with `--data`, or `--index`, is needed".to_owned())),
    };
    printing::report(out, args.json, &report, |out| write_report(out, report.as_ref()))
}

/// The report of a distillation; `None` if the query encoder was removed.
fn write_report(out: &mut dyn Write, report: Option<&DistilReport>) -> io::Result<()> {
    let Some(report) = report else {
        return writeln!(out, "the query encoder is removed; questions are read by the full encoder");
    };
    writeln!(
        out,
        "a query encoder of {:.1} MB from {} texts, {} of them judged questions, in {:.0} s",
        report.bytes as f64 / 1e6,
        report.texts,
        report.questions,
        report.seconds,
    )?;
    let times = report.encode_us;
    writeln!(
        out,
        "median time to encode one of the texts set aside, one thread: {:.0} us, by the full encoder {:.0} us",
        times.fast, times.full,
    )?;
    writeln!(
        out,
        "on {} texts set aside: cosine to the full encoder {:.3}, {:.0}% of its ten nearest documents; unsure \
         of {:.1}%, which the full encoder reads",
        report.held_out_texts,
        report.cosine,
        100.0 * report.overlap_at_10,
        100.0 * report.unsure,
    )?;
    if let Some(tree) = report.tree {
        writeln!(
            out,
            "routing, {} leaves: {:.1}% of those documents by the fast embedding, {:.1}% by the full one",
            tree.beam,
            100.0 * tree.fast,
            100.0 * tree.full,
        )?;
    }
    if let (Some(full), Some(fast)) = (report.full, report.fast) {
        writeln!(out, "over {} documents, every one scored:", report.documents)?;
        writeln!(out, "        nDCG@10  recall@10  recall@100")?;
        for (name, EncoderQuality { ndcg_at_10, recall_at_10, recall_at_100, .. }) in
            [("full", full), ("fast", fast)]
        {
            writeln!(out, "  {name}   {ndcg_at_10:.4}     {recall_at_10:.4}      {recall_at_100:.4}")?;
        }
    }
    writeln!(out, "{}", report.sentence)
}
