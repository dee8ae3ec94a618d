//! `config_sentence_transformers.json`: prompts, similarity, dimensions to keep.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::Folder;
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

const OF_QUERIES: [&str; 1] = ["query"];
const OF_DOCUMENTS: [&str; 3] = ["document", "passage", "corpus"];

/// Reads the file into `folder`.
pub(super) fn read(dir: &Path, folder: &mut Folder) -> Result<(), ModelError> {
    let mut settings = Settings::read_or_none(dir.join(PROMPTS_FILE))?;
    settings.check(&[("model_type", "SentenceTransformer")])?;
    settings.fields.remove("__version__");
    let prompts: BTreeMap<String, Option<String>> = settings.take("prompts")?.unwrap_or_default();
    let default_name: Option<String> = settings.take("default_prompt_name")?;
    if let Some(name) = default_name.as_ref().filter(|name| !prompts.contains_key(*name)) {
        return Err(settings.unsupported("default_prompt_name", name, "the name of one of its prompts"));
    }
    folder.similarity = match settings.take::<String>("similarity_fn_name")?.as_deref() {
        None | Some("cosine") => Similarity::Cosine,
        Some("dot") => Similarity::DotProduct,
        Some("manhattan") => Similarity::Manhattan,
        Some(other) => {
            return Err(settings.unsupported("similarity_fn_name", other, "cosine, dot, manhattan"));
        }
    };
    folder.truncate_dim = settings.take("truncate_dim")?;
    settings.refuse_rest()?;
    // The prompt of a role: the first non-empty one of these names, or the default prompt if none of the
    // names exists. The library writes empty prompts since release 5, and they mean no prompt.
    let of = |name: &str| prompts.get(name).map(|text| text.as_deref().filter(|text| !text.is_empty()));
    let find = |names: &[&str]| {
        let named: Vec<_> = names.iter().filter_map(|name| of(name)).collect();
        let text = match named.is_empty() {
            true => default_name.as_deref().and_then(of).flatten(),
            false => named.into_iter().flatten().next(),
        };
        text.map_or_else(Prompt::default, |text| Prompt {
            text: text.to_owned(),
            source: PromptSource::Folder,
        })
    };
    (folder.query_prompt, folder.document_prompt) = (find(&OF_QUERIES), find(&OF_DOCUMENTS));
    Ok(())
}
