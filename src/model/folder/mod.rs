//! The folder of an encoder as sentence-transformers writes it, of every release from 2 on.
//!
//! A folder describes the steps of encoding in several files. All of them are read here, and an unimplemented
//! setting is an error: ignoring it would silently give different embeddings.

mod families;
mod length;
mod modules;
mod prompts;
mod statics;
mod task;

use std::path::Path;

use super::config::{Family, MOST_TOKENS, TransformerConfig};
use super::dense::Dense;
use super::error::ModelError;
use super::files::{self, MANIFEST_FILE};
use super::json::Settings;
use super::pooling::{Pooler, PoolingMode, Step};
use super::settings::EncoderSettings;
use super::tokenize::TextRules;
use super::weights::Weights;
use crate::scan::Similarity;

pub(super) use length::read_of_reranker as reranker_length;
pub use modules::Module;
pub(super) use modules::STATIC_EMBEDDING;
#[cfg(feature = "hub")]
pub(super) use modules::{module_folders, table_folder};
pub use prompts::{Prompt, PromptSource};
pub(super) use statics::{MODEL2VEC, config as static_config, family as static_family};
#[cfg(feature = "train")]
pub(super) use task::is_reranker;
pub(super) use task::{check_weights, model_type, modern_head, reranker};

/// The settings of a folder for turning a text into an embedding, without those of the transformer itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Folder {
    pub pooling: Vec<PoolingMode>,
    /// Whether the tokens of the prompt are pooled too.
    pub include_prompt: bool,
    pub modules: Vec<Module>,
    /// How texts are tokenised.
    pub text: TextRules,
    /// Dimensions that embeddings keep.
    pub truncate_dim: Option<usize>,
    pub similarity: Similarity,
    pub query_prompt: Prompt,
    pub document_prompt: Prompt,
}

impl Folder {
    /// The settings of a folder that states none: the mean over all tokens, of unit norm.
    fn new() -> Self {
        Self {
            pooling: vec![PoolingMode::Mean],
            include_prompt: true,
            modules: vec![Module::Normalize],
            text: TextRules { max_tokens: MOST_TOKENS, ..TextRules::default() },
            truncate_dim: None,
            similarity: Similarity::Cosine,
            query_prompt: Prompt::default(),
            document_prompt: Prompt::default(),
        }
    }

    /// Reads the folder of an encoder or a bundle, and the settings that are not in its files. `given`
    /// overrides both.
    ///
    /// # Errors
    /// [`ModelError`] names the file and the unsupported setting.
    pub(crate) fn read(
        dir: &Path,
        config: &TransformerConfig,
        given: &EncoderSettings,
    ) -> Result<(Self, EncoderSettings), ModelError> {
        let mut folder = Self::new();
        if config.layers > 0 {
            task::check(dir)?;
        }
        prompts::read(dir, &mut folder)?;
        match config.family {
            Family::Model2vec => statics::model2vec(dir, config.hidden_size, &mut folder)?,
            Family::StaticEmbedding => statics::read(dir, config.hidden_size, &mut folder)?,
            _ => {
                modules::read(dir, config.hidden_size, &mut folder)?;
                length::read(dir, config.max_positions, &mut folder)?;
            }
        }
        let path = dir.join(MANIFEST_FILE);
        let (settings, source) = match path.exists() {
            true => {
                let own: Option<EncoderSettings> = Settings::read(path)?.take("encoder")?;
                (given.or(&own.unwrap_or_default()), PromptSource::Settings)
            }
            false if folder.query_prompt.text.is_empty() && folder.document_prompt.text.is_empty() => {
                // Kept as settings, so that a copy under another name has the same prompts.
                (given.or(&families::prompts(dir)?), PromptSource::Card)
            }
            false => (given.clone(), PromptSource::Card),
        };
        folder.truncate_dim = settings.dim.or(folder.truncate_dim);
        for (prompt, text, given) in [
            (&mut folder.query_prompt, &settings.query_prompt, &given.query_prompt),
            (&mut folder.document_prompt, &settings.document_prompt, &given.document_prompt),
        ] {
            if let Some(text) = text {
                let source = if given.is_some() { PromptSource::Settings } else { source };
                *prompt = Prompt { text: text.clone(), source };
            }
        }
        Ok((folder, settings))
    }

    /// Whether texts are encoded identically; the source of a prompt is ignored.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let without_sources = |folder: &Self| {
            let mut folder = folder.clone();
            folder.query_prompt.source = PromptSource::None;
            folder.document_prompt.source = PromptSource::None;
            folder
        };
        without_sources(self) == without_sources(other)
    }

    /// The pooling with the weights of the modules after it.
    ///
    /// # Errors
    /// Those of reading the weights; [`ModelError::BadSetting`] for more dimensions than the encoder has.
    pub(crate) fn pooler(&self, dir: &Path, hidden: usize) -> Result<Pooler, ModelError> {
        let step = |module: &Module| {
            Ok(match module {
                Module::Dense(config) => {
                    let path = dir.join(&config.folder);
                    check_weights(&path, dir, "SentenceTransformer")?;
                    let weights = Weights::from_file(&path.join(files::ENCODER_FILE))?;
                    Step::Dense(Dense::of(&weights, "linear", config)?)
                }
                Module::Normalize => Step::Normalise,
            })
        };
        let steps = self.modules.iter().map(step).collect::<Result<_, ModelError>>()?;
        let pooler = Pooler::new(self.pooling.clone(), steps, hidden, self.truncate_dim);
        let (what, width) = ("number of dimensions to keep", pooler.width);
        match self.truncate_dim {
            Some(dim) if dim == 0 || dim > width => {
                Err(ModelError::bad_config(dir, what, dim, format!("1 to the encoder's {width}")))
            }
            _ => Ok(pooler),
        }
    }
}
