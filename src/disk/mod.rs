//! Durable file operations behind one trait.
//!
//! Every operation that a promise of durability rests on goes through [`Backend`], so that tests can make
//! each of them fail and can work out what a power failure would leave.

#[cfg(test)]
pub(crate) mod faulty;
mod file_system;
mod mapping;
pub(crate) mod names;
#[cfg(test)]
pub(crate) mod recorder;
mod unsynced;

use std::{ffi::OsString, fs::File, io, path::Path};

pub(crate) use file_system::FileSystem;
pub(crate) use mapping::Mapping;
pub(crate) use unsynced::Unsynced;

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

/// The file system as the crate uses it. Files are regular files and directories are directories: a symbolic
/// link or a FIFO in their place is an error.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>>;
    /// Replaces `to` by `from` in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Gives a file that will not change a second name, or copies it durably where that cannot be done.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory where it is missing, and those above it, durably.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Names of the entries of a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// What has a name; `None` where nothing has it.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Which file has a name; `None` where nothing has it.
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>>;
    /// This start of the operating system; `None` where it is not known.
    fn boot(&self) -> Option<Boot>;
}

/// One open file.
pub(crate) trait BackendFile: Send + Sync {
    /// Fills `buffer` from `offset`; an error at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the file `len` bytes long, the new ones zeros, with space on the medium for all of them.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes the file shorter and gives the space behind its new end back.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Makes contents and metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Makes contents durable, and of the metadata what is needed to read them back.
    fn sync_data(&self) -> io::Result<()>;
    /// The file itself, for mapping only.
    fn as_file(&self) -> &File;
}
