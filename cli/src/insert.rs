//! `ehi insert`

mod bar;
mod group;
pub mod origin;
mod reading;
mod sync;
mod tally;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ehi::store::StoreError;
use ehi::{Error, Index, Progress};

use crate::bars;
use crate::calibrate;
use crate::failure::Failure;
use crate::fields::FieldArgs;
use crate::interrupt::Interrupts;
use crate::opening::{PrecisionArgs, WaitArgs};
use crate::text::{escaped, one_line};
use bar::InsertBar;
use group::Group;
use origin::{FolderArgs, Opener, Origin};
use reading::{Reading, bytes_of};
use sync::Sync;
use tally::Tally;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// JSON lines (as BEIR's corpus), an array of JSON objects, CSV or TSV with a row of names, plain, gzip
    /// or zstd; - for standard input; the folder of a dataset in the layout of BEIR, MS MARCO (TSV) or
    /// extreme classification; or a folder of text files: Markdown, HTML and more
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // Checked before anything is stored.
    args.folders.check(&args.files)?;
    for path in &args.files {
        Origin::of(path, &args.folders, &args.fields)?.check(path, &args.folders, &args.fields)?;
    }
    let index = args.precision.of(args.wait.builder()).lazy_encoder(false).open(&args.index)?;
    let mut inserter = Inserter {
        index: &index,
        args,
        interrupts: Interrupts::watch(),
        bar: InsertBar::begin(bytes_of(&args.files)),
        tally: Tally::default(),
        before: 0,
    };
    let result = args.files.iter().try_for_each(|path| inserter.file(path));
    inserter.bar.end();
    inserter.tally.finish(&index, result, args.json, out)?;
    calibrate::after_insert(&index);
    Ok(())
}

struct Inserter<'a> {
    index: &'a Index,
    args: &'a Args,
    interrupts: Interrupts,
    bar: InsertBar,
    tally: Tally,
    /// Bytes of the inputs before this one.
    before: u64,
}

impl Inserter<'_> {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let name = origin::name(path);
        let Args { folders, fields, .. } = self.args;
        let origin = Origin::of(path, folders, fields)?;
        let is_folder = matches!(origin, Origin::Folder(_));
        let mut texts = None;
        let (opener, sync): (Opener, _) = match (origin, folders.sync) {
            (Origin::Folder(folder), Some(by)) => {
                let sync = Sync::with(self.index, &folder, by)?;
                let documents = sync.changed(folder);
                (Box::new(move || Ok(documents)), Some(sync))
            }
            (origin, _) => {
                if let Origin::Folder(folder) = &origin {
                    texts = Some(folder.clone());
                }
                if matches!(origin, Origin::Dataset) {
                    self.note(&format!("{name} is read as a dataset, and no other file in it"));
                }
                (origin.opener(path, name.clone(), fields.input())?, None)
            }
        };
        let shown = name.clone();
        let mut reading = Reading::begin(path, name, opener, is_folder, self.before)?;
        let mut group = Group::default();
        while let Some(read) = reading.next(&self.interrupts) {
            let document = match read.document {
                Ok(document) => document,
                Err(error) if reading.goes_on(&error) => {
                    self.tally.read += 1;
                    self.refuse(&format!("refused: {}", Failure::from(error).line()));
                    continue;
                }
                Err(error) => {
                    self.say_notes(&shown, &mut reading);
                    self.group(group, &reading)?;
                    if read.line > 0 {
                        self.tally.bad_line(&error);
                    }
                    return Err(origin::failure(path, error));
                }
            };
            self.tally.read += 1;
            self.bar.read();
            // Two folders may have files of the same name.
            if let Some(folder) = &texts
                && let Some(other) = self.index.get(&document.id)?
                && folder.version_of(&other).is_none()
            {
                let own = document.id.strip_prefix(folders.prefix()).unwrap_or(&document.id);
                let file = if path.is_dir() { path.join(own) } else { path.to_owned() };
                self.refuse(&sync::of_another(&file, &document.id, sync::source_of(&other).as_deref()));
                continue;
            }
            group.push(document, read.line, read.position);
            if group.is_full() {
                self.group(std::mem::take(&mut group), &reading)?;
            }
        }
        self.check_interrupts()?;
        self.group(group, &reading)?;
        self.before += bytes_of(&[path.to_owned()]).unwrap_or_default();
        self.say_notes(&shown, &mut reading);
        for field in reading.unseen() {
            self.note(&format!("no record of {shown} has the field `{field}`"));
        }
        if let Some(report) = reading.folder() {
            self.tally.folder(report);
            report.notes.iter().for_each(|note| self.note(note));
        }
        if let Some(sync) = sync {
            self.finish_sync(path, &sync, &reading)?;
        }
        Ok(())
    }

    /// Reports decisions about an input once reading it has ended.
    fn say_notes(&mut self, name: &str, reading: &mut Reading) {
        for note in reading.notes() {
            self.note(&format!("{name}: {note}"));
            self.tally.noted(&note);
        }
    }

    /// Removes the documents of missing files, once everything else is stored.
    fn finish_sync(&mut self, path: &Path, sync: &Sync, reading: &Reading) -> Result<(), Failure> {
        let taken = sync.refused(path, self.args.folders.prefix());
        self.tally.unchanged -= taken.len() as u64;
        for line in taken {
            self.tally.read += 1;
            self.refuse(&line);
        }
        if let Some(report) = reading.folder() {
            let (removed, left_out) = sync.remove(self.index, path, report)?;
            self.tally.removed += removed;
            left_out.iter().chain(&sync.overlap()).for_each(|line| self.note(line));
        }
        Ok(())
    }

    /// Prints a note on an input.
    fn note(&mut self, what: &str) {
        bars::say(&escaped(&format!("note: {what}")));
        self.tally.notes.push(what.to_owned());
    }

    /// Reports that a file or a record is not stored.
    fn refuse(&mut self, line: &str) {
        bars::say(line);
        self.tally.refused += 1;
    }

    fn check_interrupts(&self) -> Result<(), Failure> {
        self.interrupts.signal().map_or(Ok(()), |signal| Err(self.tally.interrupted(signal)))
    }

    /// Inserts a group. If that fails, counts the documents that were stored before the failure.
    fn group(&mut self, group: Group, reading: &Reading) -> Result<(), Failure> {
        let Group { documents, lines, end, .. } = group;
        if documents.is_empty() {
            return Ok(());
        }
        let Self { index, interrupts, bar, tally, .. } = self;
        let before = index.len();
        let mut done = 0;
        let show = |progress: Progress| {
            done = progress.done;
            bar.stored(tally.stored() + done, end, progress.done, progress.total);
            match interrupts.signal() {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        };
        let inserted = index.with_progress(show).insert_batch(documents);
        match inserted {
            Ok(summary) => {
                for refused in &summary.refused {
                    let place = reading.place(lines[refused.position], &refused.id);
                    bars::say(&escaped(&one_line(&format!("refused: {place}: {}", refused.error))));
                }
                tally.add(&summary);
                Ok(())
            }
            Err(error) => {
                // This handle is the only writer.
                tally.add_partly(done, index.len().saturating_sub(before) as u64);
                // The numbers of the whole run are printed, so those of one call are not needed.
                let error = match error {
                    Error::Partial { source, .. } => *source,
                    other => other,
                };
                let error = match error {
                    Error::Store(StoreError::NotStored { source, .. }) => Error::Store(*source),
                    other => other,
                };
                match (error, interrupts.signal()) {
                    (Error::Cancelled, Some(signal)) => Err(tally.interrupted(signal)),
                    (error, _) => Err(error.into()),
                }
            }
        }
    }
}
