//! An evaluation as a table.

use std::fmt::Display;
use std::io::{self, Write};

use ehi::QueryEncoder;
use ehi::eval::{CostComparison, EvalReport, Metric, ModeDifference, Quality};

use crate::text::counted;

/// Default columns of the table, as many as fit on a terminal line.
pub const METRICS: &str = "recall@10,recall@20,recall@100,mrr@10,ndcg@10";
/// Default visited fractions at which tree, baseline and exact search are compared.
pub const COMPARED_AT: [f64; 3] = [0.05, 0.1, 0.2];

/// Quality by beam, of exact search and of the baseline, and of all at each requested fraction.
pub fn write_evaluation(out: &mut dyn Write, report: &EvalReport, metrics: &[Metric]) -> io::Result<()> {
    writeln!(
        out,
        "{}, {}, {}",
        counted(report.documents, "document"),
        counted(report.queries, "query"),
        tree(report)
    )?;
    if report.missing_queries > 0 {
        writeln!(out, "{} without a text, scored 0", counted(report.missing_queries, "judged query"))?;
    }
    if report.missing_documents > 0 {
        writeln!(out, "{} missing from the index", counted(report.missing_documents, "judged document"))?;
    }
    if report.ignores_identical_ids {
        writeln!(
            out,
            "a document with the id of the query does not count as a hit (--ignore-identical-ids=false counts it)"
        )?;
    }
    match report.encoder {
        QueryEncoder::Full => {}
        QueryEncoder::Fast => {
            let (asked, unsure) = (report.queries - report.missing_queries, report.unsure_queries);
            let fast = asked - unsure;
            writeln!(
                out,
                "{} read by the fast encoder, {unsure} that it is unsure of by the full one",
                counted(fast, "query")
            )?;
        }
    }
    let mut table = Table { out, metrics };
    let title = |name: &str| format!("{name:>7}  visited     work");
    let row =
        |name: &dyn Display, visited, work: &str| format!("{name:>7}  {:>7}  {work:>7}", percent(visited));
    // Without an encoder there are only modes.
    if !report.points.is_empty() {
        table.head(&title("beam"))?;
        for point in &report.points {
            table.row(
                &row(&point.beam, point.visited_fraction, &percent(point.work_fraction)),
                Some(&point.quality),
            )?;
        }
        table.row(&row(&"exact", 1.0, ""), Some(&report.exact))?;
    }
    if !report.modes.is_empty() {
        table.modes(report)?;
    }
    for lists in report.lists() {
        writeln!(
            table.out,
            "\nIVF: k-means of the same embeddings into {}, mean of four seeds",
            counted(lists, "list")
        )?;
        table.head(&title("nprobe"))?;
        for point in report.ivf.iter().filter(|point| point.lists == lists) {
            let row = row(&point.nprobe, point.visited_fraction, &percent(point.work_fraction));
            table.row(&row, Some(&point.quality))?;
        }
    }
    // Without a tree and lists there is one setting, and nothing to compare.
    let compares = report.leaves > 1 || !report.ivf.is_empty();
    for (what, comparisons) in [("visited", &report.at), ("work", &report.at_work)] {
        for comparison in comparisons.iter().filter(|_| compares) {
            table.comparison(what, comparison)?;
        }
    }
    if compares && report.at.len() + report.at_work.len() > 0 {
        writeln!(table.out, "\nat a share between two measured beams: interpolated between these two")?;
    }
    Ok(())
}

fn tree(report: &EvalReport) -> String {
    if report.leaves == 1 {
        return "no tree".to_owned();
    }
    format!(
        "{} ({} used), {:.1} expected documents per leaf (even load: {:.1})",
        counted(report.leaves, "leaf"),
        report.leaves_used,
        report.expected_documents_per_leaf,
        report.ideal_documents_per_leaf,
    )
}

struct Table<'a> {
    out: &'a mut dyn Write,
    metrics: &'a [Metric],
}

impl Table<'_> {
    fn head(&mut self, title: &str) -> io::Result<()> {
        write!(self.out, "{title}")?;
        self.metrics.iter().try_for_each(|metric| write!(self.out, "  {metric:>6}"))?;
        writeln!(self.out)
    }

    fn row(&mut self, name: &str, quality: Option<&Quality>) -> io::Result<()> {
        write!(self.out, "{name:<18}")?;
        for &metric in self.metrics {
            let value = quality.and_then(|quality| quality.get(metric));
            let figure = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            write!(self.out, "  {figure:>width$}", width = metric.to_string().len().max(6))?;
        }
        writeln!(self.out)
    }

    fn comparison(&mut self, what: &str, at: &CostComparison) -> io::Result<()> {
        let title = format!("at {}% {what}", shortest(at.fraction * 100.0));
        self.head(&format!("\n{title:<18}"))?;
        self.row("tree", at.tree.as_ref())?;
        for lists in &at.ivf {
            self.row(&format!("IVF, {}", counted(lists.lists, "list")), lists.quality.as_ref())?;
        }
        if at.ivf.len() > 1 {
            self.row("IVF, best of these", at.ivf_best.as_ref())?;
        }
        if at.p_value.is_some() {
            self.row("p, tree against it", at.p_value.as_ref())?;
        }
        self.row("exact search", Some(&at.exact))
    }

    fn modes(&mut self, report: &EvalReport) -> io::Result<()> {
        self.head(&format!("\n{:<20}", "every document"))?;
        for point in &report.modes {
            let name = match point.alpha {
                Some(alpha) => format!("{}, weight {alpha:.2}", point.mode),
                None => point.mode.to_string(),
            };
            self.row(&format!("{name:<20}"), Some(&point.quality))?;
        }
        for ModeDifference { modes: [first, second], p_value, .. } in &report.mode_differences {
            self.row(&format!("{:<20}", format!("p, {first}/{second}")), Some(p_value))?;
        }
        Ok(())
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.2}%", fraction * 100.0)
}

/// Without the digits that a product like 0.07 * 100 adds.
fn shortest(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
