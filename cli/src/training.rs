//! A training run as a table.

use std::io::{self, Write};

use ehi::train::{Comparison, DevFigures, FRACTIONS, Figures, Method, TrainEvent, TrainReport, Verdict};

use crate::text::counted;

/// The dev figures before and after training, and the verdict.
pub fn write_training(out: &mut dyn Write, report: &TrainReport) -> io::Result<()> {
    let (before, after) = (&report.before, &report.after);
    let line = |out: &mut dyn Write, name: &str, figure: &dyn Fn(&DevFigures) -> String| {
        writeln!(out, "{name:<28}  {:>14}  {:>14}", figure(before), figure(after))
    };
    writeln!(
        out,
        "{}, {} with {}, {}",
        counted(report.documents, "document"),
        counted(report.train_queries, "training query"),
        counted(report.train_pairs, "pair"),
        counted(report.dev_queries, "dev query")
    )?;
    writeln!(out, "{:<28}  {:>14}  {:>14}", "", "before", "after")?;
    if report.dev_queries == 0 {
        writeln!(out, "no dev split, so no recall was measured")?;
    } else {
        line(out, "exact recall@10", &|f| format!("{:.4}", f.exact.recall_at_10))?;
        line(out, "exact recall@100", &|f| format!("{:.4}", f.exact.recall_at_100))?;
        // The two trees may differ, so they are compared at one cost instead of by beam.
        line(out, "tree recall@100, 10% visited", &|f| {
            f.recall_at_100(0.1).map_or_else(|| "-".to_owned(), |recall| format!("{recall:.4}"))
        })?;
    }
    line(out, "expected documents per leaf", &|f| format!("{:.1}", f.load.expected_documents_per_leaf))?;
    line(out, "  of an even load", &|f| format!("{:.1}", f.load.ideal_documents_per_leaf))?;
    line(out, "empty leaves", &|f| f.load.empty_leaves.to_string())?;
    write_verdict(out, &report.verdict)
}

/// A figure of a method.
type FigureOf = fn(&Figures) -> f64;

/// Methods by visited fraction, their differences, and what to do.
fn write_verdict(out: &mut dyn Write, verdict: &Verdict) -> io::Result<()> {
    if !verdict.methods.is_empty() {
        let parts: [(&str, FigureOf); 4] = [
            ("recall@100, %", |f| f.recall_at_100),
            ("recall@10, %", |f| f.recall_at_10),
            ("nDCG@10, %", |f| f.ndcg_at_10),
            ("work, %", |f| f.work_fraction),
        ];
        for (name, part) in parts {
            write_figures(out, verdict, name, part)?;
        }
        writeln!(out, "\n{:<46}  visited  metric       points  p", "difference")?;
        verdict.comparisons.iter().try_for_each(|comparison| write_difference(out, comparison))?;
    }
    writeln!(out, "\n{}", verdict.sentence)
}

/// A part of every method's figures at each visited fraction.
fn write_figures(out: &mut dyn Write, verdict: &Verdict, name: &str, part: FigureOf) -> io::Result<()> {
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

/// A comparison, with the larger of its two p-values.
fn write_difference(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let Comparison { method, against, metric, visited_fraction, difference, .. } = comparison;
    let Some(difference) = difference else { return Ok(()) };
    let name = format!("{method} against {against}");
    let visited = match method {
        Method::TrainedExact => "all".to_owned(),
        _ => format!("{:.0}%", visited_fraction * 100.0),
    };
    let p = difference.bootstrap_p.zip(difference.t_test_p);
    let p = p.map_or_else(|| "-".to_owned(), |(bootstrap, t_test)| format!("{:.4}", bootstrap.max(t_test)));
    writeln!(out, "{name:<46}  {visited:>7}  {metric:<10}  {:>+7.1}  {p}", difference.difference * 100.0)
}

/// An event on one line, for the user; most steps are left out.
pub fn event_line(event: &TrainEvent, epochs: usize) -> Option<String> {
    Some(match event {
        TrainEvent::Started { documents, train_queries, dev_queries, leaves } => format!(
            "{}, {}, {dev_queries} held out, {}",
            counted(*documents, "document"),
            counted(*train_queries, "training query"),
            counted(*leaves, "leaf")
        ),
        TrainEvent::Resumed { epochs, step } => {
            format!("resumed after {}, step {step}", counted(*epochs, "epoch"))
        }
        TrainEvent::Refreshed { epochs, figures, seconds } => format!(
            "after {}, held out: exact recall@10 {:.4}, recall@100 {:.4}; \
             tree recall@100 at 10% visited {}; {:.1} expected documents per leaf \
             (even {:.1}), {} empty; {seconds:.1} s",
            counted(*epochs, "epoch"),
            figures.exact.recall_at_10,
            figures.exact.recall_at_100,
            figures.recall_at_100(0.1).map_or_else(|| "-".to_owned(), |recall| format!("{recall:.4}")),
            figures.load.expected_documents_per_leaf,
            figures.load.ideal_documents_per_leaf,
            figures.load.empty_leaves,
        ),
        TrainEvent::Epoch(epoch) => {
            format!("epoch {}/{epochs}: loss {:.4} in {:.1} s", epoch.epoch, epoch.losses.loss, epoch.seconds)
        }
        TrainEvent::IndexerEpoch(epoch) => format!(
            "tree alone, pass {}: distillation {:.4}, balance {:.4} in {:.1} s",
            epoch.epoch, epoch.losses.distillation, epoch.losses.balance, epoch.seconds
        ),
        _ => return None,
    })
}
