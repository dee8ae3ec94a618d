//! `ehi search`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use ehi::SearchResult;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::hits;
use crate::precision::PrecisionArgs;
use crate::printing;
use crate::query::QueryArgs;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    options: QueryArgs,
    /// Score every document, without the tree
    #[arg(long, conflicts_with_all = ["beam", "stop"])]
    exact: bool,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The question
    query: String,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.precision.open_read_only(&args.index)?;
    let mut query = args.options.apply(index.query(&args.query));
    if args.exact {
        query = query.exact();
    }
    let result = query.run()?;
    if args.json {
        printing::json(out, &result_json(&result))
    } else {
        hits::write_hits(out, &index, &result).map_err(Failure::Output)
    }
}

fn result_json(result: &SearchResult) -> Value {
    let hits: Vec<Value> = result
        .iter()
        .map(|hit| {
            json!({
                "id": hit.id,
                "score": hit.score,
                "leaf": hit.leaf.0,
                "title": hit.document.title,
                "text": hit.document.text,
                "metadata": hit.document.metadata,
            })
        })
        .collect();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let stats = &result.stats;
    json!({
        "hits": hits,
        "stats": {
            "leaves_visited": stats.leaves_visited,
            "documents_visited": stats.documents_visited,
            "documents_checked": stats.documents_checked,
            "embeddings_read": stats.embeddings_read,
            "exhausted": stats.exhausted,
            "visited_fraction": stats.visited_fraction,
            "work_fraction": stats.work_fraction,
            "encode_ms": ms(stats.encode),
            "beam_ms": ms(stats.beam),
            "scan_ms": ms(stats.scan),
            "fetch_ms": ms(stats.fetch),
        },
    })
}
