//! Trains encoder and tree on SciFact for a few epochs and shows the effect.
//!
//! ```text
//! cargo run --release --example train [BASE]
//! ```
//!
//! `BASE` is the directory of the encoder to start from; without it, `target/base-model`, which
//! `scripts/fetch-base-model` fills.

#[path = "../cli/src/bars.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod bars;
#[path = "../cli/src/training.rs"]
mod training;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ehi::data::Dataset;
use ehi::train::{TrainConfig, Trainer, TrainingSet};

use bars::Bars;

/// Passes over the training pairs; more make the model better.
const EPOCHS: usize = 3;

fn main() {
    if let Err(error) = run() {
        eprintln!("train: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let base = std::env::args_os().nth(1).map_or_else(|| root.join("target/base-model"), PathBuf::from);
    if !base.is_dir() {
        let hint = "run scripts/fetch-base-model, or give another directory as argument";
        return Err(format!("there is no base model in {}; {hint}", base.display()).into());
    }
    let bundle = root.join("target/scifact-trained");
    if bundle.exists() {
        // From an earlier run.
        fs::remove_dir_all(&bundle)?;
    }

    let mut config = TrainConfig::default();
    config.schedule.epochs = EPOCHS;
    let dataset = Dataset::open(root.join("examples/data/scifact"))?;
    let set = TrainingSet::read(&dataset, config.dev_fraction)?;
    let mut bars = Bars::new();
    let fitted = Trainer::builder()
        .base(base)
        .output(&bundle)
        .config(config)
        .on_progress(|progress| bars.show(progress))
        .on_event(|event| training::event_line(event, EPOCHS).iter().for_each(|line| bars::say(line)))
        .fit(&set);
    bars.clear();

    let mut out = io::stdout().lock();
    let report = fitted?.report;
    training::write_training(&mut out, &report)?;
    writeln!(out, "bundle {} written after {:.1} s", bundle.display(), report.seconds)?;
    Ok(())
}
