//! The state of a file, by which `--sync` tells whether it was changed.

use std::fs::Metadata;
use std::io;
use std::time::SystemTime;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::document::Document;

const MODIFIED: &str = "modified";
const BYTES: &str = "bytes";
const CHANGED: &str = "changed";
const INODE: &str = "inode";

/// Their names in the metadata of a document.
pub(super) const NAMES: [&str; 4] = [MODIFIED, BYTES, CHANGED, INODE];

/// Which state of a file a document was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileVersion {
    /// When its content was changed, in seconds since 1970, as programs may set it.
    pub modified: f64,
    /// Its size.
    pub bytes: u64,
    /// When the file system changed its content, its name or its rights, in seconds since 1970, which no
    /// program can set. None where the system has none, and of documents that an older release stored.
    pub changed: Option<f64>,
    /// Its number in the file system, which moves with it. None as above.
    pub inode: Option<u64>,
}

impl FileVersion {
    pub(super) fn of(metadata: &Metadata) -> io::Result<Self> {
        let modified = match metadata.modified()?.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_secs_f64(),
            Err(before) => -before.duration().as_secs_f64(),
        };
        let (changed, inode) = changed(metadata);
        Ok(Self { modified, bytes: metadata.len(), changed, inode })
    }

    /// What the metadata of a document says.
    pub(super) fn read(metadata: &Value) -> Option<Self> {
        Some(Self {
            modified: metadata.get(MODIFIED)?.as_f64()?,
            bytes: metadata.get(BYTES)?.as_u64()?,
            changed: metadata.get(CHANGED).and_then(Value::as_f64),
            inode: metadata.get(INODE).and_then(Value::as_u64),
        })
    }

    pub(super) fn write(&self, metadata: &mut Map<String, Value>) {
        metadata.insert(MODIFIED.to_owned(), self.modified.into());
        metadata.insert(BYTES.to_owned(), self.bytes.into());
        metadata.extend(self.changed.map(|changed| (CHANGED.to_owned(), changed.into())));
        metadata.extend(self.inode.map(|inode| (INODE.to_owned(), inode.into())));
    }
}

pub(super) fn content_hash(document: &Document) -> [u8; 16] {
    let mut metadata = document.metadata.clone().unwrap_or_default();
    if let Value::Object(fields) = &mut metadata {
        fields.retain(|name, _| !NAMES.contains(&&**name));
    }
    let mut hasher = Sha256::new();
    for part in [&document.title, &document.text, &metadata.to_string()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize()[..16]);
    half
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> (Option<f64>, Option<u64>) {
    use std::os::unix::fs::MetadataExt;
    (Some(metadata.ctime() as f64 + metadata.ctime_nsec() as f64 / 1e9), Some(metadata.ino()))
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> (Option<f64>, Option<u64>) {
    (None, None)
}
