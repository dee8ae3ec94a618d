//! The index: documents, embeddings and tree behind one handle.

mod active_model;
mod analysis;
mod aside;
mod begun;
pub mod calibrate;
mod change;
mod documents;
pub mod explain;
#[cfg(feature = "eval")]
mod fit;
mod fusion;
pub mod health;
mod ingest;
mod insert;
mod judgment_store;
mod judgments;
mod leaf_changes;
pub mod leaves;
mod maintain;
mod matching;
mod measured;
mod measuring;
mod memory;
mod options;
mod private_pool;
mod query_encoder;
mod question_log;
mod question_vectors;
mod recall_curve;
mod remedy;
mod repair;
pub(crate) mod root;
mod routing_log;
mod scoped;
pub mod search;
mod shared_memory;
mod standing;
#[cfg(all(test, feature = "train"))]
mod tests;
mod vectors;
mod verify;
mod watched;
mod with_progress;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

pub use change::ModelChange;
#[cfg(feature = "eval")]
pub use fit::{FEWEST_FUSION_QUESTIONS, Fused};
#[cfg(feature = "train")]
pub(crate) use fit::{Near, Served, by_nearness, by_question};
pub use fusion::{LearnedFusion, LearnedMemory, MemoryByNearness};
pub use ingest::CutTexts;
pub use insert::{DocumentUpdate, InsertStatus, InsertSummary, RefusedDocument};
pub use judgments::Recorded;
#[cfg(feature = "train")]
pub(crate) use judgments::check_judgment;
pub use leaf_changes::{LeafChange, LeafChanges, LeafOrigin};
pub use options::IndexBuilder;
pub use question_log::{LoggedQuestion, MOST_LOG_BYTES};
pub use repair::RepairOptions;
#[cfg(feature = "fuzzing")]
pub use root::fuzz_current;
pub use scoped::Scoped;
pub use standing::Standing;
pub use with_progress::WithProgress;

#[cfg(feature = "eval")]
pub(crate) use search::{Asked, Plan, Words};
pub(crate) use vectors::unit;

pub(crate) use active_model::ActiveModel;
#[cfg(feature = "train")]
pub(crate) use change::WithoutText;

use crate::disk::{Backend, FileSystem};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::model::{Bundle, LoadOptions};
use crate::passages::Passages;
use crate::scan::Similarity;
use crate::store::{Committed, EncodedBy, Notice, Store, StoreError, WriteBatch};
use active_model::HandleOptions;
use root::Root;

/// How often a read-only handle retries finding the store in service after the writer has removed the one
/// that it was about to open.
const READ_ATTEMPTS: usize = 16;

/// An open index directory.
///
/// Shared by threads behind a reference or an [`Arc`](std::sync::Arc). One handle at a time, across all
/// processes, writes a directory; any number of handles read it ([`Self::open_read_only`]). Dropping it
/// flushes.
///
/// # Examples
/// ```no_run
/// use ehi::{Bundle, Document, Index};
///
/// let bundle = Bundle::open("models/scifact-minilm")?;
/// let index = Index::create("./my-index", &bundle)?;
/// index.insert(Document::new("id-1", "title", "text"))?;
/// for hit in &index.search("a question", 10, 8)? {
///     println!("{:.3} {} {}", hit.score, hit.id, hit.document.title);
/// }
/// index.flush()?;
/// # Ok::<(), ehi::Error>(())
/// ```
pub struct Index {
    /// Held only to copy or replace the pointer.
    serving: RwLock<Arc<ActiveModel>>,
    /// Writers share it; the last step of a change of model holds it exclusively.
    writing: RwLock<()>,
    /// Held by a change of model, or by a training that ends in one: one at a time.
    changing: Mutex<()>,
    /// The store of the judgments, once this handle has written to it.
    judgments: Mutex<Option<Arc<Store>>>,
    /// Learns weights when judgments have changed.
    #[cfg(feature = "eval")]
    fits: fit::Fits,
    options: HandleOptions,
    /// Whether a warning said that questions are not logged.
    warned_of_log: AtomicBool,
    /// Names the model in service, and holds the lock. Last, so that it is closed last.
    root: Root,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("path", &self.path())
            .field("model", &self.bundle().hash())
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Creates an empty index in `path` with its own copy of a trained bundle, and opens it.
    ///
    /// The directory is created if missing; it must be empty, or hold the remains of an interrupted create or
    /// snapshot, which are cleared.
    ///
    /// # Durability
    /// The empty index is durable once this has returned. A failed call removes what it made.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a directory with anything in it,
    /// [`StoreError::Locked`], and failures of the file system.
    pub fn create(path: impl AsRef<Path>, bundle: &Bundle) -> Result<Self> {
        Self::builder().create(path, bundle)
    }

    /// Opens the index in `path`, or creates an empty one if none exists.
    ///
    /// # Errors
    /// Those of [`Self::open`] and [`Self::create`]; [`InputError::ModelMismatch`](crate::InputError) if the
    /// existing index has another model in service.
    pub fn open_or_create(path: impl AsRef<Path>, bundle: &Bundle) -> Result<Self> {
        Self::builder().open_or_create(path, bundle)
    }

    /// Options for [`IndexBuilder::create`].
    pub fn builder() -> IndexBuilder {
        IndexBuilder::default()
    }

    /// As [`IndexBuilder::create`], with all durable operations through `backend`.
    pub(crate) fn create_on(
        backend: Arc<dyn Backend>,
        path: &Path,
        bundle: &Bundle,
        options: &IndexBuilder,
    ) -> Result<Self> {
        let handle = options.handle();
        let ranking = options.ranking_of_new(bundle)?;
        let build = |_: &Path, dir: &Path| {
            let (backend, number) = (Arc::clone(&backend), root::FIRST_MODEL);
            ActiveModel::create(backend, dir, number, bundle, handle.sharing(), ranking, &handle)
        };
        let (root, serving) = root::make(Arc::clone(&backend), path, handle.store.lock_wait, build)?;
        Ok(Self::new(root, serving, handle))
    }

    fn new(root: Root, serving: ActiveModel, options: HandleOptions) -> Self {
        Self {
            serving: RwLock::new(Arc::new(serving)),
            writing: RwLock::new(()),
            changing: Mutex::new(()),
            judgments: Mutex::new(None),
            #[cfg(feature = "eval")]
            fits: fit::Fits::default(),
            options,
            warned_of_log: AtomicBool::new(false),
            root,
        }
    }

    /// Opens an index.
    ///
    /// Reads the model into memory and maps the rest; checks format versions, dimensions and the model's
    /// hash. Pages are checked when first read. [`Self::verify`] checks everything.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`], [`StoreError::Corrupt`];
    /// [`ModelError`](crate::model::ModelError) for a damaged model;
    /// [`InputError::ModelMismatch`](crate::InputError::ModelMismatch) if the model folder holds another
    /// model than the one the index was made with.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Opens an index for reading, alongside a writer in this process or another.
    ///
    /// The handle sees the newest generation that the writer flushed; [`Self::refresh`] moves on to a later
    /// one. Any number of processes may read. What a handle has open stays readable whatever the writer does.
    ///
    /// # Errors
    /// Those of [`Self::open`] except [`StoreError::Locked`]. Writes return [`StoreError::ReadOnly`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open_read_only(path)
    }

    fn open_for_reading(path: &Path, options: &IndexBuilder) -> Result<Self> {
        let root = Root::open_read_only(Arc::new(FileSystem), path)?;
        let handle = options.handle();
        let serving = newest(&root, handle.load)?;
        options.check(&serving)?;
        Ok(Self::new(root, serving, handle))
    }

    /// As [`IndexBuilder::open`], with all durable operations through `backend`.
    pub(crate) fn open_on(backend: Arc<dyn Backend>, path: &Path, options: &IndexBuilder) -> Result<Self> {
        let handle = options.handle();
        let root = Root::open(backend, path, handle.store.lock_wait)?;
        let number = root.current().serving;
        let serving = ActiveModel::open(root.backend(), &root.model_dir(number), number, &handle)?;
        options.check(&serving)?;
        let index = Self::new(root, serving, handle);
        index.discard_begun();
        index.recover_judgments();
        Ok(index)
    }

    /// Moves a handle of [`Self::open_read_only`] to the newest flushed generation, even of another model;
    /// returns whether it moved.
    ///
    /// Costs a read of the manifest, and opening new segments. Searches in progress finish on the generation
    /// they began with.
    ///
    /// # Errors
    /// Those of [`Self::open_read_only`]; the handle then stays where it was.
    pub fn refresh(&self) -> Result<bool> {
        if !self.is_read_only() {
            return Ok(false);
        }
        let _only = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.serving();
        let current = || self.root.read().map(|current| current.serving);
        if before.number == current()?
            && let Ok(moved) = before.store.refresh()
            // During the refresh, the writer may have changed the model and started to change it back.
            && before.number == current()?
        {
            before.read_measured(&*self.root.backend());
            before.memory.refresh(|| self.judgments_for_reading());
            if let Err(error) = before.bundle.refresh_query_encoder() {
                tracing::warn!(path = %before.bundle.path().display(), %error, "query encoder kept as it was");
            }
            return Ok(moved);
        }
        let next = newest(&self.root, self.options.load)?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(true)
    }

    /// Notices for the owner of a sound index, from when this handle opened the model in service: commits
    /// waiting in the log, or recovered from it; measurements that are missing or cannot be used.
    pub fn notices(&self) -> Vec<Notice> {
        let serving = self.serving();
        let mut notices = serving.store.notices().to_vec();
        notices.extend(serving.notice.clone());
        notices.extend(self.notices_of_judgments());
        notices
    }

    /// Whether this handle was opened with [`Self::open_read_only`].
    pub fn is_read_only(&self) -> bool {
        self.root.is_read_only()
    }

    /// The index directory: an absolute path without links, however it was given.
    pub fn path(&self) -> &Path {
        self.root.dir()
    }

    /// The result of an operation whose failure does not matter beyond a warning.
    pub(crate) fn attempted<T, E: Display>(
        &self,
        outcome: std::result::Result<T, E>,
        failure: &str,
    ) -> Option<T> {
        outcome.inspect_err(|error| tracing::warn!(index = %self.path().display(), %error, "{failure}")).ok()
    }

    /// The model in service: the one the index was made with, or that of the last [`Self::reencode`].
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.serving().bundle)
    }

    /// How documents are ranked.
    pub fn similarity(&self) -> Similarity {
        self.serving().similarity
    }

    /// Live documents.
    pub fn len(&self) -> usize {
        self.serving().view().live()
    }

    /// How long the passages of documents are; `None` if a document is one row ([`IndexBuilder::passages`]).
    pub fn passages(&self) -> Option<Passages> {
        self.serving().passages()
    }

    /// The field by which documents expire; `None` if they do not ([`IndexBuilder::expires`]).
    pub fn expires(&self) -> Option<String> {
        self.serving().store.config().expires.clone()
    }

    /// Embeddings of live documents: one each, or one per passage.
    pub fn embeddings(&self) -> usize {
        self.serving().view().live_rows()
    }

    /// Whether the index has no live documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document with this id.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn get(&self, id: &str) -> Result<Option<Document>> {
        Ok(self.get_many([id])?.pop().flatten())
    }

    /// The documents with these ids, in their order, all of one generation.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn get_many(&self, ids: impl IntoIterator<Item: AsRef<str>>) -> Result<Vec<Option<Document>>> {
        let view = self.serving().view();
        let get = |id: &str| match view.row_of(id)? {
            Some(row) => Ok(Some(view.document(row)?)),
            None => Ok(None),
        };
        ids.into_iter().map(|id| get(id.as_ref())).collect()
    }

    /// Up to `limit` documents in byte order of their ids, starting after the id `after`, which need not
    /// exist.
    ///
    /// Pass the last id of a page as the next `after`; a page with fewer than `limit` documents is the last.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn page(&self, after: Option<&str>, limit: usize) -> Result<Vec<Document>> {
        Ok(self.serving().view().documents_from(after, limit)?)
    }

    /// Whether there is a document with this id.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.serving().view().contains(id)?)
    }

    /// Deletes a document; returns whether it existed.
    ///
    /// # Durability
    /// Gone from searches when this returns; durable after [`Self::flush`]. Its bytes stay in the files until
    /// those are merged, at the latest by [`Self::compact`].
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn delete(&self, id: &str) -> Result<bool> {
        Ok(self.delete_batch([id])? > 0)
    }

    /// Deletes the documents with these ids in one commit; returns how many existed. Unknown ids are ignored.
    ///
    /// # Durability
    /// As [`Self::delete`].
    ///
    /// # Errors
    /// Failures of the disk; then nothing is deleted.
    pub fn delete_batch(&self, ids: impl IntoIterator<Item: Into<String>>) -> Result<usize> {
        let deletes = ids.into_iter().map(Into::into).collect();
        let committed = self.write(|on| Ok(on.store.commit(WriteBatch { puts: Vec::new(), deletes })?))?;
        Ok(committed.deleted)
    }

    /// Makes everything stored so far durable.
    ///
    /// # Errors
    /// A failed sync; the handle refuses writes from then on.
    pub fn flush(&self) -> Result<()> {
        self.write(|on| Ok(on.store.flush()?))?;
        self.flush_judgments()
    }

    pub(crate) fn serving(&self) -> Arc<ActiveModel> {
        Arc::clone(&self.serving.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes to the store in service, which cannot change during the call.
    fn write<T>(&self, write: impl FnOnce(&ActiveModel) -> Result<T>) -> Result<T> {
        self.check_process()?;
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        // After a failed change of model, it is unknown which store the next open finds.
        self.root.check_writes()?;
        write(&self.serving())
    }

    /// As [`Self::write`], with a batch made with the model of `serving`; if that is not in service any more,
    /// the error returns the batch.
    fn commit_as_made(
        &self,
        serving: &Arc<ActiveModel>,
        batch: WriteBatch,
        encoded_by: &BTreeSet<EncodedBy>,
    ) -> Result<std::result::Result<Committed, WriteBatch>> {
        self.write(|_| {
            if Arc::ptr_eq(serving, &self.serving()) {
                serving.note_encoded(&*self.root.backend(), encoded_by)?;
                Ok(Ok(serving.store.commit(batch)?))
            } else {
                Ok(Err(batch))
            }
        })
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(StoreError::ReadOnly { path: self.path().to_owned() }.into());
        }
        self.check_process()
    }

    /// Holds the exclusive right to change or train the model. Callers do not wait for each other: that could
    /// take hours, or for ever from a callback of the call in progress.
    pub(crate) fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        let held = match self.changing.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(InputError::ChangeUnderWay.into()),
        };
        self.check_place()?;
        Ok(held)
    }

    /// Checks that the directory is still the one that was opened, before anything outside the store is
    /// written to it or removed.
    pub(crate) fn check_place(&self) -> Result<()> {
        Ok(self.root.check()?)
    }

    /// Refuses a writing handle in a forked child of the process that opened it: files and threads belong to
    /// the parent.
    pub(crate) fn check_process(&self) -> Result<()> {
        Ok(self.root.check_process()?)
    }
}

/// The model in service, opened for reading while a writer may be changing it.
fn newest(root: &Root, load: LoadOptions) -> Result<ActiveModel> {
    let mut attempt = 0;
    loop {
        let number = root.read()?.serving;
        let opened = ActiveModel::open_read_only(&*root.backend(), &root.model_dir(number), number, load);
        attempt += 1;
        // The model may have been removed since the number was read.
        if attempt == READ_ATTEMPTS || root.read()?.serving == number {
            return opened;
        }
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Index>();
};
