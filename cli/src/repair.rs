//! `ehi repair`

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ehi::store::{RepairReport, StoreError, Undecided};
use ehi::{Error, Index, RepairOptions};

use crate::bars::Bars;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::models::{self, EncoderArgs};
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// The bundle or encoder that the index was made with, where its own copy is damaged
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    #[command(flatten)]
    encoder: EncoderArgs,
    /// What to do with documents of which it is not known whether they had been deleted; refuse if absent
    #[arg(long)]
    undecided: Option<Choice>,
    /// Remove what earlier repairs set aside, unless there is something to repair now
    #[arg(long)]
    forget: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Keep,
    Drop,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let bundle = args.model.as_deref().map(|model| models::open(model, &args.encoder)).transpose()?;
    let undecided = match args.undecided {
        None => Undecided::Refuse,
        Some(Choice::Keep) => Undecided::Keep,
        Some(Choice::Drop) => Undecided::Drop,
    };
    let mut bars = Bars::new();
    let WriteArgs { report: ReportArgs { index, json }, wait } = &args.write;
    let repaired = wait.retry(|| {
        let options = RepairOptions::default().undecided(undecided).forget(args.forget);
        let options = options.on_progress(|progress| bars.show(progress));
        Index::repair(
            index,
            match &bundle {
                Some(bundle) => options.bundle(bundle),
                None => options,
            },
        )
    });
    bars.clear();
    let report = repaired.map_err(|error| match error {
        Error::Store(StoreError::Corrupt { file, detail }) => {
            Failure::Unrepairable { file: file.into_owned(), damage: detail.to_string() }
        }
        other => other.into(),
    })?;
    let dropped = matches!(args.undecided, Some(Choice::Drop)) && report.undecided > 0;
    if *json {
        printing::json(out, &report)?;
    } else {
        write_text(out, index, &report, dropped).map_err(Failure::Output)?;
        if args.forget {
            write_forgotten(out, &report).map_err(Failure::Output)?;
        }
    }
    let lost = report.lost + report.lost_commits + report.lost_judgments + report.lost_judgment_commits;
    match lost {
        0 if !report.judgments_set_aside && !dropped => Ok(()),
        _ => Err(Failure::Lost { index: index.clone() }),
    }
}

fn write_text(
    out: &mut dyn Write,
    index: &Path,
    report: &RepairReport,
    dropped: bool,
) -> std::io::Result<()> {
    if report.lost > 0 {
        writeln!(
            out,
            "LOST: {} documents of {} damaged segments cannot be read; insert them again",
            report.lost, report.damaged_segments
        )?;
    }
    report.lost_ids.iter().try_for_each(|id| writeln!(out, "lost: {}", escaped(id)))?;
    if report.lost_commits > 0 {
        writeln!(
            out,
            "LOST: {} groups of documents in the log cannot be read, how many documents is not known; insert \
             them again",
            report.lost_commits
        )?;
    }
    if report.judgments_set_aside {
        writeln!(out, "LOST: the judgments cannot be read, how many is not known; all are set aside")?;
    }
    if report.lost_judgments > 0 {
        writeln!(out, "LOST: {} judgments cannot be read", report.lost_judgments)?;
    }
    if report.lost_judgment_commits > 0 {
        let commits = report.lost_judgment_commits;
        writeln!(out, "LOST: {commits} groups of judgments in their log cannot be read")?;
    }
    let mended = [
        (report.current_restored, "CURRENT was damaged and was made again"),
        (report.previous_model_set_aside, "the model before the last change was damaged and is set aside"),
        (report.manifest_restored, "MANIFEST was damaged and was restored from its copy"),
        (report.model_restored, "the model was damaged and was restored from the bundle given"),
        (
            report.query_encoder_removed,
            "the query encoder was damaged and was taken away; `ehi distil` makes one",
        ),
        (report.judgments_damaged, "the judgments were damaged; what could be read of them is kept"),
        (report.log_damaged, "the log was damaged; what could be read of it is kept"),
    ];
    for (_, said) in mended.iter().filter(|(mended, _)| *mended) {
        writeln!(out, "{said}")?;
    }
    if report.damaged_segments > 0 {
        writeln!(
            out,
            "{} damaged segments: {} documents recovered, {} of them with embedding and leaves computed anew, \
             {} lost",
            report.damaged_segments, report.recovered, report.recomputed, report.lost
        )?;
    }
    if report.undecided_judgments > 0 {
        writeln!(out, "{} judgments may have been forgotten before", report.undecided_judgments)?;
    }
    if report.waiting_judgments > 0 {
        let waiting = report.waiting_judgments;
        writeln!(out, "{waiting} judgments wait in their log; `ehi recover` brings them back")?;
    }
    if report.undecided > 0 {
        let all = report.undecided;
        match dropped {
            true => writeln!(out, "LOST: {all} documents dropped, though only some had been deleted")?,
            false => writeln!(out, "{all} documents kept, though some had been deleted")?,
        }
    }
    report.unmeasured.iter().try_for_each(|said| writeln!(out, "{}", escaped(said)))?;
    report.set_aside.iter().try_for_each(|path| writeln!(out, "set aside: {}", printing::path(path)))?;
    let sound = if report.was_sound() { "sound: " } else { "" };
    let nothing = if report.was_sound() { ", nothing to repair" } else { "" };
    writeln!(out, "{sound}{} documents{nothing}", report.documents)?;
    if report.waiting_documents > 0 {
        writeln!(
            out,
            "{} more documents wait in the log; `ehi recover --index {}` brings them back",
            report.waiting_documents,
            printing::path(index)
        )?;
    }
    Ok(())
}

fn write_forgotten(out: &mut dyn Write, report: &RepairReport) -> std::io::Result<()> {
    report.forgotten.iter().try_for_each(|path| writeln!(out, "removed: {}", printing::path(path)))?;
    match (report.was_sound(), report.forgotten.is_empty()) {
        (true, true) => writeln!(out, "nothing was set aside by a repair"),
        (true, false) => Ok(()),
        (false, _) => writeln!(
            out,
            "nothing that was set aside is removed, since there was something to repair: look whether anything \
             is missing, then run `ehi repair --forget` again"
        ),
    }
}
