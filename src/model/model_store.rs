//! The folder that has each large file of a user's models once.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::ModelError;
use super::files;
use crate::disk::{Backend, Kind};

/// A link to a smaller file would save little.
const LARGE: u64 = 1 << 20;
/// Of the names of its files.
const PREFIX: &str = "ehi-";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Large files of models, read-only, to which indexes have hard links: `ehi-` and the SHA-256.
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
        // A later change of the working directory must not matter.
        let dir = dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir));
        dir.map(|dir| Self { dir, least: LARGE, unused: DAY })
    }

    /// One for tests, whose models are small: with files of at least so many bytes.
    #[cfg(test)]
    pub(crate) fn of_small_files(dir: PathBuf, least: u64, unused: Duration) -> Self {
        Self { dir, least, unused }
    }

    /// Gives the content of `source` a name at `target`, which is missing: a hard link. The caller makes the
    /// name durable.
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
        let kept = self.dir.join(format!("{PREFIX}{sha256}"));
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

    /// Whether a file is there and sound. A damaged one is removed.
    fn has(&self, kept: &Path, sha256: &str) -> bool {
        let Ok(found) = fs::symlink_metadata(kept) else { return false };
        if found.is_file() && files::digest_of_any_size(kept).is_ok_and(|digest| digest == sha256) {
            return true;
        }
        tracing::warn!(path = %kept.display(), "a damaged file of a model is replaced");
        // If that fails, adding says why.
        let _ = fs::remove_file(kept);
        false
    }

    fn add(&self, source: &Path, sha256: &str, kept: &Path) -> Result<(), ModelError> {
        let io = |operation| move |error| ModelError::io(operation, kept, error);
        fs::create_dir_all(&self.dir).map_err(|error| ModelError::io("create", &self.dir, error))?;
        self.remove_unused();
        // Process numbers may be the same in two containers that share the folder.
        let number = RandomState::new().build_hasher().finish();
        let partial = self.dir.join(format!("{PREFIX}{sha256}.{number:016x}"));
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create_new(true).open(&partial).map_err(io("create"))?;
        let mut write = || {
            let (mut from, _) = files::open(source, files::WEIGHTS_BYTES)?;
            // Shares the blocks where the file system can.
            std::io::copy(&mut from, &mut file).map_err(|error| ModelError::io("copy", source, error))?;
            if files::digest_of_any_size(&partial)? != sha256 {
                files::check_digest(source, sha256)?;
                return Err(io("write")(ErrorKind::InvalidData.into()));
            }
            file.set_permissions(fs::Permissions::from_mode(0o444)).map_err(io("write"))?;
            file.sync_all().map_err(io("sync"))?;
            match fs::hard_link(&partial, kept) {
                // Another process was faster, and its file is the one to share.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                linked => linked.map_err(io("link"))?,
            }
            File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(io("sync"))
        };
        let written = write();
        let _ = fs::remove_file(&partial);
        written
    }

    /// Removes files that no index has had a link to for a time, and the remains of interrupted calls. A link
    /// that is made or removed sets the time of the last change.
    fn remove_unused(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let limit = (SystemTime::now() - self.unused).duration_since(SystemTime::UNIX_EPOCH);
        let limit = limit.map_or(0, |since| since.as_secs() as i64);
        for entry in entries.flatten() {
            let is_ours = entry.file_name().to_str().is_some_and(is_ours);
            let is_unused = |of: fs::Metadata| of.is_file() && of.nlink() == 1 && of.ctime() < limit;
            if is_ours && entry.metadata().is_ok_and(is_unused) {
                // The next call tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Whether links from the folder to a file are possible: both are on one file system.
    fn reaches(&self, target: &Path) -> bool {
        let device = |path: &Path| {
            let existing = path.ancestors().find(|above| above.exists());
            existing.and_then(|above| fs::metadata(above).ok()).map(|found| found.dev())
        };
        device(&self.dir) == target.parent().and_then(device)
    }
}

impl<'a> From<Option<&'a ModelStore>> for Sharing<'a> {
    fn from(store: Option<&'a ModelStore>) -> Self {
        store.map_or(Self::Nothing, Self::Store)
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
            Self::Store(store) if is_large(store.least) && is_digest(sha256) && store.reaches(target) => {
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

fn is_digest(sha256: &str) -> bool {
    sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a name is that of a file of a model store, complete or partial.
fn is_ours(name: &str) -> bool {
    let Some(name) = name.strip_prefix(PREFIX) else { return false };
    match name.split_once('.') {
        None => is_digest(name),
        Some((sha256, number)) => {
            is_digest(sha256) && number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
    }
}
