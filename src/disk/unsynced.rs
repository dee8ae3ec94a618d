//! A file system whose syncs do nothing.

use std::{ffi::OsString, fs::File, io, path::Path};

use super::{Backend, BackendFile, Boot, Identity, Kind, OpenMode};

/// A file system whose syncs do nothing: what a power failure leaves of it is not known.
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

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.0.kind(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        self.0.identity(path)
    }

    fn boot(&self) -> Option<Boot> {
        self.0.boot()
    }
}

impl BackendFile for UnsyncedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

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
