//! What an encoder does to a text, for people to read.

use std::path::Path;

use serde::Serialize;

use super::config::TransformerConfig;
use super::dense::DenseActivation;
use super::error::ModelError;
use super::folder::{self, Folder, Module, Prompt, StaticForm};
use super::pooling::{Pooler, PoolingMode};
use crate::scan::Similarity;

/// What an encoder does to a text, in the order in which it does it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EncoderDescription {
    /// `model_type` of its `config.json`.
    pub architecture: String,
    /// Layers of the transformer.
    pub layers: usize,
    /// Width of its hidden states.
    pub hidden_size: usize,
    /// Tokens that its vocabulary has.
    pub vocabulary: usize,
    /// What is put before a query.
    pub query_prompt: Prompt,
    /// What is put before a document.
    pub document_prompt: Prompt,
    /// Whether texts are put in lower case before the tokenizer's own steps.
    pub lowercase: bool,
    /// The longest text that is read whole, in tokens; the rest of a longer one is cut.
    pub max_tokens: usize,
    /// How hidden states become one vector; several are put one after another.
    pub pooling: Vec<PoolingMode>,
    /// Whether the tokens of a prompt are pooled too.
    pub pools_prompt: bool,
    /// What follows the pooling.
    pub modules: Vec<ModuleDescription>,
    /// Dimensions of what the modules give.
    pub width: usize,
    /// Dimensions of embeddings: all of `width`, or the first of them.
    pub dim: usize,
    /// Whether embeddings have unit norm.
    pub is_unit: bool,
    /// By what embeddings are compared.
    pub similarity: Similarity,
}

/// A text as an encoder reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadText {
    /// Ids of its tokens, those of the prompt and special ones included.
    pub ids: Vec<u32>,
    /// The same as the vocabulary writes them.
    pub tokens: Vec<String>,
    /// The first of them that is pooled: 0, or where the prompt ends.
    pub pooled_from: usize,
}

/// A module after the pooling.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "module")]
#[non_exhaustive]
pub enum ModuleDescription {
    /// A linear map, then an activation.
    Dense {
        /// Dimensions before it.
        inputs: usize,
        /// Dimensions after it.
        outputs: usize,
        /// What is applied to its outputs.
        activation: DenseActivation,
    },
    /// Unit L2 norm.
    Normalize,
}

impl EncoderDescription {
    pub(super) fn of(
        folder: &Folder,
        pooler: &Pooler,
        config: &TransformerConfig,
        dir: &Path,
    ) -> Result<Self, ModelError> {
        let module = |module: &Module| match module {
            Module::Normalise => ModuleDescription::Normalize,
            Module::Dense(_, dense) => ModuleDescription::Dense {
                inputs: dense.inputs,
                outputs: dense.outputs,
                activation: dense.activation,
            },
        };
        Ok(Self {
            architecture: match StaticForm::of(dir)? {
                Some(form) => form.name().to_owned(),
                None => folder::model_type(dir)?,
            },
            layers: config.layers,
            hidden_size: config.hidden_size,
            vocabulary: config.vocab_size,
            query_prompt: folder.query_prompt.clone(),
            document_prompt: folder.document_prompt.clone(),
            lowercase: folder.lowercase,
            max_tokens: folder.max_tokens,
            pooling: folder.pooling.clone(),
            pools_prompt: folder.include_prompt,
            modules: folder.modules.iter().map(module).collect(),
            width: pooler.width(),
            dim: pooler.dim(),
            is_unit: pooler.is_unit(),
            similarity: folder.similarity,
        })
    }
}
