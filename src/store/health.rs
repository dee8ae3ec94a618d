//! Whether a handle may still be used after a failure.

use std::{path::PathBuf, sync::OnceLock};

use super::error::{Result, StoreError};

/// Why a handle refuses writes, if it does: the file that turned out to be a different one; or `None` after a
/// failed sync, when the state on disk is unknown, and a second sync may report success for pages that the
/// first one lost. The first reason is kept. Reading continues: sealed files do not change.
#[derive(Debug, Default)]
pub(super) struct Health(OnceLock<Option<PathBuf>>);

impl Health {
    pub(super) fn check_writes(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(None) => Err(StoreError::Poisoned),
            Some(Some(path)) => Err(StoreError::Replaced { path: path.clone() }),
        }
    }

    pub(super) fn refuse_writes(&self) {
        let _ = self.0.set(None);
    }

    /// Passes a result on. Refuses all further writes after a failed sync, or if the directory turned out to
    /// be a different one; other failures change nothing.
    pub(super) fn note<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Err(StoreError::Replaced { path }) => drop(self.0.set(Some(path.clone()))),
            Err(error) if error.is_failed_sync() => self.refuse_writes(),
            _ => {}
        }
        result
    }
}
