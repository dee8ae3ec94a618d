//! Durable file operations behind one trait.
//!
//! Every operation that a promise of durability rests on goes through [`Backend`], so that tests can make
//! each of them fail and can work out what a power failure would leave.

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

/// Bytes written at once where space cannot be allocated otherwise.
const ZEROS: usize = 1 << 16;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist; reading and writing.
    Update,
    /// Made anew. What has the name loses it and stays as it is for whoever has it open or under another
    /// name.
    Replace,
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a FIFO, a socket or a device. The crate makes none of these, so it opens none.
    Other,
}

/// Which file it is, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// One start of the operating system; another one means that unsynced writes may be lost.
pub(crate) type Boot = [u8; 16];

/// The file system as the crate uses it; the methods' own bodies are those of the real one. Files are regular
/// files and directories are directories: a symbolic link or a FIFO in their place is an error.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read);
        if mode == OpenMode::Replace {
            // Not emptied: a snapshot may share the file.
            if let Err(error) = fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            options.create_new(true);
        }
        // Without waiting for the other end of a FIFO.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let file = options.open(path).map_err(|error| explain(path, error))?;
        match file.metadata()?.is_file() {
            true => Ok(Box::new(file)),
            false => Err(not_a("regular file")),
        }
    }

    /// Replaces `to` by `from` in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32);
        options.open(path)?.sync_all()
    }

    /// Gives a file that will not change a second name, or copies it durably where that cannot be done.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.kind(from)?.is_some_and(|kind| kind != Kind::File) {
            return Err(not_a("regular file"));
        }
        match fs::hard_link(from, to) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                // Another file system, or one without links.
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

    /// Makes a directory where it is missing, and those above it, durably.
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        if let Some(above) = above {
            self.create_directory(above)?;
            // Its own entry; that of `path` is the caller's to sync, with what it makes there.
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

    /// What has a name; `None` where nothing has it.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let kind = |of: fs::Metadata| match of.file_type() {
            found if found.is_file() => Kind::File,
            found if found.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Ok(metadata(path)?.map(kind))
    }

    /// Which file has a name; `None` where nothing has it.
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        Ok(metadata(path)?.map(|of| Identity { device: of.dev(), inode: of.ino() }))
    }

    /// This start of the operating system; `None` where it is not known.
    fn boot(&self) -> Option<Boot> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
    }
}

/// One open file.
pub(crate) trait BackendFile: Send + Sync {
    /// Fills `buffer` from `offset`; an error at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_file().read_exact_at(buffer, offset)
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.as_file().write_all_at(bytes, offset)
    }

    /// Makes the file `len` bytes long, the new ones zeros, with space on the medium for all of them.
    fn allocate(&self, len: u64) -> io::Result<()> {
        // From the start: a copy of a file may have holes where the file had space.
        match rustix::fs::fallocate(self.as_file(), FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
        let from = self.as_file().metadata()?.len();
        for at in (from..len).step_by(ZEROS) {
            let zeros = (len - at).min(ZEROS as u64) as usize;
            self.as_file().write_all_at(&[0; ZEROS][..zeros], at)?;
        }
        Ok(())
    }

    /// Makes the file shorter and gives the space behind its new end back.
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

    /// Makes contents durable, and of the metadata what is needed to read them back.
    fn sync_data(&self) -> io::Result<()> {
        self.as_file().sync_data()
    }

    /// The file itself, which the bodies of the other methods work on; for others to map it only.
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

/// A file system whose syncs do nothing: what a power failure leaves of it is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsynced;

/// A file of it.
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

/// Of the name itself, not of what a symbolic link points to.
fn metadata(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A symbolic link is refused with a number alone.
fn explain(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => not_a("regular file"),
        _ => error,
    }
}

fn not_a(expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is not a {expected}"))
}
