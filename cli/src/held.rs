//! The index of a server, opened for writing, or for reading while others write.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ehi::{Index, IndexBuilder};

use crate::failure::Failure;
use crate::opening::WaitArgs;
use crate::place::{Lost, Place};
use crate::precision::PrecisionArgs;
use crate::printing;

pub struct HeldIndex {
    /// As given by the user: another index may take its place.
    path: PathBuf,
    /// Options for opening the index read-only.
    to_read: IndexBuilder,
    index: RwLock<Arc<Index>>,
    /// Set if the index is open for writing.
    place: Option<Place>,
}

/// The reason why the index is gone.
pub struct Gone(pub String);

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Self {
        Self::Usage(gone.0)
    }
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
        let place = to_write.map(|_| Place::of(&index)).transpose()?;
        Ok(Self { path: path.to_owned(), to_read, index: RwLock::new(Arc::new(index)), place })
    }

    /// The index at its newest state. A call uses it until it ends.
    ///
    /// # Errors
    /// The index can be neither refreshed nor opened again. For writing: the index is no longer in its place;
    /// only a new start of the program can take the lock of another one.
    pub fn index(&self) -> Result<Arc<Index>, Gone> {
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
        self.place.is_some()
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

    fn check_place(&self) -> Result<(), Gone> {
        let Some(place) = &self.place else { return Ok(()) };
        place.check().map_err(|lost| match lost {
            Lost::Gone(error) => self.gone(&error),
            Lost::Replaced => Gone(format!(
                "the index in {} was replaced by another: start the server again to use that one",
                printing::path(&self.path)
            )),
        })
    }

    fn gone(&self, error: &dyn std::error::Error) -> Gone {
        Gone(format!(
            "the index in {} is gone or cannot be read ({error}): put it back, or start the server again once \
             there is one",
            printing::path(&self.path)
        ))
    }
}
