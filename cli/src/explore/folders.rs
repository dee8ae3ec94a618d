//! How far the index is behind the folders that its documents are from.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ehi::data::{FileVersion, Folder};
use serde::{Deserialize, Serialize};

use super::reply::{Refusal, Reply};
use super::site::Site;

/// A folder whose files are documents, compared with them.
#[derive(Serialize)]
struct FolderState {
    path: String,
    /// Before the ids of its files; empty without a name.
    prefix: String,
    documents: usize,
    /// `None` if the folder cannot be listed, or has none of the files.
    behind: Option<Behind>,
}

/// Files that differ from what is stored.
#[derive(Serialize)]
struct Behind {
    new: u64,
    changed: u64,
    gone: u64,
}

/// Most folders that are compared.
const MOST_FOLDERS: usize = 64;

/// The states of stored files by their ids.
type Stored = HashMap<String, FileVersion>;

/// Reads all documents, and lists the folders without reading a file.
pub fn folders(site: &Site, _: &[u8]) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let mut found: BTreeMap<(String, String), Stored> = BTreeMap::new();
    for document in index.iter() {
        let document = document?;
        let text = |name: &str| document.metadata.as_ref()?.get(name)?.as_str();
        // Names that were given by `--source` are not places.
        let Some(source) = text("source").filter(|source| source.starts_with('/')) else { continue };
        let key = (source.to_owned(), text("prefix").unwrap_or_default().to_owned());
        let Some(version) =
            document.metadata.as_ref().and_then(|metadata| FileVersion::deserialize(metadata).ok())
        else {
            continue;
        };
        found.entry(key).or_default().insert(document.id, version);
    }
    // One at a time, because it may take long.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let states = found.into_iter().take(MOST_FOLDERS).map(|((path, prefix), stored)| {
        let documents = stored.len();
        let folder = Folder::open(&path).ok().map(|folder| folder.prefixed(&prefix));
        let behind =
            folder.filter(|folder| is_of(folder, &stored)).and_then(|folder| compare(folder, stored));
        FolderState { path, prefix, documents, behind }
    });
    Ok(Reply::json(&states.collect::<Vec<_>>()))
}

/// Whether the documents are from this folder, and do not only claim to be: one of the files has the inode
/// number that was stored.
fn is_of(folder: &Folder, stored: &Stored) -> bool {
    let is_file = |(id, version): (&String, &FileVersion)| {
        folder.file(id).symlink_metadata().is_ok_and(|file| file.is_file() && file.ino() == version.inode)
    };
    stored.iter().any(is_file)
}

/// Compares files with what is stored of them; `None` if not all of them can be listed.
fn compare(folder: Folder, stored: Stored) -> Option<Behind> {
    // The options that the folder was inserted with, as far as its documents show them.
    let [with_ignored, with_code, _] = folder.left_out(stored.keys()).map(|ids| !ids.is_empty());
    let folder = if with_ignored { folder.with_ignored() } else { folder };
    let folder = if with_code { folder.with_code() } else { folder };
    let stored = Arc::new(stored);
    let [new, changed] = [const { AtomicU64::new(0) }; 2].map(Arc::new);
    let compared = {
        let (stored, new, changed) = (Arc::clone(&stored), Arc::clone(&new), Arc::clone(&changed));
        move |id: &str, version: FileVersion| {
            let count = match stored.get(id) {
                None => &new,
                Some(own) if *own != version => &changed,
                Some(_) => return true,
            };
            count.fetch_add(1, Ordering::Relaxed);
            true
        }
    };
    let mut documents = folder.clone().changed_documents(compared, |_| true);
    documents.by_ref().for_each(drop);
    let report = documents.folder().filter(|report| report.is_whole)?;
    // A command may have read files of other kinds.
    let is_gone = |id: &&String| !report.present.contains(*id) && !folder.file(id).exists();
    let gone = stored.keys().filter(is_gone).count() as u64;
    let [new, changed] = [new, changed].map(|count| count.load(Ordering::Relaxed));
    Some(Behind { new, changed, gone })
}
