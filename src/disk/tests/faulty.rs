//! A file system with one failing operation.

use std::{
    ffi::OsString,
    io::{Error, ErrorKind, Result as IoResult},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::disk::{Backend, BackendFile, Boot, FileSystem, Identity, Kind, OpenMode};

/// Fails one operation, the `fail_at`th since its creation.
#[derive(Clone)]
pub(crate) struct Faulty {
    fail_at: usize,
    error: fn() -> Error,
    count: Arc<AtomicUsize>,
    /// The name of the operation that failed.
    failed: Arc<Mutex<Option<&'static str>>>,
}

impl Faulty {
    pub(crate) fn new(fail_at: usize, kind: ErrorKind) -> Self {
        Self::with(
            fail_at,
            match kind {
                ErrorKind::StorageFull => || ErrorKind::StorageFull.into(),
                _ => || ErrorKind::Other.into(),
            },
        )
    }

    /// Fails as if too many files were open.
    pub(crate) fn without_files(fail_at: usize) -> Self {
        Self::with(fail_at, || Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()))
    }

    fn with(fail_at: usize, error: fn() -> Error) -> Self {
        Self { fail_at, error, count: Arc::default(), failed: Arc::default() }
    }

    pub(crate) fn failed(&self) -> Option<&'static str> {
        *self.failed.lock().unwrap()
    }

    /// Number of operations so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn step(&self, name: &'static str) -> IoResult<()> {
        if self.count.fetch_add(1, Ordering::SeqCst) == self.fail_at {
            *self.failed.lock().unwrap() = Some(name);
            return Err((self.error)());
        }
        Ok(())
    }
}

struct FaultyFile {
    file: Box<dyn BackendFile>,
    faults: Faulty,
}

impl Backend for Faulty {
    fn open(&self, path: &Path, mode: OpenMode) -> IoResult<Box<dyn BackendFile>> {
        self.step("open")?;
        Ok(Box::new(FaultyFile { file: FileSystem.open(path, mode)?, faults: self.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.step("rename")?;
        FileSystem.rename(from, to)
    }
    fn sync_directory(&self, path: &Path) -> IoResult<()> {
        self.step("sync")?;
        FileSystem.sync_directory(path)
    }
    fn link(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.step("link")?;
        FileSystem.link(from, to)
    }
    fn remove(&self, path: &Path) -> IoResult<()> {
        self.step("remove")?;
        FileSystem.remove(path)
    }
    fn create_directory(&self, path: &Path) -> IoResult<()> {
        self.step("create directory")?;
        FileSystem.create_directory(path)
    }
    fn remove_directory(&self, path: &Path) -> IoResult<()> {
        self.step("remove directory")?;
        FileSystem.remove_directory(path)
    }
    fn list(&self, path: &Path) -> IoResult<Vec<OsString>> {
        self.step("list")?;
        FileSystem.list(path)
    }
    fn kind(&self, path: &Path) -> IoResult<Option<Kind>> {
        self.step("kind")?;
        FileSystem.kind(path)
    }
    fn identity(&self, path: &Path) -> IoResult<Option<Identity>> {
        self.step("identity")?;
        FileSystem.identity(path)
    }
    fn boot(&self) -> Option<Boot> {
        FileSystem.boot()
    }
}

impl BackendFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<()> {
        self.faults.step("read")?;
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<()> {
        if let Err(error) = self.faults.step("write") {
            // As much as fits.
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> IoResult<()> {
        self.faults.step("allocate")?;
        self.file.allocate(len)
    }
    fn truncate(&self, len: u64) -> IoResult<()> {
        self.faults.step("truncate")?;
        self.file.truncate(len)
    }
    fn sync_data(&self) -> IoResult<()> {
        self.faults.step("sync")?;
        self.file.sync_data()
    }
    fn len(&self) -> IoResult<u64> {
        self.faults.step("len")?;
        self.file.len()
    }
    fn sync_all(&self) -> IoResult<()> {
        self.faults.step("sync")?;
        self.file.sync_all()
    }
    fn as_file(&self) -> &std::fs::File {
        self.file.as_file()
    }
}
