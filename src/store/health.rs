//! Whether a handle may still be used after a failure.

use std::sync::atomic::{AtomicU8, Ordering};

use super::error::{Result, StoreError};

const SOUND: u8 = 0;
const NO_WRITES: u8 = 1;
const NOTHING: u8 = 2;

/// After a failed sync nobody knows what is on disk, and a second sync may report success
/// for pages the first one lost; so writes end there. After a failed apply, nobody knows
/// what the database holds, so reads of it end as well.
#[derive(Debug, Default)]
pub(super) struct Health(AtomicU8);

impl Health {
    pub(super) fn check_writes(&self) -> Result<()> {
        self.check(SOUND)
    }

    pub(super) fn check_reads(&self) -> Result<()> {
        self.check(NO_WRITES)
    }

    pub(super) fn refuse_writes(&self) {
        self.0.fetch_max(NO_WRITES, Ordering::AcqRel);
    }

    pub(super) fn refuse_everything(&self) {
        self.0.store(NOTHING, Ordering::Release);
    }

    /// Takes back [`Self::refuse_everything`] after the step it guarded succeeded. Only
    /// for the writer, which checked that the handle was sound before.
    pub(super) fn restore(&self) {
        self.0.store(SOUND, Ordering::Release);
    }

    fn check(&self, worst: u8) -> Result<()> {
        if self.0.load(Ordering::Acquire) <= worst { Ok(()) } else { Err(StoreError::Poisoned) }
    }
}
