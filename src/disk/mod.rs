//! Durable file operations behind one trait.
//!
//! Every operation that a durability promise depends on goes through [`Backend`], so that tests can make each
//! of them fail and compute what a power failure would leave.

mod mapping;
pub(crate) mod names;
#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{FallocateFlags, OFlags};

pub(crate) use mapping::Mapping;
#[cfg(test)]
pub(crate) use tests::{faulty, recorder};

/// Bytes written at once if space cannot be allocated in another way.
const ZEROS: usize = 1 << 16;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist; reading and writing.
    Update,
    /// Creates a new file. Unlinks any existing file first; open handles and other names keep it.
    Replace,
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a FIFO, a socket or a device. The crate never creates these, so it never opens them.
    Other,
}

/// The identity of a file, independent of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Identifies a boot of the operating system; after a reboot, unsynced writes may be lost.
pub(crate) type Boot = [u8; 16];

/// The file system as used by the crate; the default methods are those of the real one. Files are regular
/// files and directories are directories: a symbolic link or a FIFO in their place is an error.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read);
        if mode == OpenMode::Replace {
            // Not truncated: a snapshot may share the file.
            if let Err(error) = fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            options.create_new(true);
        }
        let file = open_regular(&mut options, false, path).map_err(|error| explain(path, error))?;
        Ok(Box::new(file))
    }

    /// Atomically replaces `to` with `from`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32);
        options.open(path)?.sync_all()
    }

    /// Gives an immutable file a second name, or copies it durably if that is impossible.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.kind(from)?.is_some_and(|kind| kind != Kind::File) {
            return Err(not_a("regular file"));
        }
        match fs::hard_link(from, to) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                // Another file system, or one without hard links.
                let copied = fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
                copied.inspect_err(|_| drop(fs::remove_file(to)))
            }
            linked => linked,
        }
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Creates a directory and its missing parents, durably.
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        if let Some(above) = above {
            self.create_directory(above)?;
            // The new directory's own entry; the caller must sync that of `path`, together with what it
            // creates there.
            let entry_of = above.canonicalize()?;
            entry_of.parent().map_or(Ok(()), |parent| self.sync_directory(parent))?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made,
        }
    }

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    /// Names of the entries of a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if self.kind(path)?.is_some_and(|kind| kind != Kind::Directory) {
            return Err(not_a("directory"));
        }
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// The kind of entry at a path; `None` if there is none.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let kind = |of: fs::Metadata| match of.file_type() {
            found if found.is_file() => Kind::File,
            found if found.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Ok(metadata(path)?.map(kind))
    }

    /// The identity of the file at a path; `None` if there is none.
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        Ok(metadata(path)?.map(|of| Identity { device: of.dev(), inode: of.ino() }))
    }

    /// The current boot of the operating system; `None` if unknown.
    fn boot(&self) -> Option<Boot> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
    }
}

/// One open file.
pub(crate) trait BackendFile: Send + Sync {
    /// Fills `buffer` starting at `offset`; fails at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_file().read_exact_at(buffer, offset)
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.as_file().write_all_at(bytes, offset)
    }

    /// Extends the file to `len` bytes with zeros, and allocates space on the medium for all of them.
    fn allocate(&self, len: u64) -> io::Result<()> {
        // From the start: a copy of a file may have holes where the original had space.
        match rustix::fs::fallocate(self.as_file(), FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
        let from = self.as_file().metadata()?.len();
        for at in (from..len).step_by(ZEROS) {
            let zeros = (len - at).min(ZEROS as u64) as usize;
            self.as_file().write_all_at(&[0; ZEROS][..zeros], at)?;
        }
        Ok(())
    }

    /// Shortens the file and frees the space after its new end.
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.as_file().set_len(len)
    }

    /// Length in bytes.
    fn len(&self) -> io::Result<u64> {
        Ok(self.as_file().metadata()?.len())
    }

    /// Makes contents and metadata durable.
    fn sync_all(&self) -> io::Result<()> {
        self.as_file().sync_all()
    }

    /// Makes contents durable, and the metadata needed to read them back.
    fn sync_data(&self) -> io::Result<()> {
        self.as_file().sync_data()
    }

    /// The underlying file, used by the default methods; others may only map it.
    fn as_file(&self) -> &File;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSystem;

impl Backend for FileSystem {}

impl BackendFile for File {
    fn as_file(&self) -> &File {
        self
    }
}

/// A file system whose syncs do nothing: what it keeps in a power failure is undefined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsynced;

/// A file on it.
struct UnsyncedFile(Box<dyn BackendFile>);

impl Backend for Unsynced {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(UnsyncedFile(FileSystem.open(path, mode)?)))
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl BackendFile for UnsyncedFile {
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn as_file(&self) -> &File {
        self.0.as_file()
    }
}

/// For the name itself, without following a symbolic link.
fn metadata(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// For a symbolic link, the system only gives an error number.
fn explain(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => not_a("regular file"),
        _ => error,
    }
}

/// Opens a regular file, without blocking on the other end of a FIFO.
pub(crate) fn open_regular(options: &mut OpenOptions, follows_links: bool, path: &Path) -> io::Result<File> {
    let links = if follows_links { OFlags::empty() } else { OFlags::NOFOLLOW };
    let file = options.custom_flags((links | OFlags::NONBLOCK).bits() as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_a("regular file")),
    }
}

fn not_a(expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is not a {expected}"))
}
