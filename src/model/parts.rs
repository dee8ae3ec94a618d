//! The weights and the tokenizer of an encoder, each loaded on first use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[cfg(feature = "train")]
use candle_core::Tensor;

use super::config::{EncoderPrecision, TransformerConfig};
use super::error::ModelError;
use super::files;
use super::packed::PackedTransformer;
use super::shared_weights::{self, Source};
use super::tokenize::{TextRules, TextTokenizer};
use super::transformer::Transformer;
use super::weights::{Weight, Weights};

/// The source of the parts, and how they are read.
pub(super) struct EncoderFiles {
    pub(super) dir: PathBuf,
    pub(super) weights: PathBuf,
    pub(super) tokenizer: PathBuf,
    pub(super) config: TransformerConfig,
    pub(super) text: TextRules,
    pub(super) precision: EncoderPrecision,
    /// Whether the weights may be those that another encoder has read from the same file.
    pub(super) shared: bool,
    /// Files that are still to be verified, and their SHA-256.
    pub(super) unchecked: BTreeMap<PathBuf, String>,
}

/// Parts that are loaded on first use.
pub(super) struct LazyParts {
    pub(super) source: EncoderFiles,
    packed: OnceLock<Arc<PackedTransformer>>,
    tokenizer: OnceLock<TextTokenizer>,
    /// The weights for training. Searches do not load them, because they double the memory.
    #[cfg(feature = "train")]
    transformer: OnceLock<Transformer<Tensor>>,
}

impl LazyParts {
    pub(super) fn new(source: EncoderFiles) -> Self {
        Self {
            source,
            packed: OnceLock::new(),
            tokenizer: OnceLock::new(),
            #[cfg(feature = "train")]
            transformer: OnceLock::new(),
        }
    }

    /// The weights for encoding texts; loading is retried after a failure.
    pub(super) fn packed(&self) -> Result<&Arc<PackedTransformer>, ModelError> {
        self.load_into(&self.packed, EncoderFiles::packed)
    }

    /// The tokenizer, loaded without the weights; loading is retried after a failure.
    pub(super) fn tokenizer(&self) -> Result<&TextTokenizer, ModelError> {
        self.load_into(&self.tokenizer, EncoderFiles::tokenizer)
    }

    /// The layers, each with its own tensors.
    #[cfg(feature = "train")]
    pub(super) fn transformer(&self) -> Result<&Transformer<Tensor>, ModelError> {
        self.load_into(&self.transformer, EncoderFiles::transformer)
    }

    fn load_into<'a, T>(
        &'a self,
        cell: &'a OnceLock<T>,
        load: impl FnOnce(&EncoderFiles) -> Result<T, ModelError>,
    ) -> Result<&'a T, ModelError> {
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        // Without a lock: loading runs in parallel, and a thread waiting for part of it may start other work
        // that would wait for the lock. If two threads load, one result is dropped.
        let loaded = load(&self.source)?;
        Ok(cell.get_or_init(|| loaded))
    }
}

impl EncoderFiles {
    fn packed(&self) -> Result<Arc<PackedTransformer>, ModelError> {
        let load = || {
            let transformer = self.transformer::<Vec<f32>>()?;
            PackedTransformer::new(&transformer, transformer.config.layers, self.precision).map(Arc::new)
        };
        let source = self.unchecked.get(&self.weights).filter(|_| self.shared);
        match source.and_then(|sha256| Source::of(&self.weights, sha256, &self.config, self.precision)) {
            Some(source) => shared_weights::get_or_load(source, load),
            None => load(),
        }
    }

    fn tokenizer(&self) -> Result<TextTokenizer, ModelError> {
        self.check(&self.tokenizer)?;
        TextTokenizer::from_file(&self.tokenizer, self.text, self.config.vocab_size)
    }

    fn transformer<W: Weight>(&self) -> Result<Transformer<W>, ModelError> {
        self.check(&self.weights)?;
        let weights = Weights::from_file(&self.weights)?;
        Transformer::load(&weights, self.config.clone())
    }

    /// Verifies the checksum of a file, if it has one.
    fn check(&self, path: &Path) -> Result<(), ModelError> {
        self.unchecked.get(path).map_or(Ok(()), |sha256| files::check_digest(path, sha256))
    }
}
