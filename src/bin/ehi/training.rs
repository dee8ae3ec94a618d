//! A training run as a table.

use std::io::{self, Write};

use ehi::train::{DevFigures, EpochReport, TrainEvent, TrainReport};

/// The dev figures before and after training.
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
        for place in 0..before.points.len().min(after.points.len()) {
            let beam = before.points[place].beam;
            line(out, &format!("beam {beam}: visited"), &|f| {
                format!("{:.2}%", f.points[place].visited_fraction * 100.0)
            })?;
            line(out, &format!("beam {beam}: recall@10"), &|f| {
                format!("{:.4}", f.points[place].recall_at_10)
            })?;
            line(out, &format!("beam {beam}: recall@100"), &|f| {
                format!("{:.4}", f.points[place].recall_at_100)
            })?;
        }
    }
    line(out, "expected documents per leaf", &|f| format!("{:.1}", f.expected_documents_per_leaf))?;
    line(out, "  of an even load", &|f| format!("{:.1}", f.ideal_documents_per_leaf))?;
    line(out, "empty leaves", &|f| f.empty_leaves.to_string())
}

/// What a reader of the run should see of an event, on one line; most steps are left out.
pub fn event_line(event: &TrainEvent, epochs: usize) -> Option<String> {
    Some(match event {
        TrainEvent::Started { documents, train_queries, dev_queries, leaves } => format!(
            "{documents} documents, {train_queries} training queries, {dev_queries} held out, {leaves} leaves"
        ),
        TrainEvent::Resumed { epochs, step } => format!("going on after {epochs} epochs, step {step}"),
        TrainEvent::Refreshed { epochs, figures, seconds } => format!(
            "after {epochs} epochs, held out: exact recall@10 {:.4}, recall@100 {:.4}; tree recall@100 at 10% \
             visited {}; {:.1} expected documents per leaf (even {:.1}), {} empty; {seconds:.1} s",
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
