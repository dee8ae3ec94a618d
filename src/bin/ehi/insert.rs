//! `ehi insert`

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ehi::data::{Dataset, read_documents};
use ehi::{Document, Error, Index, InputError, InsertSummary, Stage, StoreError};

use crate::bars::Bars;
use crate::failure::Failure;
use crate::precision::PrecisionArgs;

/// Documents read before they are inserted.
const DOCUMENTS_PER_GROUP: usize = 1_000;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// BEIR corpus lines, plain or gzip; - for standard input; or the folder of a dataset in the
    /// layout of BEIR, MS MARCO (TSV) or extreme classification
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.precision.open(&args.index)?;
    let mut inserter = Inserter { index: &index, bars: Bars::new(), inserted: 0, replaced: 0, superseded: 0 };
    let result = args.files.iter().try_for_each(|path| inserter.file(path));
    inserter.bars.clear();
    // What was inserted before an error stays, so it must be as durable as without one.
    let flushed = index.flush();
    writeln!(
        out,
        "{} inserted, {} replaced, {} superseded; the index has {} documents",
        inserter.inserted,
        inserter.replaced,
        inserter.superseded,
        index.len()
    )
    .map_err(Failure::Output)
    .and(result)
    .and(flushed.map_err(Failure::from))
}

struct Inserter<'a> {
    index: &'a Index,
    bars: Bars,
    inserted: usize,
    replaced: usize,
    superseded: usize,
}

/// Documents with the lines they are from.
#[derive(Default)]
struct Group {
    documents: Vec<Document>,
    lines: Vec<u64>,
}

impl Inserter<'_> {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "<stdin>".to_owned() } else { path.display().to_string() };
        let mut documents = if is_stdin {
            read_documents(io::stdin(), name.clone())
        } else if path.is_dir() {
            Dataset::open(path)?.corpus()?
        } else {
            read_documents(File::open(path).map_err(Failure::file("open", path))?, name.clone())
        };
        let mut group = Group::default();
        while let Some(document) = documents.next() {
            match document {
                Ok(document) => {
                    group.documents.push(document);
                    group.lines.push(documents.line());
                }
                Err(error) => {
                    self.group(group, &name)?;
                    return Err(error.into());
                }
            }
            if group.documents.len() == DOCUMENTS_PER_GROUP {
                self.group(std::mem::take(&mut group), &name)?;
            }
        }
        self.group(group, &name)
    }

    /// Inserts a group; where one of its documents is refused, those before it.
    fn group(&mut self, mut group: Group, name: &str) -> Result<(), Failure> {
        let stored = (self.inserted + self.replaced) as u64;
        let bars = &mut self.bars;
        let inserted = self.index.insert_batch_with(group.documents.iter().cloned(), &mut |progress| {
            bars.set(Stage::Insert, stored + progress.done, None);
            ControlFlow::Continue(())
        });
        let error = match inserted {
            Ok(summary) => {
                self.add(&summary);
                return Ok(());
            }
            Err(error) => error,
        };
        let Some(place) = culprit(&error, &group.documents) else {
            return Err(error.into());
        };
        group.documents.truncate(place);
        let before = self.index.insert_batch(group.documents)?;
        self.add(&before);
        Err(Failure::At { place: format!("{name}:{}", group.lines[place]), source: error })
    }

    fn add(&mut self, summary: &InsertSummary) {
        self.inserted += summary.inserted;
        self.replaced += summary.replaced;
        self.superseded += summary.superseded;
    }
}

/// The document that an insert was refused for.
fn culprit(error: &Error, documents: &[Document]) -> Option<usize> {
    let named = |id: &String| documents.iter().rposition(|document| document.id == *id);
    match error {
        Error::Input(InputError::EmptyDocument { id }) => documents.iter().position(|document| {
            document.id == *id && document.title.trim().is_empty() && document.text.trim().is_empty()
        }),
        Error::Store(StoreError::InvalidId { found, .. }) => {
            documents.iter().position(|document| document.id.len() == *found)
        }
        Error::Store(StoreError::DocumentTooLarge { id, .. } | StoreError::MetadataTooDeep { id, .. }) => {
            named(id)
        }
        _ => None,
    }
}
