//! An index on disk: its sizes ([`StoreStats`]), what a check or a repair found ([`VerifyReport`],
//! [`RepairReport`]), what its owner should know ([`Notice`]), and what can go wrong ([`StoreError`]).

// The store answers: what is stored, and what will still be there after a crash?
//
// # What is where
//
// `MANIFEST` names the sealed files of the newest durable generation: segments of documents with their
// embeddings in the order of their leaves (`segment`), and which of their rows are dead
// (`tombstones`). Sealed files never change (`sealed`). What was committed since is in memory
// (`memtable`) and in a log (`log`), which the next handle reads after the end of this one. Every byte
// is described in `docs/format.md`.
//
// # A generation
//
// Each commit makes one: an immutable list of parts, segments and memtables (`version`), which readers
// take hold of and keep. So a reader sees one generation whole, and neither waits for the other.
//
// # What lasts
//
// Only `MANIFEST` decides. `flush` writes the memtables into a new segment and renames a new manifest
// into place, which is the commit point; the order of its steps is at the head of `seal.rs`. A power
// failure before it leaves the last flushed generation, and nothing that was written for it had been
// touched. What was committed since is in the log and nowhere else on disk, so a log that is damaged before
// a whole commit is an error, which only a repair mends.
//
// # Who reads what
//
// One handle writes, under `LOCK`. Read-only handles, in any number of processes, read manifests and
// sealed files, so they see flushed generations; what they have mapped stays readable when the
// writer removes it.

mod batch;
mod clear;
mod commit;
mod difference;
mod error;
pub(crate) mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
#[path = "../../fuzz/inside/store.rs"]
pub mod fuzzing;
mod health;
mod holder;
mod layout;
mod lock;
mod log;
mod manifest;
mod memtable;
mod notice;
mod open;
mod part;
mod payload;
mod recovery;
mod repair;
mod repair_log;
mod repair_report;
mod reroute;
mod reserve;
mod salvage;
mod seal;
mod sealed;
mod segment;
mod snapshot;
mod stats;
mod terms;
#[cfg(test)]
mod tests;
mod tombstones;
mod verify;
mod verify_codes;
mod verify_files;
mod version;
mod view;
mod walk;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

pub(crate) use batch::check_document;
pub(crate) use batch::{Committed, Put, PutRow, WriteBatch};
pub(crate) use clear::clear_store;
pub(crate) use difference::Difference;
pub(crate) use error::Result;
pub use error::{Damage, Operation, StoreError};
pub use holder::LockHolder;
pub(crate) use layout::FORMAT_VERSION;
pub(crate) use lock::DirectoryLock;
pub(crate) use manifest::StoreConfig;
pub(crate) use manifest::{check_version, unique_id};
pub use notice::{Entries, Notice};
pub use repair::Undecided;
pub(crate) use repair::{Anew, Repair};
pub use repair_report::RepairReport;
pub(crate) use seal::Tick;
pub(crate) use stats::bytes_below;
pub use stats::{EncodedBy, LeafSize, StoreBytes, StoreStats};
pub(crate) use terms::{Lexer, LexerError, Lexers, SharedLexer, Terms};
pub use verify::{Problem, VerifyReport};
pub(crate) use view::{Run, TermPart, View};

pub use crate::ids::Row;

use crate::disk::{Backend, Identity};
use health::Health;
use log::Log;
use manifest::{Manifest, StoreId};
use reserve::Reserve;
use version::Version;

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing is synced: a power failure may lose or damage the index. For indexes that can be made
    /// again, and faster there.
    None,
    /// What was committed before [`Index::flush`](crate::Index::flush) returned survives a power failure.
    /// What came after it survives the end of the process.
    #[default]
    OnFlush,
    /// Every commit survives a power failure once it has returned. Read-only handles see it after the next
    /// flush.
    EveryBatch,
}

/// How a handle behaves; not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct StoreOptions {
    /// What survives what.
    pub durability: Durability,
    /// How long to wait for another handle or process to give the directory back.
    pub lock_wait: Duration,
    /// Seals no codes beside the embeddings.
    pub without_codes: bool,
}

/// An open index directory.
///
/// One handle writes it at a time, in all processes; threads share the handle. Readers and the
/// writer never wait for each other.
///
/// # Durability
///
/// Dropping it flushes; a failure of that is logged, so call [`Store::flush`] where it matters.
pub(crate) struct Store {
    dir: PathBuf,
    config: StoreConfig,
    store_id: StoreId,
    backend: Arc<dyn Backend>,
    options: StoreOptions,
    /// What the terms of rows are; see [`StoreConfig::terms`].
    terms: AtomicU8,
    /// How texts are taken apart into terms, by that code; given once by who opened the store.
    lexers: OnceLock<Lexers>,
    health: Health,
    /// What was found when it was opened.
    notices: Vec<Notice>,
    /// Serialises commits and flushes.
    writer: Mutex<Writer>,
    /// Held for as long as it takes to copy or replace the pointer.
    state: RwLock<Arc<Version>>,
    /// None for a read-only handle. Last, so that it is given back when all else is closed.
    lock: Option<DirectoryLock>,
}

/// What only the writer uses.
struct Writer {
    /// The one on disk.
    manifest: Manifest,
    /// The file that it was written as; another one in its place is not this handle's.
    left: Option<Identity>,
    /// Live documents of the generation on disk.
    durable: u64,
    /// `None` until the first commit after a flush.
    log: Option<Log>,
    reserve: Reserve,
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

    /// Tells this store and its snapshots from all others: 32 hexadecimal digits.
    pub fn id(&self) -> String {
        self.store_id.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether the handle cannot write.
    pub fn is_read_only(&self) -> bool {
        self.lock.is_none()
    }

    /// A view of the newest generation. Never waits for a writer.
    pub fn read(&self) -> View {
        let lexer = self.is_lexical().then(|| self.lexer()).flatten();
        View { state: self.state(), lexer }
    }

    /// Says how texts are taken apart into terms; a second call changes nothing.
    pub fn set_lexers(&self, lexers: Lexers) {
        let _ = self.lexers.set(lexers);
    }

    fn lexer(&self) -> Option<SharedLexer> {
        self.lexer_of(self.terms())
    }

    /// How texts are taken apart into terms of a kind.
    fn lexer_of(&self, terms: u8) -> Option<SharedLexer> {
        self.lexers.get().map_or_else(terms::of_tests, |lexers| lexers(terms))
    }

    /// What the terms of rows are; 0 where they have no posting lists of terms.
    pub fn terms(&self) -> u8 {
        self.terms.load(Ordering::Acquire)
    }

    /// Whether rows have posting lists of terms.
    pub fn is_lexical(&self) -> bool {
        self.terms() != 0
    }

    fn manifest(&self) -> Manifest {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).manifest.clone()
    }

    fn state(&self) -> Arc<Version> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, state: Version) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }

    /// The writer's part, where the handle may write.
    fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.dir.clone() });
        }
        // Before the mutex, which a fork may have copied while it was held.
        self.check_process()?;
        // A panic while the lock was held left the state as it was: it is replaced last.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.health.check_writes()?;
        self.health.refuse_if_replaced(self.lock.as_ref().map_or(Ok(()), DirectoryLock::check))?;
        Ok(writer)
    }

    /// An error in a forked child of the process that opened the handle for writing.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), DirectoryLock::check_process)
    }

    /// What was found when the handle was opened, and its owner should know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_read_only() {
            return;
        }
        match self.flush() {
            // Said when it happened. A forked child has nothing to close.
            Ok(()) | Err(StoreError::Poisoned | StoreError::Replaced { .. } | StoreError::Forked) => {}
            Err(error) => {
                tracing::error!(
                    index = %self.dir.display(), %error,
                    "flush on close failed; what was not flushed waits in the log"
                );
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
    shared_by_threads::<View>();
    shared_by_threads::<StoreError>();
};
