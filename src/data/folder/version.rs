//! The state of a file, by which `--sync` tells whether it was changed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// The names of its fields in the metadata of a document.
pub(super) const NAMES: [&str; 4] = ["modified", "bytes", "changed", "inode"];

/// Which state of a file a document was read from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileVersion {
    /// When its content was changed, in seconds since 1970, as programs may set it.
    pub modified: f64,
    /// Its size.
    pub bytes: u64,
    /// When the file system changed its content, its name or its rights, in seconds since 1970, which no
    /// program can set.
    pub changed: f64,
    /// Its number in the file system, which moves with it.
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
