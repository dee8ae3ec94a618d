//! The write path, in memory and in the log; `seal.rs` writes segments.

use super::{
    Committed, Durability, Result, Store, StoreError, WriteBatch, Writer,
    batch::CheckedBatch,
    layout::log::MOST_COMMIT_BYTES,
    log::{self, Log, LogPlace, Room},
    version::Version,
    view::View,
};

/// Size of documents in memory, and of a log, beyond which a commit seals them.
const SEAL_AT_BYTES: usize = 64 << 20;

impl Store {
    /// Makes the changes of `batch` visible together and returns the result.
    ///
    /// Waits for other commits, never for readers. A batch that changes nothing keeps the generation. If more
    /// than about 64 MiB of documents are only in memory, it also does what [`Store::flush`] does.
    ///
    /// # Durability
    ///
    /// A crash leaves the whole batch or nothing of it. Once this has returned, the batch survives the end of
    /// the process, and with [`Durability::EveryBatch`] a power failure; otherwise it survives a power
    /// failure once [`Store::flush`] has returned.
    ///
    /// # Errors
    ///
    /// An input that cannot be stored is reported before anything is changed. After a failed write (such as a
    /// full disk), the index is as before and the commit may be retried; after a failed sync, the handle
    /// returns [`StoreError::Poisoned`], and the commit may or may not be there when the index is opened
    /// again.
    pub fn commit(&self, batch: WriteBatch) -> Result<Committed> {
        // Before the lock: encoding a large batch blocks nobody.
        let checked = batch.check(self.config())?;
        let commit = self.encoded(&checked);
        let mut writer = self.lock_writer()?;
        self.commit_checked(&mut writer, &checked, commit)
    }

    /// As [`Store::commit`], if `holds` of the newest generation; no other commit comes between. Otherwise
    /// returns `None` with nothing changed.
    ///
    /// # Errors
    ///
    /// Those of `holds` and of [`Store::commit`].
    pub fn commit_if<E: From<StoreError>>(
        &self,
        batch: WriteBatch,
        holds: impl FnOnce(&View) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Option<Committed>, E> {
        let checked = batch.check(self.config())?;
        let commit = self.encoded(&checked);
        let mut writer = self.lock_writer()?;
        match holds(&self.read())? {
            true => Ok(Some(self.commit_checked(&mut writer, &checked, commit)?)),
            false => Ok(None),
        }
    }

    /// Deletes the documents that `find` names in one commit. No other commit comes between.
    ///
    /// # Durability
    ///
    /// As [`Store::commit`].
    ///
    /// # Errors
    ///
    /// Those of `find` and of [`Store::commit`]; then nothing is deleted.
    pub fn delete_found<E: From<StoreError>>(
        &self,
        find: impl FnOnce(&View) -> std::result::Result<Vec<String>, E>,
    ) -> std::result::Result<Committed, E> {
        let mut writer = self.lock_writer()?;
        let deletes = find(&self.read())?;
        let checked = WriteBatch { puts: Vec::new(), deletes }.check(self.config())?;
        let commit = self.encoded(&checked);
        Ok(self.commit_checked(&mut writer, &checked, commit)?)
    }

    /// The bytes of a commit for the log; `None` without a log.
    fn encoded(&self, checked: &CheckedBatch) -> Option<Vec<u8>> {
        (self.options.durability != Durability::None)
            .then(|| log::encode(checked, self.config().passages.is_some()))
    }

    fn commit_checked(
        &self,
        writer: &mut Writer,
        checked: &CheckedBatch,
        commit: Option<Vec<u8>>,
    ) -> Result<Committed> {
        let before = self.state();
        let (after, committed) = before.apply(self.config(), checked)?;
        if after.generation == before.generation {
            return Ok(committed);
        }
        let logged = writer.log.as_ref().map_or(0, Log::bytes);
        let bytes = commit.as_ref().map_or(0, Vec::len) as u64;
        let large = after.memtable_bytes() > SEAL_AT_BYTES
            || bytes > MOST_COMMIT_BYTES
            || logged + bytes > 2 * SEAL_AT_BYTES as u64;
        let done = if large {
            // Visible once sealed, so that a failure leaves the index as it was.
            self.seal(writer, &after)
        } else {
            let logged = match commit {
                Some(commit) => self.write_down(writer, &before, &after, checked, &commit),
                None => Ok(()),
            };
            logged.map(|()| self.publish(after))
        };
        done.map_err(|error| self.with_numbers(writer, error, checked.puts.len()))?;
        Ok(committed)
    }

    /// Adds to a failed write what happened to the documents.
    pub(super) fn with_numbers(&self, writer: &Writer, error: StoreError, refused: usize) -> StoreError {
        if !matches!(error, StoreError::Io { .. }) || self.health.check_writes().is_err() {
            return error;
        }
        let state = self.state();
        let (live, memtable) = (u64::from(state.live), state.memtable_documents());
        let (durable, recoverable) = match self.options.durability {
            Durability::None => (0, 0),
            Durability::OnFlush => (writer.durable, memtable),
            Durability::EveryBatch => (live, 0),
        };
        StoreError::NotStored { source: Box::new(error), refused: refused as u64, durable, recoverable }
    }

    /// Adds a commit to the log.
    fn write_down(
        &self,
        writer: &mut Writer,
        before: &Version,
        after: &Version,
        checked: &CheckedBatch,
        commit: &[u8],
    ) -> Result<()> {
        let backend = &*self.backend;
        // A batch that only deletes frees space once it is flushed, so it may use the last of it.
        let room = if checked.puts.is_empty() { Room::Last } else { Room::Ordinary };
        match writer.reserve.ensure(backend, after) {
            Err(error) if room == Room::Ordinary => return Err(error),
            _ => {}
        }
        if writer.log.is_none() {
            let place = LogPlace { store_id: self.store_id, base: before.generation };
            let name = log::name(place.base);
            let made = match Log::create(backend, &self.dir, &name, place) {
                Err(_) if room == Room::Last => {
                    writer.reserve.release();
                    Log::create(backend, &self.dir, &name, place)
                }
                made => made,
            };
            writer.log = Some(made?);
        }
        let Some(log) = &mut writer.log else { return Err(StoreError::Poisoned) };
        self.health.note(log.check(backend))?;
        let added = match log.append(commit, room) {
            Err(StoreError::Io { operation: super::Operation::Grow, .. }) if room == Room::Last => {
                writer.reserve.release();
                log.append(commit, room)
            }
            added => added,
        };
        self.health.note(added)?;
        match self.options.durability {
            Durability::EveryBatch => self.health.note(log.sync(backend)),
            _ => Ok(()),
        }
    }
}
