//! `ehi search`

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::failure::Failure;
use crate::hits;
use crate::opening::PrecisionArgs;
use crate::printing;
use crate::query::QueryArgs;
use crate::store::ReportArgs;

/// Default number of reranked hits.
pub const RERANK_DEPTH: usize = 50;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    options: QueryArgs,
    /// Score every document, without the tree
    #[arg(long, conflicts_with_all = ["beam", "recall"])]
    exact: bool,
    /// Have the best hits read again, together with the question, by the cross-encoder in this folder
    #[cfg_attr(feature = "hub", doc = "(or of this name)")]
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// Hits that it reads
    #[arg(long, value_name = "N", default_value_t = RERANK_DEPTH, requires = "rerank")]
    rerank_depth: usize,
    /// Print the ids of the hits without their titles and texts
    #[arg(long)]
    ids_only: bool,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// The question. `+word` must be in a hit, `-word` must not, and `"a phrase"` must; with `--mode dense`
    /// these signs mean nothing. One that begins with `-` comes after `--`
    query: String,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.precision.open_read_only(&args.report.index)?;
    let mut request = args.options.request()?;
    if args.exact {
        request = request.exact();
    }
    request.ids_only = args.ids_only;
    if let Some(dir) = &args.rerank {
        request = request.rerank(&Arc::new(args.precision.open_reranker(dir)?), args.rerank_depth);
    }
    let result = index.search_with(&args.query, &request)?;
    if args.report.json {
        printing::json(out, &result)
    } else {
        hits::write_hits(out, &index, &args.query, &result).map_err(Failure::Output)?;
        hits::say_notes(&result.notes);
        if let Some(note) = args.options.note_on_none(&index).filter(|_| result.is_empty()) {
            eprintln!("note: {note}");
        }
        Ok(())
    }
}
