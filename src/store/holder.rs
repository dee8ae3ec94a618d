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
        // As in a notebook that runs a cell again.
        let this = if self.is_here() && self.process == std::process::id() { " (this one)" } else { "" };
        write!(f, "process {}{this} on host {} for {held} s", self.process, self.host)
    }
}

impl LockHolder {
    /// Whether it ran on this host.
    pub(super) fn is_here(&self) -> bool {
        self.host.as_bytes() == rustix::system::uname().nodename().to_bytes()
    }
}
