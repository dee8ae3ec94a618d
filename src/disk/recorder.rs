//! A file system that remembers what was done to it, and what a power failure could leave.
//!
//! The model is that of POSIX and no kinder: bytes written and not synced may be on disk or not, in any
//! combination and torn at sectors; entries made, renamed or removed in a directory may last or not until
//! the directory is synced, each apart from the others; syncing a file says nothing of its name.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fs::File,
    io::Result as IoResult,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex},
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{Backend, BackendFile, Boot, FileSystem, Identity, Kind, OpenMode, names};

/// One thing that was done, on paths below the directory.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Made anew, in place of what had the name.
    Replace(PathBuf),
    Link(PathBuf, PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    /// Made so long, with zeros.
    Allocate(PathBuf, u64),
    /// Cut to this length.
    Truncate(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    SyncDirectory(PathBuf),
    /// This many batches of the workload were given to the store.
    Tried(usize),
    /// This many batches of the workload were promised to last.
    Acknowledged(usize),
    /// A copy was made here, of the state after this many batches.
    Copied(PathBuf, usize),
}

/// Syncs that a broken store would leave out, to see that their lack is noticed.
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

/// The start of the system in which all was recorded. The images are read in another one: the real one.
const RECORDED: Boot = *b"before the cut..";

#[derive(Clone)]
pub(crate) struct Recorder {
    root: PathBuf,
    forget: Forget,
    pub(crate) steps: Arc<Mutex<Vec<Step>>>,
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

    pub(crate) fn note(&self, step: Step) {
        let mut steps = self.steps.lock().unwrap();
        let rename = matches!(step, Step::Rename(..));
        steps.push(step);
        if rename && self.forget == Forget::Order {
            // Before all syncs of files since the rename before it.
            let last = steps.len() - 1;
            let since = steps[..last].iter().rposition(|step| matches!(step, Step::Rename(..)));
            let first = steps[since.map_or(0, |at| at + 1)..last]
                .iter()
                .position(|step| matches!(step, Step::Sync(path) if !path.ends_with("MANIFEST.new")));
            if let (Some(first), Some(since)) = (first, since) {
                // The manifest's own steps go along.
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
            Forget::Log => path.extension().is_some_and(|e| e == "log"),
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
        self.note(Step::Link(self.relative(from), self.relative(to)));
        Ok(())
    }
    fn remove(&self, path: &Path) -> IoResult<()> {
        FileSystem.remove(path)?;
        self.note(Step::Remove(self.relative(path)));
        Ok(())
    }
    fn create_directory(&self, path: &Path) -> IoResult<()> {
        // One at a time, as the file system does it: those above it are made durable, it is not.
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

/// Which of the unsynced operations were on disk when the power failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    None,
    All,
    /// The first ones, as many as this share of all.
    Prefix(f64),
    /// Each of them or not.
    Some,
    /// Contents all, names none; and the other way round.
    Contents,
    Names,
    /// Each, but writes stop inside, at a multiple of this.
    Torn(usize),
}

/// A change of a file's bytes.
#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    /// At least so long.
    Longer(u64),
    /// At most so long.
    Shorter(u64),
}

/// A file or a directory, whatever its names.
#[derive(Clone)]
enum Inode {
    File {
        durable: Vec<u8>,
        /// Number of the step, and the change.
        pending: Vec<(usize, Change)>,
    },
    /// As the program sees it, and as the medium has it.
    Directory { now: BTreeMap<OsString, usize>, durable: BTreeMap<OsString, usize> },
}

/// A change of an entry of a directory: it names an inode, or nothing any more.
struct Entry {
    step: usize,
    directory: usize,
    name: OsString,
    inode: Option<usize>,
}

/// What is on the medium: files with their contents, and directories.
#[derive(Default)]
pub(crate) struct Image {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) directories: BTreeSet<PathBuf>,
}

impl Image {
    /// Writes it below `dir`, which is made.
    pub(crate) fn write(&self, dir: &Path) -> IoResult<()> {
        std::fs::create_dir_all(dir)?;
        self.directories.iter().try_for_each(|path| std::fs::create_dir_all(dir.join(path)))?;
        self.files.iter().try_for_each(|(path, contents)| std::fs::write(dir.join(path), contents))
    }
}

/// The files and directories while the steps are done again.
struct Disk {
    inodes: Vec<Inode>,
    /// Changes that are not durable. A rename is one change of two entries: it is kept whole or not at all.
    pending: Vec<Vec<Entry>>,
}

impl Disk {
    fn new() -> Self {
        let root = Inode::Directory { now: BTreeMap::new(), durable: BTreeMap::new() };
        Self { inodes: vec![root], pending: Vec::new() }
    }

    /// The inode that a path names now.
    fn find(&self, path: &Path) -> Option<usize> {
        path.components().filter(|part| *part != Component::CurDir).try_fold(0, |at, part| {
            match &self.inodes[at] {
                Inode::Directory { now, .. } => now.get(part.as_os_str()).copied(),
                Inode::File { .. } => None,
            }
        })
    }

    fn make(&mut self, inode: Inode) -> usize {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    /// The change of an entry, done now and not yet durable; `None` outside of what is recorded.
    fn entry(&mut self, step: usize, path: &Path, inode: Option<usize>) -> Option<Entry> {
        let directory = self.find(path.parent()?)?;
        let name = path.file_name()?.to_owned();
        if let Inode::Directory { now, .. } = &mut self.inodes[directory] {
            match inode {
                Some(inode) => now.insert(name.clone(), inode),
                None => now.remove(&name),
            };
        }
        Some(Entry { step, directory, name, inode })
    }

    /// Makes the changes durable that `keep` picks.
    fn settle(&mut self, keep: &dyn Fn(&[Entry]) -> bool) {
        let (apply, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|change| keep(change));
        self.pending = rest;
        for Entry { directory, name, inode, .. } in apply.into_iter().flatten() {
            if let Inode::Directory { durable, .. } = &mut self.inodes[directory] {
                match inode {
                    Some(inode) => durable.insert(name, inode),
                    None => durable.remove(&name),
                };
            }
        }
    }

    fn change(&mut self, step: usize, path: &Path, change: Change) {
        if let Some(at) = self.find(path)
            && let Inode::File { pending, .. } = &mut self.inodes[at]
        {
            pending.push((step, change));
        }
    }

    fn step(&mut self, number: usize, step: &Step) {
        match step {
            Step::Replace(path) => {
                let made = self.make(Inode::File { durable: Vec::new(), pending: Vec::new() });
                if self.find(path).is_some() {
                    let gone = self.entry(number, path, None);
                    self.pending.extend(gone.map(|entry| vec![entry]));
                }
                let entry = self.entry(number, path, Some(made));
                self.pending.extend(entry.map(|entry| vec![entry]));
            }
            Step::MakeDirectory(path) => {
                let made = Inode::Directory { now: BTreeMap::new(), durable: BTreeMap::new() };
                let made = self.make(made);
                let entry = self.entry(number, path, Some(made));
                self.pending.extend(entry.map(|entry| vec![entry]));
            }
            Step::Link(from, to) => {
                let inode = self.find(from);
                let entry = self.entry(number, to, inode);
                self.pending.extend(entry.map(|entry| vec![entry]));
            }
            Step::Write(path, at, bytes) => self.change(number, path, Change::Write(*at, bytes.clone())),
            Step::Allocate(path, len) => self.change(number, path, Change::Longer(*len)),
            Step::Truncate(path, len) => self.change(number, path, Change::Shorter(*len)),
            Step::Sync(path) => {
                if let Some(at) = self.find(path)
                    && let Inode::File { durable, pending } = &mut self.inodes[at]
                {
                    for (_, change) in std::mem::take(pending) {
                        change_contents(durable, &change);
                    }
                }
            }
            Step::Rename(from, to) => {
                if let Some(inode) = self.find(from) {
                    let entries = [self.entry(number, from, None), self.entry(number, to, Some(inode))];
                    self.pending.push(entries.into_iter().flatten().collect());
                }
            }
            Step::Remove(path) | Step::RemoveDirectory(path) => {
                let entry = self.entry(number, path, None);
                self.pending.extend(entry.map(|entry| vec![entry]));
            }
            Step::SyncDirectory(path) => {
                if let Some(synced) = self.find(path) {
                    self.settle(&|change| change.last().is_some_and(|entry| entry.directory == synced));
                }
            }
            Step::Tried(_) | Step::Acknowledged(_) | Step::Copied(..) => {}
        }
    }

    /// What the medium has below a directory.
    fn collect(&self, at: usize, path: &Path, contents: &mut dyn FnMut(usize) -> Vec<u8>, image: &mut Image) {
        let Inode::Directory { durable, .. } = &self.inodes[at] else { return };
        for (name, &inode) in durable {
            let path = path.join(name);
            match &self.inodes[inode] {
                Inode::File { .. } => drop(image.files.insert(path, contents(inode))),
                Inode::Directory { .. } => {
                    self.collect(inode, &path, contents, image);
                    image.directories.insert(path);
                }
            }
        }
    }
}

/// What `steps` leave when the power fails after the last of them.
pub(crate) fn image(steps: &[Step], kept: Kept, rng: &mut ChaCha8Rng) -> Image {
    let mut disk = Disk::new();
    steps.iter().enumerate().for_each(|(number, step)| disk.step(number, step));
    let changes = disk.inodes.iter().flat_map(|inode| match inode {
        Inode::File { pending, .. } => pending.iter().map(|(number, _)| *number).collect(),
        Inode::Directory { .. } => Vec::new(),
    });
    let mut numbers: Vec<usize> = changes.collect();
    numbers.extend(disk.pending.iter().filter_map(|change| Some(change.first()?.step)));
    numbers.sort_unstable();
    let until = match kept {
        Kept::Prefix(share) => {
            numbers.get((numbers.len() as f64 * share) as usize).copied().unwrap_or(usize::MAX)
        }
        _ => usize::MAX,
    };
    let picks: HashMap<usize, bool> = numbers.iter().map(|&number| (number, rng.random())).collect();
    let keeps_name = |change: &[Entry]| match (kept, change.first()) {
        (_, None) | (Kept::None | Kept::Contents, _) => false,
        (Kept::All | Kept::Names | Kept::Torn(_), _) => true,
        (Kept::Prefix(_), Some(entry)) => entry.step < until,
        (Kept::Some, Some(entry)) => picks[&entry.step],
    };
    disk.settle(&keeps_name);
    let mut contents = |inode: usize| {
        let Inode::File { durable, pending } = &disk.inodes[inode] else { return Vec::new() };
        let mut contents = durable.clone();
        for (number, change) in pending {
            let kept_whole = match (kept, change) {
                (Kept::None | Kept::Names, _) => false,
                (Kept::All | Kept::Contents, _) => true,
                (Kept::Prefix(_), _) => *number < until,
                (Kept::Some, _) => picks[number],
                (Kept::Torn(sector), Change::Write(at, bytes)) => {
                    // Each sector of it or not. Sectors of the file, not of the write.
                    let first = sector - *at as usize % sector;
                    let (head, rest) = bytes.split_at(first.min(bytes.len()));
                    let mut at = *at;
                    for part in [head].into_iter().chain(rest.chunks(sector)) {
                        if rng.random() {
                            change_contents(&mut contents, &Change::Write(at, part.to_vec()));
                        }
                        at += part.len() as u64;
                    }
                    false
                }
                (Kept::Torn(_), _) => rng.random(),
            };
            if kept_whole {
                change_contents(&mut contents, change);
            }
        }
        contents
    };
    let mut image = Image::default();
    disk.collect(0, Path::new(""), &mut contents, &mut image);
    image
}

fn change_contents(contents: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, bytes) => {
            let end = *at as usize + bytes.len();
            if contents.len() < end {
                contents.resize(end, 0);
            }
            contents[*at as usize..end].copy_from_slice(bytes);
        }
        Change::Longer(len) => contents.resize(contents.len().max(*len as usize), 0),
        Change::Shorter(len) => contents.truncate(*len as usize),
    }
}
