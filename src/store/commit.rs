//! The write path, in memory; `seal.rs` brings it to disk.

use std::sync::Arc;

use super::{
    Committed, Durability, JournalState, Result, Store, WriteBatch, Writer, batch::CheckedBatch,
    journal::Journal, state::State,
};

/// Memory that fresh documents may take before they are sealed without being asked for.
const SEAL_AT_BYTES: usize = 64 << 20;

impl Store {
    /// Makes the changes of `batch` visible together and returns what it did.
    ///
    /// Waits for other commits, never for readers. A batch that changes nothing leaves the
    /// generation as it is. Beyond some 64 MiB of documents that are in memory only, it also does
    /// what [`Store::flush`] does.
    ///
    /// # Durability
    ///
    /// A crash leaves the whole batch or nothing of it. It is sure to survive once
    /// [`Store::flush`] has returned, or at once with [`Durability::EveryBatch`].
    ///
    /// # Errors
    ///
    /// An input that cannot be stored is named before anything is changed. After a failed write (a full
    /// disk, say) the index is as before and the commit may be tried again; after a failed sync the
    /// handle answers [`StoreError::Poisoned`](super::StoreError::Poisoned).
    pub fn commit(&self, batch: WriteBatch) -> Result<Committed> {
        // Before the lock: encoding a large batch holds up nobody.
        let checked = batch.check(self.config())?;
        let mut writer = self.lock_writer()?;
        let before = self.state();
        let (after, applied) = before.apply(self.config().dim as usize, &checked)?;
        if after.generation == before.generation {
            return Ok(Committed::new(after.generation, applied));
        }
        let generation = after.generation;
        if self.options.durability == Durability::EveryBatch || after.fresh_bytes() > SEAL_AT_BYTES {
            // Visible once it is sealed, so that a failure leaves the index as it was.
            self.seal(&mut writer, &after)?;
        } else {
            if self.options.durability == Durability::OnFlush {
                self.write_down(&mut writer, &before, &checked)?;
            }
            self.publish(after);
        }
        Ok(Committed::new(generation, applied))
    }

    /// Adds a commit to the journal.
    fn write_down(&self, writer: &mut Writer, before: &Arc<State>, checked: &CheckedBatch) -> Result<()> {
        if matches!(writer.journal, JournalState::Broken) {
            // What the journal lacks has to be sealed before it can go on.
            self.seal(writer, before)?;
        }
        if matches!(writer.journal, JournalState::None) {
            let base = before.generation;
            writer.journal = JournalState::Open(Journal::begin(&self.dir, self.store_id, base)?);
        }
        let JournalState::Open(journal) = &mut writer.journal else {
            return Ok(());
        };
        let added = journal.add(checked);
        if added.is_err() {
            writer.journal = JournalState::Broken;
        }
        added
    }
}
