//! The files of a folder, one after the other.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ignore::{IncrementalIgnore, WalkBuilder};
use walkdir::{DirEntry, IntoIter, WalkDir};

use super::{FileVersion, Folder, Kind, Markup, bad_name};
use crate::data::error::{DataError, DataErrorKind};
use crate::data::streams::{DocumentSource, Documents, FolderReport};
use crate::document::Document;

/// Most files of other kinds named in an error.
const MOST_NAMED: usize = 5;

/// Skips hidden entries, and those in `.gitignore`, `.ignore` and git's other lists, like ripgrep by default.
pub(super) struct Rules(Option<IncrementalIgnore>);

impl Rules {
    /// The rules of a folder; without lists, only those for hidden files.
    pub fn of(root: &Path, with_lists: bool) -> Self {
        let mut builder = WalkBuilder::new(root);
        builder.standard_filters(with_lists).hidden(true);
        Self(builder.build_matchers().pop())
    }

    /// Whether an entry is skipped, by its path relative to the folder, and the problem with a list read for
    /// it. Entries of a skipped folder are skipped too.
    pub fn leave_out(&mut self, path: &Path, is_dir: bool) -> (bool, Option<String>) {
        let Some(rules) = &mut self.0 else { return (false, None) };
        let (found, error) = rules.matched_with_errors(path, is_dir);
        (found.is_ignore(), error.map(|error| error.to_string()))
    }
}

/// The folder itself and the folders in it that are read.
pub(super) fn folders(folder: &Folder) -> impl Iterator<Item = PathBuf> {
    let (mut rules, root) = (folder.rules(), folder.root.clone());
    let is_read = move |entry: &DirEntry| {
        let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        entry.depth() == 0 || entry.file_type().is_dir() && !rules.leave_out(path, true).0
    };
    let entries = WalkDir::new(&folder.root).into_iter().filter_entry(is_read);
    // A folder that cannot be listed is an error of `documents`.
    entries.filter_map(|entry| Some(entry.ok()?.into_path()))
}

/// The documents of a folder; see [`Folder`].
pub(super) struct FolderDocuments<U, S> {
    folder: Folder,
    walk: IntoIter,
    rules: Rules,
    /// Whether the file with an id need not be read.
    is_unchanged: U,
    /// Whether the caller has a document.
    is_stored: S,
    report: FolderReport,
    /// Names of files that are not read, for an error.
    others: Vec<String>,
    position: Arc<AtomicU64>,
    count: u64,
    is_finished: bool,
}

impl<U, S> FolderDocuments<U, S>
where
    U: FnMut(&str, FileVersion) -> bool + Send + 'static,
    S: FnMut(&Document) -> bool + Send + 'static,
{
    pub fn of(folder: Folder, is_unchanged: U, is_stored: S) -> Documents {
        let position = Arc::default();
        let documents = Self {
            walk: WalkDir::new(&folder.root).sort_by_file_name().into_iter(),
            rules: folder.rules(),
            folder,
            is_unchanged,
            is_stored,
            report: FolderReport { is_whole: true, ..FolderReport::default() },
            others: Vec::new(),
            position: Arc::clone(&position),
            count: 0,
            is_finished: false,
        };
        Documents::new(Box::new(documents), position)
    }

    /// The next file to read; `None` after the last one.
    fn entry(&mut self) -> Option<Result<(DirEntry, Kind), DataError>> {
        loop {
            let entry = match self.walk.next()? {
                Ok(entry) => entry,
                // A folder that was removed since its parent was listed.
                Err(error) if error.depth() > 0 && is_missing(error.io_error()) => continue,
                Err(error) => {
                    self.report.is_whole = false;
                    let path = error.path().unwrap_or(&self.folder.root).to_owned();
                    let source = error.into_io_error().unwrap_or_else(|| std::io::Error::other("a loop"));
                    return Some(Err(DataError::open(&path, source)));
                }
            };
            let kind = entry.file_type();
            // The folder itself, which may be a link, or the single requested file.
            let is_root = entry.depth() == 0;
            if is_root && entry.path().is_dir() {
                continue;
            }
            if !is_root && self.leaves_out(&entry) {
                if kind.is_dir() {
                    self.walk.skip_current_dir();
                }
            } else if kind.is_symlink() {
                self.report.links += 1;
            } else if kind.is_file() {
                match self.folder.kind(entry.path()) {
                    Some(Kind::Text(Markup::Code)) if !self.folder.with_code => self.report.code += 1,
                    Some(kind) => return Some(Ok((entry, kind))),
                    None => {
                        self.report.others += 1;
                        if self.others.len() < MOST_NAMED {
                            self.others.push(entry.file_name().display().to_string());
                        }
                    }
                }
            } else if !kind.is_dir() {
                self.report.others += 1;
            }
        }
    }

    /// Whether an entry is skipped by its name; if so, counts it.
    fn leaves_out(&mut self, entry: &DirEntry) -> bool {
        let path = entry.path().strip_prefix(&self.folder.root).unwrap_or(entry.path());
        let (is_left_out, wrong) = self.rules.leave_out(path, entry.file_type().is_dir());
        self.report.notes.extend(wrong);
        if is_left_out {
            match entry.file_name().as_encoded_bytes().starts_with(b".") {
                true => self.report.hidden += 1,
                false => self.report.ignored += 1,
            }
        }
        is_left_out
    }

    /// A file's document; `None` if it is unchanged or has no text.
    fn document(&mut self, entry: &DirEntry, kind: Kind) -> Result<Option<Document>, DataError> {
        let path = entry.path();
        let own = match entry.depth() {
            0 => Path::new(entry.file_name()),
            _ => path.strip_prefix(&self.folder.root).unwrap_or(path),
        };
        let id = id(own).ok_or_else(|| bad_name(path))?;
        let id = format!("{}{id}", self.folder.prefix);
        let metadata = match entry.metadata() {
            Err(error) if is_missing(error.io_error()) => return Ok(None),
            metadata => metadata.map_err(|error| DataError::open(path, error.into())),
        };
        self.report.present.insert(id.clone());
        let metadata = metadata?;
        let version = FileVersion::of(&metadata);
        self.position.fetch_add(version.bytes, Ordering::Relaxed);
        if (self.is_unchanged)(&id, version.clone()) {
            self.report.unchanged += 1;
            return Ok(None);
        }
        let mut page = match self.folder.page(path, kind, version.bytes) {
            // Removed since it was listed.
            Err(_) if entry.depth() > 0 && is_missing(path.symlink_metadata().err().as_ref()) => {
                self.report.present.remove(&id);
                return Ok(None);
            }
            page => page.inspect_err(|_| {
                self.report.failed.insert(id.clone());
            })?,
        };
        if page.title.is_empty() && page.text.is_empty() && page.metadata.is_empty() {
            self.report.notes.extend(page.note.map(|note| format!("{}: {note}", path.display())));
            self.report.present.remove(&id);
            self.report.empty.insert(id);
            return Ok(None);
        }
        if let Kind::Text(Markup::Code) = kind {
            page.title = id[self.folder.prefix.len()..].to_owned();
        } else if page.title.is_empty() && !page.is_untitled {
            page.title = path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        }
        let document = Document::new(id, page.title, page.text).with_outline(page.outline);
        let document = document.with_metadata(self.folder.metadata(page.metadata, version));
        if (self.is_stored)(&document) {
            self.report.unchanged += 1;
            return Ok(None);
        }
        self.report.notes.extend(page.note.map(|note| format!("{}: {note}", path.display())));
        Ok(Some(document))
    }

    /// The error for a folder without readable files or text: it is probably a mistake, and a sync would
    /// remove all documents.
    fn nothing(&self) -> Option<DataError> {
        let FolderReport { present, empty, ignored, code, others, is_whole, .. } = &self.report;
        if !present.is_empty() || self.count > 0 || !is_whole {
            return None;
        }
        if self.folder.root.is_file() {
            let message = "the file has no text, so there is nothing to store".to_owned();
            return Some(DataError::of_path(&self.folder.root, DataErrorKind::Missing, message));
        }
        let found = match (empty.len(), *ignored, *code, self.others.is_empty()) {
            (0, 0, 0, true) => "none".to_owned(),
            (0, 0, 0, false) => match others.saturating_sub(self.others.len() as u64) {
                0 => self.others.join(", "),
                more => format!("{} and {more} more", self.others.join(", ")),
            },
            (0, 0, code, _) => format!("{code} of source code, which `--code` reads"),
            (0, ignored, ..) => {
                format!("{ignored} that .gitignore or .ignore names, which `--no-ignore` reads")
            }
            (empty, ..) => format!("{empty} without text"),
        };
        let message = format!(
            "no dataset and no file that is read here, also in its folders (found: {found}); give files of other kinds \
             by their names, or name a command that prints their text by `--pre`"
        );
        Some(DataError::of_path(&self.folder.root, DataErrorKind::Missing, message))
    }
}

impl<U, S> DocumentSource for FolderDocuments<U, S>
where
    U: FnMut(&str, FileVersion) -> bool + Send + 'static,
    S: FnMut(&Document) -> bool + Send + 'static,
{
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        while !self.is_finished {
            let item = match self.entry() {
                Some(Ok((entry, kind))) => self.document(&entry, kind).transpose(),
                Some(Err(error)) => Some(Err(error)),
                None => {
                    self.is_finished = true;
                    return self.nothing().map(Err);
                }
            };
            if let Some(item) = item {
                self.count += 1;
                return Some(item);
            }
        }
        None
    }

    fn line(&self) -> u64 {
        self.count
    }

    fn folder(&self) -> Option<&FolderReport> {
        Some(&self.report)
    }
}

fn is_missing(error: Option<&std::io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// A path relative to the folder, with slashes.
fn id(path: &Path) -> Option<String> {
    let parts = path.components().map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
}
