//! `ehi repair`

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use ehi::{Bundle, Index, RepairOptions, RepairReport, Undecided};
use serde_json::{Value, json};

use crate::bars::Bars;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// The bundle that the index was made with, where its own copy is damaged
    #[arg(long, value_name = "BUNDLE")]
    model: Option<PathBuf>,
    /// What to do with documents of which it is not known whether they had been deleted; refuse if absent
    #[arg(long)]
    undecided: Option<Choice>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Keep,
    Drop,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let bundle = args.model.as_deref().map(Bundle::open).transpose()?;
    let undecided = match args.undecided {
        None => Undecided::Refuse,
        Some(Choice::Keep) => Undecided::Keep,
        Some(Choice::Drop) => Undecided::Drop,
    };
    let mut bars = Bars::new();
    let options = RepairOptions { bundle, undecided };
    let WriteArgs { report: ReportArgs { index, json }, wait } = &args.write;
    let repaired = wait.retry(|| Index::repair_with(index, &options, &mut |progress| bars.show(progress)));
    bars.clear();
    let report = repaired?;
    if *json {
        printing::json(out, &report_json(&report))
    } else {
        write_text(out, &report).map_err(Failure::Output)
    }
}

fn report_json(report: &RepairReport) -> Value {
    json!({
        "was_sound": report.was_sound(),
        "manifest_restored": report.manifest_restored,
        "model_restored": report.model_restored,
        "damaged_segments": report.damaged_segments,
        "documents": report.documents,
        "recovered": report.recovered,
        "recomputed": report.recomputed,
        "lost": report.lost,
        "lost_ids": report.lost_ids,
        "undecided": report.undecided,
        "set_aside": report.set_aside,
    })
}

fn write_text(out: &mut dyn Write, report: &RepairReport) -> std::io::Result<()> {
    if report.was_sound() {
        return writeln!(out, "sound: {} documents, nothing to repair", report.documents);
    }
    if report.manifest_restored {
        writeln!(out, "the manifest was damaged and is that of its copy")?;
    }
    if report.model_restored {
        writeln!(out, "the model was damaged and is that of the bundle given")?;
    }
    writeln!(
        out,
        "{} damaged segments: {} documents recovered, {} of them with embedding and leaves computed anew, \
         {} lost, {} undecided; the index has {} documents",
        report.damaged_segments,
        report.recovered,
        report.recomputed,
        report.lost,
        report.undecided,
        report.documents
    )?;
    report.lost_ids.iter().try_for_each(|id| writeln!(out, "lost: {}", escaped(id)))?;
    report.set_aside.iter().try_for_each(|path| writeln!(out, "set aside: {}", printing::path(path)))
}
