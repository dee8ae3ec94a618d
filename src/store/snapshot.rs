//! Copies of an index that share its sealed files.

use std::path::Path;

use super::{
    Result, Store, StoreError,
    error::{Damage, Operation},
    files,
    layout::names,
    manifest::Manifest,
};

/// How often a reader begins again when the writer has removed what was to be shared.
const ATTEMPTS: usize = 16;

impl Store {
    /// Makes `target`, which must be missing or without files of ours, an index with the documents of the
    /// newest generation: what was committed before the call, flushed first; of a read-only handle, what it
    /// shows, or, where the writer has removed that, the newest generation, to which the handle moves.
    ///
    /// Sealed files never change, so they get second names and take no room; across file systems they are
    /// copied. Readers go on; writers wait, which is short but for copies. The last step is the manifest: a
    /// call that is cut off leaves no index.
    ///
    /// # Durability
    ///
    /// It lasts once this has returned.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyExists`], and failures of the file system.
    pub fn snapshot(&self, target: &Path) -> Result<()> {
        if self.is_read_only() {
            let mut attempt = 0;
            loop {
                let manifest = self.manifest();
                attempt += 1;
                match self.share(&manifest, target) {
                    Err(StoreError::Corrupt { detail: Damage::Missing { .. }, .. })
                        if attempt < ATTEMPTS && self.refresh()? =>
                    {
                        self.unshare(&manifest, target);
                    }
                    shared => return shared,
                }
            }
        }
        let mut writer = self.lock_writer()?;
        if !self.is_sealed(&writer) {
            self.seal(&mut writer, &self.state())?;
        }
        // While the lock is held nothing that it names is removed.
        self.share(&writer.manifest, target)
    }

    fn share(&self, manifest: &Manifest, target: &Path) -> Result<()> {
        let backend = &*self.backend;
        let segments = target.join(names::SEGMENTS);
        for folder in [&segments, &target.join(names::LOG)] {
            files::create_directory(backend, folder)?;
        }
        for name in [names::MANIFEST, names::MANIFEST_NEW] {
            let path = target.join(name);
            if path.exists() {
                return Err(StoreError::AlreadyExists { path });
            }
        }
        // Without documents until the files are there.
        Manifest { segments: Vec::new(), ..manifest.clone() }.write_provisional(backend, target)?;
        files::sync(backend, target)?;
        for name in manifest.files() {
            let to = target.join(&name);
            backend.link(&self.dir.join(&name), &to).map_err(|source| match source.kind() {
                std::io::ErrorKind::NotFound => {
                    StoreError::corrupt(name, Damage::Missing { what: "the file" })
                }
                std::io::ErrorKind::AlreadyExists => StoreError::AlreadyExists { path: to },
                _ => StoreError::io(to, Operation::Create)(source),
            })?;
        }
        files::sync(backend, &segments)?;
        manifest.write_provisional(backend, target)?;
        Manifest::publish(backend, target)?;
        manifest.write_copy(backend, target);
        files::sync_parent(backend, target);
        Ok(())
    }

    /// Removes what a call that found a file missing has made.
    fn unshare(&self, manifest: &Manifest, target: &Path) {
        for name in manifest.files().chain([names::MANIFEST_NEW.to_owned()]) {
            // Missing ones were not made yet.
            let _ = self.backend.remove(&target.join(name));
        }
    }
}
