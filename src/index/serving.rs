//! A model with the store of its embeddings: what searches and writes run on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::filtered::KnownFilters;
use super::health::Served;
use super::options::HandleOptions;
use super::placing::Placer;
use crate::codes::Rotation;
use crate::error::{InputError, Result};
use crate::model::{Bundle, EncoderPrecision, Model, ModelError, ModelHash};
use crate::scan::Similarity;
use crate::store::{Damage, MANIFEST_FILE, Store, StoreConfig, StoreError, View};

/// Folder of the model bundle beside the files of a store.
const MODEL_DIR: &str = "model";
/// The same while it is being copied.
const PARTIAL_MODEL_DIR: &str = "model.new";
/// Folder of the stores of later models; that of the first one is the index directory itself.
pub(super) const MODELS_DIR: &str = "models";

/// One store and its model. An index has one in service, and for a change of model a second one.
pub(crate) struct Serving {
    /// Of the store, as [`Models`](crate::store::Models) counts.
    pub(super) number: u32,
    pub(super) store: Arc<Store>,
    pub(super) bundle: Arc<Bundle>,
    pub(crate) similarity: Similarity,
    /// Not on disk: begins anew at every open.
    pub(super) served: Served,
    pub(super) filters: KnownFilters,
    rotation: OnceLock<Rotation>,
}

impl Serving {
    /// Makes an empty store in `dir` with its own copy of the bundle, or finishes what an interrupted
    /// call with the same bundle left.
    pub(super) fn create(
        dir: &Path,
        number: u32,
        bundle: &Bundle,
        similarity: Similarity,
        options: HandleOptions,
    ) -> Result<Self> {
        let model = dir.join(MODEL_DIR);
        if model.exists() {
            // Left whole by a create that was interrupted after the rename below; anything else
            // under this name is not ours to clear.
            if !Bundle::open(&model).is_ok_and(|left| left.hash() == bundle.hash()) {
                return Err(StoreError::AlreadyExists { path: model }.into());
            }
        } else {
            copy_model(bundle, dir, &model)?;
        }
        let own = Bundle::open_with(&model, options.precision)?;
        let shape = own.model().indexer.shape();
        let config = StoreConfig {
            dim: own.model().encoder.dim() as u32,
            branching_factor: shape.branching_factor(),
            height: shape.height(),
            leaves_per_document: own.leaves_per_document(),
            similarity: similarity.code(),
            model_hash: own.hash().0,
        };
        let store = Arc::new(Store::create(dir, &config, options.store)?);
        Ok(Self::new(number, store, Arc::new(own), similarity))
    }

    pub(super) fn new(number: u32, store: Arc<Store>, bundle: Arc<Bundle>, similarity: Similarity) -> Self {
        let (served, filters) = (Served::default(), KnownFilters::default());
        Self { number, store, bundle, similarity, served, filters, rotation: OnceLock::new() }
    }

    /// A store with the model that lies beside it.
    pub(super) fn open(number: u32, store: Arc<Store>, precision: EncoderPrecision) -> Result<Self> {
        let bundle = Bundle::open_with(store.path().join(MODEL_DIR), precision)?;
        let config = store.config();
        check_model(ModelHash(config.model_hash), bundle.hash())?;
        let similarity = Similarity::from_code(config.similarity).ok_or(StoreError::Corrupt {
            file: MANIFEST_FILE.into(),
            detail: Damage::Field { field: "similarity", found: u64::from(config.similarity) },
        })?;
        Ok(Self::new(number, store, Arc::new(bundle), similarity))
    }

    /// The rotation of codes; `None` where scores are no products.
    pub(super) fn coded(&self) -> Option<&Rotation> {
        let product = self.similarity.is_product();
        product.then(|| self.rotation.get_or_init(|| Rotation::new(self.model().indexer.dim())))
    }

    pub(crate) fn model(&self) -> &Model {
        self.bundle.model()
    }

    pub(super) fn placer(&self) -> Placer<'_> {
        Placer { bundle: &self.bundle, similarity: self.similarity }
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

    pub(crate) fn leaves_per_document(&self) -> u32 {
        self.store.config().leaves_per_document
    }
}

pub(super) fn check_model(index: ModelHash, given: ModelHash) -> Result<()> {
    if index == given {
        return Ok(());
    }
    Err(InputError::ModelMismatch { index: index.to_string(), given: given.to_string() }.into())
}

/// Where the store of a model is.
pub(super) fn store_dir(index: &Path, number: u32) -> PathBuf {
    match number {
        0 => index.to_owned(),
        _ => index.join(MODELS_DIR).join(number.to_string()),
    }
}

/// Where the model of a store is.
pub(super) fn model_dir(store: &Path) -> PathBuf {
    store.join(MODEL_DIR)
}

/// Copies a bundle beside the store that is to be in `dir`.
pub(super) fn copy_model_into(bundle: &Bundle, dir: &Path) -> Result<()> {
    copy_model(bundle, dir, &model_dir(dir))
}

/// Removes the model of a store that was given up.
pub(super) fn remove_model(dir: &Path) -> Result<()> {
    Ok(remove_folder(&model_dir(dir))?)
}

/// Removes a folder of models with all in it, if it is there.
pub(crate) fn remove_folder(path: &Path) -> std::result::Result<(), ModelError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ModelError::Io { action: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Whether a name in an index directory is one that [`Serving::create`] makes.
pub(super) fn is_model(name: &std::ffi::OsStr) -> bool {
    name == MODEL_DIR || name == PARTIAL_MODEL_DIR
}

/// Copies a bundle so that it appears whole or not at all.
fn copy_model(bundle: &Bundle, dir: &Path, model: &Path) -> Result<()> {
    let partial = dir.join(PARTIAL_MODEL_DIR);
    remove_folder(&partial)?;
    bundle.copy_to(&partial)?;
    // Made durable by the store, which syncs the directory before it has an index.
    let failed = |source| ModelError::Io { action: "rename", path: partial.clone(), source };
    fs::rename(&partial, model).map_err(failed)?;
    Ok(())
}
