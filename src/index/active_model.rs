//! A model with the store of its embeddings, on which searches and writes run.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use super::analysis::{Analysis, lexers};
use super::ingest::Ingest;
use super::insert::Pace;
use super::measured::{self, Content, Measurements, Unusable};
use super::root::{check_directory, kind};
use super::routing_log::RoutingLog;
use super::search::{FilterCache, JudgedTexts};
use super::shared_memory::SharedMemory;
use crate::codes::Rotation;
use crate::disk::{Backend, names};
use crate::embedding_cache::EmbeddingCache;
use crate::error::{Error, InputError};
use crate::ids::ModelHash;
use crate::lexical::Analyzer;
use crate::model::{
    Bundle, Encoder, EncoderPrecision, LoadOptions, Model, ModelStore, Sharing, remove_bundle,
};
use crate::passages::{BadPassages, Passages};
use crate::scan::Similarity;
use crate::store::{Damage, Notice, Store, StoreConfig, StoreError, StoreOptions, View, files::rename};

type Result<T, E = Error> = std::result::Result<T, E>;

/// What is fixed for the lifetime of a handle, whichever store it has open.
#[derive(Clone, Debug, Default)]
pub(super) struct HandleOptions {
    pub store: StoreOptions,
    pub load: LoadOptions,
    /// Has the large files of models; `None` if the index gets its own copies.
    pub models: Option<ModelStore>,
    /// Has embeddings of texts that were encoded before.
    pub cache: Option<EmbeddingCache>,
}

/// How documents are ranked, fixed for the lifetime of the index.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    pub similarity: Similarity,
    /// What the terms of its posting lists are, if it has any.
    pub analyzer: Option<Analyzer>,
    /// How documents are cut into passages, if they are.
    pub passages: Option<Passages>,
    /// The field of metadata by which documents expire, if they do.
    pub expires: Option<String>,
}

/// A store and its model. An index has one in service, and a second one during a change of model.
pub(crate) struct ActiveModel {
    /// The model's number, as in [`Current`](super::root::Current).
    pub(super) number: u32,
    pub(super) store: Arc<Store>,
    pub(super) bundle: Arc<Bundle>,
    pub(crate) similarity: Similarity,
    /// Not on disk: starts empty at every open.
    pub(super) served: RoutingLog,
    pub(super) filters: FilterCache,
    rotation: OnceLock<Rotation>,
    pub(super) measured: RwLock<Arc<Measurements>>,
    /// Held while the file of measurements is replaced.
    pub(super) measuring: Mutex<()>,
    /// The finding about that file when the model was opened.
    pub(super) notice: Option<Notice>,
    /// The judged questions, and their documents.
    pub(super) memory: SharedMemory,
    pub(super) judged_texts: JudgedTexts,
    /// How fast documents are encoded.
    pub(super) pace: Pace,
    pub(super) cache: Option<EmbeddingCache>,
}

impl HandleOptions {
    /// How a model from another folder gets into the index.
    pub(super) fn sharing(&self) -> Sharing<'_> {
        self.models.as_ref().into()
    }
}

impl ActiveModel {
    /// Makes an empty store in `dir` with a copy of the bundle, which may share large files.
    pub(super) fn create(
        backend: Arc<dyn Backend>,
        dir: &Path,
        number: u32,
        bundle: &Bundle,
        sharing: Sharing<'_>,
        ranking: Ranking,
        options: &HandleOptions,
    ) -> Result<Self> {
        let Ranking { similarity, analyzer, passages, expires } = ranking;
        check_passages(bundle, passages)?;
        copy_model(&*backend, bundle, sharing, dir)?;
        let own = options.load.bundle(dir.join(names::BUNDLE))?;
        // The files may have changed since the bundle was opened.
        check_model(bundle.hash(), own.hash())?;
        let shape = own.model().indexer.shape();
        let config = StoreConfig {
            dim: own.model().dim() as u32,
            branching_factor: shape.branching_factor(),
            height: shape.height(),
            similarity: similarity.code(),
            model_hash: own.hash(),
            terms: analyzer.map_or(0, Analyzer::code),
            passages,
            expires,
        };
        let store = Arc::new(Store::create_on(Arc::clone(&backend), dir, &config, options.store)?);
        let created =
            Self { cache: options.cache.clone(), ..Self::new(number, store, Arc::new(own), similarity) };
        if let Some(precision) = created.precision() {
            created.measure(&*backend, |measured| measured.precision = Some(precision))?;
        }
        Ok(created)
    }

    pub(super) fn new(number: u32, store: Arc<Store>, bundle: Arc<Bundle>, similarity: Similarity) -> Self {
        let (served, filters, rotation) = (RoutingLog::default(), FilterCache::default(), OnceLock::new());
        store.set_lexers(lexers(Arc::clone(&bundle)));
        let (measured, measuring, memory) = (RwLock::default(), Mutex::default(), SharedMemory::default());
        let notice = None;
        Self {
            number,
            store,
            bundle,
            similarity,
            served,
            filters,
            rotation,
            measured,
            measuring,
            notice,
            memory,
            judged_texts: JudgedTexts::default(),
            pace: Pace::default(),
            cache: None,
        }
    }

    /// Opens the store and the model in `dir`, for writing.
    pub(super) fn open(
        backend: Arc<dyn Backend>,
        dir: &Path,
        number: u32,
        options: &HandleOptions,
    ) -> Result<Self> {
        check_directories(&*backend, dir)?;
        let store = Store::open_on(Arc::clone(&backend), dir, options.store);
        let store = Arc::new(store.map_err(without_manifest)?);
        let opened = Self::beside(&*backend, number, store, options.load)?;
        Ok(Self { cache: options.cache.clone(), ..opened })
    }

    /// Opens the store and the model in `dir`, for reading.
    pub(super) fn open_read_only(
        backend: &dyn Backend,
        dir: &Path,
        number: u32,
        load: LoadOptions,
    ) -> Result<Self> {
        check_directories(backend, dir)?;
        let store = Store::open_read_only(dir).map_err(without_manifest)?;
        Self::beside(backend, number, Arc::new(store), load)
    }

    /// A store with the model next to it.
    fn beside(backend: &dyn Backend, number: u32, store: Arc<Store>, load: LoadOptions) -> Result<Self> {
        let read = measured::read(backend, store.path());
        let load = load.usual_precision(recorded_precision(&read, &store));
        let bundle = load.bundle(store.path().join(names::BUNDLE))?;
        let config = store.config();
        check_model(config.model_hash, bundle.hash())?;
        check_shape(config, &bundle)?;
        let similarity = config.similarity()?;
        check_analyzer(config)?;
        let mut opened = Self::new(number, store, Arc::new(bundle), similarity);
        opened.notice = opened.take_measured(read);
        if let Some(notice) = &opened.notice {
            tracing::warn!(path = %opened.store.path().display(), "{notice}");
        }
        Ok(opened)
    }

    /// The rotation of codes; `None` for a similarity other than a dot product.
    pub(super) fn rotation(&self) -> Option<&Rotation> {
        let product = self.similarity.is_product();
        product.then(|| self.rotation.get_or_init(|| Rotation::new(self.model().indexer.dim())))
    }

    #[cfg(feature = "eval")]
    pub(crate) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    pub(crate) fn model(&self) -> &Model {
        self.bundle.model()
    }

    /// The kind of terms in the posting lists, if the index has any.
    pub(super) fn analyzer(&self) -> Option<Analyzer> {
        Analyzer::from_code(self.store.terms())
    }

    /// The length of passages, if documents have passages.
    pub(crate) fn passages(&self) -> Option<Passages> {
        self.store.config().passages
    }

    /// How texts are split into terms.
    pub(crate) fn analysis(&self) -> Analysis<'_> {
        let encoder = self.model().encoder().ok();
        Analysis { analyzer: self.analyzer().unwrap_or_default(), encoder }
    }

    pub(super) fn ingest(&self) -> Ingest<'_> {
        let (similarity, analyzer, passages) = (self.similarity, self.analyzer(), self.passages());
        Ingest { bundle: &self.bundle, similarity, analyzer, passages, cache: self.cache.as_ref() }
    }

    /// How this handle encodes texts, if there is an encoder.
    pub(super) fn precision(&self) -> Option<EncoderPrecision> {
        self.model().encoder().ok().map(Encoder::precision)
    }

    pub(crate) fn view(&self) -> View {
        self.store.read()
    }

    /// Live documents of each leaf of the tree.
    pub(crate) fn leaf_sizes(&self, view: &View) -> Result<Vec<usize>> {
        let mut sizes = vec![0; self.model().indexer.shape().leaves() as usize];
        for (leaf, size) in view.leaf_sizes()? {
            // A leaf beyond the tree is for `verify` to report.
            if let Some(own) = sizes.get_mut(leaf.index()) {
                *own = size;
            }
        }
        Ok(sizes)
    }
}

/// How texts are encoded next to this store, if the handle's options do not say it.
fn recorded_precision(read: &Result<Option<Content>, Unusable>, store: &Store) -> EncoderPrecision {
    let origin = (store.config().model_hash.to_string(), store.id());
    let of_store = read.as_ref().ok().and_then(Option::as_ref).filter(|content| content.of == origin);
    of_store.and_then(|content| content.measured.precision).unwrap_or_default()
}

pub(super) fn check_model(index: ModelHash, given: ModelHash) -> Result<()> {
    if index == given {
        return Ok(());
    }
    Err(InputError::ModelMismatch { index, given }.into())
}

/// Refuses passages that are longer than what the encoder reads.
pub(super) fn check_passages(bundle: &Bundle, passages: Option<Passages>) -> Result<()> {
    let Some(found) = passages else { return Ok(()) };
    let most = tokens_read(bundle)?;
    match found.tokens <= most {
        true => Ok(()),
        false => Err(InputError::from(BadPassages { found: found.to_string(), most }).into()),
    }
}

/// Tokens of a text that a model's encoder reads.
pub(super) fn tokens_read(bundle: &Bundle) -> Result<u32> {
    let encoder = bundle.model().encoder()?;
    Ok((encoder.max_tokens() - encoder.tokens_around()?) as u32)
}

/// Refuses an analyzer that this version does not know.
pub(super) fn check_analyzer(config: &StoreConfig) -> Result<(), StoreError> {
    match config.is_lexical() && Analyzer::from_code(config.terms).is_none() {
        true => Err(StoreError::UnknownAnalyzer { code: config.terms }),
        false => Ok(()),
    }
}

/// The store has its own copy of these numbers, and searches use the model's: they must agree.
fn check_shape(config: &StoreConfig, bundle: &Bundle) -> Result<(), StoreError> {
    let shape = bundle.model().indexer.shape();
    for (what, expected, found) in [
        ("the width of the model's embeddings", config.dim, bundle.model().dim() as u32),
        ("the branching factor of the model's tree", config.branching_factor, shape.branching_factor()),
        ("the height of the model's tree", config.height, shape.height()),
    ] {
        if expected != found {
            let detail = Damage::Disagreement { what, expected: expected.into(), found: found.into() };
            return Err(StoreError::corrupt(names::MANIFEST, detail));
        }
    }
    Ok(())
}

/// The error for a store without its manifest: the store is part of an index, so the path was not the
/// mistake.
pub(super) fn without_manifest(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { .. } | StoreError::NotAnIndex { .. } => {
            StoreError::corrupt(names::MANIFEST, Damage::Missing { what: "the file" })
        }
        other => other,
    }
}

/// Refuses links in place of a model's directories.
fn check_directories(backend: &dyn Backend, dir: &Path) -> Result<(), StoreError> {
    [dir.to_owned(), dir.join(names::SEGMENTS), dir.join(names::BUNDLE)]
        .iter()
        .try_for_each(|path| check_directory(backend, path))
}

/// Copies a bundle into a model's directory, atomically and durably.
pub(super) fn copy_model(
    backend: &dyn Backend,
    bundle: &Bundle,
    sharing: Sharing<'_>,
    dir: &Path,
) -> Result<()> {
    let (partial, model) = (dir.join(names::BUNDLE_NEW), dir.join(names::BUNDLE));
    remove_bundle(backend, &partial)?;
    for path in [&partial, &model] {
        if kind(backend, path)?.is_some() {
            return Err(StoreError::AlreadyExists { path: path.clone() }.into());
        }
    }
    bundle.copy_to(backend, &partial, sharing)?;
    Ok(rename(backend, &partial, &model)?)
}
