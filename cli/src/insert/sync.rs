//! Synchronises the documents of an index with the files of their folder.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ehi::data::{Documents, FileVersion, Folder, FolderReport};
use ehi::{Document, Error, Index};

use super::origin::SyncBy;
use crate::failure::Failure;
use crate::printing;
use crate::text::{counted, escaped};

/// Ids deleted in one commit.
const GROUP: usize = 1_000;

/// The documents of an index, compared with a folder.
pub struct Sync {
    folder: Folder,
    by: SyncBy,
    /// The documents of the index by their ids, from the folder or from elsewhere.
    known: Arc<HashMap<String, Known>>,
    /// Ids of files that belong to documents from elsewhere.
    taken: Arc<Mutex<Vec<String>>>,
}

enum Known {
    Own {
        version: FileVersion,
        content: [u8; 16],
    },
    /// With the name of its source, if it has one.
    Other(Option<Arc<str>>),
}

impl Sync {
    /// Reads all documents of the index once.
    pub fn with(index: &Index, folder: &Folder, by: SyncBy) -> Result<Self, Error> {
        let mut known = HashMap::new();
        let mut sources: Vec<Arc<str>> = Vec::new();
        for document in index.iter() {
            let document = document?;
            let is = match folder.version_of(&document) {
                Some(version) => Known::Own { version, content: Folder::content_hash(&document) },
                None => Known::Other(source(&document, &mut sources)),
            };
            known.insert(document.id, is);
        }
        Ok(Self { folder: folder.clone(), by, known: Arc::new(known), taken: Arc::default() })
    }

    /// The documents of new and changed files.
    pub fn changed(&self, folder: Folder) -> Documents {
        let (known, taken, by) = (Arc::clone(&self.known), Arc::clone(&self.taken), self.by);
        let is_unchanged = move |id: &str, found| match known.get(id) {
            Some(Known::Own { version, .. }) => by == SyncBy::Stat && *version == found,
            Some(Known::Other(_)) => {
                taken.lock().unwrap_or_else(PoisonError::into_inner).push(id.to_owned());
                true
            }
            None => false,
        };
        // A file that was only touched, or copied with its folder, is not encoded again.
        let known = Arc::clone(&self.known);
        folder.changed_documents(is_unchanged, move |document| match known.get(&document.id) {
            Some(Known::Own { content: stored, .. }) => *stored == Folder::content_hash(document),
            _ => false,
        })
    }

    /// A line about another folder in the index that contains this one or is contained in it.
    pub fn overlap(&self) -> Option<String> {
        let own = Path::new(self.folder.source());
        let others = self.known.values().filter_map(|known| match known {
            Known::Other(Some(source)) => Some(source),
            _ => None,
        });
        let nested = |other: &&Arc<str>| {
            let other = Path::new(&***other);
            own.is_absolute() && other != own && (other.starts_with(own) || own.starts_with(other))
        };
        let other = others.into_iter().find(nested)?;
        Some(format!(
            "{} overlaps {other}, which the index holds too: files in both are stored once for each",
            own.display()
        ))
    }

    /// A line about each file whose id belongs to another document.
    pub fn refused(&self, folder: &Path, prefix: &str) -> Vec<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let source = |id| match self.known.get(id) {
            Some(Known::Other(source)) => source.as_deref(),
            _ => None,
        };
        let file = |id: &str| folder.join(id.strip_prefix(prefix).unwrap_or(id));
        taken.iter().map(|id| of_another(&file(id), id, source(id))).collect()
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
        let own = self.known.iter().filter(|(_, known)| matches!(known, Known::Own { .. }));
        let gone: Vec<&String> = own.map(|(id, _)| id).filter(|id| !report.present.contains(*id)).collect();
        if !gone.is_empty() && !report.is_whole {
            return Err(Failure::Usage(format!(
                "{} could not be listed as a whole, so no document was removed: a file that was not listed may exist",
                printing::path(folder)
            )));
        }
        let mut removed = 0;
        for group in gone.chunks(GROUP) {
            removed += index.delete_batch(group.iter().copied())? as u64;
        }
        let [ignored, code, others] = self.folder.left_out(gone);
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
        Ok((removed, lines.into_iter().filter_map(line).collect()))
    }
}

/// A line about a file whose id belongs to a document of another source, or of none.
pub fn of_another(file: &Path, id: &str, source: Option<&str>) -> String {
    let other = match source {
        Some(source) => {
            format!(
                " from {source}; `--source` with that path continues its folder, `--prefix` gives the files other ids"
            )
        }
        None => ", which is from no folder; `ehi delete` removes it, so that the file takes its place, `--prefix` gives \
                 the files other ids"
            .to_owned(),
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

/// The name of a document's source, shared by all its documents.
fn source(document: &Document, sources: &mut Vec<Arc<str>>) -> Option<Arc<str>> {
    let name = source_of(document)?;
    if let Some(known) = sources.iter().find(|known| ***known == name) {
        return Some(Arc::clone(known));
    }
    let name: Arc<str> = name.into();
    // This many sources cannot be names of folders.
    if sources.len() < 1_000 {
        sources.push(Arc::clone(&name));
    }
    Some(name)
}
