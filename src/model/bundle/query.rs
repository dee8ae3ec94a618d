//! The query encoder of a bundle: the one part that may change, since no document depends on it.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::{Bundle, MANIFEST_FILE, ModelError, read_manifest};
#[cfg(feature = "train")]
use super::{
    BundleManifest,
    copy::{query_encoder_files, write},
    io_error,
};
#[cfg(feature = "train")]
use crate::disk::Backend;
use crate::model::Encoder;
use crate::model::query_encoder::{FastEncoder, QueryEncoderEntry};

/// Name of the manifest before it is put into its place.
pub(super) const MANIFEST_NEW: &str = "ehi.json.new";

/// The query encoder that an entry names, beside the encoder of documents.
pub(super) fn open(dir: &Path, entry: QueryEncoderEntry, encoder: &Encoder) -> FastEncoder {
    FastEncoder::open(dir, entry, encoder.config().vocab_size, encoder.dim())
}

impl Bundle {
    /// Takes the query encoder that the bundle has now: another process may have given it one. A new one is
    /// loaded when it is first used.
    ///
    /// # Errors
    /// Those of reading; the bundle then keeps the one it had.
    pub(crate) fn refresh_query_encoder(&self) -> Result<(), ModelError> {
        let manifest = read_manifest(&self.dir.join(MANIFEST_FILE))?;
        let known = self.fast();
        if manifest.query_encoder.as_ref() == known.as_ref().map(|fast| fast.entry()) {
            return Ok(());
        }
        let fast = manifest.query_encoder.map(|entry| open(&self.dir, entry, self.model.encoder()));
        let fast = fast.map(Arc::new);
        *self.query.write().unwrap_or_else(PoisonError::into_inner) = fast;
        Ok(())
    }
}

#[cfg(feature = "train")]
impl Bundle {
    /// Gives the bundle another query encoder, or takes it away; it lasts when this has returned.
    ///
    /// The new file is written first, then the manifest that names it is put into the place of the old one,
    /// so the bundle has one or the other whatever happens. Another process that has the old one open keeps
    /// it.
    ///
    /// # Errors
    /// [`ModelError::NotABundle`] for an encoder in its own folder, [`ModelError::Io`]; the bundle is then as
    /// before.
    pub(crate) fn set_query_encoder(
        &self,
        backend: &dyn Backend,
        new: Option<(QueryEncoderEntry, &[u8])>,
    ) -> Result<(), ModelError> {
        self.check_own()?;
        let kept = new.as_ref().map(|(entry, _)| entry.file.clone());
        let written = self.write_query_encoder(backend, new);
        if written.is_err() {
            // What was begun; where it cannot be removed the next call does it.
            let _ = backend.remove(&self.dir.join(MANIFEST_NEW));
        }
        let fast = written?;
        *self.query.write().unwrap_or_else(PoisonError::into_inner) = fast.map(Arc::new);
        for name in query_encoder_files(backend, &self.dir)? {
            if Some(&name) != kept.as_ref() {
                let path = self.dir.join(name);
                if let Err(error) = backend.remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "a query encoder out of use is left behind");
                }
            }
        }
        Ok(())
    }

    fn write_query_encoder(
        &self,
        backend: &dyn Backend,
        new: Option<(QueryEncoderEntry, &[u8])>,
    ) -> Result<Option<FastEncoder>, ModelError> {
        let (path, staged) = (self.dir.join(MANIFEST_FILE), self.dir.join(MANIFEST_NEW));
        let fast = match new {
            Some((entry, bytes)) => {
                write(backend, &self.dir.join(&entry.file), bytes)?;
                backend.sync_directory(&self.dir).map_err(|e| io_error("sync", &self.dir, e))?;
                let fast = open(&self.dir, entry, self.model.encoder());
                fast.load()?;
                Some(fast)
            }
            None => None,
        };
        let json = self.manifest.to_json(&path, fast.as_ref().map(FastEncoder::entry))?;
        write(backend, &staged, &json)?;
        backend.rename(&staged, &path).map_err(|e| io_error("replace", &path, e))?;
        backend.sync_directory(&self.dir).map_err(|e| io_error("sync", &self.dir, e))?;
        Ok(fast)
    }

    /// Refuses an encoder in its own folder, which is not ours to write to.
    pub(crate) fn check_own(&self) -> Result<(), ModelError> {
        match self.dir.join(MANIFEST_FILE).is_file() {
            true => Ok(()),
            false => Err(ModelError::NotABundle { path: self.dir.clone() }),
        }
    }
}

/// The query encoder of the bundle in `dir`, with the content of its file, if it has one.
#[cfg(feature = "train")]
pub(super) fn carried(dir: &Path) -> Result<Option<(QueryEncoderEntry, Vec<u8>)>, ModelError> {
    let path = dir.join(MANIFEST_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let BundleManifest { dim, query_encoder, .. } = read_manifest(&path)?;
    let Some(entry) = query_encoder else { return Ok(None) };
    let bytes = FastEncoder::open(dir, entry.clone(), 0, dim).bytes()?;
    Ok(Some((entry, bytes)))
}
