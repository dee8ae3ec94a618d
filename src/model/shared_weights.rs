//! Weights in memory that several encoders of a process use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::config::{EncoderPrecision, TransformerConfig};
use super::error::ModelError;
use super::packed::PackedTransformer;

/// The file that weights were read from, and how.
#[derive(PartialEq)]
pub(super) struct Source {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    sha256: String,
    config: TransformerConfig,
    precision: EncoderPrecision,
}

/// Those that an encoder has.
static LOADED: Mutex<Vec<(Source, Weak<PackedTransformer>)>> = Mutex::new(Vec::new());

impl Source {
    /// `None` for a missing file.
    pub(super) fn of(
        path: &Path,
        sha256: &str,
        config: &TransformerConfig,
        precision: EncoderPrecision,
    ) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            sha256: sha256.to_owned(),
            config: config.clone(),
            precision,
        })
    }
}

/// The weights of a source, loaded if no encoder has them.
///
/// Without a lock while loading, as in [`super::parts`]: if two threads load, the first one's weights stay.
pub(super) fn get_or_load(
    source: Source,
    load: impl FnOnce() -> Result<Arc<PackedTransformer>, ModelError>,
) -> Result<Arc<PackedTransformer>, ModelError> {
    let loaded = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let find = |all: &[(Source, Weak<PackedTransformer>)]| {
        all.iter().find(|(own, _)| *own == source).and_then(|(_, weights)| weights.upgrade())
    };
    if let Some(found) = find(&loaded()) {
        return Ok(found);
    }
    let weights = load()?;
    let mut all = loaded();
    if let Some(found) = find(&all) {
        return Ok(found);
    }
    all.retain(|(_, weights)| weights.strong_count() > 0);
    all.push((source, Arc::downgrade(&weights)));
    Ok(weights)
}
