//! `ehi tune`

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::learn::{
    COMPARED_RECALL, DEFAULT_MEMORY_BYTES, FEWEST_TUNING_QUESTIONS, NEEDED_SAVING, NEEDED_SAVING_OF_NONE,
    TuneOptions, Tuned,
};
use ehi::search::MOST_EXACT_DOCUMENTS;

use crate::calibrate::questions;
use crate::failure::Failure;
use crate::restart;
use crate::store::WriteArgs;
use crate::text::counted;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// Number of leaves of the tree, from 2; by default a tenth of the embeddings that
    /// it is made from, and at most 13 times the square root of the number of all
    #[arg(long)]
    leaves: Option<u32>,
    /// Passes over the texts; 30 if absent, of more than some 17,000 texts fewer, 4 at least
    #[arg(long)]
    passes: Option<usize>,
    /// Questions that are asked of the index, as BEIR query lines, plain or gzip; some are made from
    /// documents in any case
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// MiB of memory for embeddings; the tree of a collection with more of them is made from a sample
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MEMORY_BYTES >> 20)]
    memory: u64,
    /// Directory for a checkpoint after each pass
    #[arg(long, value_name = "DIR")]
    checkpoints: Option<PathBuf>,
    /// Go on from the checkpoint there, if there is one; options, documents and questions must be the same
    #[arg(long, requires = "checkpoints")]
    resume: bool,
    /// Use the new tree in any case, not only where it saves enough work
    #[arg(long)]
    always: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    restart::for_tuning();
    let options = TuneOptions {
        leaves: args.leaves,
        passes: args.passes,
        questions: args.queries.as_deref().map(questions).transpose()?.unwrap_or_default(),
        memory_bytes: args.memory.saturating_mul(1 << 20),
        checkpoints: args.checkpoints.clone(),
        resume: args.resume,
        always: args.always,
        seed: args.seed,
    };
    let left = match &args.checkpoints {
        Some(_) => "the index is as before; the same command with `--resume` goes on from the last pass",
        None => "the index is as before; with `--checkpoints` a later tuning can go on from where one ended",
    };
    args.write.run(
        out,
        left,
        |index, on_progress| index.with_progress(on_progress).tune(&options),
        |out, _, tuned| write_tuned(out, tuned, args.always),
    )
}

fn write_tuned(out: &mut dyn Write, tuned: &Tuned, always: bool) -> io::Result<()> {
    writeln!(
        out,
        "a tree of {} from {}, compared on {} set aside\n\
         to find {COMPARED_RECALL:.2} of exact search's ten best, in % of all documents:\n\
         \x20              visited  with routing",
        counted(tuned.leaves, "leaf"),
        counted(tuned.documents, "document"),
        counted(tuned.questions, "question"),
    )?;
    let rows = [("new tree", tuned.after), ("before", tuned.before), ("k-means lists", tuned.lists)];
    for (name, needed) in rows {
        writeln!(out, "{name:<13}  {:>7.2}  {:>12.2}", needed.visited * 100.0, needed.work * 100.0)?;
    }
    if tuned.documents <= MOST_EXACT_DOCUMENTS {
        writeln!(
            out,
            "searches without --beam score every embedding, and use no tree, until there are more than \
             {MOST_EXACT_DOCUMENTS}"
        )?;
    }
    let Some(change) = tuned.change else {
        if always {
            return writeln!(out, "the index is unchanged: the new tree is the one that it has");
        }
        return writeln!(
            out,
            "the index is unchanged: a new tree is used if it does the same with at most {:.0}% of the work of the \
             tree before, on {FEWEST_TUNING_QUESTIONS} questions or more; where there was no tree, with at most \
             {:.0}% of the work of scoring every document; `--always` uses it anyway",
            NEEDED_SAVING * 100.0,
            NEEDED_SAVING_OF_NONE * 100.0
        );
    };
    writeln!(
        out,
        "the new tree is in use, {} routed; `ehi rollback` returns to what was before, `ehi drop-previous` \
         gives back its space",
        counted(change.routed, "document")
    )
}
