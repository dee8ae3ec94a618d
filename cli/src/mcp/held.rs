//! The index of a session: opened for reading while others write, or for writing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ehi::{Error, Index};

use crate::failure::Failure;
use crate::opening::WaitArgs;
use crate::place::{Lost, Place};
use crate::precision::PrecisionArgs;
use crate::printing;

pub struct Held {
    /// As given by the user: another index may take its place.
    path: PathBuf,
    precision: PrecisionArgs,
    index: RwLock<Arc<Index>>,
    /// Set if the index is open for writing.
    place: Option<Place>,
}

impl Held {
    /// # Errors
    /// Those of opening the index.
    pub fn open(
        path: &Path,
        precision: &PrecisionArgs,
        to_write: Option<&WaitArgs>,
    ) -> Result<Self, Failure> {
        let index = match to_write {
            Some(wait) => precision.of(wait.builder()).open(path)?,
            None => read(path, precision)?,
        };
        let place = to_write.map(|_| Place::of(&index)).transpose()?;
        let (path, precision) = (path.to_owned(), precision.clone());
        Ok(Self { path, precision, index: RwLock::new(Arc::new(index)), place })
    }

    /// The index at its newest state. A call uses it until it ends.
    ///
    /// # Errors
    /// The index can be neither refreshed nor opened again. For writing: the index is no longer in its place;
    /// only a new session can take the lock of another one.
    pub fn index(&self) -> Result<Arc<Index>, Failure> {
        self.check_place()?;
        let index = self.current();
        match index.refresh() {
            Ok(_) => Ok(index),
            // Another index may have taken its place.
            Err(error) => match read(&self.path, &self.precision) {
                Ok(other) => {
                    tracing::warn!(%error, "another index is there; it is read from now on");
                    let other = Arc::new(other);
                    *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&other);
                    Ok(other)
                }
                Err(_) => Err(error.into()),
            },
        }
    }

    /// Whether the tools that write are offered.
    pub fn writes(&self) -> bool {
        !self.current().is_read_only()
    }

    /// The name of the index's folder, for display.
    pub fn name(&self) -> String {
        let path = self.current().path().to_owned();
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Flushes what was written.
    ///
    /// # Errors
    /// [`Failure::Unflushed`], or the index is no longer in its place.
    pub fn finish(&self) -> Result<(), Failure> {
        let index = self.current();
        if index.is_read_only() {
            return Ok(());
        }
        let Err(source) = index.flush() else { return Ok(()) };
        // What waits cannot be counted then; each call has already reported what it stored.
        self.check_place()?;
        let waiting = index.stats().map_or(0, |stats| stats.memtable_documents);
        Err(Failure::Unflushed { waiting, source: Box::new(source), before: None })
    }

    fn check_place(&self) -> Result<(), Failure> {
        let Some(place) = &self.place else { return Ok(()) };
        let path = printing::path(&self.path);
        place.check().map_err(|lost| {
            Failure::Usage(match lost {
                Lost::Gone(error) => format!(
                    "the index in {path} is gone or cannot be read ({error}): put it back, or start the server \
                     again once there is one"
                ),
                Lost::Replaced => format!(
                    "the index in {path} was replaced by another: start the server again to use that one"
                ),
            })
        })
    }

    fn current(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(path: &Path, precision: &PrecisionArgs) -> Result<Index, Error> {
    precision.of(Index::builder().lazy_encoder(true)).open_read_only(path)
}
