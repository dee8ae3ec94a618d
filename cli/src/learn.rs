//! `ehi learn`

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::learn::{LearnOptions, Learned};
use ehi::train::{Difference, TrainConfig};

use crate::failure::Failure;
use crate::fuse::write_step;
use crate::judge::PairsArgs;
use crate::long::AS_BEFORE;
use crate::restart;
use crate::store::WriteArgs;
use crate::text::counted;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    pairs: PairsArgs,
    /// Use what was learned even where it is not shown to be better
    #[arg(long)]
    accept: bool,
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
    let config = args.config.as_deref().map(TrainConfig::from_file).transpose()?;
    let mut config = config.unwrap_or_default();
    config.schedule.epochs = args.epochs.unwrap_or(config.schedule.epochs);
    config.seed = args.seed.unwrap_or(config.seed);
    let options = LearnOptions { pairs: args.pairs.read()?, config, accept: args.accept };
    args.write.run(
        out,
        AS_BEFORE,
        |index, on_progress| {
            // Printed before minutes of training.
            eprintln!("{}", index.learnable(&options)?.sentence);
            index.with_progress(on_progress).learn(&options)
        },
        |out, _, learned| write_learned(out, learned),
    )
}

fn write_learned(out: &mut dyn Write, learned: &Learned) -> io::Result<()> {
    let Learned { without_document, fusion, query_encoder, .. } = learned;
    if *without_document > 0 {
        writeln!(out, "judgments of documents that the index does not hold: {without_document}")?;
    }
    let figures = [
        ("nDCG@10", learned.ndcg_at_10),
        ("nDCG@10, with memory", learned.with_memory),
        ("recall@10", learned.recall_at_10),
        ("nDCG@10, encoder alone", learned.encoder),
    ];
    for (name, difference) in figures {
        if let Some(Difference { value, against, .. }) = difference {
            writeln!(out, "{name:<22} {against:.4} before, {value:.4} after")?;
        }
    }
    if !learned.by_nearness.is_empty() {
        writeln!(out, "nDCG@10 by similarity of the nearest judged question, before and after:")?;
    }
    for own in &learned.by_nearness {
        let figures = format!(
            "{:.3} and {:.3}, with memory {:.3} and {:.3}",
            own.before, own.after, own.before_with_memory, own.after_with_memory
        );
        write_step(out, own.from, own.questions, &figures)?;
    }
    if let Some(fusion) = fusion {
        let words = 1.0 - fusion.alpha;
        writeln!(out, "{:<22} {words:.2}, embeddings {:.2}", "weight of words", fusion.alpha)?;
    }
    if let Some(query_encoder) = query_encoder {
        writeln!(out, "{:<22} {}", "query encoder", query_encoder.sentence)?;
    }
    writeln!(out, "{}", learned.sentence)?;
    match learned.change {
        None => Ok(()),
        Some(change) => writeln!(
            out,
            "{} encoded again, {} routed; `ehi rollback` returns to what was before, `ehi drop-previous` \
             gives back its space",
            counted(change.encoded, "document"),
            change.routed
        ),
    }
}
