//! Who writes a directory.

use std::{fmt, time::SystemTime};

/// Who holds a lock, as the lock file says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Id of the process on its host.
    pub process: u32,
    /// Name of the host.
    pub host: String,
    /// When it took the lock.
    pub since: SystemTime,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.since.elapsed().unwrap_or_default().as_secs();
        write!(f, "process {} on host {} for {held} s", self.process, self.host)
    }
}
