//! Copies of an index that share its sealed files.

use std::path::Path;

use super::{
    Result, Store, StoreError,
    error::{Damage, Operation},
    files,
    layout::names,
    manifest::Manifest,
};

/// How often a reader starts over when the writer has removed a file to be shared.
const ATTEMPTS: usize = 16;

impl Store {
    /// Makes `target`, which must be missing or contain none of our files, an index with the documents of the
    /// newest generation: all earlier commits, which are flushed first; for a read-only handle, what it shows
    /// or, if the writer has removed that, the newest generation, to which the handle moves.
    ///
    /// Sealed files never change, so they get second names and take no extra room; across file systems they
    /// are copied. Readers continue; writers wait, which is short unless files are copied. The manifest is
    /// written last: an interrupted call leaves no index.
    ///
    /// # Durability
    ///
    /// Durable once this has returned.
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
        // While the lock is held, none of the files that it names are removed.
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
            let name = name.to_string();
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

    /// Removes what a call made before it found a file missing.
    fn unshare(&self, manifest: &Manifest, target: &Path) {
        for name in manifest.files().map(|name| name.to_string()).chain([names::MANIFEST_NEW.to_owned()]) {
            // Missing files were not made yet.
            let _ = self.backend.remove(&target.join(name));
        }
    }
}
