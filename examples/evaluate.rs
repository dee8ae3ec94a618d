//! Measures an index on a dataset whose corpus it holds.
//!
//! ```text
//! cargo run --release --example evaluate INDEX DATASET [SPLIT]
//! ```

#[path = "../cli/src/bars.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod bars;
#[path = "../cli/src/evaluation.rs"]
mod evaluation;

use std::error::Error;
use std::io;

use ehi::Index;
use ehi::data::Dataset;
use ehi::eval::{EvalOptions, IvfOptions, evaluate};

use bars::Bars;

fn main() {
    if let Err(error) = run() {
        eprintln!("evaluate: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, data, split) = match arguments.as_slice() {
        [directory, data] => (directory, data, "test"),
        [directory, data, split] => (directory, data, split.as_str()),
        _ => {
            return Err(
                "give an index directory and a dataset folder, and a split if it is not `test`".into()
            );
        }
    };
    let index = Index::open(directory)?;
    let dataset = Dataset::open(data)?;
    let options = EvalOptions {
        baseline: Some(IvfOptions::default()),
        at: evaluation::COMPARED_AT.to_vec(),
        ..EvalOptions::default()
    };
    let mut bars = Bars::new();
    let (report, _) = evaluate(&index, &dataset, split, &options, &mut |progress| bars.show(progress))?;
    bars.clear();
    evaluation::write_evaluation(&mut io::stdout().lock(), &report, &evaluation::default_metrics())?;
    Ok(())
}
