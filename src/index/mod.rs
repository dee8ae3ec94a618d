//! The index: documents, embeddings and tree behind one handle.

mod explain;
mod health;
mod insert;
mod leaves;
mod options;
mod search;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

pub use explain::{ExactHit, ExplainOptions, ExplainedHit, Explanation, ReachedLeaf};
pub use health::{Advice, FEWEST_RECENT, Health, RECENT, RoutingHealth, SHIFTED, SKEW_GROWTH, SKEWED};
pub use insert::InsertSummary;
pub use leaves::{
    DEFAULT_SAMPLES, DEFAULT_TERMS, LeafDocument, LeafOptions, LeafQuery, LeafSummary, LeafTerm,
};
pub use options::{DEFAULT_BEAM, DEFAULT_K, IndexBuilder, Query};
pub use search::{Hit, SearchResult, SearchStats};

#[cfg(feature = "train")]
pub(crate) use options::Reach;
#[cfg(feature = "train")]
pub(crate) use search::scan_lists;
pub(crate) use search::unit;

use health::Served;

use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::model::{Bundle, Model, ModelError};
use crate::progress::{OnProgress, Progress, Stage};
use crate::scan::Similarity;
use crate::store::{
    Damage, LOCK_FILE, MANIFEST_FILE, Store, StoreConfig, StoreError, StoreStats, UNPUBLISHED_MANIFEST_FILE,
    VerifyReport, WriteBatch,
};

/// Folder of the model bundle inside an index directory.
pub const MODEL_DIR: &str = "model";
/// The same while it is being copied.
const PARTIAL_MODEL_DIR: &str = "model.new";

/// An open index directory.
///
/// Shared by threads behind a reference or an [`Arc`](std::sync::Arc). One handle writes a directory at a
/// time, in all processes, and any number read it ([`Self::open_read_only`]). Dropping it flushes.
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
    store: Store,
    bundle: Bundle,
    similarity: Similarity,
    /// Not on disk: begins anew at every open.
    served: Served,
}

impl Index {
    /// Makes an empty index in `path` with its own copy of a trained bundle, and opens it.
    ///
    /// The directory is made where it is missing; it must be empty, or hold what an
    /// interrupted create with the same bundle left.
    ///
    /// # Durability
    /// The empty index survives a power failure once this has returned.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] for a directory with anything in it,
    /// [`StoreError::Locked`], and failures of the file system.
    pub fn create(path: impl AsRef<Path>, bundle: &Bundle) -> Result<Self> {
        Self::builder().create(path, bundle)
    }

    /// Options for [`IndexBuilder::create`].
    pub fn builder() -> IndexBuilder {
        IndexBuilder::default()
    }

    fn create_with(path: &Path, bundle: &Bundle, options: &IndexBuilder) -> Result<Self> {
        refuse_occupied(path)?;
        let model = path.join(MODEL_DIR);
        if model.exists() {
            // Left whole by a create that was interrupted after the rename below; anything else
            // under this name is not ours to clear.
            if !Bundle::open(&model).is_ok_and(|left| left.hash() == bundle.hash()) {
                return Err(StoreError::AlreadyExists { path: model }.into());
            }
        } else {
            copy_model(bundle, path, &model)?;
        }
        let own = Bundle::open(&model)?;
        let shape = own.model().indexer.shape();
        let config = StoreConfig {
            dim: own.model().encoder.dim() as u32,
            branching_factor: shape.branching_factor(),
            height: shape.height(),
            leaves_per_document: own.leaves_per_document(),
            similarity: options.similarity.code(),
            model_hash: own.hash().0,
        };
        let store = Store::create(path, &config, options.store)?;
        Ok(Self { store, bundle: own, similarity: options.similarity, served: Served::default() })
    }

    /// Opens an index.
    ///
    /// Reads the model into memory and maps the rest; checks format versions, dimensions, the model's
    /// hash, and each page when it is first read. [`Self::verify`] checks all of it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NotAnIndex`], [`StoreError::InterruptedCreate`],
    /// [`StoreError::Locked`], [`StoreError::UnsupportedVersion`], [`StoreError::Corrupt`];
    /// [`ModelError`](crate::ModelError) for a damaged model; [`InputError::ModelMismatch`] where the
    /// model folder holds another model than the index was made with.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Opens an index for reading, beside a writer in this process or another one.
    ///
    /// It shows the newest generation that the writer flushed; [`Self::refresh`] moves on to a later
    /// one. Any number of processes may read. What it has open stays readable whatever the writer does.
    ///
    /// # Errors
    /// Those of [`Self::open`] but [`StoreError::Locked`]. Writes answer [`StoreError::ReadOnly`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::with_store(path.as_ref(), Store::open_read_only(path.as_ref())?)
    }

    fn with_store(path: &Path, store: Store) -> Result<Self> {
        let bundle = Bundle::open(path.join(MODEL_DIR))?;
        let config = store.config();
        if bundle.hash().0 != config.model_hash {
            return Err(InputError::ModelMismatch {
                index: crate::model::ModelHash(config.model_hash).to_string(),
                given: bundle.hash().to_string(),
            }
            .into());
        }
        let similarity = Similarity::from_code(config.similarity).ok_or(StoreError::Corrupt {
            file: MANIFEST_FILE.into(),
            detail: Damage::Field { field: "similarity", found: u64::from(config.similarity) },
        })?;
        Ok(Self { store, bundle, similarity, served: Served::default() })
    }

    /// Moves a handle of [`Self::open_read_only`] to the newest flushed generation; says whether it moved.
    ///
    /// Costs a read of the manifest, and the opening of segments that are new. Searches under way
    /// finish on the generation they began with.
    ///
    /// # Errors
    /// Those of [`Self::open_read_only`]; the handle then shows what it showed before.
    pub fn refresh(&self) -> Result<bool> {
        Ok(self.store.refresh()?)
    }

    /// Whether the handle is one of [`Self::open_read_only`].
    pub fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    /// Writes all documents anew in the order in which searches read them, and gives back the space of
    /// deleted and replaced ones, of which no byte is left in the index directory.
    ///
    /// Searches go on meanwhile; writes wait. The disk needs room for both the old files and the new.
    /// Happens by itself, in parts, as documents are inserted and deleted; so this is for an index that is
    /// to be as small and fast as it can be, or that must not keep what was deleted.
    ///
    /// # Durability
    /// As [`Self::flush`].
    ///
    /// # Errors
    /// Failures of the disk; then nothing has changed.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&mut crate::progress::no_progress)
    }

    /// As [`Self::compact`], with progress in documents and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Self::compact`], and [`Error::Cancelled`] with nothing changed.
    pub fn compact_with(&self, on_progress: &mut OnProgress<'_>) -> Result<()> {
        // Each document is copied twice: its embedding, then the rest.
        let total = 2 * self.len();
        let mut done = 0;
        let compacted = self.store.compact(&mut || {
            done += 1;
            match on_progress(Progress::new(Stage::Compact, done, total)) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(StoreError::Cancelled),
            }
        });
        match compacted {
            Err(StoreError::Cancelled) => Err(Error::Cancelled),
            other => Ok(other?),
        }
    }

    /// The index directory.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// The model that the index was made with.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// How documents are ranked.
    pub fn similarity(&self) -> Similarity {
        self.similarity
    }

    /// Live documents.
    pub fn len(&self) -> usize {
        self.store.read().live()
    }

    /// Whether there is no live document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document with this id.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn get(&self, id: &str) -> Result<Option<Document>> {
        let view = self.store.read();
        match view.row_of(id)? {
            Some(row) => Ok(Some(view.document(row)?)),
            None => Ok(None),
        }
    }

    /// Whether there is a document with this id.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.store.read().contains(id)?)
    }

    /// All documents in the byte order of their ids.
    ///
    /// Reads a page at a time; a document inserted or deleted meanwhile may be seen or not.
    pub fn iter(&self) -> Documents<'_> {
        Documents { index: self, page: Vec::new().into_iter(), last: None, done: false }
    }

    /// Deletes a document; says whether there was one.
    ///
    /// # Durability
    /// Gone from searches when this returns; on disk for certain after [`Self::flush`]. Its bytes
    /// stay in the files until those are merged, at the latest by [`Self::compact`].
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn delete(&self, id: &str) -> Result<bool> {
        let committed = self.store.commit(WriteBatch { puts: Vec::new(), deletes: vec![id.to_owned()] })?;
        Ok(committed.deleted > 0)
    }

    /// Makes everything stored so far durable.
    ///
    /// # Errors
    /// A failed sync; the handle refuses writes from then on.
    pub fn flush(&self) -> Result<()> {
        Ok(self.store.flush()?)
    }

    /// Sizes and counts.
    ///
    /// # Errors
    /// Failures of the file system.
    pub fn stats(&self) -> Result<StoreStats> {
        Ok(self.store.stats()?)
    }

    /// Reads the whole index and checks every invariant and checksum.
    ///
    /// # Errors
    /// Failures of reading; damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        Ok(self.store.verify()?)
    }

    pub(crate) fn model(&self) -> &Model {
        self.bundle.model()
    }

    pub(crate) fn leaves_per_document(&self) -> u32 {
        self.store.config().leaves_per_document
    }

    #[cfg(feature = "train")]
    pub(crate) fn view(&self) -> crate::store::View {
        self.store.read()
    }
}

/// Copies a bundle so that it appears whole or not at all.
fn copy_model(bundle: &Bundle, index: &Path, model: &Path) -> Result<()> {
    let partial = index.join(PARTIAL_MODEL_DIR);
    let failed = |action| {
        let path = partial.clone();
        move |source| ModelError::Io { action, path, source }
    };
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed("clear"))?;
    }
    bundle.copy_to(&partial)?;
    // Made durable by the store, which syncs the directory before it has an index.
    fs::rename(&partial, model).map_err(failed("rename"))?;
    Ok(())
}

/// A create may only start in an empty directory, or where one was interrupted.
fn refuse_occupied(path: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(path) else {
        return Ok(());
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let interrupted = names.iter().any(|name| name == UNPUBLISHED_MANIFEST_FILE);
    let ours = |name: &std::ffi::OsString| {
        name == MODEL_DIR || name == PARTIAL_MODEL_DIR || name == LOCK_FILE || interrupted
    };
    if names.iter().all(ours) && !names.iter().any(|name| name == MANIFEST_FILE) {
        Ok(())
    } else {
        Err(StoreError::AlreadyExists { path: path.to_owned() }.into())
    }
}

/// Iterator over all documents; made by [`Index::iter`].
pub struct Documents<'a> {
    index: &'a Index,
    page: std::vec::IntoIter<Document>,
    last: Option<String>,
    done: bool,
}

/// Documents read at once while iterating.
const DOCUMENTS_PER_PAGE: usize = 256;

impl Iterator for Documents<'_> {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.page.next() {
                return Some(Ok(document));
            }
            if self.done {
                return None;
            }
            let page = self.index.store.read().documents_from(self.last.as_deref(), DOCUMENTS_PER_PAGE);
            match page {
                Ok(page) => {
                    self.done = page.len() < DOCUMENTS_PER_PAGE;
                    self.last = page.last().map(|document| document.id.clone());
                    self.page = page.into_iter();
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(Error::from(error)));
                }
            }
        }
    }
}

impl<'a> IntoIterator for &'a Index {
    type Item = Result<Document>;
    type IntoIter = Documents<'a>;

    fn into_iter(self) -> Documents<'a> {
        self.iter()
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Index>();
};
