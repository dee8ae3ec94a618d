//! A file system that records all operations, and what a power failure could leave.
//!
//! The model is that of POSIX, without further guarantees: unsynced bytes may be on disk or not, in any
//! combination and torn at sectors; entries created, renamed or removed in a directory may be durable or not
//! until the directory is synced, independently of each other; syncing a file does not make its name durable.

mod image;
mod survey;

use std::{
    ffi::OsString,
    fs::File,
    io::Result as IoResult,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

pub(crate) use image::{Kept, image};
pub(crate) use survey::{Cut, Survey, WITHOUT_A_SYNC, asked, in_memory, promised};

use crate::disk::{Backend, BackendFile, Boot, FileSystem, Identity, Kind, OpenMode, names};

/// A recorded operation, with paths below the directory.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Created, replacing any file with that name.
    Replace(PathBuf),
    Link(PathBuf, PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    /// Extended to this length with zeros.
    Allocate(PathBuf, u64),
    /// Truncated to this length.
    Truncate(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    SyncDirectory(PathBuf),
    /// The store was given this many batches of the workload.
    Tried(usize),
    /// This many batches of the workload were acknowledged as durable.
    Acknowledged(usize),
    /// A copy was made here, of the state after this many batches.
    Copied(PathBuf, usize),
}

/// Syncs that a broken store would omit, to check that their absence is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forget {
    Nothing,
    Vectors,
    Documents,
    Dead,
    Manifest,
    Segments,
    Root,
    /// The log's frames.
    Log,
    /// The name of the log.
    LogName,
    /// `CURRENT.new`.
    Current,
    /// The files of a bundle.
    Bundle,
    /// The name of a bundle, and all others in the directory of a model.
    Model,
    /// The names of the directories of models.
    Models,
    /// The manifest is renamed before the files that it names are synced.
    Order,
}

/// The boot of the system during the recording. The images are read in another one: the real one.
const RECORDED: Boot = *b"before the cut..";

#[derive(Clone)]
pub(crate) struct Recorder {
    root: PathBuf,
    forget: Forget,
    steps: Arc<Mutex<Vec<Step>>>,
}

struct RecordedFile {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    recorder: Recorder,
}

impl Recorder {
    pub(crate) fn new(root: &Path, forget: Forget) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, forget, steps: Arc::default() }
    }

    /// Continues with the same steps, and omits these syncs.
    pub(crate) fn forgetting(&self, forget: Forget) -> Self {
        Self { forget, ..self.clone() }
    }

    /// The steps so far.
    pub(crate) fn recorded(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }

    pub(crate) fn note(&self, step: Step) {
        let mut steps = self.steps.lock().unwrap();
        let rename = matches!(step, Step::Rename(..));
        steps.push(step);
        if rename && self.forget == Forget::Order {
            // Before all syncs of files since the preceding rename.
            let last = steps.len() - 1;
            let since = steps[..last].iter().rposition(|step| matches!(step, Step::Rename(..)));
            let first = steps[since.map_or(0, |at| at + 1)..last]
                .iter()
                .position(|step| matches!(step, Step::Sync(path) if !path.ends_with("MANIFEST.new")));
            if let (Some(first), Some(since)) = (first, since) {
                // The manifest's own steps move along.
                let manifest: Vec<usize> = (since + 1 + first..=last)
                    .filter(|&at| match &steps[at] {
                        Step::Replace(path) | Step::Write(path, ..) | Step::Sync(path) => {
                            path.ends_with("MANIFEST.new")
                        }
                        Step::Rename(..) => true,
                        _ => false,
                    })
                    .collect();
                let moved: Vec<Step> = manifest.iter().rev().map(|&at| steps.remove(at)).collect();
                moved.into_iter().for_each(|step| steps.insert(since + 1 + first, step));
            }
        }
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    fn forgets(&self, path: &Path) -> bool {
        match self.forget {
            Forget::Nothing | Forget::Order => false,
            Forget::Vectors => path.extension().is_some_and(|e| e == "vectors"),
            Forget::Documents => path.extension().is_some_and(|e| e == "documents"),
            Forget::Dead => path.extension().is_some_and(|e| e == "dead"),
            Forget::Manifest => path.ends_with("MANIFEST.new"),
            Forget::Segments => path.ends_with("segments"),
            Forget::Root => path.as_os_str().is_empty(),
            // The log written by a repair ends with `.log.new`.
            Forget::Log => path.to_string_lossy().contains(".log"),
            Forget::LogName => path.ends_with(names::LOG),
            Forget::Current => path.ends_with(names::CURRENT_NEW),
            Forget::Model => path.parent().is_some_and(|parent| parent.ends_with(names::MODELS)),
            Forget::Models => path.ends_with(names::MODELS),
            Forget::Bundle => path.components().any(|part| part.as_os_str() == names::BUNDLE_NEW),
        }
    }
}

impl Backend for Recorder {
    fn open(&self, path: &Path, mode: OpenMode) -> IoResult<Box<dyn BackendFile>> {
        let file = FileSystem.open(path, mode)?;
        let path = self.relative(path);
        if mode == OpenMode::Replace {
            self.note(Step::Replace(path.clone()));
        }
        Ok(Box::new(RecordedFile { file, path, recorder: self.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        FileSystem.rename(from, to)?;
        self.note(Step::Rename(self.relative(from), self.relative(to)));
        Ok(())
    }
    fn sync_directory(&self, path: &Path) -> IoResult<()> {
        let path = self.relative(path);
        if !self.forgets(&path) {
            self.note(Step::SyncDirectory(path));
        }
        Ok(())
    }
    fn link(&self, from: &Path, to: &Path) -> IoResult<()> {
        std::fs::hard_link(from, to)?;
        let target = self.relative(to);
        if from.starts_with(&self.root) {
            self.note(Step::Link(self.relative(from), target));
        } else {
            // Not recorded, and durable.
            self.note(Step::Replace(target.clone()));
            self.note(Step::Write(target.clone(), 0, std::fs::read(to)?));
            self.note(Step::Sync(target));
        }
        Ok(())
    }
    fn remove(&self, path: &Path) -> IoResult<()> {
        FileSystem.remove(path)?;
        self.note(Step::Remove(self.relative(path)));
        Ok(())
    }
    fn create_directory(&self, path: &Path) -> IoResult<()> {
        // One at a time, as the file system does: the parents are made durable, the directory itself is not.
        let above: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
        FileSystem.create_directory(path)?;
        for made in above.iter().rev() {
            self.note(Step::MakeDirectory(self.relative(made)));
            if *made != path
                && let Some(parent) = made.parent()
            {
                self.note(Step::SyncDirectory(self.relative(parent)));
            }
        }
        Ok(())
    }
    fn remove_directory(&self, path: &Path) -> IoResult<()> {
        FileSystem.remove_directory(path)?;
        self.note(Step::RemoveDirectory(self.relative(path)));
        Ok(())
    }
    fn list(&self, path: &Path) -> IoResult<Vec<OsString>> {
        FileSystem.list(path)
    }
    fn kind(&self, path: &Path) -> IoResult<Option<Kind>> {
        FileSystem.kind(path)
    }
    fn identity(&self, path: &Path) -> IoResult<Option<Identity>> {
        FileSystem.identity(path)
    }
    fn boot(&self) -> Option<Boot> {
        Some(RECORDED)
    }
}

impl BackendFile for RecordedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<()> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<()> {
        self.file.write_at(bytes, offset)?;
        self.recorder.note(Step::Write(self.path.clone(), offset, bytes.to_vec()));
        Ok(())
    }
    fn allocate(&self, len: u64) -> IoResult<()> {
        self.file.allocate(len)?;
        self.recorder.note(Step::Allocate(self.path.clone(), len));
        Ok(())
    }
    fn truncate(&self, len: u64) -> IoResult<()> {
        self.file.truncate(len)?;
        self.recorder.note(Step::Truncate(self.path.clone(), len));
        Ok(())
    }
    fn len(&self) -> IoResult<u64> {
        self.file.len()
    }
    fn sync_data(&self) -> IoResult<()> {
        self.sync_all()
    }
    fn sync_all(&self) -> IoResult<()> {
        if !self.recorder.forgets(&self.path) {
            self.recorder.note(Step::Sync(self.path.clone()));
        }
        Ok(())
    }
    fn as_file(&self) -> &File {
        self.file.as_file()
    }
}
