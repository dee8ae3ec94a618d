//! `config_sentence_transformers.json`: prompts, similarity, dimensions to keep.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::model::error::ModelError;
use crate::model::files::PROMPTS_FILE;
use crate::model::json::Settings;
use crate::scan::Similarity;

/// A prompt, which is put before a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Empty for no prompt.
    pub text: String,
    /// Its source.
    pub source: PromptSource,
}

/// The source of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PromptSource {
    /// No prompt is set.
    #[default]
    None,
    /// The folder's `config_sentence_transformers.json`.
    Folder,
    /// The model's card: this crate has a table of some cards' prompts, by the models' names.
    Card,
    /// [`EncoderSettings`](crate::model::EncoderSettings), given or kept by a bundle.
    Settings,
}

/// The content of the file.
pub(super) struct Said {
    pub query: Prompt,
    pub document: Prompt,
    pub truncate_dim: Option<usize>,
    pub similarity: Similarity,
}

struct Config {
    settings: Settings,
    prompts: BTreeMap<String, Option<String>>,
    default_name: Option<String>,
}

const OF_QUERIES: [&str; 1] = ["query"];
const OF_DOCUMENTS: [&str; 3] = ["document", "passage", "corpus"];

impl Config {
    fn read(dir: &Path) -> Result<Self, ModelError> {
        let mut settings = Settings::read_or_none(dir.join(PROMPTS_FILE))?;
        let prompts = settings.take("prompts")?.unwrap_or_default();
        Ok(Self { prompts, default_name: settings.take("default_prompt_name")?, settings })
    }

    /// The prompt of a role: the first non-empty one of these names, or the default prompt if none of the
    /// names exists. The library writes empty prompts since release 5, and they mean no prompt.
    fn find(&self, names: &[&str]) -> Prompt {
        let of = |name: &str| self.prompts.get(name).map(|text| text.as_deref());
        let named: Vec<_> = names.iter().filter_map(|name| of(name)).collect();
        let default = || self.default_name.as_deref().and_then(of).flatten();
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
    let config = Config::read(dir)?;
    Ok([&OF_QUERIES[..], &OF_DOCUMENTS[..]].map(|names| !config.find(names).text.is_empty()))
}

pub(super) fn read(dir: &Path) -> Result<Said, ModelError> {
    let mut config = Config::read(dir)?;
    let settings = &mut config.settings;
    settings.check(&[("model_type", "SentenceTransformer")])?;
    settings.fields.remove("__version__");
    if let Some(name) = config.default_name.as_ref().filter(|name| !config.prompts.contains_key(*name)) {
        return Err(settings.unsupported("default_prompt_name", name, "the name of one of its prompts"));
    }
    let similarity = match settings.take::<String>("similarity_fn_name")?.as_deref() {
        None | Some("cosine") => Similarity::Cosine,
        Some("dot") => Similarity::DotProduct,
        Some("manhattan") => Similarity::Manhattan,
        Some(other) => {
            return Err(settings.unsupported("similarity_fn_name", other, "cosine, dot, manhattan"));
        }
    };
    let truncate_dim = settings.take("truncate_dim")?;
    settings.refuse_rest()?;
    let (query, document) = (config.find(&OF_QUERIES), config.find(&OF_DOCUMENTS));
    Ok(Said { query, document, truncate_dim, similarity })
}
