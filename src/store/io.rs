//! Every operation on the manifest, the vector file and sled's log file that
//! durability rests on, behind one trait, so that tests can make each of them fail.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Must exist; read only.
    Read,
    /// Must exist.
    ReadWrite,
    /// Made, or emptied where it is there. Only for files no reader can have.
    Replace,
}

/// The file system as the store uses it.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>>;
    /// Replaces `to` by `from` in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// One open file.
pub(crate) trait BackendFile: Send + Sync {
    /// Fills `buffer` from `offset`; an error at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Makes the file longer; the new part reads as zeros. Never called to shorten.
    fn grow(&self, len: u64) -> io::Result<()>;
    /// Makes the contents durable, and of the metadata what reading them needs.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes contents and metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// The file itself, for mapping only.
    fn as_file(&self) -> &File;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSystem;

impl Backend for FileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>> {
        let mut options = OpenOptions::new();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::ReadWrite => options.read(true).write(true),
            OpenMode::Replace => options.read(true).write(true).create(true).truncate(true),
        };
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl BackendFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn as_file(&self) -> &File {
        self
    }
}
