//! What a power failure leaves on the medium.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fs::File,
    io::{Result as IoResult, Write as _},
    path::{Component, Path, PathBuf},
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Step;

/// Which of the unsynced operations were on disk at the power failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    None,
    All,
    /// The first ones, up to this share of all.
    Prefix(f64),
    /// Each of them or not, at random.
    Some,
    /// All contents and no names; and the other way round.
    Contents,
    Names,
    /// Each or not, with writes torn at a multiple of this.
    Torn(usize),
}

impl Kept {
    /// Whether another seed gives another image.
    pub(super) fn is_random(self) -> bool {
        matches!(self, Kept::Some | Kept::Torn(_))
    }
}

/// A change of a file's bytes.
#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    /// At least this long.
    Longer(u64),
    /// At most this long.
    Shorter(u64),
}

/// A file or a directory, under any name.
#[derive(Clone)]
enum Inode {
    File {
        durable: Contents,
        /// Number of the step, and the change.
        pending: Vec<(usize, Change)>,
    },
    /// The state seen by the program, and the state on the medium.
    Directory { now: BTreeMap<OsString, usize>, durable: BTreeMap<OsString, usize> },
}

/// A change of a directory entry: it refers to an inode, or is removed.
struct Entry {
    step: usize,
    directory: usize,
    name: OsString,
    inode: Option<usize>,
}

/// The contents of the medium: files and directories.
#[derive(Default)]
pub(crate) struct Image {
    files: BTreeMap<PathBuf, Contents>,
    directories: BTreeSet<PathBuf>,
}

impl Image {
    /// Writes it below `dir`, which is created.
    pub(crate) fn write(&self, dir: &Path) -> IoResult<()> {
        std::fs::create_dir_all(dir)?;
        self.directories.iter().try_for_each(|path| std::fs::create_dir_all(dir.join(path)))?;
        self.files.iter().try_for_each(|(path, contents)| contents.write_to(&dir.join(path)))
    }
}

/// The bytes of a file. Trailing zeros are counted and not stored: they are most of a log and of the reserve.
#[derive(Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    len: usize,
}

impl Contents {
    fn change(&mut self, change: &Change) {
        match change {
            Change::Write(at, bytes) => self.write(*at as usize, bytes),
            Change::Longer(len) => self.len = self.len.max(*len as usize),
            Change::Shorter(len) => {
                self.len = self.len.min(*len as usize);
                self.bytes.truncate(self.len);
            }
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.len = self.len.max(end);
    }

    fn write_to(&self, path: &Path) -> IoResult<()> {
        let mut file = File::create(path)?;
        file.write_all(&self.bytes)?;
        file.set_len(self.len as u64)
    }
}

/// The files and directories during the replay of the steps.
struct Disk {
    inodes: Vec<Inode>,
    /// Changes that are not durable. A rename is one change of two entries: it is kept completely or not at
    /// all.
    pending: Vec<Vec<Entry>>,
}

impl Disk {
    fn new() -> Self {
        let root = Inode::Directory { now: BTreeMap::new(), durable: BTreeMap::new() };
        Self { inodes: vec![root], pending: Vec::new() }
    }

    /// The inode of a path at this time.
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

    /// A change of an entry, applied now and not yet durable; `None` outside the recorded directory.
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

    /// Makes the changes selected by `keep` durable.
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
                let made = self.make(Inode::File { durable: Contents::default(), pending: Vec::new() });
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
                        durable.change(&change);
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

    /// Collects the medium's contents below a directory.
    fn collect(
        &self,
        at: usize,
        path: &Path,
        contents: &mut dyn FnMut(usize) -> Contents,
        image: &mut Image,
    ) {
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

/// The image after a power failure at the end of `steps`.
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
        let Inode::File { durable, pending } = &disk.inodes[inode] else { return Contents::default() };
        let mut contents = durable.clone();
        for (number, change) in pending {
            let kept_whole = match (kept, change) {
                (Kept::None | Kept::Names, _) => false,
                (Kept::All | Kept::Contents, _) => true,
                (Kept::Prefix(_), _) => *number < until,
                (Kept::Some, _) => picks[number],
                (Kept::Torn(sector), Change::Write(at, bytes)) => {
                    // Each sector or not. Sectors of the file, not of the write.
                    let first = sector - *at as usize % sector;
                    let (head, rest) = bytes.split_at(first.min(bytes.len()));
                    let mut at = *at;
                    for part in [head].into_iter().chain(rest.chunks(sector)) {
                        if rng.random() {
                            contents.write(at as usize, part);
                        }
                        at += part.len() as u64;
                    }
                    false
                }
                (Kept::Torn(_), _) => rng.random(),
            };
            if kept_whole {
                contents.change(change);
            }
        }
        contents
    };
    let mut image = Image::default();
    disk.collect(0, Path::new(""), &mut contents, &mut image);
    image
}
