//! `ehi eval`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::QueryEncoder;
use ehi::data::Dataset;
use ehi::eval::{EvalMode, EvalOptions, EvalReport, Metric, RelevanceLevel, RerankOptions, evaluate};

use crate::arguments::{fraction, one_of, positive};
use crate::evaluation;
use crate::failure::Failure;
use crate::long;
use crate::opening::PrecisionArgs;
use crate::search::RERANK_DEPTH;

/// The name of this engine in the run file.
const RUN_TAG: &str = "ehi";

const MODES: [(&str, EvalMode); 5] = [
    ("dense", EvalMode::Dense),
    ("lexical", EvalMode::Lexical),
    ("hybrid", EvalMode::Hybrid),
    ("rrf", EvalMode::Rrf),
    ("memory", EvalMode::Memory),
];

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Dataset whose corpus the index holds: a folder in the layout of BEIR, MS MARCO (TSV) or
    /// extreme classification
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The split whose judgments count
    #[arg(long, default_value = "test")]
    split: String,
    /// Numbers of leaves to visit, and `all`, with commas; by default the powers of two and all
    #[arg(long, value_delimiter = ',', value_parser = beam)]
    beams: Vec<usize>,
    /// Compare searches by embeddings, words and both, every document a candidate: dense, lexical, hybrid
    /// (with the weight of `ehi fuse`, else 0.7), rrf, and memory (hybrid with the index's judgments). In an
    /// index without an encoder only lexical, the default there
    #[arg(long, value_name = "MODE", value_delimiter = ',', value_parser = one_of(MODES))]
    modes: Vec<EvalMode>,
    /// Have the best documents of the first mode (dense if none is given) read again by the cross-encoder in
    /// this folder, and compare
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// Documents that it reads for each query
    #[arg(long, value_name = "N", default_value_t = RERANK_DEPTH, requires = "rerank")]
    rerank_depth: usize,
    /// What to compare with: k-means lists over the same embeddings
    #[arg(long, value_parser = ["ivf"])]
    baseline: Option<String>,
    /// Numbers of lists of the baseline; as many as leaves by default
    #[arg(long, value_delimiter = ',', requires = "baseline", value_parser = positive)]
    lists: Vec<usize>,
    /// Shares of the documents, from 0 to 1, at whose visit tree, baseline and exact search are compared;
    /// 0.05, 0.1 and 0.2 if absent
    #[arg(long, value_delimiter = ',', value_parser = |at: &str| fraction(at, Some(1.0)))]
    at: Vec<f64>,
    /// Shares of the work of scoring every document at which they are compared; routing through the tree
    /// counts as work too
    #[arg(long, value_delimiter = ',', value_parser = |at: &str| fraction(at, None))]
    at_work: Vec<f64>,
    /// Columns of the table: recall@k, precision@k, mrr@k and ndcg@k for any k
    #[arg(long, value_delimiter = ',', default_value = evaluation::METRICS)]
    metrics: Vec<Metric>,
    /// The lowest grade that counts as relevant; nDCG goes by the grades themselves
    #[arg(long, value_name = "GRADE", default_value_t = RelevanceLevel::default().0)]
    relevance_level: i32,
    /// Leave the document that has a query's own id out of its hits: the rule of ArguAna and Quora, which ask
    /// with documents of their corpus. On for a dataset whose folder has one of these names
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ignore_identical_ids: Option<bool>,
    /// Which encoder reads the queries: full, or fast, the one of `ehi distil`; as in a search if absent
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<QueryEncoder>,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the ranking of the largest number of leaves to this file, in TREC's format
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Write the figures of each query to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    per_query: Option<PathBuf>,
}

/// Any number beyond the leaves means all of them.
fn beam(text: &str) -> Result<usize, String> {
    match text.trim() {
        "all" => Ok(usize::MAX),
        _ => positive(text).map_err(|error| error + ", or `all`"),
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let dataset = Dataset::open(&args.data)?;
    let index = args.precision.open_read_only(&args.index)?;
    if !(index.bundle().model().has_encoder() || args.at.is_empty() && args.at_work.is_empty()) {
        let error =
            "--at and --at-work compare searches by embeddings of the queries, and the index has no encoder";
        return Err(Failure::Usage(error.to_owned()));
    }
    let rerank = args.rerank.as_deref().map(|dir| {
        let reranker = Arc::new(args.precision.open_reranker(dir)?);
        Ok::<_, Failure>(RerankOptions { reranker, depth: args.rerank_depth })
    });
    let options = EvalOptions {
        beams: args.beams.clone(),
        baseline: args.baseline.as_ref().map(|_| args.lists.clone()),
        modes: args.modes.clone(),
        rerank: rerank.transpose()?,
        encoder: args.encoder,
        metrics: args.metrics.clone(),
        relevance_level: RelevanceLevel(args.relevance_level),
        ignore_identical_ids: args.ignore_identical_ids,
        at: if args.at.is_empty() { evaluation::COMPARED_AT.to_vec() } else { args.at.clone() },
        at_work: args.at_work.clone(),
    };
    let evaluated = long::run("no figures were written", |on_progress| {
        evaluate(&index, &dataset, &args.split, &options, on_progress)
    });
    let (report, ranking) = evaluated?;
    if let Some(path) = &args.json {
        write_json(path, &report).map_err(Failure::file("write", path))?;
    }
    let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(Failure::file("write", path));
    if let Some(path) = &args.run {
        ranking.write(create(path)?, RUN_TAG).map_err(Failure::file("write", path))?;
    }
    if let Some(path) = &args.per_query {
        report.per_query.write(create(path)?).map_err(Failure::file("write", path))?;
    }
    evaluation::write_evaluation(out, &report, &args.metrics).map_err(Failure::Output)
}

fn write_json(path: &Path, report: &EvalReport) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut file, report)?;
    writeln!(file)?;
    file.flush()
}
