//! `ehi search`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use ehi::{DEFAULT_K, Filter, SearchResult, Stop};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::hits;
use crate::precision::PrecisionArgs;
use crate::printing;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Hits at most
    #[arg(long, short, default_value_t = DEFAULT_K)]
    k: usize,
    /// Leaves to visit; more than the tree has means all. 8 by default, or all where `--stop` says when
    /// to stop
    #[arg(long, short)]
    beam: Option<usize>,
    /// Stop earlier, by the first rule that applies: patience=LEAVES, mass=SHARE, documents=COUNT,
    /// fraction=SHARE
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    stop: Vec<Stop>,
    /// Search among the documents whose metadata pass, for instance {"year": {"$gte": 2010}, "lang": "en"}
    #[arg(long, value_name = "JSON")]
    filter: Option<Filter>,
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
    let mut query = index.query(&args.query).k(args.k);
    if let Some(beam) = args.beam {
        query = query.beam(beam);
    }
    for &stop in &args.stop {
        query = query.stop(stop);
    }
    if let Some(filter) = &args.filter {
        query = query.filter(filter);
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
