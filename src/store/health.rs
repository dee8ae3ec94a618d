//! Whether a handle may still be used after a failure.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::error::{Result, StoreError};

/// Why a handle refuses writes. Reading goes on: sealed files do not change.
#[derive(Debug)]
enum Refusal {
    /// After a failed sync nobody knows what is on disk, and a second sync may report success for pages that
    /// the first one lost.
    Unknown,
    /// The directory is another one.
    Replaced(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<Refusal>>);

impl Health {
    pub(super) fn check_writes(&self) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(Refusal::Unknown) => Err(StoreError::Poisoned),
            Some(Refusal::Replaced(path)) => Err(StoreError::Replaced { path: path.clone() }),
        }
    }

    pub(super) fn refuse_writes(&self) {
        self.refuse(Refusal::Unknown);
    }

    /// Refuses writes for ever where the directory turned out to be another one.
    pub(super) fn refuse_if_replaced<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(StoreError::Replaced { path }) = &result {
            self.refuse(Refusal::Replaced(path.clone()));
        }
        result
    }

    /// The first reason stays.
    fn refuse(&self, why: Refusal) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}
