//! The index that a session is about: for reading as others write it, or for writing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ehi::{Error, Index};

use super::Args;
use crate::failure::Failure;
use crate::precision::PrecisionArgs;

pub struct Held {
    /// As it was given: what is there may be replaced.
    path: PathBuf,
    precision: PrecisionArgs,
    index: RwLock<Arc<Index>>,
}

impl Held {
    /// # Errors
    /// Those of opening the index.
    pub fn open(args: &Args) -> Result<Self, Error> {
        let index = match args.write {
            true => args.precision.of(args.wait.builder()).open(&args.index)?,
            false => read(&args.index, &args.precision)?,
        };
        let (path, precision) = (args.index.clone(), args.precision.clone());
        Ok(Self { path, precision, index: RwLock::new(Arc::new(index)) })
    }

    /// The index as of now, which a call keeps to its end.
    ///
    /// # Errors
    /// Those of refreshing it, where it cannot be opened again either.
    pub fn index(&self) -> Result<Arc<Index>, Error> {
        let index = self.current();
        match index.refresh() {
            Ok(_) => Ok(index),
            // Another one may be in its place.
            Err(error) => match read(&self.path, &self.precision) {
                Ok(other) => {
                    tracing::warn!(%error, "another index is there; it is read from now on");
                    let other = Arc::new(other);
                    *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&other);
                    Ok(other)
                }
                Err(_) => Err(error),
            },
        }
    }

    /// Whether the tools that write are offered.
    pub fn writes(&self) -> bool {
        !self.current().is_read_only()
    }

    /// The name of its folder, for people.
    pub fn name(&self) -> String {
        let path = self.current().path().to_owned();
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Makes what was written last.
    ///
    /// # Errors
    /// [`Failure::Unflushed`].
    pub fn finish(&self) -> Result<(), Failure> {
        let index = self.current();
        if index.is_read_only() {
            return Ok(());
        }
        index.flush().map_err(|source| {
            let waiting = index.stats().map_or(0, |stats| stats.memtable_documents);
            Failure::Unflushed { waiting, source: Box::new(source), before: None }
        })
    }

    fn current(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(path: &Path, precision: &PrecisionArgs) -> Result<Index, Error> {
    precision.of(Index::builder().lazy_encoder(true)).open_read_only(path)
}
