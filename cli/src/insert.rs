//! `ehi insert`

mod bar;
mod group;
pub mod origin;
mod reading;
pub mod sync;
mod tally;

use std::collections::HashSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser};
use ehi::data::Folder;
use ehi::store::StoreError;
use ehi::{Error, Index, Progress};

use crate::bars;
use crate::calibrate;
use crate::failure::Failure;
use crate::fields::{self, FieldArgs};
use crate::interrupt::Interrupts;
use crate::opening::FillingArgs;
use crate::text::{escaped, one_line};
use crate::vector;
use bar::InsertBar;
use group::Group;
use origin::{FolderArgs, Named, Opener, Origin};
use reading::{Reading, bytes_of};
use sync::{Sync, SyncBy};
use tally::Tally;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    filling: FillingArgs,
    #[command(flatten)]
    fields: FieldArgs,
    /// Field of the document's vector, a list of numbers in JSON, Parquet or Arrow, which is stored in place
    /// of an embedding of the text; `_vector`, as `ehi export` writes it, or `vector` if absent, in an index
    /// without an encoder
    #[arg(long, value_name = "NAME", help_heading = fields::HEADING)]
    vector: Option<String>,
    /// Read only the files that have changed since the last time, and delete the documents of those that are
    /// gone. Changed means that size, times or inode differ, or with `hash` that the content does
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true, default_missing_value = "stat",
        help_heading = origin::HEADING)]
    sync: Option<SyncBy>,
    #[command(flatten)]
    folders: FolderArgs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// JSON lines (as BEIR's corpus), an array of JSON objects, CSV or TSV with a row of names, plain, gzip
    /// or zstd; - for standard input; the folder of a dataset in the layout of BEIR, MS MARCO (TSV) or
    /// extreme classification; or a folder of text files: Markdown, HTML and more.
    /// `NAME=FOLDER` begins the ids of its files with `NAME/`, so that several folders can have
    /// files of the same name
    #[arg(required = true, value_name = "FILE", value_parser = OsStringValueParser::new().map(Named::of))]
    files: Vec<Named>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // Checked before anything is stored.
    args.folders.check(args.files.len(), args.sync.is_some())?;
    for named in &args.files {
        let origin = Origin::of(named, &args.folders, &args.fields)?;
        origin.check(named, &args.folders, &args.fields, args.sync.is_some())?;
    }
    if let Some(role) = args.vector.as_deref().and_then(|field| args.fields.role_of(field)) {
        let what = format!("`--vector` names the field of the {role}; a vector has a field of its own");
        return Err(Failure::Usage(what));
    }
    let index = args.filling.open()?;
    let vectors = match &args.vector {
        Some(field) => vec![field.clone()],
        None if index.bundle().model().has_encoder() => Vec::new(),
        None if args.fields.limits_metadata() => {
            let what =
                "`--metadata` leaves all other fields out; name the field of the vectors by `--vector`";
            return Err(Failure::Usage(what.to_owned()));
        }
        None => vector::FIELDS.map(str::to_owned).to_vec(),
    };
    let paths = args.files.iter().map(|named| &*named.path);
    let mut inserter = Inserter::begin(&index, Interrupts::watch(), bytes_of(paths));
    inserter.vectors = vectors;
    let result = args.files.iter().try_for_each(|named| inserter.input(named, args));
    inserter.finish(result, args.json, out)?;
    calibrate::after_insert(&index);
    Ok(())
}

/// Stores the documents of inputs and counts them.
pub struct Inserter<'a> {
    index: &'a Index,
    interrupts: Interrupts,
    bar: InsertBar,
    tally: Tally,
    /// The fields that may hold the vector of each document; empty if texts are encoded.
    vectors: Vec<String>,
    /// Bytes of the inputs before this one.
    before: u64,
    /// Ids of files that belong to documents from elsewhere.
    taken: Vec<String>,
    /// Lines that were printed, which are printed once.
    pub said: HashSet<String>,
}

impl<'a> Inserter<'a> {
    /// `bytes` are those of all inputs, if known.
    pub fn begin(index: &'a Index, interrupts: Interrupts, bytes: Option<u64>) -> Self {
        let bar = InsertBar::begin(bytes);
        Self {
            index,
            interrupts,
            bar,
            tally: Tally::default(),
            vectors: Vec::new(),
            before: 0,
            taken: Vec::new(),
            said: HashSet::new(),
        }
    }

    /// Flushes and reports, also after a failure.
    pub fn finish(self, result: Result<(), Failure>, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        self.bar.end();
        self.tally.finish(self.index, result, json, out)
    }

    /// Reports what one synchronisation of many has changed, if anything, and returns whether it removed
    /// documents. Refused files do not fail it.
    pub fn report(
        mut self,
        result: Result<(), Failure>,
        is_first: bool,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let removed = self.tally.removed > 0;
        if self.tally.is_idle() && result.is_ok() {
            self.bar.end();
            return Ok(removed);
        }
        if !is_first {
            self.tally.only_changes();
        }
        match self.finish(result, json, out) {
            Ok(()) | Err(Failure::Refused { .. }) => Ok(removed),
            Err(failure) => Err(failure),
        }
    }

    fn input(&mut self, named: &Named, args: &Args) -> Result<(), Failure> {
        let (path, name) = (&*named.path, origin::name(&named.path));
        match (Origin::of(named, &args.folders, &args.fields)?, args.sync) {
            (Origin::Folder(_) | Origin::Dataset, _) if !self.vectors.is_empty() => {
                let problem = "documents with vectors are read from JSON, Parquet and Arrow files";
                return Err(Failure::Usage(format!("{name} is a folder, and {problem}")));
            }
            (Origin::Folder(folder), Some(by)) => {
                let mut sync = Sync::with(self.index, folder, by)?;
                self.sync(path, &mut sync)?;
                sync.overlap().iter().for_each(|line| self.note(line));
            }
            (Origin::Folder(folder), None) => {
                let documents = folder.clone().documents();
                self.read(path, Box::new(move || Ok(documents)), Some(&folder))?;
            }
            (origin, _) => {
                if matches!(origin, Origin::Dataset) {
                    self.note(&format!("{name} is read as a dataset, and no other file in it"));
                }
                let input = args.fields.input(args.vector.as_deref(), !self.vectors.is_empty());
                self.read(path, origin.opener(path, name, input)?, None)?;
            }
        }
        Ok(())
    }

    /// Stores the documents of new and changed files, then removes those of missing files.
    pub fn sync(&mut self, path: &Path, sync: &mut Sync) -> Result<(), Failure> {
        let documents = sync.changed(self.index)?;
        let opener = Box::new(move || Ok(documents));
        let mut reading = Reading::begin(path, origin::name(path), opener, true, self.before)?;
        let read = self.store(path, &mut reading, Some(&sync.folder));
        sync.taken.append(&mut self.taken);
        let Some(report) = reading.folder() else { return read };
        sync.failed(report);
        let removed = read.and_then(|()| sync.remove(self.index, path, report));
        let (removed, left_out) = removed.inspect_err(|_| sync.forget(&report.empty))?;
        self.tally.removed += removed;
        left_out.iter().for_each(|line| self.note(line));
        Ok(())
    }

    /// Stores the documents of one input. `folder` is given for text files.
    fn read(&mut self, path: &Path, opener: Opener, folder: Option<&Folder>) -> Result<(), Failure> {
        let mut reading = Reading::begin(path, origin::name(path), opener, folder.is_some(), self.before)?;
        self.store(path, &mut reading, folder)
    }

    fn store(&mut self, path: &Path, reading: &mut Reading, folder: Option<&Folder>) -> Result<(), Failure> {
        let name = origin::name(path);
        let mut group = Group::default();
        while let Some(read) = reading.next(&self.interrupts) {
            let mut document = match read.document {
                Ok(document) => document,
                Err(error) if reading.goes_on(&error) => {
                    self.tally.read += 1;
                    self.refuse(&format!("refused: {}", Failure::from(error).line()));
                    continue;
                }
                Err(error) => {
                    self.say_notes(&name, reading);
                    self.group(group, reading)?;
                    if read.line > 0 {
                        self.tally.bad_line(&error);
                    }
                    return Err(origin::failure(path, error));
                }
            };
            self.tally.read += 1;
            self.bar.read();
            // Two folders may have files of the same name.
            if let Some(folder) = folder
                && let Some(other) = self.index.get(&document.id)?
                && folder.version_of(&other).is_none()
            {
                let file = folder.file(&document.id);
                self.refuse(&sync::of_another(&file, &document.id, sync::source_of(&other).as_deref()));
                self.taken.push(document.id);
                continue;
            }
            if !self.vectors.is_empty() {
                match vector::take(&mut document, &self.vectors, self.index.bundle().model().dim()) {
                    Ok(vector) => group.vectors.push(vector),
                    Err(why) => {
                        let place = reading.place(read.line, &document.id);
                        self.refuse(&escaped(&one_line(&format!("refused: {place}: {why}"))));
                        continue;
                    }
                }
            }
            group.push(document, read.line, read.position);
            if group.is_full() {
                self.group(std::mem::take(&mut group), reading)?;
            }
        }
        self.check_interrupts()?;
        self.group(group, reading)?;
        self.before += bytes_of([path]).unwrap_or_default();
        self.say_notes(&name, reading);
        for field in reading.unseen() {
            self.note(&format!("no record of {name} has the field `{field}`"));
        }
        if let Some(report) = reading.folder() {
            self.tally.folder(report);
            report.notes.iter().for_each(|note| self.note(note));
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

    /// Prints a note on an input.
    fn note(&mut self, what: &str) {
        let line = escaped(&format!("note: {what}"));
        if self.said.insert(line.clone()) {
            bars::say(&line);
            self.tally.notes.push(what.to_owned());
        }
    }

    /// Reports that a file is not stored.
    fn refuse(&mut self, line: &str) {
        if self.said.insert(line.to_owned()) {
            bars::say(line);
            self.tally.refused += 1;
        } else {
            self.tally.read -= 1;
        }
    }

    fn check_interrupts(&self) -> Result<(), Failure> {
        self.interrupts.signal().map_or(Ok(()), |signal| Err(self.tally.interrupted(signal)))
    }

    /// Inserts a group. If that fails, counts the documents that were stored before the failure.
    fn group(&mut self, group: Group, reading: &Reading) -> Result<(), Failure> {
        let Group { documents, vectors, lines, end, .. } = group;
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
        let told = index.with_progress(show);
        let inserted = match self.vectors.is_empty() {
            false => told.insert_vectors(documents.into_iter().zip(vectors)),
            true => told.insert_batch(documents),
        };
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
