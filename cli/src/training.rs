//! A training run as a table.

use std::io::{self, Write};

use ehi::train::{
    ComparedMetric, Comparison, DevFigures, EpochReport, FRACTIONS, Figures, Method, TrainEvent, TrainReport,
    Verdict,
};

/// The dev figures before and after training, and the verdict.
pub fn write_training(out: &mut dyn Write, report: &TrainReport) -> io::Result<()> {
    let (before, after) = (&report.before, &report.after);
    let line = |out: &mut dyn Write, name: &str, figure: &dyn Fn(&DevFigures) -> String| {
        writeln!(out, "{name:<28}  {:>14}  {:>14}", figure(before), figure(after))
    };
    writeln!(
        out,
        "{} documents, {} training queries with {} pairs, {} dev queries",
        report.documents, report.train_queries, report.train_pairs, report.dev_queries
    )?;
    writeln!(out, "{:<28}  {:>14}  {:>14}", "", "before", "after")?;
    if report.dev_queries == 0 {
        writeln!(out, "no dev split, so no recall was measured")?;
    } else {
        line(out, "exact recall@10", &|f| format!("{:.4}", f.exact_recall_at_10))?;
        line(out, "exact recall@100", &|f| format!("{:.4}", f.exact_recall_at_100))?;
        // The two trees may differ, so they are compared at one cost instead of by beam.
        line(out, "tree recall@100, 10% visited", &|f| {
            f.recall_at_100(0.1).map_or_else(|| "-".to_owned(), |recall| format!("{recall:.4}"))
        })?;
    }
    line(out, "expected documents per leaf", &|f| format!("{:.1}", f.expected_documents_per_leaf))?;
    line(out, "  of an even load", &|f| format!("{:.1}", f.ideal_documents_per_leaf))?;
    line(out, "empty leaves", &|f| f.empty_leaves.to_string())?;
    write_verdict(out, &report.verdict)
}

/// A figure of a method.
type Part = fn(&Figures) -> f64;

/// Methods by visited fraction, their differences, and what to do.
fn write_verdict(out: &mut dyn Write, verdict: &Verdict) -> io::Result<()> {
    if !verdict.methods.is_empty() {
        let parts: [(&str, Part); 4] = [
            ("recall@100, %", |f| f.recall_at_100),
            ("recall@10, %", |f| f.recall_at_10),
            ("nDCG@10, %", |f| f.ndcg_at_10),
            ("work, %", |f| f.work_fraction),
        ];
        for (name, part) in parts {
            write_figures(out, verdict, name, part)?;
        }
        writeln!(out, "\n{:<46}  visited  recall@10 (p)     recall@100 (p)", "difference in points")?;
        for pair in verdict.comparisons.chunks_exact(2) {
            write_differences(out, pair)?;
        }
    }
    writeln!(out, "\n{}", verdict.sentence)
}

/// A part of every method's figures at each visited fraction.
fn write_figures(out: &mut dyn Write, verdict: &Verdict, name: &str, part: Part) -> io::Result<()> {
    write!(out, "\n{name:<26}")?;
    for fraction in FRACTIONS {
        write!(out, " {:>6}", format!("{:.0}%", fraction * 100.0))?;
    }
    writeln!(out, "  visited")?;
    for method in &verdict.methods {
        write!(out, "{:<26}", method.method)?;
        for point in &method.at {
            let figure = point.figures.map_or_else(|| "-".to_owned(), |f| format!("{:.1}", part(&f) * 100.0));
            write!(out, " {figure:>6}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The two metrics of one comparison, with the larger of the two p-values.
fn write_differences(out: &mut dyn Write, pair: &[Comparison]) -> io::Result<()> {
    let Some(first) = pair.first() else {
        return Ok(());
    };
    let figure = |metric| {
        let found = pair.iter().find(|comparison| comparison.metric == metric)?.difference?;
        let points = format!("{:+.1}", found.difference * 100.0);
        Some(match found.bootstrap_p.zip(found.t_test_p) {
            Some((bootstrap, t_test)) => format!("{points} ({:.4})", bootstrap.max(t_test)),
            None => points,
        })
    };
    let [at_10, at_100] = [ComparedMetric::RecallAt10, ComparedMetric::RecallAt100].map(figure);
    let visited = match first.method {
        Method::TrainedExact => "all".to_owned(),
        _ => format!("{:.0}%", first.visited_fraction * 100.0),
    };
    let name = format!("{} against {}", first.method, first.against);
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    writeln!(out, "{name:<46}  {visited:>7}  {:<16}  {}", or_dash(at_10), or_dash(at_100))
}

/// An event on one line, for the user; most steps are left out.
pub fn event_line(event: &TrainEvent, epochs: usize) -> Option<String> {
    Some(match event {
        TrainEvent::Started { documents, train_queries, dev_queries, leaves } => format!(
            "{documents} documents, {train_queries} training queries, {dev_queries} held out, {leaves} leaves"
        ),
        TrainEvent::Resumed { epochs, step } => format!("going on after {epochs} epochs, step {step}"),
        TrainEvent::Refreshed { epochs, figures, seconds } => format!(
            "after {epochs} epochs, held out: exact recall@10 {:.4}, recall@100 {:.4}; \
             tree recall@100 at 10% visited {}; {:.1} expected documents per leaf \
             (even {:.1}), {} empty; {seconds:.1} s",
            figures.exact_recall_at_10,
            figures.exact_recall_at_100,
            figures.recall_at_100(0.1).map_or_else(|| "-".to_owned(), |recall| format!("{recall:.4}")),
            figures.expected_documents_per_leaf,
            figures.ideal_documents_per_leaf,
            figures.empty_leaves,
        ),
        TrainEvent::Epoch(epoch) => epoch_line(epoch, epochs),
        TrainEvent::IndexerEpoch(epoch) => format!(
            "tree alone, pass {}: distillation {:.4}, balance {:.4} in {:.1} s",
            epoch.epoch, epoch.distillation, epoch.balance, epoch.seconds
        ),
        TrainEvent::StoppedEarly(stop) => format!(
            "no better for a while: stopped after epoch {}, back to the weights after epoch {}",
            stop.stopped_after, stop.best_after
        ),
        _ => return None,
    })
}

/// An epoch's mean losses on one line.
fn epoch_line(epoch: &EpochReport, epochs: usize) -> String {
    format!(
        "epoch {}/{epochs}: loss {:.4} (siamese {:.4}, indexing {:.4}, intra-leaf {:.4}, balance {:.4}, \
         distillation {:.4}) in {:.1} s",
        epoch.epoch,
        epoch.loss,
        epoch.siamese,
        epoch.indexing,
        epoch.intra_leaf,
        epoch.balance,
        epoch.distillation,
        epoch.seconds,
    )
}
