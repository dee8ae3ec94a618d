//! `ehi fuse`

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;

use ehi::Fused;
use ehi::data::Dataset;
use ehi::train::{TrainConfig, TrainingSet};
use ehi::{Judgment, LearnedFusion};

use crate::failure::Failure;
use crate::judge::PairsArgs;
use crate::long::AS_BEFORE;
use crate::printing;
use crate::store::WriteArgs;
use crate::text::{counted, escaped};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    pairs: PairsArgs,
    /// Dataset whose questions and judgments are taken, beside the others
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The split whose judgments are taken, of questions that the model was not trained on; if absent what
    /// `ehi train` sets aside: the split `dev`, or a tenth of `train`
    #[arg(long, requires = "data")]
    split: Option<String>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut pairs = args.pairs.read()?;
    if let Some(data) = &args.data {
        let dataset = Dataset::open(data)?;
        pairs.extend(match &args.split {
            Some(split) => judgments(&dataset, split)?,
            None if dataset.splits()?.iter().all(|split| split != "train") => {
                return Err(Failure::Usage(format!(
                    "{} has no split `train` to set questions aside from; `--split` takes the judgments of \
                     another: {}",
                    printing::path(data),
                    escaped(&dataset.splits()?.join(", "))
                )));
            }
            None => TrainingSet::read(&dataset, TrainConfig::default().dev_fraction)?.held_out(),
        });
    }
    let more = match (&args.data, &args.split) {
        (Some(_), None) => "`ehi judge` adds judgments; `--split` takes all judgments of a split",
        _ => "`ehi judge` adds judgments",
    };
    args.write.run(
        out,
        AS_BEFORE,
        |index, on_progress| index.with_progress(on_progress).fuse(&pairs),
        |out, _, fused| write_fused(out, fused, more),
    )
}

fn judgments(dataset: &Dataset, split: &str) -> Result<Vec<Judgment>, Failure> {
    let qrels = dataset.qrels(split)?;
    let mut texts = HashMap::new();
    for query in dataset.queries()? {
        let query = query?;
        texts.entry(query.id).or_insert(query.text);
    }
    let mut judgments = Vec::new();
    for (query, judged) in qrels.iter() {
        let Some(text) = texts.get(query) else { continue };
        judgments.extend(judged.iter().map(|(id, &grade)| Judgment::new(text, id, grade)));
    }
    Ok(judgments)
}

fn write_fused(out: &mut dyn Write, fused: &Fused, more: &str) -> io::Result<()> {
    writeln!(out, "{}", fused.sentence)?;
    if fused.unanswered > 0 {
        let left_out = counted(fused.unanswered, "judged question");
        writeln!(out, "left out: {left_out} without an answer in the index")?;
    }
    match &fused.fusion {
        None => writeln!(out, "{more}"),
        Some(fusion) => write_fusion(out, fusion),
    }
}

/// The figures behind a weight.
fn write_fusion(out: &mut dyn Write, fusion: &LearnedFusion) -> io::Result<()> {
    let LearnedFusion { dense, lexical, hybrid, rrf, weights, .. } = fusion;
    writeln!(
        out,
        "nDCG@10: the quality of the first ten hits, at best 1. p: how probable so large a gain is by chance.\n\
         nDCG@10 by what searches go by:\n  embeddings {dense:.4}, words {lexical:.4}, both {hybrid:.4} (each \
         question with the weight learned on others), both by ranks alone {rrf:.4}\n\
         nDCG@10 of both by the weight of embeddings (where the mean of five neighbours is highest is learned):"
    )?;
    write!(out, " ")?;
    let last = weights.len().saturating_sub(1).max(1);
    for (place, value) in weights.iter().enumerate().step_by(2) {
        write!(out, " {:.1}: {value:.3}", place as f64 / last as f64)?;
    }
    writeln!(out)?;
    let Some(memory) = &fusion.memory else { return Ok(()) };
    writeln!(
        out,
        "judgments of near questions add at most {:.2} of the range of scores (times similarity to the power {})\n\
         nDCG@10 by the similarity of the nearest other judged question (1: the same words):",
        memory.weight, memory.power
    )?;
    for own in &memory.by_nearness {
        write_step(
            out,
            own.from,
            own.questions,
            &format!("{:.3} without judgments, {:.3} with", own.without, own.with),
        )?;
    }
    Ok(())
}

/// Figures of questions by the similarity of the nearest judged one.
pub fn write_step(out: &mut dyn Write, from: f64, questions: usize, figures: &str) -> io::Result<()> {
    writeln!(out, "  from {from:.1}: {}, {figures}", counted(questions, "question"))
}
