//! The model card of a reranker: `README.md`, with the front matter that model hubs read.

use std::borrow::Cow;
use std::path::Path;

use super::report::RerankerReport;

pub(super) fn render(report: &RerankerReport, base: &Path, output: &Path) -> String {
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

fn name(path: &Path) -> Cow<'_, str> {
    path.file_name().map_or(Cow::Borrowed("reranker"), |name| name.to_string_lossy())
}
