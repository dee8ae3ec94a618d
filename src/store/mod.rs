//! Documents, embeddings and posting lists on disk.
//!
//! # Files
//!
//! A directory holds a `MANIFEST` (what the index is, fixed at creation), `vectors.f16`
//! (one row of embedding per document ever stored, only ever appended to) and `documents`
//! (a sled database with all else: documents, ids, posting lists, checksums and the
//! commit record). `FLUSHED` has the newest generation promised. `LOCK` is held for as long as a handle lives. Every byte is described
//! in `docs/format.md`.
//!
//! # The commit
//!
//! The commit record in the database says how many rows exist. It alone decides; rows
//! behind that count are garbage that nobody reads and the next commit overwrites.
//!
//! 1. The new rows are written behind the committed ones, by `pwrite`, never through a mapping.
//! 2. The vector file is synced.
//! 3. Only then *one* batch is applied to the database: documents, ids, text, posting
//!    lists, block checksums and the commit record that names the rows of step 1. The
//!    database may write a batch to disk at any moment from here on, which is why step 2
//!    has to be over before step 3 begins and not merely before step 5. This is the
//!    commit point: a crash before it leaves the old generation, after it the new one,
//!    never a part.
//! 4. The new generation is published to readers, together with step 3 under the write lock:
//!    a view sees the database and the memory of the same generation.
//! 5. `flush` writes out the database and syncs its log, after which the generation survives
//!    a power failure; then it notes that generation in `FLUSHED`. Until then a crash may
//!    fall back to an earlier generation, whole. A database that comes back older than
//!    `FLUSHED` says has lost what was promised and is refused.
//!
//! A failed write in step 1 changes nothing and may be tried again. A failed sync leaves
//! unknown what is on disk, so the handle refuses writes from then on; a failed step 3
//! leaves unknown what the database holds, so it refuses reads of documents as well.
//!
//! # Creation
//!
//! A manifest under a provisional name marks the directory; then all other files are made
//! and synced; then the manifest is renamed, which is the commit point. A directory with
//! the provisional manifest only was interrupted, holds nothing, and may be created again.

mod batch;
mod commit;
mod documents;
mod error;
mod flushed;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health;
mod io;
mod layout;
mod manifest;
mod mmap;
mod opening;
mod payload;
mod postings;
mod records;
mod state;
#[cfg(test)]
mod tests;
mod vectors;
mod verify;
mod view;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

pub(crate) use batch::check_id;
pub use batch::{Committed, Put, WriteBatch};
pub use error::{Damage, Operation, Result, StoreError};
pub use manifest::StoreConfig;
pub use verify::{Problem, VerifyReport};
pub use view::View;

use crate::ids::{Generation, LeafId};
use documents::Database;
use flushed::FlushedMark;
use health::Health;
use io::Backend;
use manifest::{Manifest, StoreId};
use state::State;
use vectors::{Tail, VectorFile};

/// File that makes a directory an index.
pub(crate) const MANIFEST_FILE: &str = layout::names::MANIFEST;
/// The same before it is published: its presence marks a create under way or interrupted.
pub(crate) const UNPUBLISHED_MANIFEST_FILE: &str = layout::names::MANIFEST_NEW;
/// File that the open handle holds locked.
pub(crate) const LOCK_FILE: &str = layout::names::LOCK;

/// An open index directory.
///
/// One handle has it at a time, in all processes; threads share the handle. Readers
/// never wait for the disk syncs of a writer, only for its last step.
///
/// # Durability
///
/// Dropping it flushes; a failure of that is logged, so call [`Store::flush`] where it matters.
pub struct Store {
    dir: PathBuf,
    config: StoreConfig,
    store_id: StoreId,
    backend: Arc<dyn Backend>,
    health: Health,
    /// Serialises commits and flushes. Taken before `state`, never after it.
    writer: Mutex<Writer>,
    state: RwLock<State>,
    database: Database,
    // Last, so that the lock is given back when everything else is closed.
    _lock: File,
}

/// What only the writer uses.
struct Writer {
    vectors: VectorFile,
    flushed: FlushedMark,
    tail: Tail,
    /// Whether something was applied since the last flush.
    dirty: bool,
}

/// Sizes and counts of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// The generation they are of.
    pub generation: Generation,
    /// Live documents.
    pub documents: u64,
    /// Rows of the vector file, dead ones included.
    pub rows: u64,
    /// Rows of deleted and replaced documents.
    pub dead_rows: u64,
    /// Bytes of the header and all rows of the vector file, without what is reserved.
    pub vector_bytes: u64,
    /// Bytes of the document database.
    pub document_bytes: u64,
    /// Bytes of both.
    pub total_bytes: u64,
    /// Number of live documents of each leaf that has any, ascending by leaf.
    pub leaf_sizes: Vec<(LeafId, usize)>,
    /// Blocks that the posting lists are stored in.
    pub posting_blocks: u64,
}

impl Store {
    /// What the index is.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The directory of the index.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A view of the newest generation. Waits for a commit in its last step, no longer.
    pub fn read(&self) -> View<'_> {
        View { store: self, state: self.read_state() }
    }

    /// Makes all commits so far durable.
    ///
    /// # Durability
    ///
    /// What was committed before survives a power failure once this has returned.
    ///
    /// # Errors
    ///
    /// A failed sync also poisons the handle: open the index again to find out what is there.
    pub fn flush(&self) -> Result<()> {
        let mut writer = self.lock_writer();
        self.health.check_writes()?;
        if writer.dirty {
            // Cannot move on meanwhile: only the writer publishes.
            let generation = self.read_state().generation;
            self.database
                .flush()
                .and_then(|()| writer.flushed.advance(generation))
                .inspect_err(|_| self.health.refuse_writes())?;
            writer.dirty = false;
        }
        Ok(())
    }

    /// Sizes and counts. Costs a walk over the leaves that are not empty.
    pub fn stats(&self) -> Result<StoreStats> {
        let state = self.read_state();
        let mut leaf_sizes: Vec<_> =
            state.leaves.iter().map(|(leaf, list)| (leaf, list.rows().len())).collect();
        leaf_sizes.sort_unstable();
        let stride = u64::from(self.config.dim) * layout::ELEMENT_BYTES as u64;
        let vector_bytes = layout::vectors::HEADER_BYTES as u64 + u64::from(state.rows) * stride;
        let document_bytes = self.database.size_bytes()?;
        Ok(StoreStats {
            generation: state.generation,
            documents: state.documents.into(),
            rows: state.rows.into(),
            dead_rows: (state.rows - state.documents).into(),
            vector_bytes,
            document_bytes,
            total_bytes: vector_bytes + document_bytes,
            leaf_sizes,
            posting_blocks: state.leaves.iter().map(|(_, list)| list.blocks() as u64).sum(),
        })
    }

    fn manifest(&self) -> Manifest {
        Manifest { config: self.config.clone(), store_id: self.store_id }
    }

    // A panic while one of the locks was held is of no further consequence: the writer
    // refuses everything before the step that such a panic could leave half done.

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        match self.flush() {
            Ok(()) => {}
            // Said when it happened.
            Err(StoreError::Poisoned) => {}
            Err(error) => {
                tracing::error!(index = %self.dir.display(), %error, "flush on close failed");
            }
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).field("config", &self.config).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Store>();
    shared_by_threads::<StoreError>();
};
