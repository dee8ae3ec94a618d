//! The model card of a bundle or a reranker: `README.md`, with the front matter that model hubs read.

use std::fmt::Write;
use std::path::Path;

use super::RerankerReport;
use super::report::{DevFigures, TrainReport};
use crate::model::Indexer;

/// Visited fraction that the card reports next to exact search.
const FRACTION: f64 = 0.1;

/// The card of the bundle at `output`, as Markdown.
pub(super) fn render(report: &TrainReport, base: &Path, output: &Path, indexer: &Indexer) -> String {
    let mut out = String::from(
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags:\n\
         - sentence-transformers\n- feature-extraction\n- ehi\n---\n\n",
    );
    let shape = indexer.shape();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "# {}\n\nA text encoder and a search tree, trained together by `ehi` {}.\n\n\
         - Base: `{}`. Embeddings: {} elements, weights in f16.\n\
         - Tree: {} leaves, branching factor {}, height {}.\n\
         - Data: {} documents, {} training queries with {} pairs; {} other queries to measure with.\n\
         - Settings and every figure: `training.json`. Seed {}, {:.0} s.\n",
        name(output),
        report.version,
        name(base),
        indexer.dim(),
        shape.leaves(),
        shape.branching_factor(),
        shape.height(),
        report.documents,
        report.train_queries,
        report.train_pairs,
        report.dev_queries,
        report.config.seed,
        report.seconds,
    );
    if report.dev_queries > 0 {
        figures(&mut out, report);
    }
    out.push_str(
        "\n## Use\n\nAs a search index:\n\n    ehi create --index my-index --model PATH\n    \
         ehi insert --index my-index corpus.jsonl\n    ehi search --index my-index \"a question\"\n\n\
         As an encoder, without the tree:\n\n    from sentence_transformers import SentenceTransformer\n    \
         embeddings = SentenceTransformer(\"PATH\").encode([\"a text\"])\n\n\
         ## Licence\n\nThat of the base model and of the texts that it was trained on.\n",
    );
    out
}

fn figures(out: &mut String, report: &TrainReport) {
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    let row = |out: &mut String, name: &str, figures: &DevFigures| {
        let tree = figures.recall_at_100(FRACTION).map_or_else(|| "-".to_owned(), percent);
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {tree} |",
            percent(figures.exact.recall_at_10),
            percent(figures.exact.recall_at_100),
        );
    };
    let _ = write!(
        out,
        "\n## Figures\n\nOn the {} queries that were set aside, texts cut as in training; in percent.\n\n\
         | | Recall@10, exact | Recall@100, exact | Recall@100, tree at {}% of the documents |\n\
         |---|---|---|---|\n",
        report.dev_queries,
        percent(FRACTION),
    );
    row(out, "base encoder", &report.before);
    row(out, "this bundle", &report.after);
    let _ = writeln!(out, "\n{}", report.verdict.sentence);
}

/// The card of the reranker at `output`.
pub(super) fn of_reranker(report: &RerankerReport, base: &Path, output: &Path) -> String {
    format!(
        "---\nlibrary_name: sentence-transformers\npipeline_tag: text-ranking\ntags:\n\
         - sentence-transformers\n- cross-encoder\n- reranker\n- ehi\n---\n\n\
         # {}\n\nA cross-encoder, trained by `ehi` {}: a question and a document in, a score out.\n\n\
         - Base: `{}`. Weights in f16.\n\
         - Data: {} documents, {} training questions with {} pairs; {} other questions to measure with.\n\
         - Settings and every figure: `training.json`. Seed {}, {:.0} s.\n\n\
         {}.\n\n\
         ```python\nfrom sentence_transformers import CrossEncoder\n\n\
         scores = CrossEncoder(\"{}\").predict([(question, document)])\n```\n",
        name(output),
        report.version,
        name(base),
        report.documents,
        report.train_queries,
        report.train_pairs,
        report.dev_queries,
        report.config.seed,
        report.seconds,
        report.verdict.sentence,
        name(output),
    )
}

/// The last component of a path; the rest would reveal the local directory layout.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
