//! `ehi learn`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use ehi::train::{Difference, LearnOptions, Learned, TrainConfig};

use crate::failure::Failure;
use crate::judge::PairsArgs;
use crate::long::{self, AS_BEFORE};
use crate::printing;
use crate::restart;
use crate::store::{ReportArgs, WriteArgs};

const SECONDS_OF_A_DAY: f64 = 86_400.0;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    pairs: PairsArgs,
    /// Days in which a judgment comes to count half; none ages if absent
    #[arg(long, value_name = "DAYS", value_parser = days)]
    half_life: Option<Duration>,
    /// Passes over the judgments
    #[arg(long)]
    epochs: Option<usize>,
    /// Seed of everything random
    #[arg(long)]
    seed: Option<u64>,
    /// JSON file of settings of the training; absent ones take their default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    restart::for_training();
    let mut config = match &args.config {
        Some(path) => TrainConfig::from_file(path).map_err(ehi::Error::from)?,
        None => TrainConfig::default(),
    };
    config.schedule.epochs = args.epochs.unwrap_or(config.schedule.epochs);
    config.seed = args.seed.unwrap_or(config.seed);
    let options = LearnOptions { pairs: args.pairs.read()?, half_life: args.half_life, config };
    let WriteArgs { report: ReportArgs { index, json }, wait } = &args.write;
    let index = wait.open(index)?;
    let learned = long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).learn(&options))?;
    if *json { printing::json(out, &learned) } else { write_learned(out, &learned).map_err(Failure::Output) }
}

fn write_learned(out: &mut dyn Write, learned: &Learned) -> io::Result<()> {
    let Learned { pairs, without_document, learned: questions, held_out, .. } = learned;
    writeln!(
        out,
        "{questions} questions with {pairs} answers to learn from, {held_out} questions set aside"
    )?;
    if *without_document > 0 {
        writeln!(out, "judgments of documents that the index does not hold: {without_document}")?;
    }
    for (name, difference) in [("nDCG@10", learned.ndcg_at_10), ("recall@10", learned.recall_at_10)] {
        if let Some(Difference { value, against, .. }) = difference {
            writeln!(out, "{name:<10} {against:.4} before, {value:.4} after")?;
        }
    }
    writeln!(out, "{}", learned.sentence)?;
    match &learned.fusion {
        Some(fusion) if fusion.words_help => {
            writeln!(
                out,
                "words count {:.2} beside it in a search, embeddings {:.2}",
                1.0 - fusion.alpha,
                fusion.alpha
            )?;
        }
        Some(_) => writeln!(out, "words do not help beside it; searches go by embeddings alone")?,
        None if learned.change.is_some() => {
            writeln!(out, "how much words count beside it was not learned: `ehi fuse` does that")?;
        }
        None => {}
    }
    match learned.change {
        None => Ok(()),
        Some(change) => writeln!(
            out,
            "{} documents encoded again; `ehi rollback` returns to what was before, `ehi drop-previous` gives \
             back its space",
            change.encoded
        ),
    }
}

fn days(text: &str) -> Result<Duration, String> {
    let days = text.trim().parse::<f64>().ok();
    let time = days.and_then(|days| Duration::try_from_secs_f64(days * SECONDS_OF_A_DAY).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "this is a number of days above 0".to_owned())
}
