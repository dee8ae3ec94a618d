//! `ehi insert`

mod bar;
mod group;
mod reading;
mod tally;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ehi::store::StoreError;
use ehi::{Error, Index, Progress};

use crate::calibrate;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::opening::WaitArgs;
use crate::precision::PrecisionArgs;
use bar::InsertBar;
use group::Group;
use reading::{Reading, bytes_of};
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
    /// BEIR corpus lines, plain or gzip; - for standard input; or the folder of a dataset in the
    /// layout of BEIR, MS MARCO (TSV) or extreme classification
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.precision.of(args.wait.builder()).lazy_encoder(false).open(&args.index)?;
    let interrupts = Interrupts::watch();
    let mut inserter = Inserter {
        index: &index,
        interrupts: interrupts.clone(),
        bar: InsertBar::begin(bytes_of(&args.files)),
        tally: Tally::default(),
    };
    let result = args.files.iter().try_for_each(|path| inserter.file(path));
    inserter.bar.end();
    inserter.tally.finish(&index, result, out)?;
    calibrate::after_insert(&index, &interrupts);
    Ok(())
}

struct Inserter<'a> {
    index: &'a Index,
    interrupts: Interrupts,
    bar: InsertBar,
    tally: Tally,
}

impl Inserter<'_> {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let mut reading = Reading::begin(path, &self.bar)?;
        let mut group = Group::default();
        while let Some(read) = reading.next(&self.interrupts) {
            let document = match read.document {
                Ok(document) => document,
                Err(error) => {
                    self.group(group, reading.name())?;
                    self.tally.bad_line(&error);
                    return Err(error.into());
                }
            };
            self.tally.read += 1;
            self.bar.read();
            group.push(document, read.line, read.position);
            if group.is_full() {
                self.group(std::mem::take(&mut group), reading.name())?;
            }
        }
        self.check_interrupts()?;
        self.group(group, reading.name())
    }

    fn check_interrupts(&self) -> Result<(), Failure> {
        let Tally { read, .. } = self.tally;
        let stored = self.tally.stored();
        match self.interrupts.signal() {
            Some(signal) => Err(Failure::Interrupted { signal, read, stored }),
            None => Ok(()),
        }
    }

    /// Inserts a group; where that fails, counts what was stored nevertheless.
    fn group(&mut self, group: Group, name: &str) -> Result<(), Failure> {
        let (documents, marks) = group.into_parts();
        if marks.is_empty() {
            return Ok(());
        }
        let Self { index, interrupts, bar, tally } = self;
        let before = index.len();
        let mut done = 0;
        let show = |progress: Progress| {
            done = progress.done;
            bar.stored(tally.stored() + done, marks.end(), progress.done, progress.total);
            match interrupts.signal() {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        };
        let inserted = index.with_progress(show).insert_batch(documents);
        match inserted {
            Ok(summary) => {
                for refused in &summary.refused {
                    bar.say(&Failure::refused(name, marks.line(refused.position), &refused.error));
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
                    (Error::Cancelled, Some(signal)) => {
                        Err(Failure::Interrupted { signal, read: tally.read, stored: tally.stored() })
                    }
                    (error, _) => Err(error.into()),
                }
            }
        }
    }
}
