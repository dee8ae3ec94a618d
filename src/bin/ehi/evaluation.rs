//! An evaluation as a table.

use std::io::{self, Write};

use ehi::eval::{EvalReport, Quality};

/// The visited fraction at which tree and baseline are compared.
const COMPARED_AT: f64 = 0.1;

/// Quality by beam, of exact search and of the baseline, and all at one visited fraction.
pub fn write_evaluation(out: &mut dyn Write, report: &EvalReport) -> io::Result<()> {
    writeln!(
        out,
        "{} documents, {} queries, {} leaves ({} used), {:.1} expected documents per leaf (even load: {:.1})",
        report.documents,
        report.queries,
        report.leaves,
        report.leaves_used,
        report.expected_documents_per_leaf,
        report.ideal_documents_per_leaf,
    )?;
    write_header(out, "beam")?;
    for point in &report.points {
        write_row(
            out,
            &point.beam.to_string(),
            point.visited_fraction,
            Some(point.work_fraction),
            &point.quality,
        )?;
    }
    write_row(out, "exact", 1.0, None, &report.exact)?;
    if !report.ivf.is_empty() {
        writeln!(out, "\nIVF: k-means of the same embeddings, as many lists as leaves")?;
        write_header(out, "nprobe")?;
        for point in &report.ivf {
            let name = point.nprobe.to_string();
            write_row(out, &name, point.visited_fraction, Some(point.work_fraction), &point.quality)?;
        }
    }
    writeln!(out, "\nat {:.0}% visited  recall@10  recall@100", COMPARED_AT * 100.0)?;
    let metrics: [fn(&Quality) -> f64; 2] = [|q| q.recall_at_10, |q| q.recall_at_100];
    let tree = metrics.map(|metric| report.tree_at(COMPARED_AT, metric));
    write_compared(out, "tree", tree)?;
    if !report.ivf.is_empty() {
        write_compared(out, "IVF", metrics.map(|metric| report.ivf_at(COMPARED_AT, metric)))?;
    }
    write_compared(out, "exact search", metrics.map(|metric| Some(metric(&report.exact))))
}

fn write_header(out: &mut dyn Write, first: &str) -> io::Result<()> {
    writeln!(out, "{first:>7}  visited    work  recall@10  recall@20  recall@50  recall@100  MRR@10  nDCG@10")
}

fn write_row(
    out: &mut dyn Write,
    name: &str,
    visited: f64,
    work: Option<f64>,
    quality: &Quality,
) -> io::Result<()> {
    let work = work.map_or_else(String::new, |work| format!("{:.2}%", work * 100.0));
    writeln!(
        out,
        "{name:>7}  {:>6.2}%  {work:>6}  {:>9.4}  {:>9.4}  {:>9.4}  {:>10.4}  {:>6.4}  {:>7.4}",
        visited * 100.0,
        quality.recall_at_10,
        quality.recall_at_20,
        quality.recall_at_50,
        quality.recall_at_100,
        quality.mrr_at_10,
        quality.ndcg_at_10,
    )
}

fn write_compared(out: &mut dyn Write, name: &str, [at_10, at_100]: [Option<f64>; 2]) -> io::Result<()> {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    writeln!(out, "{name:<14}  {:>9}  {:>10}", figure(at_10), figure(at_100))
}
