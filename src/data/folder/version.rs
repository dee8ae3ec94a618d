//! The state of a file, by which `--sync` detects changes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// The names of its fields in the metadata of a document.
pub(super) const NAMES: [&str; 4] = ["modified", "bytes", "changed", "inode"];

/// The state of the file that a document was read from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Modification time in seconds since 1970, which programs can set.
    pub modified: f64,
    /// Its size.
    pub bytes: u64,
    /// Time of the last change of content, name or permissions, in seconds since 1970, which programs cannot
    /// set.
    pub changed: f64,
    /// Its inode number, which is kept when the file is moved.
    pub inode: u64,
}

impl FileVersion {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let seconds = |seconds: i64, nanoseconds: i64| seconds as f64 + nanoseconds as f64 / 1e9;
        Self {
            modified: seconds(metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            changed: seconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }
}
