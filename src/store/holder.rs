//! Which process writes a directory.

use std::{fmt, time::SystemTime};

/// The holder of a lock, as recorded in the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Process id on its host.
    pub process: u32,
    /// Name of the host.
    pub host: String,
    /// When the lock was taken.
    pub since: SystemTime,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.since.elapsed().unwrap_or_default().as_secs();
        // For example in a notebook when a cell is run again.
        let this = if self.is_here() && self.process == std::process::id() { " (this one)" } else { "" };
        write!(f, "process {}{this} on host {} for {held} s", self.process, self.host)
    }
}

impl LockHolder {
    /// Whether the process runs on this host.
    pub(super) fn is_here(&self) -> bool {
        self.host.as_bytes() == rustix::system::uname().nodename().to_bytes()
    }
}
