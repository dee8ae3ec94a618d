//! The real file system.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{FallocateFlags, OFlags};

use super::{Backend, BackendFile, Boot, Identity, Kind, OpenMode};

/// Bytes written at once where space cannot be allocated otherwise.
const ZEROS: usize = 1 << 16;

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSystem;

impl Backend for FileSystem {
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

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32);
        options.open(path)?.sync_all()
    }

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

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if self.kind(path)?.is_some_and(|kind| kind != Kind::Directory) {
            return Err(not_a("directory"));
        }
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let kind = |of: fs::Metadata| match of.file_type() {
            found if found.is_file() => Kind::File,
            found if found.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Ok(metadata(path)?.map(kind))
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        Ok(metadata(path)?.map(|of| Identity { device: of.dev(), inode: of.ino() }))
    }

    fn boot(&self) -> Option<Boot> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
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

impl BackendFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        // From the start: a copy of a file may have holes where the file had space.
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            done => return Ok(done?),
        }
        let from = self.metadata()?.len();
        for at in (from..len).step_by(ZEROS) {
            let zeros = (len - at).min(ZEROS as u64) as usize;
            self.write_all_at(&[0; ZEROS][..zeros], at)?;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn as_file(&self) -> &File {
        self
    }
}
