//! A description of an encoder for display.

use serde::Serialize;

use super::config::Family;
use super::encoder::Encoder;
use super::error::ModelError;
use super::folder::{self, Module, Prompt};
use super::pooling::PoolingMode;
use crate::scan::Similarity;

/// The steps of an encoder, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EncoderDescription {
    /// `model_type` of its `config.json`.
    pub architecture: String,
    /// Layers of the transformer.
    pub layers: usize,
    /// Width of its hidden states.
    pub hidden_size: usize,
    /// Size of its vocabulary.
    pub vocabulary: usize,
    /// Prompt of queries.
    pub query_prompt: Prompt,
    /// Prompt of documents.
    pub document_prompt: Prompt,
    /// Whether texts are lowercased before the tokenizer's own steps.
    pub lowercase: bool,
    /// The longest text read in full, in tokens; a longer one is truncated.
    pub max_tokens: usize,
    /// How hidden states become one vector; the results of several modes are concatenated.
    pub pooling: Vec<PoolingMode>,
    /// Whether the tokens of a prompt are pooled too.
    pub pools_prompt: bool,
    /// Modules after the pooling.
    pub modules: Vec<Module>,
    /// Dimensions of the modules' output.
    pub width: usize,
    /// Dimensions of embeddings: all of `width`, or the first of them.
    pub dim: usize,
    /// Whether embeddings have unit norm.
    pub is_unit: bool,
    /// How embeddings are compared.
    pub similarity: Similarity,
}

/// A tokenised text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadText {
    /// Token ids, including the prompt and special tokens.
    pub ids: Vec<u32>,
    /// The same tokens as written in the vocabulary.
    pub tokens: Vec<String>,
    /// Position of the first pooled token: 0, or the end of the prompt.
    pub pooled_from: usize,
}

impl Encoder {
    /// Describes the encoder for display.
    ///
    /// # Errors
    /// Those of reading `config.json`.
    pub fn describe(&self) -> Result<EncoderDescription, ModelError> {
        let (folder, pooler, config, dir) = (self.folder(), &self.pooler, self.config(), self.dir());
        Ok(EncoderDescription {
            architecture: match config.family {
                Family::Model2vec => folder::MODEL2VEC.to_owned(),
                Family::StaticEmbedding => folder::STATIC_EMBEDDING.to_owned(),
                _ => folder::model_type(dir)?,
            },
            layers: config.layers,
            hidden_size: config.hidden_size,
            vocabulary: config.vocab_size,
            query_prompt: folder.query_prompt.clone(),
            document_prompt: folder.document_prompt.clone(),
            lowercase: folder.text.lowercase,
            max_tokens: folder.text.max_tokens,
            pooling: folder.pooling.clone(),
            pools_prompt: folder.include_prompt,
            modules: folder.modules.clone(),
            width: pooler.width,
            dim: pooler.dim,
            is_unit: pooler.is_unit(),
            similarity: folder.similarity,
        })
    }
}
