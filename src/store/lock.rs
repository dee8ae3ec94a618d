//! The lock that makes one handle the only writer of a directory.

use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::OFlags;

use super::{
    error::{LockHolder, Operation, Result, StoreError},
    layout::names,
};
use crate::disk::{Backend, FileSystem, Identity};

/// Interval between attempts while waiting for a lock.
const POLL: Duration = Duration::from_millis(20);
/// Larger than any lock file.
const MOST_BYTES: u64 = 1024;

/// The locked directory; released when dropped, and by the operating system when the process ends.
pub(crate) struct DirectoryLock {
    file: File,
    path: PathBuf,
    identity: Identity,
    /// A forked child shares the open file, and must neither write nor unlock.
    process: u32,
}

impl DirectoryLock {
    /// Takes the lock of a directory, waiting for at most `wait`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`], and failures of the file system.
    pub(crate) fn take(dir: &Path, wait: Duration) -> Result<Self> {
        let path = dir.join(names::LOCK);
        let started = Instant::now();
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {
                    let found = file.metadata().map_err(StoreError::io(&path, Operation::Lock))?;
                    let identity = Identity { device: found.dev(), inode: found.ino() };
                    let mut lock = Self { file, path: path.clone(), identity, process: std::process::id() };
                    // Another process may have replaced the file between opening and locking it.
                    if lock.is_in_place()? {
                        lock.sign();
                        return Ok(lock);
                    }
                }
                Err(TryLockError::WouldBlock) if started.elapsed() < wait => {
                    // The system has no lock with a timeout.
                    std::thread::sleep(POLL.min(wait));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Locked { path: dir.to_owned(), holder: read_holder(file) });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(StoreError::io(&path, Operation::Lock)(source));
                }
            }
        }
    }

    /// Checks that this handle may still write the directory.
    ///
    /// # Errors
    ///
    /// [`StoreError::Forked`] in a child of the process that took the lock; [`StoreError::Replaced`] if the
    /// lock file was replaced.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_process()?;
        if self.is_in_place()? { Ok(()) } else { Err(StoreError::Replaced { path: self.path.clone() }) }
    }

    /// As [`Self::check`], but only for the process.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() { Ok(()) } else { Err(StoreError::Forked) }
    }

    fn is_in_place(&self) -> Result<bool> {
        let found = FileSystem.identity(&self.path).map_err(StoreError::io(&self.path, Operation::Read))?;
        Ok(found == Some(self.identity))
    }

    /// Writes the holder into the lock file. The lock holds even if the disk is full.
    fn sign(&mut self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let text = format!("process {}\nhost {host}\nsince {}\n", self.process, since.as_secs());
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all(text.as_bytes()));
    }
}

/// Opens the lock file, or creates it if missing; does not follow links and never blocks.
fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let io = |source| StoreError::io(path, Operation::Lock)(source);
    let file = options.open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_file() {
        return Ok(file);
    }
    Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")))
}

/// The process that writes a directory, if the lock file names a live one on this host.
pub(super) fn live_holder(dir: &Path) -> Option<LockHolder> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(dir.join(names::LOCK)).ok()?;
    let holder = read_holder(file)?;
    let here = holder.is_here();
    let process = rustix::process::Pid::from_raw(i32::try_from(holder.process).ok()?)?;
    // It also exists if we may not send it a signal.
    let gone = rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH);
    (here && !gone).then_some(holder)
}

/// The content of a lock file; `None` if it is not readable.
fn read_holder(mut file: File) -> Option<LockHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let since: u64 = field("since ")?.parse().ok()?;
    Some(LockHolder {
        process: field("process ")?.parse().ok()?,
        host: field("host ")?.to_owned(),
        since: SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since))?,
    })
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The parent holds the same lock and continues to use it.
            return;
        }
        let _ = self.file.set_len(0);
        // Closing the file is not enough: a process that is being started right now also has it open.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "could not give back the lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_is_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(dir.path(), Duration::ZERO).unwrap();
        match DirectoryLock::take(dir.path(), Duration::ZERO).map(drop) {
            Err(StoreError::Locked { holder: Some(holder), .. }) => {
                assert_eq!(holder.process, std::process::id());
                assert!(!holder.host.is_empty());
            }
            other => panic!("{other:?}"),
        }
        lock.check().unwrap();
        // Removed, and taken by another handle: the first one no longer holds the directory.
        fs::remove_file(dir.path().join(names::LOCK)).unwrap();
        assert!(matches!(lock.check(), Err(StoreError::Replaced { .. })));
        let other = DirectoryLock::take(dir.path(), Duration::ZERO).unwrap();
        assert!(matches!(lock.check(), Err(StoreError::Replaced { .. })));
        drop(lock);
        other.check().unwrap();
        assert!(DirectoryLock::take(dir.path(), Duration::ZERO).is_err());
        drop(other);
        DirectoryLock::take(dir.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_lock_file_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(names::LOCK);
        std::os::unix::fs::symlink(dir.path().join("target"), &path).unwrap();
        assert!(matches!(DirectoryLock::take(dir.path(), Duration::ZERO), Err(StoreError::Io { .. })));
        assert!(!dir.path().join("target").exists(), "the target of a dangling link was made");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(DirectoryLock::take(dir.path(), Duration::ZERO), Err(StoreError::Io { .. })));
    }
}
