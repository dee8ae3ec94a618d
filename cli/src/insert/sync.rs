//! Synchronises the documents of an index with the files of their folder.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ehi::data::{Documents, FileVersion, Folder, FolderReport};
use ehi::{Document, Error, Index};

use crate::failure::Failure;
use crate::printing;
use crate::text::{counted, escaped};

/// Ids deleted in one commit.
const GROUP: usize = 1_000;
/// Other sources that are compared with the folder.
const MOST_SOURCES: usize = 1_000;

/// When a file that could not be read is read again.
const RETRY: Duration = Duration::from_secs(30);

/// How to tell that a file has changed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SyncBy {
    /// By its size, its times and its inode
    Stat,
    /// By its content: all files are read
    Hash,
}

/// A folder, and what is known of its files.
pub struct Sync {
    pub folder: Folder,
    by: SyncBy,
    known: Arc<Mutex<HashMap<String, Known>>>,
    /// The sources of other documents.
    others: BTreeSet<String>,
    /// Ids of files that belong to documents from elsewhere.
    pub taken: Vec<String>,
    /// Ids of files that could not be read, and when they are read again.
    failed: BTreeSet<String>,
    retry: Option<Instant>,
}

/// The state of a file when it was last read, and a hash of its document.
struct Known {
    version: FileVersion,
    /// `None` if the file could not be read.
    content: Option<[u8; 16]>,
}

impl Sync {
    /// Reads all documents of the index once.
    pub fn with(index: &Index, folder: Folder, by: SyncBy) -> Result<Self, Error> {
        let (mut known, mut others) = (HashMap::new(), BTreeSet::new());
        for document in index.iter() {
            let document = document?;
            if let Some(version) = folder.version_of(&document) {
                let content = Some(Folder::content_hash(&document));
                known.insert(document.id, Known { version, content });
            } else if let Some(source) = source_of(&document).filter(|_| others.len() < MOST_SOURCES) {
                others.insert(source);
            }
        }
        Ok(Self {
            folder,
            by,
            known: Arc::new(Mutex::new(known)),
            others,
            taken: Vec::new(),
            failed: BTreeSet::new(),
            retry: None,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The documents of new and changed files, and of those whose ids have become free. They count as known
    /// from then on.
    pub fn changed(&mut self, index: &Index) -> Result<Documents, Error> {
        for id in mem::take(&mut self.taken) {
            match index.get(&id)? {
                Some(_) => self.taken.push(id),
                None => drop(self.known().remove(&id)),
            }
        }
        if self.is_due() {
            let failed = mem::take(&mut self.failed);
            self.forget(&failed);
            self.retry = None;
        }
        let (versions, by) = (Arc::clone(&self.known), self.by);
        let is_unchanged = move |id: &str, found: FileVersion| {
            let mut known = versions.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(known) = known.get_mut(id) else {
                known.insert(id.to_owned(), Known { version: found, content: None });
                return false;
            };
            let is_unchanged = by == SyncBy::Stat && known.version == found;
            known.version = found;
            is_unchanged
        };
        // A file that was only touched, or copied with its folder, is not encoded again.
        let contents = Arc::clone(&self.known);
        Ok(self.folder.clone().changed_documents(is_unchanged, move |document| {
            let mut known = contents.lock().unwrap_or_else(PoisonError::into_inner);
            let content = Some(Folder::content_hash(document));
            known
                .get_mut(&document.id)
                .is_some_and(|known| mem::replace(&mut known.content, content) == content)
        }))
    }

    /// Makes the next round read these files again.
    pub fn forget(&self, ids: &BTreeSet<String>) {
        let mut known = self.known();
        for id in ids {
            if let Some(known) = known.get_mut(id) {
                known.version = FileVersion::default();
            }
        }
    }

    /// Remembers files that could not be read, to read them again.
    pub fn failed(&mut self, report: &FolderReport) {
        self.failed.extend(report.failed.iter().cloned());
        if self.retry.is_none() && !self.failed.is_empty() {
            self.retry = Some(Instant::now() + RETRY);
        }
    }

    /// Whether files that could not be read are to be read again.
    pub fn is_due(&self) -> bool {
        self.retry.is_some_and(|retry| retry <= Instant::now())
    }

    /// A line about another folder in the index that contains this one or is contained in it.
    pub fn overlap(&self) -> Option<String> {
        let own = Path::new(self.folder.source());
        let nested = |other: &&String| {
            let other = Path::new(other);
            own.is_absolute() && other != own && (other.starts_with(own) || own.starts_with(other))
        };
        let other = self.others.iter().find(nested)?;
        Some(format!(
            "{} overlaps {other}, which the index holds too: files in both are stored once for each",
            own.display()
        ))
    }

    /// Deletes the documents of files that are missing or no longer read. Returns how many, and lines about
    /// files that are ignored, or source code.
    ///
    /// # Errors
    /// An incomplete listing of the files, and failures of the index.
    pub fn remove(
        &self,
        index: &Index,
        folder: &Path,
        report: &FolderReport,
    ) -> Result<(u64, Vec<String>), Failure> {
        if self.known().keys().all(|id| report.present.contains(id)) {
            return Ok((0, Vec::new()));
        }
        // Editors and git remove files for a moment, and others were removed since they were listed.
        let again = self.folder.ids().filter(|_| report.is_whole);
        let Some(again) = again else {
            return Err(Failure::Usage(format!(
                "{} could not be listed as a whole, so no document was removed: a file that was not listed may exist",
                printing::path(folder)
            )));
        };
        let is_gone = |id: &String| report.empty.contains(id) || !again.contains(id);
        let gone: Vec<String> = self.known().keys().filter(|id| is_gone(id)).cloned().collect();
        let mut own = Vec::new();
        for id in gone {
            // It may be another folder's document.
            if index.get(&id)?.is_some_and(|document| self.folder.version_of(&document).is_some()) {
                own.push(id);
            }
        }
        self.known().retain(|id, known| {
            if report.empty.contains(id) {
                known.content = None;
            }
            again.contains(id)
        });
        for group in own.chunks(GROUP) {
            index.delete_batch(group.iter().map(String::as_str))?;
        }
        let [ignored, code, others] = self.folder.left_out(&own);
        let lines = [
            (ignored, "excluded by .gitignore or .ignore", "--no-ignore"),
            (code, "source code", "--code"),
            (others, "of a kind that is not read", "--pre"),
        ];
        let line = |(ids, why, option): (Vec<&String>, &str, &str)| {
            let (first, count) = (ids.first()?, counted(ids.len(), "document"));
            Some(format!(
                "{count} removed whose file exists but is {why}, such as {first}; `{option}` reads it"
            ))
        };
        Ok((own.len() as u64, lines.into_iter().filter_map(line).collect()))
    }
}

/// A line about a file whose id belongs to a document of another source, or of none.
pub fn of_another(file: &Path, id: &str, source: Option<&str>) -> String {
    let other = match source {
        Some(source) => {
            format!(
                " from {source}; to update that document, give `--source` that path; to keep both, name the folder: `NAME=FOLDER`"
            )
        }
        None => {
            ", which is from no folder; `ehi delete` removes it, so that the file takes its place; to keep \
                 both, name the folder: `NAME=FOLDER`"
                .to_owned()
        }
    };
    escaped(&format!("refused: {}: the index has the document `{id}`{other}", file.display()))
}

/// The source in a document's metadata, with the prefix of its id if any.
pub fn source_of(document: &Document) -> Option<String> {
    let text = |name: &str| document.metadata.as_ref()?.get(name)?.as_str();
    let source = text("source")?;
    Some(match text("prefix") {
        Some(prefix) => format!("{source} with the prefix `{prefix}`"),
        None => source.to_owned(),
    })
}
