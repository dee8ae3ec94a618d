//! `ehi leaves`

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::LeafId;
use ehi::leaves::{DEFAULT_SAMPLES, DEFAULT_TERMS, LeafOptions, LeafSummary};

use crate::calibrate::questions;
use crate::failure::Failure;
use crate::opening::open_read_only;
use crate::printing;
use crate::store::ReportArgs;
use crate::text::{counted, escaped, line_of};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    report: ReportArgs,
    /// Show this leaf alone, by its number
    #[arg(long)]
    leaf: Option<u32>,
    /// Questions to route, as BEIR query lines, plain or gzip
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// At most this many distinctive words are shown of each leaf
    #[arg(long, default_value_t = DEFAULT_TERMS)]
    terms: usize,
    /// At most this many documents, and with --queries as many questions, are shown of each leaf
    #[arg(long, default_value_t = DEFAULT_SAMPLES)]
    samples: usize,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.report.index)?;
    let queries = args.queries.as_deref().map(questions).transpose()?.unwrap_or_default();
    let leaf = args.leaf.map(LeafId);
    let asked = !queries.is_empty();
    let options = LeafOptions { leaf, terms: args.terms, samples: args.samples, queries };
    let leaves = index.leaves(&options)?;
    printing::report(out, args.report.json, &leaves, |out| {
        leaves.iter().try_for_each(|leaf| write_leaf(out, leaf, asked))
    })
}

fn write_leaf(out: &mut dyn Write, leaf: &LeafSummary, asked: bool) -> io::Result<()> {
    let path: Vec<String> = leaf.path.iter().map(u32::to_string).collect();
    write!(out, "leaf {} (path {})  {}", leaf.leaf.0, path.join("."), counted(leaf.documents, "document"))?;
    if asked {
        write!(out, ", {}", counted(leaf.queries_routed, "question"))?;
    }
    let terms: Vec<String> = leaf.terms.iter().map(|term| line_of(&term.term)).collect();
    writeln!(out, "\n  words      {}", terms.join(", "))?;
    for document in &leaf.nearest {
        let title = if document.title.is_empty() { &document.text } else { &document.title };
        writeln!(out, "  document   {}  {}", escaped(&document.id), line_of(title))?;
    }
    for query in &leaf.queries {
        writeln!(out, "  question   {:.4}  {}", query.probability, line_of(&query.text))?;
    }
    writeln!(out)
}
