//! `ehi repair`

use std::io::Write;
use std::path::{Path, PathBuf};

use ehi::store::{RepairReport, StoreError, Undecided};
use ehi::{Error, Index, RepairOptions};

use crate::arguments::one_of;
use crate::failure::{Failure, WARNED};
use crate::long;
use crate::models::{self, EncoderArgs};
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};
use crate::text::{counted, escaped};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// The bundle or encoder that the index was made with, if its own copy is damaged; without an encoder,
    /// give --dim
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    #[command(flatten)]
    encoder: EncoderArgs,
    /// What to do with documents of which it is not known whether they had been deleted; refuse if absent
    #[arg(long, value_parser = one_of([("keep", Undecided::Keep), ("drop", Undecided::Drop)]))]
    undecided: Option<Undecided>,
    /// Remove what earlier repairs set aside, unless there is something to repair now
    #[arg(long)]
    forget: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let bundle = match &args.model {
        Some(model) => Some(models::open(model, &args.encoder)?),
        None if args.encoder.is_given() => Some(models::for_vectors(&args.encoder)?),
        None => None,
    };
    let undecided = args.undecided.unwrap_or_default();
    let WriteArgs { report: ReportArgs { index, json }, wait } = &args.write;
    let repaired = long::run("the documents are as before", |on_progress| {
        wait.retry(|| {
            let options = RepairOptions { bundle: bundle.clone(), undecided, forget: args.forget };
            Index::repair(index, &options, &mut *on_progress)
        })
    });
    let report = repaired.map_err(|failure| match failure {
        Failure::Ehi(Error::Store(StoreError::Corrupt { file, detail })) => Failure::Usage(format!(
            "{file} is damaged: {detail}; no copy of it is left, so it cannot be repaired: restore the index from \
             a backup, or insert the documents into a new one"
        )),
        other => other,
    })?;
    let dropped = undecided == Undecided::Drop && report.undecided > 0;
    printing::report(out, *json, &report, |out| {
        write_text(out, index, &report, dropped)?;
        if bundle.is_some() && !(report.model_restored || report.previous_model_repaired) {
            writeln!(out, "the model is sound: --model and --dim were not needed")?;
        }
        if args.forget { write_forgotten(out, &report) } else { Ok(()) }
    })?;
    let of_documents = report.lost + report.lost_embeddings + report.lost_commits;
    let of_others = report.lost_judgments + report.lost_judgment_commits + report.lost_previous_embeddings;
    let is_gone = report.judgments_set_aside
        || report.previous_model_set_aside
        || report.tree_lost
        || report.previous_tree_lost;
    match of_documents + of_others {
        0 if !is_gone && !dropped => Ok(()),
        _ => {
            let verdict = "repaired, but something is lost".to_owned();
            Err(Failure::Checked { index: index.clone(), verdict, status: WARNED })
        }
    }
}

fn write_text(
    out: &mut dyn Write,
    index: &Path,
    report: &RepairReport,
    dropped: bool,
) -> std::io::Result<()> {
    let (dropped, kept) = if dropped { (report.undecided, 0) } else { (0, report.undecided) };
    let counts = [
        ("LOST: ", report.lost, "document", "of damaged segments cannot be read; insert them again"),
        (
            "LOST: ",
            report.lost_embeddings,
            "embedding",
            "cannot be made again; texts and metadata are kept: insert the documents again with their vectors",
        ),
        ("LOST: ", report.lost_commits, "group", "of documents in the log cannot be read; insert them again"),
        ("LOST: ", report.lost_judgments, "judgment", "cannot be read"),
        ("LOST: ", report.lost_judgment_commits, "group", "of judgments in their log cannot be read"),
        (
            "LOST: ",
            report.lost_previous_embeddings,
            "embedding",
            "of the model before the last change cannot be read; a rollback brings those documents back without",
        ),
        ("LOST: ", dropped, "document", "dropped, though only some had been deleted"),
        ("", report.undecided_judgments, "judgment", "may have been forgotten before"),
        ("", report.waiting_judgments, "judgment", "wait in their log; `ehi recover` brings them back"),
        ("", kept, "document", "kept, though some had been deleted"),
    ];
    for (head, count, noun, text) in counts.into_iter().filter(|(_, count, ..)| *count > 0) {
        writeln!(out, "{head}{} {text}", counted(count, noun))?;
    }
    let damage = [
        (
            report.judgments_set_aside,
            "LOST: the judgments cannot be read, how many is not known; all are set aside",
        ),
        (report.current_restored, "CURRENT was damaged and was made again"),
        (report.tree_lost, "LOST: the tree, which cannot be read; `ehi tune` or a training makes a new one"),
        (
            report.previous_model_set_aside,
            "LOST: the model before the last change, which was damaged and is set aside; `ehi rollback` cannot \
             return to it",
        ),
        (report.previous_tree_lost, "LOST: the tree of the model before the last change"),
        (
            report.previous_model_repaired,
            "the model before the last change was damaged; what could be read of it is kept",
        ),
        (report.manifest_restored, "MANIFEST was damaged and was restored from its copy"),
        (report.model_restored && !report.tree_lost, "the model was damaged and was restored"),
        (
            report.query_encoder_removed,
            "the query encoder was damaged and is removed; `ehi distil` makes one",
        ),
        (report.judgments_damaged, "the judgments were damaged; what could be read of them is kept"),
        (report.log_damaged, "the log was damaged; what could be read of it is kept"),
    ];
    for (_, text) in damage.iter().filter(|(happened, _)| *happened) {
        writeln!(out, "{text}")?;
    }
    if report.mended_bytes > 0 {
        let mended = counted(report.mended_bytes, "flipped byte");
        writeln!(out, "{mended} put right by the checksums of the pages")?;
    }
    if report.damaged_segments > 0 {
        writeln!(
            out,
            "{}: {} recovered, {} of them with embedding and leaves computed anew, {} lost",
            counted(report.damaged_segments, "damaged segment"),
            counted(report.recovered, "document"),
            report.recomputed,
            report.lost
        )?;
    }
    if report.embeddings_of_previous > 0 {
        let taken = counted(report.embeddings_of_previous, "embedding");
        writeln!(out, "{taken} taken from the model before the last change")?;
    }
    report.lost_ids.iter().try_for_each(|id| writeln!(out, "lost: {}", escaped(id)))?;
    let mut without = report.lost_embedding_ids.iter();
    without.try_for_each(|id| writeln!(out, "without embedding: {}", escaped(id)))?;
    let unnamed = report.lost_embeddings.saturating_sub(report.lost_embedding_ids.len() as u64);
    if unnamed > 0 {
        writeln!(
            out,
            "without embedding: {unnamed} more; `ehi export` warns of them and writes no `_vector`"
        )?;
    }
    report.unmeasured.iter().try_for_each(|said| writeln!(out, "{}", escaped(said)))?;
    report.set_aside.iter().try_for_each(|path| writeln!(out, "set aside: {}", printing::path(path)))?;
    let (sound, nothing) = if report.was_sound() { ("sound: ", ", nothing to repair") } else { ("", "") };
    writeln!(out, "{sound}{}{nothing}", counted(report.documents, "document"))?;
    match report.waiting_documents {
        0 => Ok(()),
        waiting => writeln!(
            out,
            "{} more wait in the log; `ehi recover --index {}` brings them back",
            counted(waiting, "document"),
            printing::path(index)
        ),
    }
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
