//! A file system that remembers what was done to it, and what a power failure could leave.
//!
//! The model is that of POSIX and no kinder: bytes written and not synced may be on disk or not, in any
//! combination and torn at sectors; entries made, renamed or removed in a directory may last or not until
//! the directory is synced, each apart from the others; syncing a file says nothing of its name.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs::File,
    io::Result as IoResult,
    path::PathBuf,
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    super::io::{Backend, BackendFile, FileSystem, OpenMode},
    *,
};

/// One thing that was done, on paths below the directory.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Made anew, in place of what had the name.
    Replace(PathBuf),
    Link(PathBuf, PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory,
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
pub(super) enum Forget {
    Nothing,
    Vectors,
    Documents,
    Dead,
    Manifest,
    Segments,
    Root,
    /// The manifest is renamed before the files that it names are synced.
    Order,
}

#[derive(Clone)]
pub(super) struct Recorder {
    root: PathBuf,
    forget: Forget,
    pub(super) steps: Arc<Mutex<Vec<Step>>>,
}

struct RecordedFile {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    recorder: Recorder,
}

impl Recorder {
    pub(super) fn new(root: &Path, forget: Forget) -> Self {
        Self { root: root.to_owned(), forget, steps: Arc::default() }
    }

    pub(super) fn note(&self, step: Step) {
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
        if !path.is_dir() {
            FileSystem.create_directory(path)?;
            self.note(Step::MakeDirectory);
        }
        Ok(())
    }
    fn list(&self, path: &Path) -> IoResult<Vec<OsString>> {
        FileSystem.list(path)
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
    fn len(&self) -> IoResult<u64> {
        self.file.len()
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
pub(super) enum Kept {
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

/// Bytes at an offset.
type Change = (u64, Vec<u8>);

/// A file, whatever its names.
#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    /// Number of the step, and the change.
    pending: Vec<(usize, Change)>,
}

/// A change of an entry: removed, or naming an inode.
type Entry = (usize, PathBuf, Option<usize>);

/// What `steps` leave when the power fails after the last of them.
pub(super) fn image(steps: &[Step], kept: Kept, rng: &mut ChaCha8Rng) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut inodes: Vec<Inode> = Vec::new();
    let mut names: HashMap<PathBuf, usize> = HashMap::new();
    let mut durable: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut entries: Vec<Vec<Entry>> = Vec::new();
    // A rename is one change of two entries: it is kept whole or not at all.
    let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    let mut settle = |entries: &mut Vec<Vec<Entry>>, keep: &dyn Fn(&Vec<Entry>) -> bool| {
        let (apply, rest): (Vec<_>, Vec<_>) = std::mem::take(entries).into_iter().partition(keep);
        for (_, path, inode) in apply.into_iter().flatten() {
            match inode {
                Some(inode) => drop(durable.insert(path, inode)),
                None => drop(durable.remove(&path)),
            }
        }
        *entries = rest;
    };
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Replace(path) => {
                inodes.push(Inode::default());
                let made = inodes.len() - 1;
                if names.insert(path.clone(), made).is_some() {
                    entries.push(vec![(number, path.clone(), None)]);
                }
                entries.push(vec![(number, path.clone(), Some(made))]);
            }
            Step::Link(from, to) => {
                names.insert(to.clone(), names[from]);
                entries.push(vec![(number, to.clone(), Some(names[from]))]);
            }
            Step::Write(path, offset, bytes) => {
                inodes[names[path]].pending.push((number, (*offset, bytes.clone())));
            }
            Step::Sync(path) => {
                let inode = &mut inodes[names[path]];
                for (_, (at, bytes)) in std::mem::take(&mut inode.pending) {
                    change_contents(&mut inode.durable, at, &bytes);
                }
            }
            Step::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                    entries.push(vec![(number, from.clone(), None), (number, to.clone(), Some(inode))]);
                }
            }
            Step::Remove(path) => {
                names.remove(path);
                entries.push(vec![(number, path.clone(), None)]);
            }
            Step::SyncDirectory(path) => settle(&mut entries, &|change| parent(&change[0].1) == *path),
            Step::MakeDirectory | Step::Tried(_) | Step::Acknowledged(_) | Step::Copied(..) => {}
        }
    }
    let unsynced = entries.len() + inodes.iter().map(|inode| inode.pending.len()).sum::<usize>();
    let mut numbers: Vec<usize> =
        inodes.iter().flat_map(|inode| inode.pending.iter().map(|(n, _)| *n)).collect();
    numbers.extend(entries.iter().map(|change| change[0].0));
    numbers.sort_unstable();
    let until = match kept {
        Kept::Prefix(share) => numbers.get((unsynced as f64 * share) as usize).copied().unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let picks: HashMap<usize, bool> = numbers.iter().map(|&number| (number, rng.random())).collect();
    let keeps_name = |change: &Vec<Entry>| match kept {
        Kept::None | Kept::Contents => false,
        Kept::All | Kept::Names | Kept::Torn(_) => true,
        Kept::Prefix(_) => change[0].0 < until,
        Kept::Some => picks[&change[0].0],
    };
    settle(&mut entries, &keeps_name);
    let mut files = BTreeMap::new();
    for (path, inode) in durable {
        let Inode { durable: mut contents, pending } = inodes[inode].clone();
        for (number, (at, bytes)) in &pending {
            let kept_whole = match kept {
                Kept::None | Kept::Names => false,
                Kept::All | Kept::Contents => true,
                Kept::Prefix(_) => *number < until,
                Kept::Some => picks[number],
                Kept::Torn(sector) => {
                    // Each sector of it or not.
                    for (place, part) in bytes.chunks(sector).enumerate() {
                        if rng.random() {
                            change_contents(&mut contents, at + (place * sector) as u64, part);
                        }
                    }
                    false
                }
            };
            if kept_whole {
                change_contents(&mut contents, *at, bytes);
            }
        }
        files.insert(path, contents);
    }
    files
}

fn change_contents(contents: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[at as usize..end].copy_from_slice(bytes);
}
