//! Every operation that durability rests on, behind one trait, so that tests can make each of them
//! fail and can work out what a power failure would leave. What sled does is not among them: nothing
//! rests on that.

use std::{
    ffi::OsString,
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
    /// Made anew. What has the name loses it and stays as it is for whoever has it open or under another name.
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
    /// Gives a file that will not change a second name, or copies it durably where that cannot be done.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory where it is missing, and those above it, durably.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Names of the entries of a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
}

/// One open file.
pub(crate) trait BackendFile: Send + Sync {
    /// Fills `buffer` from `offset`; an error at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
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
            OpenMode::Replace => {
                // Not emptied: a snapshot may share the file.
                if let Err(error) = fs::remove_file(path)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    return Err(error);
                }
                options.read(true).write(true).create_new(true)
            }
        };
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                // Another file system, or one without links.
                fs::copy(from, to)?;
                File::open(to)?.sync_all()
            }
            linked => linked,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

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

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
}

/// A file system whose syncs do nothing: what a power failure leaves of it is anyone's guess.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsynced<B>(pub(crate) B);

/// A file of it.
struct UnsyncedFile(Box<dyn BackendFile>);

impl<B: Backend> Backend for Unsynced<B> {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(UnsyncedFile(self.0.open(path, mode)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(path)
    }
}

impl BackendFile for UnsyncedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn as_file(&self) -> &File {
        self.0.as_file()
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

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn as_file(&self) -> &File {
        self
    }
}
