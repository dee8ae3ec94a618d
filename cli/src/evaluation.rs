//! An evaluation as a table.

use std::io::{self, Write};

use ehi::QueryEncoder;
use ehi::eval::{CostComparison, EvalReport, Metric, ModeDifference, Quality};

/// Default columns of the table, as many as fit on a terminal line.
pub const METRICS: &str = "recall@10,recall@20,recall@100,mrr@10,ndcg@10";
/// Default visited fractions at which tree, baseline and exact search are compared.
pub const COMPARED_AT: [f64; 3] = [0.05, 0.1, 0.2];

/// Columns of the table from a comma-separated list; names of other things than metrics are left out.
#[allow(dead_code, reason = "the binary reads its columns from the command line")]
pub fn default_metrics() -> Vec<Metric> {
    METRICS.split(',').filter_map(|name| name.parse().ok()).collect()
}

/// Quality by beam, of exact search and of the baseline, and of all at each requested fraction.
pub fn write_evaluation(out: &mut dyn Write, report: &EvalReport, metrics: &[Metric]) -> io::Result<()> {
    writeln!(out, "{} documents, {} queries, {}", report.documents, report.queries, tree(report))?;
    if report.missing_queries > 0 {
        writeln!(out, "{} judged queries have no text and count 0", report.missing_queries)?;
    }
    if report.missing_documents > 0 {
        writeln!(out, "{} judged documents are not in the index", report.missing_documents)?;
    }
    if report.ignores_identical_ids {
        writeln!(
            out,
            "a document with the id of the query is no hit (--ignore-identical-ids=false counts it)"
        )?;
    }
    match report.encoder {
        QueryEncoder::Full => {}
        QueryEncoder::Fast => {
            let (asked, unsure) = (report.queries - report.missing_queries, report.unsure_queries);
            let fast = asked - unsure;
            writeln!(
                out,
                "{fast} queries read by the fast encoder, {unsure} that it is unsure of by the full one"
            )?;
        }
    }
    let table = Table { metrics };
    table.header(out, "beam")?;
    for point in &report.points {
        let cost = Some((point.visited_fraction, point.work_fraction));
        table.row(out, &point.beam.to_string(), cost, &point.quality)?;
    }
    table.row(out, "exact", None, &report.exact)?;
    if !report.modes.is_empty() {
        table.modes(out, report)?;
    }
    for lists in report.lists() {
        writeln!(out, "\nIVF: k-means of the same embeddings into {lists} lists, mean of four seeds")?;
        table.header(out, "nprobe")?;
        for point in report.ivf.iter().filter(|point| point.lists == lists) {
            let cost = Some((point.visited_fraction, point.work_fraction));
            table.row(out, &point.nprobe.to_string(), cost, &point.quality)?;
        }
    }
    // Without a tree and lists there is one setting, and nothing to compare.
    let compares = report.leaves > 1 || !report.ivf.is_empty();
    for (what, comparisons) in [("visited", &report.at), ("work", &report.at_work)] {
        for comparison in comparisons.iter().filter(|_| compares) {
            table.comparison(out, what, comparison)?;
        }
    }
    if compares && report.at.len() + report.at_work.len() > 0 {
        writeln!(out, "\nat a share between two measured beams: interpolated between these two")?;
    }
    Ok(())
}

fn tree(report: &EvalReport) -> String {
    if report.leaves == 1 {
        return "no tree".to_owned();
    }
    format!(
        "{} leaves ({} used), {:.1} expected documents per leaf (even load: {:.1})",
        report.leaves,
        report.leaves_used,
        report.expected_documents_per_leaf,
        report.ideal_documents_per_leaf,
    )
}

struct Table<'a> {
    metrics: &'a [Metric],
}

impl Table<'_> {
    fn header(&self, out: &mut dyn Write, first: &str) -> io::Result<()> {
        write!(out, "{first:>7}  visited     work")?;
        self.names(out)
    }

    fn names(&self, out: &mut dyn Write) -> io::Result<()> {
        for metric in self.metrics {
            write!(out, "  {metric:>6}")?;
        }
        writeln!(out)
    }

    fn row(
        &self,
        out: &mut dyn Write,
        name: &str,
        cost: Option<(f64, f64)>,
        quality: &Quality,
    ) -> io::Result<()> {
        let (visited, work) = cost.map_or((1.0, String::new()), |(visited, work)| (visited, percent(work)));
        write!(out, "{name:>7}  {:>7}  {work:>7}", percent(visited))?;
        self.figures(out, Some(quality))
    }

    fn comparison(&self, out: &mut dyn Write, what: &str, at: &CostComparison) -> io::Result<()> {
        let title = format!("at {}% {what}", shortest(at.fraction * 100.0));
        write!(out, "\n{title:<18}")?;
        self.names(out)?;
        let line = |out: &mut dyn Write, name: &str, quality| {
            write!(out, "{name:<18}")?;
            self.figures(out, quality)
        };
        line(out, "tree", at.tree.as_ref())?;
        for lists in &at.ivf {
            line(out, &format!("IVF, {} lists", lists.lists), lists.quality.as_ref())?;
        }
        if at.ivf.len() > 1 {
            line(out, "IVF, best of these", at.ivf_best.as_ref())?;
        }
        if at.p_value.is_some() {
            line(out, "p, tree against it", at.p_value.as_ref())?;
        }
        line(out, "exact search", Some(&at.exact))
    }

    fn modes(&self, out: &mut dyn Write, report: &EvalReport) -> io::Result<()> {
        write!(out, "\n{:<20}", "every document")?;
        self.names(out)?;
        for point in &report.modes {
            let name = match point.alpha {
                Some(alpha) => format!("{}, weight {alpha:.2}", point.mode),
                None => point.mode.to_string(),
            };
            write!(out, "{name:<20}")?;
            self.figures(out, Some(&point.quality))?;
        }
        for ModeDifference { modes: [first, second], p_value, .. } in &report.mode_differences {
            write!(out, "{:<20}", format!("p, {first}/{second}"))?;
            self.figures(out, Some(p_value))?;
        }
        Ok(())
    }

    fn figures(&self, out: &mut dyn Write, quality: Option<&Quality>) -> io::Result<()> {
        for &metric in self.metrics {
            let value = quality.and_then(|quality| quality.get(metric));
            let figure = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
            write!(out, "  {figure:>width$}", width = metric.to_string().len().max(6))?;
        }
        writeln!(out)
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
