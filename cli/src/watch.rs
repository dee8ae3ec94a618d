//! `ehi watch`: an index that follows folders.
//!
//! Every change leads to a synchronisation of its whole folder, which reads only what changed. So a lost
//! event costs time and loses nothing.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::{OsStringValueParser, TypedValueParser};
use ehi::{EmbeddingCache, Error, Index};
use notify::{ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};

use crate::arguments::time;
use crate::bars;
use crate::calibrate;
use crate::failure::Failure;
use crate::fields::FieldArgs;
use crate::insert::Inserter;
use crate::insert::origin::{FolderArgs, Named, Origin};
use crate::insert::sync::{Sync, SyncBy};
use crate::interrupt::Interrupts;
use crate::opening::FillingArgs;
use crate::text::{counted, escaped};

/// A change is followed once this long none has come, because editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(300);
/// The longest time that a change waits for quiet.
const LONGEST: Duration = Duration::from_secs(2);
/// How often to look for an interrupt.
const POLL: Duration = Duration::from_millis(50);
/// How often to look whether a folder that could not be read is there again, or has another place.
const RETRY: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    filling: FillingArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Look for changes this often, where the system does not report them, as in folders of other machines
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| time(text, "seconds", 1.0))]
    poll: Option<Duration>,
    /// Print the summaries as JSON lines
    #[arg(long)]
    json: bool,
    /// Folders of text files. `NAME=FOLDER` begins the ids of its files with `NAME/`, so that several folders
    /// can have files of the same name
    #[arg(required = true, value_name = "FOLDER", value_parser = OsStringValueParser::new().map(Named::of))]
    paths: Vec<Named>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    args.folders.check(args.paths.len(), true)?;
    let mut folders = Vec::new();
    for named in &args.paths {
        let origin = Origin::of(named, &args.folders, &FieldArgs::default())?;
        origin.check(named, &args.folders, &FieldArgs::default(), true)?;
        if let Origin::Folder(folder) = origin {
            folders.push((&*named.path, folder));
        }
    }
    let index = args.filling.open()?;
    let interrupts = Interrupts::watch();
    let mut changes = Changes::begin(args.poll, &args.filling.index)?;
    let mut watched = Vec::new();
    for (path, folder) in folders {
        // With the documents of the folders before it.
        let sync = Sync::with(&index, folder, SyncBy::Stat)?;
        sync.overlap().iter().for_each(|line| eprintln!("note: {}", escaped(line)));
        let is_named = args.folders.is_named();
        let said = HashSet::new();
        watched.push(Watched { path, sync, is_named, is_first: true, complaint: None, said, place: None });
        let last = watched.len() - 1;
        watched[last].follow(&index, &interrupts, &mut changes, args.json, out)?;
    }
    calibrate::after_insert(&index);
    // For other processes, until the next change.
    let cache = args.filling.cache.cache();
    cache.iter().for_each(EmbeddingCache::close);
    let (folders, documents) = (counted(watched.len(), "folder"), counted(index.len(), "document"));
    eprintln!("note: watching {folders}; the index has {documents}; Ctrl-C ends it");
    match follow_all(&index, &cache, &mut watched, &mut changes, &interrupts, args.json, out) {
        // What the signal left unread is read at the next start, as every change made while nothing watches.
        Err(Failure::Stopped { .. }) => Ok(()),
        result => result,
    }
}

/// Follows changes until a signal.
fn follow_all(
    index: &Index,
    cache: &Option<EmbeddingCache>,
    watched: &mut [Watched],
    changes: &mut Changes,
    interrupts: &Interrupts,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    while changes.wait(interrupts, || watched.iter().any(Watched::is_due)) {
        let mut is_done = false;
        while !is_done {
            let mut removed = false;
            for folder in &mut *watched {
                removed |= folder.follow(index, interrupts, changes, json, out)?;
            }
            // A file of a folder before may take the id of a document removed by a later one.
            is_done = !removed || watched.iter().all(|folder| folder.sync.taken.is_empty());
        }
        calibrate::after_insert(index);
        cache.iter().for_each(EmbeddingCache::close);
    }
    Ok(())
}

struct Watched<'a> {
    path: &'a Path,
    sync: Sync,
    is_first: bool,
    /// Whether the folder has another source than its path.
    is_named: bool,
    /// What was wrong with the folder the last time.
    complaint: Option<String>,
    /// Lines that were printed.
    said: HashSet<String>,
    /// Device and inode of the folder.
    place: Option<(u64, u64)>,
}

impl Watched<'_> {
    fn place(&self) -> Option<(u64, u64)> {
        fs::metadata(self.path).ok().map(|folder| (folder.dev(), folder.ino()))
    }

    /// Whether something is to be tried again, or another folder has taken the place of this one, which the
    /// system does not report if it is above the folder, or a mount.
    fn is_due(&self) -> bool {
        self.complaint.is_some() || self.sync.is_due() || self.place() != self.place
    }

    /// Why the folder may not be read: its documents would name files of another one.
    fn moved(&self) -> Option<String> {
        let now = fs::canonicalize(self.path).ok()?;
        let is_other = !self.is_named && now != Path::new(self.sync.folder.source());
        is_other.then(|| format!("{} leads to {} now; start again", self.path.display(), now.display()))
    }

    /// Reads what has changed, and returns whether documents were removed. A folder that cannot be read is
    /// reported once, and tried again later.
    fn follow(
        &mut self,
        index: &Index,
        interrupts: &Interrupts,
        changes: &mut Changes,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        // Before the files are read, so that no later change is missed.
        self.place = self.place();
        changes.watch(&self.sync)?;
        let mut inserter = Inserter::begin(index, interrupts.clone(), None);
        inserter.said = mem::take(&mut self.said);
        let synchronised = match self.moved() {
            Some(moved) => Err(Failure::Usage(moved)),
            None => inserter.sync(self.path, &mut self.sync),
        };
        let (result, complaint) = match synchronised {
            Err(failure @ (Failure::Ehi(Error::Data(_)) | Failure::Usage(_))) => {
                (Ok(()), Some(failure.line()))
            }
            result => (result, None),
        };
        self.said = mem::take(&mut inserter.said);
        if complaint != self.complaint {
            let stay = "the documents of the folder stay, in case its disk is not mounted";
            complaint.iter().for_each(|line| bars::say(&format!("warning: {line}; {stay}")));
            self.complaint = complaint;
        }
        let removed = inserter.report(result, mem::take(&mut self.is_first), json, out)?;
        out.flush().map_err(Failure::Output)?;
        Ok(removed)
    }
}

/// Changes in folders, as the system reports them, or assumed at intervals.
enum Changes {
    Reported { watcher: RecommendedWatcher, events: Receiver<()>, index: Option<PathBuf> },
    Polled(Duration),
}

impl Changes {
    fn begin(poll: Option<Duration>, index: &Path) -> Result<Self, Failure> {
        if let Some(interval) = poll {
            return Ok(Self::Polled(interval));
        }
        let (send, events) = channel();
        let report = move |event: notify::Result<Event>| {
            // Reading a file changes nothing. An error may stand for lost events.
            if event.is_ok_and(|event| event.kind.is_access()) {
                return;
            }
            // The receiver is dropped at the end.
            let _ = send.send(());
        };
        let watcher = notify::recommended_watcher(report).map_err(|error| unwatched(&error))?;
        Ok(Self::Reported { watcher, events, index: fs::canonicalize(index).ok() })
    }

    /// Watches a folder and those in it that are read, except the index's own.
    fn watch(&mut self, sync: &Sync) -> Result<(), Failure> {
        let Self::Reported { watcher, index, .. } = self else { return Ok(()) };
        for folder in sync.folder.folders() {
            if index.is_some() && fs::canonicalize(&folder).ok() == *index {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                // It was removed meanwhile, or may not be read, which reading it reports.
                Err(error) if matches!(error.kind, ErrorKind::PathNotFound | ErrorKind::Io(_)) => {}
                watched => watched.map_err(|error| unwatched(&error))?,
            }
        }
        Ok(())
    }

    /// Waits for a change, and then for quiet, or until something else is due; `false` after an interrupt.
    fn wait(&self, interrupts: &Interrupts, is_due: impl Fn() -> bool) -> bool {
        let (started, mut looked) = (Instant::now(), Instant::now());
        let (mut first, mut last) = (None, started);
        while interrupts.signal().is_none() {
            let now = match self {
                Self::Polled(interval) => {
                    thread::sleep(POLL);
                    if started.elapsed() >= *interval {
                        return true;
                    }
                    continue;
                }
                Self::Reported { events, .. } => {
                    if events.recv_timeout(POLL).is_ok() {
                        last = Instant::now();
                        first.get_or_insert(last);
                    }
                    Instant::now()
                }
            };
            if first.is_some_and(|first| now - last >= QUIET || now - first >= LONGEST) {
                return true;
            }
            if now - looked >= RETRY {
                looked = now;
                if is_due() {
                    return true;
                }
            }
        }
        false
    }
}

fn unwatched(error: &notify::Error) -> Failure {
    Failure::Usage(match error.kind {
        ErrorKind::MaxFilesWatch => "the system watches no more folders: raise its limit (`sysctl \
             fs.inotify.max_user_watches` on Linux), or look for changes with `--poll 10`"
            .to_owned(),
        _ => format!("the system cannot watch the folders: {error}; look for changes with `--poll 10`"),
    })
}
