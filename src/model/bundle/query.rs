//! The query encoder of a bundle, the only part that may change, because no document depends on it.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use serde_json::Value;

use super::copy::{query_encoder_files, write};
use super::{Bundle, MANIFEST_FILE, ModelError, read_manifest};
use crate::disk::{Backend, Kind};
use crate::model::Encoder;
use crate::model::query_encoder::{FastEncoder, QueryEncoderEntry};

/// Names of the two files while they are being written.
pub(super) const MANIFEST_NEW: &str = "ehi.json.new";
pub(super) const QUERY_ENCODER_NEW: &str = "query.safetensors.new";

/// The query encoder of an entry, next to the encoder of documents.
pub(super) fn of_entry(dir: &Path, entry: QueryEncoderEntry, encoder: &Encoder) -> FastEncoder {
    FastEncoder::open(dir, entry, encoder.config().vocab_size, encoder.dim())
}

/// Parses an entry for the encoder of documents with this digest.
///
/// # Errors
/// The problem with the entry; the model works without it.
pub(super) fn parse(dir: &Path, entry: Value, digest: &str) -> Result<QueryEncoderEntry, ModelError> {
    let path = dir.join(MANIFEST_FILE);
    let entry: QueryEncoderEntry =
        serde_json::from_value(entry).map_err(|source| ModelError::json(&path, source))?;
    entry.check(&path, digest)?;
    Ok(entry)
}

impl Bundle {
    /// Rereads the bundle's query encoder entry, which another process may have changed. A new query encoder
    /// is loaded on first use.
    ///
    /// # Errors
    /// Those of reading; on error the bundle keeps the current one.
    pub(crate) fn refresh_query_encoder(&self) -> Result<(), ModelError> {
        let manifest = read_manifest(&self.dir.join(MANIFEST_FILE))?;
        let entry = manifest
            .query_encoder
            .map(|entry| parse(&self.dir, entry, &self.encoder_digest()))
            .transpose()?;
        let known = self.fast();
        if entry.as_ref() == known.as_ref().map(|fast| fast.entry()) {
            return Ok(());
        }
        let of = |entry| -> Result<_, ModelError> { Ok(of_entry(&self.dir, entry, self.model.encoder()?)) };
        let fast = entry.map(of).transpose()?;
        *self.query.write().unwrap_or_else(PoisonError::into_inner) = fast.map(Arc::new);
        Ok(())
    }

    /// Replaces the query encoder of the bundle, or removes it, durably.
    ///
    /// The new file is written first, then the manifest that names it replaces the old one in one step, so
    /// the bundle always has one or the other. Another process that has the old one open keeps it. Concurrent
    /// calls from several processes wait for each other.
    ///
    /// # Errors
    /// [`ModelError::NotABundle`] for an encoder in its own folder, [`ModelError::Io`]; on error the bundle
    /// is unchanged.
    pub(crate) fn set_query_encoder(
        &self,
        backend: &dyn Backend,
        new: Option<(QueryEncoderEntry, &[u8])>,
    ) -> Result<(), ModelError> {
        self.check_own()?;
        // Held until this returns. The directory is locked, because its files are replaced.
        let lock = File::open(&self.dir).and_then(|dir| dir.lock().map(|()| dir));
        let _lock = lock.map_err(|e| ModelError::io("lock", &self.dir, e))?;
        let written = self.write_query_encoder(backend, new);
        // Also removes the files of an interrupted call.
        self.clear(backend);
        let fast = written?;
        *self.query.write().unwrap_or_else(PoisonError::into_inner) = fast.map(Arc::new);
        Ok(())
    }

    fn write_query_encoder(
        &self,
        backend: &dyn Backend,
        new: Option<(QueryEncoderEntry, &[u8])>,
    ) -> Result<Option<FastEncoder>, ModelError> {
        let replace = |staged: &str, file: &str, content: &[u8]| {
            let (staged, path) = (self.dir.join(staged), self.dir.join(file));
            write(backend, &staged, content)?;
            backend.rename(&staged, &path).map_err(|e| ModelError::io("replace", &path, e))?;
            backend.sync_directory(&self.dir).map_err(|e| ModelError::io("sync", &self.dir, e))
        };
        let fast = match new {
            Some((entry, bytes)) => {
                let entry = QueryEncoderEntry { encoder: self.encoder_digest(), ..entry };
                let encoder = self.model.encoder()?;
                let of = |entry| of_entry(&self.dir, entry, encoder);
                // An intact file with this content is not rewritten: it may be in use.
                if of(entry.clone()).bytes().is_err() {
                    replace(QUERY_ENCODER_NEW, &entry.file, bytes)?;
                }
                let fast = of(entry);
                fast.load()?;
                Some(fast)
            }
            None => None,
        };
        let path = self.dir.join(MANIFEST_FILE);
        let json = self.manifest.to_json(&path, fast.as_ref().map(FastEncoder::entry))?;
        replace(MANIFEST_NEW, MANIFEST_FILE, &json)?;
        Ok(fast)
    }

    /// Removes unused files; if that fails, the next writer tries again.
    fn clear(&self, backend: &dyn Backend) {
        let unused = unused_files(backend, &self.dir).unwrap_or_default();
        for path in unused.into_iter().map(|name| self.dir.join(name)) {
            if matches!(backend.kind(&path), Ok(Some(Kind::File)))
                && let Err(error) = backend.remove(&path)
            {
                tracing::warn!(path = %path.display(), %error, "a query encoder out of use is left behind");
            }
        }
    }

    /// Refuses an encoder in the user's own folder, which is never written to.
    pub(crate) fn check_own(&self) -> Result<(), ModelError> {
        match self.dir.join(MANIFEST_FILE).is_file() {
            true => Ok(()),
            false => Err(ModelError::NotABundle { path: self.dir.clone() }),
        }
    }

    /// Refuses a query encoder that cannot be used.
    ///
    /// # Errors
    /// The problem with its entry when it was opened, or with its file.
    pub(crate) fn check_query_encoder(&self) -> Result<(), ModelError> {
        if let Some(entry) = &self.unreadable {
            parse(&self.dir, entry.clone(), &self.encoder_digest())?;
        }
        self.fast().map_or(Ok(()), |fast| fast.load())
    }
}

/// Names of a bundle's unused files: partial files, and query encoders that its manifest does not name. Empty
/// for a directory that is not a bundle.
///
/// # Errors
/// [`ModelError::Io`].
pub(crate) fn unused_files(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>, ModelError> {
    let Ok(manifest) = read_manifest(&dir.join(MANIFEST_FILE)) else { return Ok(Vec::new()) };
    let entry = manifest.query_encoder.as_ref();
    let in_use = entry.and_then(|entry| entry.get("file")).and_then(Value::as_str);
    let mut names = query_encoder_files(backend, dir)?;
    names.retain(|name| Some(name.as_str()) != in_use);
    for name in [MANIFEST_NEW, QUERY_ENCODER_NEW] {
        let path = dir.join(name);
        if backend.kind(&path).map_err(|e| ModelError::io("read", &path, e))?.is_some() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The query encoder of the bundle in `dir`, with the content of its file, if it has a usable one.
#[cfg(feature = "train")]
pub(super) fn carried(dir: &Path) -> Result<Option<(QueryEncoderEntry, Vec<u8>)>, ModelError> {
    let path = dir.join(MANIFEST_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let mut manifest = read_manifest(&path)?;
    let Some(entry) = manifest.query_encoder.take() else { return Ok(None) };
    let carried = parse(dir, entry, &manifest.encoder_digest()).and_then(|entry| {
        let bytes = FastEncoder::open(dir, entry.clone(), 0, manifest.dim).bytes()?;
        Ok((entry, bytes))
    });
    match carried {
        Ok(carried) => Ok(Some(carried)),
        Err(error) => {
            tracing::warn!(path = %dir.display(), %error, "the query encoder is left behind");
            Ok(None)
        }
    }
}
