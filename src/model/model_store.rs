//! The folder that has each large file of a user's models once.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::error::ModelError;
use super::files;
use crate::disk::{Backend, Kind};

/// A link to a smaller file would save little.
const LARGE: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Large files of models, read-only and named by their SHA-256, to which indexes have hard links.
///
/// Nothing in an index refers to this folder: it may be removed at any time, and an index may be moved or
/// copied as if its files were its own.
#[derive(Clone, Debug)]
pub(crate) struct ModelStore {
    dir: PathBuf,
    /// Smaller files are copied.
    least: u64,
    /// How long a file stays that no index has a link to.
    unused: Duration,
}

/// How a copy of a bundle gets its large files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sharing<'a> {
    /// All files are copied.
    Nothing,
    /// The bundle is that of an index, whose files are never written again: the copy has links to them.
    Index,
    /// From this folder.
    Store(&'a ModelStore),
}

impl ModelStore {
    /// The folder `ehi/models` among the user's data, or that of the variable `EHI_MODELS`; `None` if that is
    /// empty, or if the user has no home.
    pub(crate) fn of_user() -> Option<Self> {
        let dir = match std::env::var_os("EHI_MODELS") {
            Some(dir) => Some(PathBuf::from(dir)).filter(|dir| !dir.as_os_str().is_empty()),
            None => dirs::data_dir().map(|data| data.join("ehi/models")),
        };
        dir.map(|dir| Self { dir, least: LARGE, unused: DAY })
    }

    /// One for tests, whose models are small: with files of at least so many bytes.
    #[cfg(test)]
    pub(crate) fn of_small_files(dir: PathBuf, least: u64, unused: Duration) -> Self {
        Self { dir, least, unused }
    }

    /// Gives the content of `source` a name at `target`, which is missing: a hard link, or a copy on another
    /// file system. The caller makes the name durable.
    ///
    /// # Errors
    /// [`ModelError::Checksum`] if `source` has another SHA-256; [`ModelError::Io`].
    fn link(
        &self,
        backend: &dyn Backend,
        source: &Path,
        sha256: &str,
        target: &Path,
    ) -> Result<(), ModelError> {
        let kept = self.dir.join(sha256);
        let mut again = true;
        loop {
            if !self.has(&kept, sha256) {
                self.add(source, sha256, &kept)?;
            }
            match backend.link(&kept, target) {
                // Another process has just removed it as unused.
                Err(error) if again && error.kind() == ErrorKind::NotFound => again = false,
                linked => return linked.map_err(|error| ModelError::io("link", target, error)),
            }
        }
    }

    fn has(&self, kept: &Path, sha256: &str) -> bool {
        if !fs::symlink_metadata(kept).is_ok_and(|found| found.is_file()) {
            return false;
        }
        let digest = files::digest_of_any_size(kept);
        let is_intact = digest.is_ok_and(|digest| digest == sha256);
        if !is_intact {
            tracing::warn!(path = %kept.display(), "a damaged file of a model is replaced");
        }
        is_intact
    }

    fn add(&self, source: &Path, sha256: &str, kept: &Path) -> Result<(), ModelError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let io = |operation| move |error| ModelError::io(operation, kept, error);
        fs::create_dir_all(&self.dir).map_err(|error| ModelError::io("create", &self.dir, error))?;
        self.remove_unused();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let partial = self.dir.join(format!("{sha256}.{}-{number}", std::process::id()));
        let write = || {
            // Shares the blocks where the file system can.
            fs::copy(source, &partial).map_err(|error| ModelError::io("copy", source, error))?;
            if files::digest_of_any_size(&partial)? != sha256 {
                return Err(ModelError::Checksum { path: source.to_owned() });
            }
            let file = OpenOptions::new().read(true).open(&partial).map_err(io("open"))?;
            file.set_permissions(fs::Permissions::from_mode(0o444)).map_err(io("write"))?;
            file.sync_all().map_err(io("sync"))?;
            fs::rename(&partial, kept).map_err(io("rename"))?;
            File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(io("sync"))
        };
        write().inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    /// Removes files that no index has had a link to for a time, and the remains of interrupted calls. A link
    /// that is made or removed sets the time of the last change.
    fn remove_unused(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let limit = (SystemTime::now() - self.unused).duration_since(SystemTime::UNIX_EPOCH);
        let limit = limit.map_or(0, |since| since.as_secs() as i64);
        for entry in entries.flatten() {
            let is_ours = entry.file_name().to_str().is_some_and(is_digest);
            let is_unused = |of: fs::Metadata| of.is_file() && of.nlink() == 1 && of.ctime() < limit;
            if is_ours && entry.metadata().is_ok_and(is_unused) {
                // The next call tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Sharing<'_> {
    /// Gives a large file a name in a copy of its bundle; `false` if the caller must copy it.
    ///
    /// A model store that cannot be used is not an error: the copy then has files of its own.
    ///
    /// # Errors
    /// [`ModelError::Checksum`], [`ModelError::Io`].
    pub(super) fn link(
        self,
        backend: &dyn Backend,
        source: &Path,
        sha256: &str,
        target: &Path,
    ) -> Result<bool, ModelError> {
        let is_large = |least| fs::metadata(source).is_ok_and(|found| found.len() >= least);
        match self {
            Self::Index if matches!(backend.kind(source), Ok(Some(Kind::File))) => {
                backend.link(source, target).map_err(|error| ModelError::io("link", target, error))?;
                Ok(true)
            }
            Self::Store(store) if is_large(store.least) && is_digest(sha256) => {
                match store.link(backend, source, sha256, target) {
                    Ok(()) => Ok(true),
                    Err(error @ ModelError::Checksum { .. }) => Err(error),
                    Err(error) => {
                        let path = store.dir.display();
                        tracing::warn!(%path, %error, "the index gets its own copy of the model");
                        Ok(false)
                    }
                }
            }
            _ => Ok(false),
        }
    }
}

/// Whether a name is a SHA-256 in hexadecimal digits, alone or before a dot.
fn is_digest(name: &str) -> bool {
    let digits = name.split_once('.').map_or(name, |(digits, _)| digits);
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
