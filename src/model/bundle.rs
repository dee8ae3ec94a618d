//! A bundle: encoder, tokenizer and tree as one checksummed directory.
//!
//! A bundle is a sentence-transformers folder (`model.safetensors` in f16, `modules.json`, a card) plus
//! `ehi.json` and `indexer.safetensors` (f32). It can be trained further, and sentence-transformers opens it
//! directly. A bundle without a tree has no `indexer.safetensors`; its encoder is that of the base.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::encoder::Encoder;
use super::error::ModelError;
use super::files::{self, ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, REPORT_FILE, TOKENIZER_FILE};
use super::indexer::Indexer;
use super::load::LoadOptions;
use super::query_encoder::{DistilReport, FastEncoder, QueryEncoderEntry};
use super::settings::EncoderSettings;
use crate::ids::ModelHash;
use crate::tree::TreeShape;

pub(crate) use copy::remove_bundle;
pub(crate) use query::unused_files;
#[cfg(feature = "train")]
pub(crate) use write::{BundleParts, check_output, publish};
#[cfg(feature = "train")]
pub(super) use write::{make_partial, sync_dir, write_again, write_synced, write_tensors};

mod copy;
mod query;
mod untrained;
#[cfg(feature = "train")]
mod write;

/// The bundle format that this build reads and writes.
///
/// A query encoder does not affect the format: the model is the same without it.
pub const BUNDLE_FORMAT: u32 = 1;

/// Files of a base model that a bundle copies if they exist, in addition to those of its modules
/// ([`files::module_files`]).
pub(super) const CARRIED_FILES: [&str; 7] = [
    "config.json",
    TOKENIZER_FILE,
    "modules.json",
    files::LENGTH_FILE,
    files::PROMPTS_FILE,
    "tokenizer_config.json",
    "special_tokens_map.json",
];

/// The content of `ehi.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BundleManifest {
    format_version: u32,
    /// Whether the model encodes texts; otherwise it has no files but those of its tree.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    has_encoder: bool,
    dim: usize,
    branching_factor: u32,
    height: u32,
    logit_scale: f32,
    /// SHA-256 of each file, by its path inside the bundle.
    files: BTreeMap<String, String>,
    /// Settings of the encoder that are not in its own files.
    #[serde(default, skip_serializing_if = "EncoderSettings::is_empty")]
    encoder: EncoderSettings,
    /// Not part of the model's identity: no document and no leaf depends on it. Parsed separately, so that
    /// the model opens despite a damaged entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query_encoder: Option<serde_json::Value>,
}

/// Whether embeddings of a model without an encoder may have this width; the store has the same limit.
fn is_width(dim: usize) -> bool {
    (1..=65_536).contains(&dim)
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// The trained pair: text encoder E_theta and tree indexer I_phi.
#[derive(Debug)]
pub struct Model {
    encoder: Option<Encoder>,
    pub(crate) indexer: Indexer,
}

impl Model {
    /// The text encoder.
    ///
    /// # Errors
    /// [`ModelError::NoEncoder`] for a model without one ([`Bundle::for_vectors`]).
    pub fn encoder(&self) -> Result<&Encoder, ModelError> {
        self.encoder.as_ref().ok_or(ModelError::NoEncoder)
    }

    /// Whether it encodes texts; one without an encoder ([`Bundle::for_vectors`]) takes embeddings alone.
    pub fn has_encoder(&self) -> bool {
        self.encoder.is_some()
    }

    /// Width m of the embeddings.
    pub fn dim(&self) -> usize {
        self.indexer.dim()
    }

    /// The tree indexer.
    pub fn indexer(&self) -> &Indexer {
        &self.indexer
    }
}

/// An opened bundle: the model in memory, its files verified.
#[derive(Clone)]
pub struct Bundle {
    dir: PathBuf,
    manifest: BundleManifest,
    hash: ModelHash,
    model: Arc<Model>,
    /// The query encoder in use; clones share it. The entry in `manifest` is not used.
    query: Arc<RwLock<Option<Arc<FastEncoder>>>>,
    /// The manifest's entry for a query encoder, if it cannot be parsed.
    unreadable: Option<serde_json::Value>,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("dir", &self.dir).field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Opens and verifies a bundle and loads its model (f32 in memory); [`LoadOptions`] offers other
    /// precisions.
    ///
    /// # Errors
    /// [`ModelError::NotAModel`] or [`ModelError::NotABundle`] for a directory that is not one,
    /// [`ModelError::Checksum`] for a damaged file, [`ModelError::BadSetting`] for one
    /// of another format, and every error of [`Encoder::load`](super::Encoder::load).
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, ModelError> {
        LoadOptions::new().bundle(dir)
    }

    fn of(dir: PathBuf, manifest: BundleManifest, model: Model, query: Option<FastEncoder>) -> Self {
        let query = Arc::new(RwLock::new(query.map(Arc::new)));
        Self { hash: manifest.hash(), dir, manifest, model: Arc::new(model), query, unreadable: None }
    }

    /// The directory that it was opened from.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The model's identity; an index accepts no other model.
    pub fn hash(&self) -> ModelHash {
        self.hash
    }

    /// Whether both bundles encode texts identically, that is, have the same encoder files and settings. Two
    /// without an encoder do if they have the same width.
    pub fn has_encoder_of(&self, other: &Self) -> bool {
        // Settings change how the same files are read.
        match [self, other].map(|bundle| bundle.model.encoder.as_ref().map(Encoder::folder)) {
            [Some(own), Some(others)] => {
                self.encoder_files() == other.encoder_files() && own.is_alike(others)
            }
            [None, None] => self.model.dim() == other.model.dim(),
            _ => false,
        }
    }

    /// The files of the encoder with their checksums.
    pub(crate) fn encoder_files(&self) -> BTreeMap<String, String> {
        self.manifest.encoder_files()
    }

    /// A checksum of the encoder alone, without the tree: 64 hexadecimal digits.
    pub(crate) fn encoder_digest(&self) -> String {
        self.manifest.encoder_digest()
    }

    /// Whether it has the encoder of the damaged model in `dir`, by the list of files there, which must be
    /// that of the model `of`; `None` without such a list.
    pub(crate) fn has_encoder_listed_in(&self, dir: &Path, of: ModelHash) -> Option<bool> {
        let listed = read_manifest(&dir.join(MANIFEST_FILE)).ok().filter(|listed| listed.hash() == of)?;
        let encoder = |own: &BundleManifest| (own.has_encoder, own.dim, own.encoder_digest());
        Some(encoder(&listed) == encoder(&self.manifest))
    }

    /// Whether it has a tree. Without one, every search is exact: all documents lie in one leaf.
    pub fn has_tree(&self) -> bool {
        self.model.indexer.has_tree()
    }

    /// Encoder and indexer.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The report on its query encoder; `None` without one.
    pub fn query_encoder(&self) -> Option<DistilReport> {
        self.fast().map(|fast| fast.entry().report.clone())
    }

    /// Its query encoder.
    pub(crate) fn fast(&self) -> Option<Arc<FastEncoder>> {
        self.query.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LoadOptions {
    /// As [`Bundle::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Bundle::open`].
    pub fn bundle(self, dir: impl AsRef<Path>) -> Result<Bundle, ModelError> {
        let dir = dir.as_ref().to_owned();
        let path = dir.join(MANIFEST_FILE);
        if !path.exists() {
            return Err(if ["config.json", "modules.json"].iter().any(|name| dir.join(name).exists()) {
                ModelError::NotABundle { path: dir }
            } else {
                ModelError::not_a_model(dir, MANIFEST_FILE)
            });
        }
        let mut manifest = read_manifest(&path)?;
        let entry = manifest.query_encoder.take();
        // The encoder's files are checked while it is loaded.
        let of_encoder = |path: &Path| {
            let names = files::TOKENIZER_FILES.into_iter().chain(files::ENCODER_FILES);
            names.into_iter().any(|name| dir.join(name) == path)
        };
        let listed = manifest.files.iter().map(|(name, sha256)| (dir.join(name), sha256.clone()));
        let (unchecked, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            listed.partition(|(path, _)| of_encoder(path));
        others.iter().try_for_each(|(path, sha256)| files::check_digest(path, sha256))?;
        // A file that the loader would read but the manifest does not list would change the
        // model without changing its hash.
        let weights = [ENCODER_FILE, INDEXER_FILE].map(str::to_owned);
        let weights = weights.into_iter().filter(|name| dir.join(name).exists());
        let mut own = carried_files(&dir)?.into_iter().chain(weights);
        if let Some(name) = own.find(|name| !manifest.files.contains_key(name)) {
            return Err(ModelError::Checksum { path: dir.join(name) });
        }
        let shape = TreeShape::new(manifest.branching_factor, manifest.height)?;
        let encoder = match manifest.has_encoder {
            true => Some(self.encoder_of(&dir, &EncoderSettings::default(), unchecked)?),
            false => {
                self.only_f32(&dir, "the model has no encoder")?;
                None
            }
        };
        if let Some(encoder) = encoder.as_ref().filter(|encoder| encoder.dim() != manifest.dim) {
            let expected = format!("the encoder's width, {}", encoder.dim());
            return Err(ModelError::bad_config(path, "dim", manifest.dim, expected));
        }
        let indexer = match manifest.files.contains_key(INDEXER_FILE) {
            true => Indexer::load(&dir.join(INDEXER_FILE), shape, manifest.dim, manifest.logit_scale)?,
            false => Indexer::single_leaf(manifest.dim)?,
        };
        // Searches use the full encoder if the query encoder cannot be used.
        let warn = |error: &ModelError| {
            tracing::warn!(path = %dir.display(), %error, "the query encoder cannot be used");
        };
        let open = |entry| {
            let entry = query::parse(&dir, entry, &manifest.encoder_digest())?;
            Ok(query::of_entry(&dir, entry, encoder.as_ref().ok_or(ModelError::NoEncoder)?))
        };
        let opened = entry.clone().map(open).transpose();
        let unreadable = entry.filter(|_| opened.is_err());
        let query = opened.inspect_err(warn).unwrap_or_default();
        if let Some(fast) = query.as_ref().filter(|_| !self.lazy) {
            let _ = fast.load().inspect_err(warn);
        }
        Ok(Bundle { unreadable, ..Bundle::of(dir, manifest, Model { encoder, indexer }, query) })
    }
}

impl BundleManifest {
    /// The manifest of an encoder and a tree whose files have these checksums.
    fn new(encoder: Option<&Encoder>, indexer: &Indexer, files: BTreeMap<String, String>) -> Self {
        Self {
            format_version: BUNDLE_FORMAT,
            has_encoder: encoder.is_some(),
            dim: indexer.dim(),
            branching_factor: indexer.shape().branching_factor(),
            height: indexer.shape().height(),
            logit_scale: indexer.logit_scale(),
            files,
            encoder: encoder.map(Encoder::settings).cloned().unwrap_or_default(),
            query_encoder: None,
        }
    }

    /// The content of `ehi.json`, with or without a query encoder; `path` is its destination.
    fn to_json(&self, path: &Path, query_encoder: Option<&QueryEncoderEntry>) -> Result<Vec<u8>, ModelError> {
        let query_encoder = query_encoder.map(serde_json::to_value).transpose();
        let query_encoder = query_encoder.map_err(|source| ModelError::json(path, source))?;
        let manifest = Self { query_encoder, ..self.clone() };
        let json = serde_json::to_vec_pretty(&manifest);
        let mut json = json.map_err(|source| ModelError::json(path, source))?;
        json.push(b'\n');
        Ok(json)
    }

    fn encoder_files(&self) -> BTreeMap<String, String> {
        let mut files = self.files.clone();
        files.remove(INDEXER_FILE);
        files
    }

    fn encoder_digest(&self) -> String {
        let mut digest = Sha256::new();
        for (name, sum) in self.encoder_files() {
            digest.update(name);
            digest.update(sum);
        }
        digest.update(self.encoder.identity());
        files::hex(&digest.finalize())
    }

    fn hash(&self) -> ModelHash {
        let mut digest = Sha256::new();
        digest.update(b"ehi model 1\n");
        for (name, sha) in &self.files {
            digest.update(format!("{name} {sha}\n"));
        }
        digest.update(format!(
            "{} {} {} {:08x}\n",
            self.dim,
            self.branching_factor,
            self.height,
            self.logit_scale.to_bits()
        ));
        digest.update(self.encoder.identity());
        ModelHash(digest.finalize().into())
    }
}

fn read_manifest(path: &Path) -> Result<BundleManifest, ModelError> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u32,
    }
    // Read the version first: another format may have other fields.
    let Version { format_version } = files::read_json(path)?;
    if format_version != BUNDLE_FORMAT {
        let problem =
            format!("bundle format {format_version} is not known; this version reads {BUNDLE_FORMAT}");
        return Err(ModelError::BadSetting { path: path.to_owned(), problem });
    }
    let manifest: BundleManifest = files::read_json(path)?;
    let weights = [ENCODER_FILE, INDEXER_FILE];
    // One leaf needs no weights.
    let has_no_tree = (manifest.branching_factor, manifest.height) == (1, 1);
    let is_listed = |name: &str| manifest.files.contains_key(name);
    // sentence-transformers writes no settings for a table of token vectors, and may put it in a subfolder.
    let is_static = is_listed("modules.json");
    let optional = |name: &str| {
        (has_no_tree && name == INDEXER_FILE)
            || (!manifest.has_encoder && name != INDEXER_FILE)
            || is_static && (name == "config.json" || is_listed(&format!("{}/{name}", files::STATIC_FOLDER)))
    };
    for name in weights.into_iter().chain([TOKENIZER_FILE, "config.json"]).filter(|name| !optional(name)) {
        if !is_listed(name) {
            return Err(ModelError::unsupported(
                path,
                "list of files without",
                name,
                "one that names every file of the model",
            ));
        }
    }
    if !(manifest.has_encoder || is_width(manifest.dim) && manifest.encoder.is_empty()) {
        let supported = "a width from 1 to 65536 and no settings of an encoder";
        return Err(ModelError::unsupported(path, "width", manifest.dim, supported));
    }
    if !(manifest.logit_scale.is_finite() && manifest.logit_scale > 0.0) {
        return Err(ModelError::unsupported(path, "logit_scale", manifest.logit_scale, "a number over 0"));
    }
    // The names are joined to a path and may be malicious.
    let known = |name: &str| match manifest.has_encoder {
        true => CARRIED_FILES.contains(&name) || weights.contains(&name) || files::is_module_file(name),
        false => name == INDEXER_FILE,
    };
    if let Some(name) = manifest.files.keys().find(|name| !known(name)) {
        return Err(ModelError::unsupported(path, "file", name, "the files that a bundle is made of"));
    }
    Ok(manifest)
}

/// The files of an encoder that a bundle copies, by their paths inside its directory. The weights are among
/// them only if they are in the folder of a module.
fn carried_files(dir: &Path) -> Result<Vec<String>, ModelError> {
    let own = CARRIED_FILES.into_iter().filter(|name| dir.join(name).exists()).map(str::to_owned);
    Ok(own.chain(files::module_files(dir)?).collect())
}
