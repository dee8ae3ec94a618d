//! The index of a server, opened for writing, or for reading while others write.

use std::error::Error;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ehi::{Index, IndexBuilder};

use crate::failure::Failure;
use crate::opening::{PrecisionArgs, WaitArgs};
use crate::printing;

pub struct HeldIndex {
    /// As given by the user: another index may take its place.
    path: PathBuf,
    /// Options for opening the index read-only.
    to_read: IndexBuilder,
    index: RwLock<Arc<Index>>,
    /// The directory of an index that is open for writing: no other directory has its inode meanwhile.
    directory: Option<File>,
}

impl HeldIndex {
    /// # Errors
    /// Errors of opening the index.
    pub fn open(
        path: &Path,
        precision: &PrecisionArgs,
        to_write: Option<&WaitArgs>,
        lazy_encoder: bool,
    ) -> Result<Self, Failure> {
        let to_read = precision.of(Index::builder().lazy_encoder(lazy_encoder));
        let index = match to_write {
            Some(wait) => precision.of(wait.builder()).lazy_encoder(lazy_encoder).open(path)?,
            None => to_read.clone().open_read_only(path)?,
        };
        let directory = to_write.map(|_| File::open(index.path()));
        let directory = directory.transpose().map_err(Failure::file("open", path))?;
        Ok(Self { path: path.to_owned(), to_read, index: RwLock::new(Arc::new(index)), directory })
    }

    /// The index at its newest state. A call uses it until it ends.
    ///
    /// # Errors
    /// The index can be neither refreshed nor opened again. For writing: the index is no longer in its place;
    /// only a new start of the program can take the lock of another one.
    pub fn index(&self) -> Result<Arc<Index>, Failure> {
        self.check_place()?;
        let index = self.now();
        match index.refresh() {
            Ok(_) => Ok(index),
            // Another index may have taken its place.
            Err(error) => match self.to_read.clone().open_read_only(&self.path) {
                Ok(other) => {
                    tracing::warn!(%error, "another index is there; it is read from now on");
                    let other = Arc::new(other);
                    *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&other);
                    Ok(other)
                }
                Err(_) => Err(self.gone(&error)),
            },
        }
    }

    /// The index in its current state, without a refresh.
    pub fn now(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the index is open for writing.
    pub fn writes(&self) -> bool {
        self.directory.is_some()
    }

    /// The name of the index's folder, for display.
    #[cfg(feature = "mcp")]
    pub fn name(&self) -> String {
        let path = self.now().path().to_owned();
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Flushes all writes.
    ///
    /// # Errors
    /// [`Failure::Unflushed`], or the index is no longer in its place.
    #[cfg(feature = "mcp")]
    pub fn finish(&self) -> Result<(), Failure> {
        let index = self.now();
        if index.is_read_only() {
            return Ok(());
        }
        let Err(source) = index.flush() else { return Ok(()) };
        // Unflushed documents cannot be counted then; each call has already reported its own.
        self.check_place()?;
        let waiting = index.stats().map_or(0, |stats| stats.memtable_documents);
        Err(Failure::Unflushed { waiting, source: Box::new(source), before: None })
    }

    /// A writing handle has the newest state; only a failed write would show it that its directory is gone or
    /// was replaced.
    fn check_place(&self) -> Result<(), Failure> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let metadata = |of: io::Result<Metadata>| of.map_err(|error| self.gone(&error));
        let there = metadata(fs::metadata(self.now().path()))?;
        let own = metadata(directory.metadata())?;
        if (there.dev(), there.ino()) == (own.dev(), own.ino()) {
            return Ok(());
        }
        Err(Failure::Gone(format!(
            "the index in {} was replaced by another: start the server again to use that one",
            printing::path(&self.path)
        )))
    }

    fn gone(&self, error: &dyn Error) -> Failure {
        Failure::Gone(format!(
            "the index in {} is gone or cannot be read ({error}): put it back, or start the server again once \
             there is one",
            printing::path(&self.path)
        ))
    }
}
