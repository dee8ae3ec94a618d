//! The lock that makes one handle the writer.

use std::{
    fs::{File, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

use super::{
    error::{Operation, Result, StoreError},
    layout::names,
};

/// How often a lock that is waited for is tried.
const POLL: Duration = Duration::from_millis(20);

/// The locked directory; given back when dropped, and by the operating system when the process ends.
pub(super) struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes the lock of a directory, waiting for it so long.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`], and failures of the file system.
    pub(super) fn take(dir: &Path, wait: Duration) -> Result<Self> {
        let path = dir.join(names::LOCK);
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io(&path, Operation::Open))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if started.elapsed() < wait => {
                    // There is no lock with a time limit to wait on.
                    std::thread::sleep(POLL.min(wait));
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { path: dir.to_owned() }),
                Err(TryLockError::Error(source)) => {
                    return Err(StoreError::io(&path, Operation::Lock)(source));
                }
            }
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being started at this moment has it open too.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "could not give back the lock");
        }
    }
}
