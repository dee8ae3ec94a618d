//! SciFact from end to end: 5,183 abstracts into an index, three claims looked up, and the
//! whole test split measured against exact search and IVF.
//!
//! ```text
//! cargo run --release -p ehi-examples --example scifact [BUNDLE [DOCUMENTS]]
//! ```
//!
//! The bundle is `models/scifact-minilm` unless another one is given. With a number of documents, only that
//! many are read for a quick look; the figures are then not those of SciFact.

#[path = "../cli/src/bars.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod bars;
#[path = "../cli/src/evaluation.rs"]
mod evaluation;
#[path = "../cli/src/hits.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod hits;
#[path = "../cli/src/plain.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod plain;
#[path = "../cli/src/text.rs"]
#[allow(dead_code, reason = "shared with the binary, which uses more of it")]
mod text;

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ehi::data::Dataset;
use ehi::eval::{EvalOptions, Metric, evaluate};
use ehi::{Bundle, Document, Index};

use bars::Bars;

/// Test claims that are looked up.
const CLAIMS: [&str; 3] = ["118", "129", "261"];
/// Hits shown for each.
const K: usize = 3;
/// Leaves visited for each.
const BEAM: usize = 16;

fn main() {
    if let Err(error) = run() {
        eprintln!("scifact: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let model = std::env::args_os().nth(1).map_or_else(|| root.join("models/scifact-minilm"), PathBuf::from);
    let directory = root.join("target/scifact-index");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    let mut out = plain::Plain::stdout();
    let mut bars = Bars::new();

    let clock = Instant::now();
    let bundle = Bundle::open(&model)?;
    let index = Index::create(&directory, &bundle)?;
    let leaves = bundle.model().indexer().shape().leaves();
    writeln!(
        out,
        "model with {leaves} leaves opened and index created in {:.1} s",
        clock.elapsed().as_secs_f64()
    )?;

    let clock = Instant::now();
    let dataset = Dataset::open(root.join("examples/data/scifact"))?;
    let most = std::env::args().nth(2).map_or(Ok(usize::MAX), |most| most.parse())?;
    let documents = dataset.corpus()?.take(most).collect::<Result<Vec<Document>, _>>()?;
    writeln!(out, "{} documents read in {:.1} s", documents.len(), clock.elapsed().as_secs_f64())?;

    writeln!(out, "encoding them takes a few minutes")?;
    let clock = Instant::now();
    index.with_progress(|progress| bars.show(progress)).insert_batch(documents)?;
    index.flush()?;
    bars.clear();
    let seconds = clock.elapsed().as_secs_f64();
    writeln!(out, "inserted in {seconds:.1} s, {:.0} documents per second", index.len() as f64 / seconds)?;

    let judged = dataset.qrels("test")?;
    let claims: HashMap<String, String> = dataset
        .queries()?
        .map(|query| query.map(|query| (query.id, query.text)))
        .collect::<Result<_, _>>()?;
    for id in CLAIMS {
        let claim = claims.get(id).ok_or("a claim is not in queries.jsonl")?;
        writeln!(out, "\n{claim}")?;
        hits::write_hits(&mut out, &index, claim, &index.search(claim, K, BEAM)?, 0)?;
        let relevant: Vec<&str> =
            judged.get(id).into_iter().flat_map(|j| j.keys()).map(String::as_str).collect();
        writeln!(out, "judged relevant: {}", relevant.join(", "))?;
    }

    let clock = Instant::now();
    let options = EvalOptions {
        baseline: Some(Vec::new()),
        at: evaluation::COMPARED_AT.to_vec(),
        ..EvalOptions::default()
    };
    let (report, _) = evaluate(&index, &dataset, "test", &options, &mut |progress| bars.show(progress))?;
    bars.clear();
    writeln!(out, "\ntest split, evaluated in {:.1} s", clock.elapsed().as_secs_f64())?;
    let metrics: Vec<Metric> = evaluation::METRICS.split(',').map(str::parse).collect::<Result<_, _>>()?;
    evaluation::write_evaluation(&mut out, &report, &metrics)?;
    writeln!(out, "\nthe index stays in {}", directory.display())?;
    Ok(())
}
