//! `ehi eval`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ehi::Index;
use ehi::data::BeirDataset;
use ehi::eval::{Baseline, EvalOptions, EvalReport, evaluate};

use crate::bars::Bars;
use crate::evaluation;
use crate::failure::Failure;

/// What the run file calls this engine.
const RUN_TAG: &str = "ehi";

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// BEIR folder whose corpus the index holds
    #[arg(long, value_name = "BEIR")]
    data: PathBuf,
    /// Whose judgments count
    #[arg(long, default_value = "test")]
    split: String,
    /// Beams to measure: numbers and `all`, with commas; powers of two and all by default
    #[arg(long, value_delimiter = ',', value_parser = beam)]
    beams: Vec<usize>,
    /// What to compare with
    #[arg(long)]
    baseline: Option<BaselineName>,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the ranking of the largest beam to this file, in TREC's format
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum BaselineName {
    /// k-means lists over the same embeddings
    Ivf,
}

/// Any number beyond the leaves means all of them.
fn beam(text: &str) -> Result<usize, String> {
    match text.trim() {
        "all" => Ok(usize::MAX),
        number => match number.parse() {
            Ok(0) | Err(_) => Err("a beam is a number from 1, or `all`".to_owned()),
            Ok(beam) => Ok(beam),
        },
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let dataset = BeirDataset::open(&args.data)?;
    let index = Index::open(&args.index)?;
    let options = EvalOptions {
        beams: args.beams.clone(),
        baseline: match args.baseline {
            Some(BaselineName::Ivf) => Baseline::Ivf,
            None => Baseline::None,
        },
    };
    let mut bars = Bars::new();
    let evaluated = evaluate(&index, &dataset, &args.split, &options, &mut |progress| bars.show(progress));
    bars.clear();
    let (report, ranking) = evaluated?;
    if let Some(path) = &args.json {
        write_json(path, &report).map_err(Failure::file("write", path))?;
    }
    if let Some(path) = &args.run {
        let file = File::create(path).map_err(Failure::file("write", path))?;
        ranking.write(BufWriter::new(file), RUN_TAG)?;
    }
    evaluation::write_evaluation(out, &report).map_err(Failure::Output)
}

fn write_json(path: &Path, report: &EvalReport) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut file, report)?;
    writeln!(file)?;
    file.flush()
}
