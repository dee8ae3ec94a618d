//! `config_sentence_transformers.json`: prompts, similarity, dimensions to keep.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::refuse_unknown;
use crate::model::error::ModelError;
use crate::model::files::{self, PROMPTS_FILE};
use crate::scan::Similarity;

/// What is put before a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Empty where nothing is.
    pub text: String,
    /// Where it is from.
    pub source: PromptSource,
}

/// Where a prompt is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptSource {
    /// Nothing says that there is one.
    #[default]
    None,
    /// The folder's `config_sentence_transformers.json`.
    Folder,
    /// The model's card: this crate has a table of some cards' prompts, by the models' names.
    Card,
    /// [`EncoderSettings`](crate::model::EncoderSettings), given or kept by a bundle.
    Settings,
}

/// What the file says.
pub(super) struct Said {
    pub query: Prompt,
    pub document: Prompt,
    pub truncate_dim: Option<usize>,
    pub similarity: Similarity,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    prompts: Option<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    default_prompt_name: Option<String>,
    similarity_fn_name: Option<String>,
    truncate_dim: Option<usize>,
    model_type: Option<String>,
    #[serde(rename = "__version__")]
    _version: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

const OF_QUERIES: [&str; 1] = ["query"];
const OF_DOCUMENTS: [&str; 3] = ["document", "passage", "corpus"];

impl Config {
    /// The prompt of a role: the first that is not empty. The default one where no name is there, not even
    /// with an empty prompt: the library writes those since release 5, and then means no prompt by it.
    fn find(&self, names: &[&str]) -> Prompt {
        let prompts = self.prompts.iter().flatten();
        let of = |name: &str| prompts.clone().find(|(own, _)| *own == name).map(|(_, text)| text.as_deref());
        let named: Vec<_> = names.iter().filter_map(|name| of(name)).collect();
        let default = || self.default_prompt_name.as_deref().and_then(of).flatten();
        let text = match named.is_empty() {
            true => default(),
            false => named.into_iter().flatten().find(|text| !text.is_empty()),
        };
        match text.filter(|text| !text.is_empty()) {
            Some(text) => Prompt { text: text.to_owned(), source: PromptSource::Folder },
            None => Prompt::default(),
        }
    }
}

/// Whether the file has a prompt for queries, and for documents.
pub(super) fn said(dir: &Path) -> Result<[bool; 2], ModelError> {
    let config: Config = files::read_json_or_default(&dir.join(PROMPTS_FILE))?;
    Ok([&OF_QUERIES[..], &OF_DOCUMENTS[..]].map(|names| !config.find(names).text.is_empty()))
}

pub(super) fn read(dir: &Path) -> Result<Said, ModelError> {
    let path = dir.join(PROMPTS_FILE);
    let config: Config = files::read_json_or_default(&path)?;
    refuse_unknown(&path, &config.rest)?;
    match config.model_type.as_deref() {
        None | Some("SentenceTransformer") => {}
        Some("CrossEncoder") => {
            return Err(ModelError::unsupported(
                &path,
                "model_type",
                "CrossEncoder",
                "SentenceTransformer; it is a reranker",
            ));
        }
        Some(other) => {
            return Err(ModelError::unsupported(&path, "model_type", other, "SentenceTransformer"));
        }
    }
    if let Some(name) = &config.default_prompt_name
        && !config.prompts.iter().flatten().any(|(own, _)| own == name)
    {
        return Err(ModelError::unsupported(
            &path,
            "default_prompt_name",
            name,
            "the name of one of its prompts",
        ));
    }
    let similarity = match config.similarity_fn_name.as_deref() {
        None | Some("cosine") => Similarity::Cosine,
        Some("dot") => Similarity::DotProduct,
        Some("manhattan") => Similarity::Manhattan,
        Some(other) => {
            return Err(ModelError::unsupported(
                &path,
                "similarity_fn_name",
                other,
                "cosine, dot, manhattan",
            ));
        }
    };
    Ok(Said {
        query: config.find(&OF_QUERIES),
        document: config.find(&OF_DOCUMENTS),
        truncate_dim: config.truncate_dim,
        similarity,
    })
}
