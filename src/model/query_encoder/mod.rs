//! An encoder of questions, trained to reproduce the embeddings of the full encoder at a fraction of its
//! cost.
//!
//! A static one has a vector and a weight for each token of the vocabulary. The weighted mean of a question's
//! tokens goes through a small head, `q = A p + b + C relu(D p + e)`, which is scaled to unit length. Not in
//! the paper: static embeddings come from model2vec, the head is new.

mod entry;
mod head;
mod table;
mod weights;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::error::ModelError;
use super::files;
use head::Head;
use table::TokenTable;

pub(crate) use entry::QueryEncoderEntry;
pub use entry::{DistilReport, EncodeMicroseconds, EncoderQuality, SignificantDifference, TreeQuality};
#[cfg(feature = "train")]
pub(crate) use table::SIGNALS;
use table::Signals;
#[cfg(feature = "train")]
pub(crate) use weights::{HeadWeights, StaticWeights};

/// Most bytes of the file of a query encoder.
const MOST_BYTES: u64 = 1 << 30;

/// The query encoder of a bundle; its weights are loaded on first use.
pub(crate) struct FastEncoder {
    entry: QueryEncoderEntry,
    path: PathBuf,
    /// Kept open, so that the file may be replaced; `None` if it could not be opened.
    file: Option<File>,
    /// Vocabulary size and width of the full encoder.
    vocabulary: usize,
    dim: usize,
    loaded: OnceLock<LoadedQueryEncoder>,
    usable: OnceLock<bool>,
}

/// The weights of a query encoder.
pub(crate) struct LoadedQueryEncoder {
    table: TokenTable,
    head: Head,
    confidence: Signals,
}

/// The embedding of a question by a query encoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FastEmbedding {
    /// `[dim]` f32 of unit norm, or zeros.
    pub row: Vec<f32>,
    /// Estimated cosine to the full encoder's embedding.
    pub confidence: f32,
}

impl std::fmt::Debug for FastEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastEncoder").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl FastEncoder {
    /// Opens the file named by an entry in `dir`, for an encoder with this vocabulary size and embedding
    /// width.
    ///
    /// A model works without it, so problems with the file are reported by [`Self::load`].
    pub fn open(dir: &Path, entry: QueryEncoderEntry, vocabulary: usize, dim: usize) -> Self {
        let path = dir.join(&entry.file);
        let file = files::open(&path, MOST_BYTES).ok().map(|(file, _)| file);
        Self { entry, path, file, vocabulary, dim, loaded: OnceLock::new(), usable: OnceLock::new() }
    }

    /// Its entry in the bundle's manifest.
    pub fn entry(&self) -> &QueryEncoderEntry {
        &self.entry
    }

    /// The content of its file, checked.
    pub fn bytes(&self) -> Result<Vec<u8>, ModelError> {
        let content = match &self.file {
            Some(file) => files::read_open(file, &self.path)?,
            None => files::read(&self.path, MOST_BYTES)?,
        };
        match files::hex(&Sha256::digest(&content)) == self.entry.sha256 {
            true => Ok(content),
            false => Err(ModelError::Checksum { path: self.path.clone() }),
        }
    }

    /// Loads the weights; retried after a failure.
    ///
    /// # Errors
    /// Those of reading, [`ModelError::Checksum`], and every error of a tensor file.
    pub fn load(&self) -> Result<(), ModelError> {
        self.loaded().map(drop)
    }

    /// Whether it can be loaded; tried once.
    pub fn is_usable(&self) -> bool {
        *self.usable.get_or_init(|| self.load().is_ok())
    }

    fn loaded(&self) -> Result<&LoadedQueryEncoder, ModelError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = LoadedQueryEncoder::from_bytes(self.bytes()?, &self.path, self.vocabulary, self.dim)?;
        Ok(self.loaded.get_or_init(|| loaded))
    }

    /// The embedding of a question by its token ids.
    ///
    /// # Errors
    /// Those of [`Self::load`]; [`ModelError::OutsideTable`] for an id beyond the vocabulary.
    pub fn embed(&self, tokens: &[u32]) -> Result<FastEmbedding, ModelError> {
        self.loaded()?.embed(tokens)
    }

    /// Whether the confidence in an embedding is so low that the full encoder should be used.
    pub fn is_unsure(&self, embedding: &FastEmbedding) -> bool {
        let FastEmbedding { row, confidence } = embedding;
        confidence.is_nan() || *confidence < self.entry.unsure_below || row.iter().all(|x| *x == 0.0)
    }
}

impl LoadedQueryEncoder {
    /// The head's output, its norm, and the signals of the confidence.
    fn read(&self, tokens: &[u32]) -> Result<(Vec<f32>, f32, Signals), ModelError> {
        let mean = self.table.mean(tokens)?;
        let row = self.head.apply(&mean.row);
        let norm = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt() as f32;
        Ok((row, norm, mean.signals(tokens.len(), norm)))
    }

    /// As [`FastEncoder::embed`].
    pub fn embed(&self, tokens: &[u32]) -> Result<FastEmbedding, ModelError> {
        let (mut row, norm, signals) = self.read(tokens)?;
        if norm.is_finite() && norm > 0.0 {
            row.iter_mut().for_each(|x| *x /= norm);
        } else {
            row.fill(0.0);
        }
        let confidence = signals.iter().zip(&self.confidence).map(|(signal, weight)| signal * weight).sum();
        Ok(FastEmbedding { row, confidence })
    }

    /// The signals of its confidence.
    #[cfg(feature = "train")]
    pub fn signals(&self, tokens: &[u32]) -> Result<Signals, ModelError> {
        Ok(self.read(tokens)?.2)
    }
}

/// Embeds tokens with arbitrary bytes as the query encoder's file, for the fuzz target; not part of the
/// interface.
#[cfg(feature = "fuzzing")]
pub fn fuzz_query_encoder(
    bytes: &[u8],
    vocabulary: usize,
    dim: usize,
) -> Option<impl Fn(&[u32]) -> Option<Vec<f32>> + use<>> {
    let loaded =
        LoadedQueryEncoder::from_bytes(bytes.to_vec(), Path::new("query.safetensors"), vocabulary, dim)
            .ok()?;
    Some(move |tokens: &[u32]| Some(loaded.embed(tokens).ok()?.row))
}

#[cfg(test)]
mod tests;
