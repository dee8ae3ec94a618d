//! `ehi create`, `compact`, `snapshot` and `stats`.

use std::io::Write;
use std::path::PathBuf;

use ehi::{Bundle, Index, StoreStats};
use serde_json::{Value, json};

use crate::bars::Bars;
use crate::failure::Failure;
use crate::printing;
use crate::writing::{WaitArgs, refuse_file};

#[derive(clap::Args)]
pub struct CreateArgs {
    /// Directory of the new index; made where it is missing
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// A trained bundle
    #[arg(long, value_name = "BUNDLE")]
    model: PathBuf,
}

/// Of a command that writes and reports.
#[derive(clap::Args)]
pub struct WriteArgs {
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
}

#[derive(clap::Args)]
pub struct ReportArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    pub index: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct SnapshotArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Directory of the copy; must be missing or empty
    target: PathBuf,
}

pub fn create(args: &CreateArgs, out: &mut dyn Write) -> Result<(), Failure> {
    refuse_file(&args.index)?;
    let index = Index::create(&args.index, &Bundle::open(&args.model)?)?;
    let leaves = index.bundle().model().indexer().shape().leaves();
    let dim = index.bundle().model().encoder().dim();
    writeln!(out, "created {}: {leaves} leaves, {dim} dimensions", printing::path(&args.index))
        .map_err(Failure::Output)
}

pub fn compact(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: args, wait } = args;
    let index = wait.open(&args.index)?;
    let before = index.stats()?;
    let mut bars = Bars::new();
    let compacted = index.compact_with(&mut |progress| bars.show(progress));
    bars.clear();
    compacted?;
    let after = index.stats()?;
    let (from, to) = (before.bytes.total(), after.bytes.total());
    if args.json {
        let sizes = |stats: &StoreStats| {
            let bytes = stats.bytes.total();
            json!({ "bytes": bytes, "segments": stats.segments, "dead_rows": stats.dead_rows })
        };
        let report =
            json!({ "documents": after.documents, "before": sizes(&before), "after": sizes(&after) });
        return printing::json(out, &report);
    }
    writeln!(
        out,
        "{} documents in {} segments, was {}; {to} bytes, was {from}; {} dead rows gone",
        after.documents, after.segments, before.segments, before.dead_rows
    )
    .map_err(Failure::Output)
}

pub fn snapshot(args: &SnapshotArgs, out: &mut dyn Write) -> Result<(), Failure> {
    refuse_file(&args.target)?;
    let index = Index::open_read_only(&args.index)?;
    index.snapshot(&args.target)?;
    writeln!(out, "{}: {} documents", printing::path(&args.target), index.len()).map_err(Failure::Output)
}

pub fn stats(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = Index::open_read_only(&args.index)?;
    let stats = index.stats()?;
    if args.json {
        printing::json(out, &stats_json(&index, &stats))
    } else {
        write_stats(out, &index, &stats).map_err(Failure::Output)
    }
}

fn stats_json(index: &Index, stats: &StoreStats) -> Value {
    let bundle = index.bundle();
    let model = bundle.model();
    let shape = model.indexer().shape();
    let bytes = stats.bytes;
    let leaf_sizes: Vec<Value> = stats
        .leaf_sizes
        .iter()
        .map(|(leaf, documents)| json!({ "leaf": leaf.0, "documents": documents }))
        .collect();
    json!({
        "documents": stats.documents,
        "rows": stats.rows,
        "dead_rows": stats.dead_rows,
        "generation": stats.generation.0,
        "segments": stats.segments,
        "memtable_documents": stats.memtable_documents,
        "bytes": {
            "vectors": bytes.vectors,
            "documents": bytes.documents,
            "dead_rows": bytes.dead_rows,
            "log": bytes.log,
            "model": bytes.model,
            "other_models": bytes.other_models,
            "total": bytes.total(),
        },
        "expected_documents_per_leaf": stats.expected_documents_per_leaf,
        "dim": model.encoder().dim(),
        "similarity": index.similarity(),
        "branching_factor": shape.branching_factor(),
        "height": shape.height(),
        "leaves": shape.leaves(),
        "leaves_used": stats.leaf_sizes.len(),
        "leaves_per_document": index.bundle().leaves_per_document(),
        "model": index.bundle().hash().to_string(),
        "leaf_sizes": leaf_sizes,
    })
}

fn write_stats(out: &mut dyn Write, index: &Index, stats: &StoreStats) -> std::io::Result<()> {
    let bundle = index.bundle();
    let model = bundle.model();
    let shape = model.indexer().shape();
    let sizes = || stats.leaf_sizes.iter().map(|(_, documents)| *documents);
    let entries: usize = sizes().sum();
    let expected = stats.expected_documents_per_leaf;
    writeln!(out, "documents      {} ({} rows, {} dead)", stats.documents, stats.rows, stats.dead_rows)?;
    if stats.memtable_documents > 0 {
        // The handle is read-only, so it does not show them.
        let waiting = stats.memtable_documents;
        writeln!(out, "waiting        {waiting} documents in the log, not counted above; see `ehi recover`")?;
    }
    writeln!(
        out,
        "leaves         {} of {} used (branching factor {}, height {}, {} per document)",
        stats.leaf_sizes.len(),
        shape.leaves(),
        shape.branching_factor(),
        shape.height(),
        index.bundle().leaves_per_document(),
    )?;
    writeln!(
        out,
        "leaf sizes     {} to {}, {expected:.1} expected (even load: {:.1})",
        // A leaf without documents is not in the list.
        if stats.leaf_sizes.len() < shape.leaves() as usize { 0 } else { sizes().min().unwrap_or(0) },
        sizes().max().unwrap_or(0),
        entries as f64 / f64::from(shape.leaves()),
    )?;
    writeln!(out, "dimensions     {}", model.encoder().dim())?;
    let bytes = stats.bytes;
    writeln!(
        out,
        "bytes          {}: embeddings {} and documents {} in {} segments, log {}, model {}, \
         other models {}",
        bytes.total(),
        bytes.vectors,
        bytes.documents,
        stats.segments,
        bytes.log,
        bytes.model,
        bytes.other_models
    )?;
    writeln!(out, "generation     {}", stats.generation.0)?;
    writeln!(out, "model          {}", index.bundle().hash())
}
