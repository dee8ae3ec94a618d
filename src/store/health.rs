//! Whether a handle may still be used after a failure.

use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Result, StoreError};

/// After a failed sync nobody knows what is on disk, and a second sync may report success
/// for pages the first one lost; so writes end there. Reading goes on: sealed files do not change.
#[derive(Debug, Default)]
pub(super) struct Health(AtomicBool);

impl Health {
    pub(super) fn check_writes(&self) -> Result<()> {
        if self.0.load(Ordering::Acquire) { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    pub(super) fn refuse_writes(&self) {
        self.0.store(true, Ordering::Release);
    }
}
