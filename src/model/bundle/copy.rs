//! Copying a bundle into an index, and removing such a copy.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::query::{MANIFEST_NEW, QUERY_ENCODER_NEW};
use super::{
    Bundle, CARRIED_FILES, ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, ModelError, QueryEncoderEntry,
    REPORT_FILE,
};
use crate::disk::{Backend, Kind, OpenMode};
use crate::model::{Sharing, files};

impl Bundle {
    /// Copies the bundle's own files into `target`, synced to disk, and the report of its tree, if any, which
    /// [`Self::routing_profiles`] reads; but not the card. Large files may be shared.
    ///
    /// # Errors
    /// [`ModelError::Io`].
    pub(crate) fn copy_to(
        &self,
        backend: &dyn Backend,
        target: &Path,
        sharing: Sharing<'_>,
    ) -> Result<(), ModelError> {
        let make = |dir: &Path| backend.create_directory(dir).map_err(|e| ModelError::io("create", dir, e));
        make(target)?;
        let mut folders = BTreeSet::new();
        let has_report = self.has_tree() && self.dir.join(REPORT_FILE).is_file();
        let own = self.manifest.files.iter().map(|(name, sha256)| (name.as_str(), Some(sha256)));
        for (name, sha256) in own.chain(has_report.then_some((REPORT_FILE, None))) {
            let (source, path) = (self.dir.join(name), target.join(name));
            if let Some(folder) = path.parent().filter(|folder| *folder != target) {
                make(folder)?;
                folders.insert(folder.to_owned());
            }
            let is_linked =
                sha256.map_or(Ok(false), |sha256| sharing.link(backend, &source, sha256, &path))?;
            if !is_linked {
                write(backend, &path, &files::read(&source, files::most_bytes(name))?)?;
            }
        }
        let fast = self.fast();
        let fast = fast.as_ref().and_then(|fast| match fast.bytes() {
            Ok(content) => Some((fast.entry(), content)),
            // The copy then has no query encoder.
            Err(error) => {
                tracing::warn!(path = %self.dir.display(), %error, "the query encoder is not copied");
                None
            }
        });
        if let Some((entry, content)) = &fast {
            let (source, path) = (self.dir.join(&entry.file), target.join(&entry.file));
            if !sharing.link(backend, &source, &entry.sha256, &path)? {
                write(backend, &path, content)?;
            }
        }
        // Written last, and from memory: an encoder's own folder has none.
        let path = target.join(MANIFEST_FILE);
        let entry = fast.as_ref().map(|(entry, _)| *entry);
        write(backend, &path, &self.manifest.to_json(&path, entry)?)?;
        for folder in &folders {
            backend.sync_directory(folder).map_err(|e| ModelError::io("sync", folder, e))?;
        }
        backend.sync_directory(target).map_err(|e| ModelError::io("sync", target, e))
    }
}

/// Removes the files of a bundle from a directory, and the directory if nothing else is in it. A missing
/// directory is not an error.
///
/// # Errors
/// [`ModelError::Io`].
pub(crate) fn remove_bundle(backend: &dyn Backend, dir: &Path) -> Result<(), ModelError> {
    if !is(backend, dir, Kind::Directory)? {
        return Ok(());
    }
    // The manifest first: without it the directory is not a bundle.
    let new = [MANIFEST_NEW, QUERY_ENCODER_NEW];
    let own = [MANIFEST_FILE, REPORT_FILE, ENCODER_FILE, INDEXER_FILE];
    let modules = module_folders(backend, dir)?;
    let in_modules =
        modules.iter().flat_map(|folder| files::MODULE_FILES.map(|file| format!("{folder}/{file}")));
    let own = own.into_iter().chain(new).chain(CARRIED_FILES).map(str::to_owned).chain(in_modules);
    for name in own.chain(query_encoder_files(backend, dir)?) {
        let path = dir.join(name);
        // A link may point outside the directory.
        let is_own = path.parent().map_or(Ok(false), |folder| is(backend, folder, Kind::Directory))?;
        if is_own && is(backend, &path, Kind::File)? {
            backend.remove(&path).map_err(|e| ModelError::io("remove", &path, e))?;
        }
    }
    let folders: Vec<_> = modules.iter().map(|folder| dir.join(folder)).collect();
    folders.iter().map(|folder| folder.as_path()).chain([dir]).try_for_each(|folder| {
        const LEFT: [ErrorKind; 3] =
            [ErrorKind::NotFound, ErrorKind::DirectoryNotEmpty, ErrorKind::NotADirectory];
        match backend.remove_directory(folder) {
            Err(e) if !LEFT.contains(&e.kind()) => Err(ModelError::io("remove", folder, e)),
            _ => Ok(()),
        }
    })
}

/// Folders of modules in a directory.
pub(super) fn module_folders(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>, ModelError> {
    names(backend, dir, |name| files::module_kind(name).is_some())
}

/// Names of the files of query encoders in a directory, in use or not.
pub(super) fn query_encoder_files(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>, ModelError> {
    names(backend, dir, QueryEncoderEntry::is_file_name)
}

fn names(
    backend: &dyn Backend,
    dir: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>, ModelError> {
    let names = backend.list(dir).map_err(|e| ModelError::io("read", dir, e))?;
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| is_wanted(name)).collect())
}

pub(super) fn write(backend: &dyn Backend, path: &Path, content: &[u8]) -> Result<(), ModelError> {
    let write = || {
        let file = backend.open(path, OpenMode::Replace)?;
        file.write_at(content, 0)?;
        file.sync_all()
    };
    write().map_err(|e| ModelError::io("write", path, e))
}

fn is(backend: &dyn Backend, path: &Path, kind: Kind) -> Result<bool, ModelError> {
    let found = backend.kind(path).map_err(|e| ModelError::io("read", path, e))?;
    Ok(found == Some(kind))
}
