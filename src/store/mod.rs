//! An index on disk: its sizes ([`StoreStats`]), the findings of a check or a repair ([`VerifyReport`],
//! [`RepairReport`]), notices for its owner ([`Notice`]), and errors ([`StoreError`]).

// The store answers: what is stored, and what survives a crash?
//
// # What is where
//
// `MANIFEST` names the sealed files of the newest durable generation: segments of documents with their
// embeddings in the order of their leaves (`segment`), and their dead rows (`tombstones`). Sealed files never
// change (`sealed`). Later commits are in memory (`memtable`) and in a log (`log`), which the next handle
// reads after this one has ended. `docs/format.md` describes every byte.
//
// # A generation
//
// Each commit creates a generation: an immutable list of parts, segments and memtables (`version`), which
// readers hold on to. So a reader sees one whole generation, and readers and the writer never wait for each
// other.
//
// # What lasts
//
// Only `MANIFEST` decides. `flush` writes the memtables into a new segment and renames a new manifest into
// place, which is the commit point; `seal.rs` lists its steps. A power failure before the commit point leaves
// the last flushed generation, whose files were not touched. Later commits are on disk only in the log, so a
// log that is damaged before a whole commit is an error, which only a repair fixes.
//
// # Who reads what
//
// One handle writes, under `LOCK`. Read-only handles, in any number of processes, read manifests and sealed
// files, so they see flushed generations; what they have mapped stays readable when the writer removes it.

mod batch;
mod clear;
mod commit;
mod config;
mod difference;
mod error;
mod expiry;
pub(crate) mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
#[path = "../../fuzz/inside/store.rs"]
pub mod fuzzing;
mod header;
mod health;
mod layout;
mod leaves;
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
mod rows;
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

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU8, Ordering},
    },
};

pub(crate) use batch::{Committed, Put, PutRow, WriteBatch};
pub(crate) use batch::{check_document, has_expired};
pub(crate) use clear::clear_store;
pub use config::Durability;
pub(crate) use config::{StoreConfig, StoreOptions};
pub(crate) use difference::DocumentDifference;
pub(crate) use error::Result;
pub use error::{Damage, LockHolder, Operation, StoreError};
pub(crate) use header::{check_version, unique_id};
pub(crate) use layout::FORMAT_VERSION;
pub(crate) use lock::DirectoryLock;
pub use notice::{Entries, Notice};
pub use repair::Undecided;
pub(crate) use repair::{Anew, Readable, Repair};
pub use repair_report::RepairReport;
pub(crate) use seal::Tick;
pub use stats::{EncodedBy, LeafSize, StoreBytes, StoreStats};
pub(crate) use stats::{bytes_below, shared_bytes_below};
pub(crate) use terms::{Lexer, LexerError, Lexers, SharedLexer, Terms};
pub use verify::{Problem, VerifyReport};
pub(crate) use view::{Run, TermPart, View, ViewMark};

pub use crate::ids::Row;

use crate::disk::{Backend, Identity};
use header::StoreId;
use health::Health;
use log::Log;
use manifest::Manifest;
use reserve::Reserve;
use sealed::SealedFolder;
use version::Version;

/// An open index directory.
///
/// One handle at a time, across all processes, writes it; threads share the handle. Readers and the writer
/// never wait for each other.
///
/// # Durability
///
/// Dropping it flushes; a failure of that is only logged, so call [`Store::flush`] if it matters.
pub(crate) struct Store {
    dir: PathBuf,
    config: StoreConfig,
    store_id: StoreId,
    backend: Arc<dyn Backend>,
    options: StoreOptions,
    /// The kind of terms; see [`StoreConfig::terms`].
    terms: AtomicU8,
    /// How texts are split into terms, by that code; set once by the code that opened the store.
    lexers: OnceLock<Lexers>,
    health: Health,
    /// Findings when it was opened.
    notices: Vec<Notice>,
    /// Serialises commits and flushes.
    writer: Mutex<Writer>,
    /// Held only to copy or replace the pointer.
    state: RwLock<Arc<Version>>,
    /// `None` for a read-only handle. Last, so that it is released after everything else is closed.
    lock: Option<DirectoryLock>,
}

/// State that only the writer uses.
struct Writer {
    /// The manifest on disk.
    manifest: Manifest,
    /// Identity of its file; a different file in its place does not belong to this handle.
    left: Option<Identity>,
    /// Live documents of the generation on disk.
    durable: u64,
    /// `None` until the first commit after a flush.
    log: Option<Log>,
    reserve: Reserve,
}

impl Store {
    /// The configuration of the index.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// The directory of the index.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Identifies this store and its snapshots: 32 hexadecimal digits.
    pub fn id(&self) -> String {
        header::text_of(self.store_id)
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

    /// Sets how texts are split into terms; a second call changes nothing.
    pub fn set_lexers(&self, lexers: Lexers) {
        let _ = self.lexers.set(lexers);
    }

    fn lexer(&self) -> Option<SharedLexer> {
        self.lexer_of(self.terms())
    }

    /// How texts are split into terms of a kind.
    fn lexer_of(&self, terms: u8) -> Option<SharedLexer> {
        self.lexers.get().map_or_else(terms::of_tests, |lexers| lexers(terms))
    }

    /// The kind of terms; 0 if rows have no posting lists of terms.
    pub fn terms(&self) -> u8 {
        self.terms.load(Ordering::Acquire)
    }

    /// Whether rows have posting lists of terms.
    pub fn is_lexical(&self) -> bool {
        self.terms() != 0
    }

    /// Where its sealed files are.
    fn folder(&self) -> SealedFolder<'_> {
        SealedFolder { backend: &*self.backend, dir: &self.dir, store_id: self.store_id }
    }

    fn manifest(&self) -> Manifest {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).manifest.clone()
    }

    /// The newest version, without the documents past their time.
    fn state(&self) -> Arc<Version> {
        let state = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner));
        if state.next_expiry == expiry::NEVER {
            return state;
        }
        let now = expiry::now();
        if now < state.next_expiry {
            return state;
        }
        let later = Arc::new(state.at(now));
        let mut current = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // Unless a commit came between, whose version expires in the same way.
        if Arc::ptr_eq(&current, &state) {
            *current = Arc::clone(&later);
        }
        later
    }

    fn publish(&self, state: Version) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }

    /// The writer's state, if the handle may write.
    fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.dir.clone() });
        }
        // Before the mutex, which a fork may have copied in the locked state.
        self.check_process()?;
        // A panic under the lock left the state as it was: it is replaced last.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.health.check_writes()?;
        self.health.note(self.lock.as_ref().map_or(Ok(()), DirectoryLock::check))?;
        Ok(writer)
    }

    /// Fails in a forked child of the process that opened the handle for writing.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), DirectoryLock::check_process)
    }

    /// Notices for the owner from when the handle was opened.
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
            // Already logged when it happened. A forked child has nothing to close.
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
