//! The folder of an encoder as sentence-transformers writes it, of every release from 2 on.
//!
//! A folder says in several files what is done to a text. All of it is read here, and what this crate does
//! not do is an error: a setting that is passed over gives other embeddings and no sign of it.

mod families;
mod length;
mod modules;
mod prompts;
mod statics;
mod task;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{Family, TransformerConfig};
use super::dense::{Dense, DenseConfig};
use super::error::ModelError;
use super::files::{self, MANIFEST_FILE};
use super::pooling::{Pooler, PoolingMode, Step};
use super::settings::EncoderSettings;
use crate::scan::Similarity;

pub(super) use length::read_of_reranker as reranker_length;
#[cfg(feature = "hub")]
pub(super) use modules::table_folder;
pub use prompts::{Prompt, PromptSource};
pub(super) use statics::{StaticForm, config as static_config};
#[cfg(feature = "train")]
pub(super) use task::is_reranker;
pub(super) use task::{check_weights, model_type, modern_head, reranker};

/// The bundle format from which on a folder is read as it is here.
const SINCE_FORMAT: u32 = 5;

/// How a folder is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of it.
    Current,
    /// As for bundles before format 5, so that an index goes on encoding as it began: without
    /// `do_lower_case`, `truncate_dim`, `include_prompt`, `similarity_fn_name` and the tokenizer's maximum
    /// length.
    Former,
}

/// What follows the pooling, as the folder says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Module {
    /// The folder of its files, and what they say.
    Dense(String, DenseConfig),
    Normalise,
}

/// Which of a text's tokens an encoder reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// All of them, with the special ones that the tokenizer puts around them.
    #[default]
    Marked,
    /// All of them, and no special ones.
    Bare,
    /// Those that the vocabulary has, of the start of a text: before anything else it is cut at so many
    /// characters as `length` tokens of median length have.
    Known { length: Option<usize> },
}

/// All that a folder says of how a text becomes an embedding, apart from the transformer itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Folder {
    pub pooling: Vec<PoolingMode>,
    /// Whether the tokens of the prompt are pooled too.
    pub include_prompt: bool,
    pub modules: Vec<Module>,
    /// The longest text, in tokens.
    pub max_tokens: usize,
    /// Which of a text's tokens are read.
    pub tokens: Tokens,
    /// Whether texts are put in lower case before the tokenizer's own normalizer.
    pub lowercase: bool,
    /// Dimensions that embeddings keep.
    pub truncate_dim: Option<usize>,
    pub similarity: Similarity,
    pub query_prompt: Prompt,
    pub document_prompt: Prompt,
}

/// A folder, how it was read, and the settings that are not in its files.
pub(crate) struct ReadFolder {
    pub folder: Folder,
    pub reading: Reading,
    pub settings: EncoderSettings,
}

/// Of `ehi.json` what concerns the encoder.
#[derive(Deserialize)]
struct Own {
    format_version: u32,
    #[serde(default)]
    encoder: Option<EncoderSettings>,
}

impl Folder {
    /// Reads the folder of an encoder, or a bundle. What `given` says holds in place of what they say.
    ///
    /// # Errors
    /// [`ModelError`] names the file and the setting that cannot be followed.
    pub(crate) fn read(
        dir: &Path,
        config: &TransformerConfig,
        given: &EncoderSettings,
    ) -> Result<ReadFolder, ModelError> {
        let path = dir.join(MANIFEST_FILE);
        let own: Option<Own> = if path.exists() { Some(files::read_json(&path)?) } else { None };
        let reading = match &own {
            Some(own) if own.format_version < SINCE_FORMAT => Reading::Former,
            _ => Reading::Current,
        };
        let is_bundle = own.is_some();
        let settings = given.or(&own.and_then(|own| own.encoder).unwrap_or_default());
        if reading == Reading::Former && !settings.is_empty() {
            let as_now = Self::read_as(dir, config, &EncoderSettings::default(), Reading::Current)?;
            if as_now != Self::read_as(dir, config, &EncoderSettings::default(), Reading::Former)? {
                return Err(ModelError::Unsupported {
                    path,
                    what: "settings for an encoder of bundle format",
                    found: "1 to 4, whose folder is read in another way today,".to_owned(),
                    supported: "the folder of the encoder it was made from",
                });
            }
        }
        // What no file says is noted, so that a copy under another name goes on in the same way.
        let settings = match is_bundle {
            true => settings,
            false => settings.or(&families::prompts(dir, &prompts::said(dir)?)?),
        };
        let reading = if settings.is_empty() { reading } else { Reading::Current };
        let mut folder = Self::read_as(dir, config, &settings, reading)?;
        if !is_bundle {
            for (prompt, given) in [
                (&mut folder.query_prompt, &given.query_prompt),
                (&mut folder.document_prompt, &given.document_prompt),
            ] {
                if prompt.source == PromptSource::Settings && given.is_none() {
                    prompt.source = PromptSource::Card;
                }
            }
        }
        Ok(ReadFolder { folder, reading, settings })
    }

    fn read_as(
        dir: &Path,
        config: &TransformerConfig,
        settings: &EncoderSettings,
        reading: Reading,
    ) -> Result<Self, ModelError> {
        let form = if config.family == Family::Static { StaticForm::of(dir)? } else { None };
        let mut folder = match (form, reading) {
            (Some(form), _) => statics::read(dir, form, config.hidden_size)?,
            (None, Reading::Current) => {
                task::check(dir)?;
                let chain = modules::read(dir, config.hidden_size)?;
                let body = length::read(dir, config.max_positions)?;
                let said = prompts::read(dir)?;
                Self {
                    pooling: chain.pooling,
                    include_prompt: chain.include_prompt,
                    modules: chain.modules,
                    max_tokens: body.max_tokens,
                    tokens: Tokens::Marked,
                    lowercase: body.lowercase,
                    truncate_dim: said.truncate_dim,
                    similarity: said.similarity,
                    query_prompt: said.query,
                    document_prompt: said.document,
                }
            }
            (None, Reading::Former) => {
                let chain = modules::read(dir, config.hidden_size)?;
                let said = prompts::read_former(dir)?;
                Self {
                    pooling: chain.pooling,
                    include_prompt: true,
                    modules: chain.modules,
                    max_tokens: length::read_former(dir, config.max_positions)?,
                    tokens: Tokens::Marked,
                    lowercase: false,
                    truncate_dim: None,
                    similarity: Similarity::Cosine,
                    query_prompt: said.query,
                    document_prompt: said.document,
                }
            }
        };
        folder.truncate_dim = settings.dim.or(folder.truncate_dim);
        for (prompt, given) in [
            (&mut folder.query_prompt, &settings.query_prompt),
            (&mut folder.document_prompt, &settings.document_prompt),
        ] {
            if let Some(text) = given {
                *prompt = Prompt { text: text.clone(), source: PromptSource::Settings };
            }
        }
        folder.check_dim(dir, config.hidden_size)?;
        Ok(folder)
    }

    /// Width of the embeddings before the first dimensions are taken.
    fn width(&self, hidden: usize) -> usize {
        let pooled = self.pooling.len() * hidden;
        self.modules.iter().fold(pooled, |width, module| match module {
            Module::Dense(_, dense) => dense.outputs,
            Module::Normalise => width,
        })
    }

    fn check_dim(&self, dir: &Path, hidden: usize) -> Result<(), ModelError> {
        let width = self.width(hidden);
        match self.truncate_dim {
            Some(dim) if dim == 0 || dim > width => Err(ModelError::BadConfig {
                path: dir.to_owned(),
                what: "number of dimensions to keep",
                found: dim as u64,
                expected: format!("1 to the encoder's {width}"),
            }),
            _ => Ok(()),
        }
    }

    /// Whether it asks for more than bundles before format 5 could.
    #[cfg(feature = "train")]
    pub(crate) fn is_special(&self) -> bool {
        let plain = [PoolingMode::Cls, PoolingMode::Mean].map(|mode| vec![mode]);
        let has_dense = self.modules.iter().any(|module| matches!(module, Module::Dense(..)));
        has_dense
            || !plain.contains(&self.pooling)
            || !self.include_prompt
            || self.lowercase
            || self.tokens != Tokens::Marked
            || self.truncate_dim.is_some()
    }

    /// Whether texts are encoded alike. Where a prompt is from does not count.
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
    pub(crate) fn pooler(&self, dir: &Path, hidden: usize) -> Result<Pooler, ModelError> {
        let step = |module: &Module| {
            Ok(match module {
                Module::Dense(folder, config) => {
                    let path = dir.join(folder);
                    check_weights(&path, dir, "SentenceTransformer")?;
                    Step::Dense(Dense::load(&path.join(files::ENCODER_FILE), config)?)
                }
                Module::Normalise => Step::Normalise,
            })
        };
        let steps = self.modules.iter().map(step).collect::<Result<_, ModelError>>()?;
        Ok(Pooler::new(self.pooling.clone(), steps, hidden, self.truncate_dim))
    }

    /// Whether a bundle of today's format means the same by these files.
    pub(crate) fn is_read_alike(&self, dir: &Path, config: &TransformerConfig) -> bool {
        Self::read_as(dir, config, &EncoderSettings::default(), Reading::Current)
            .is_ok_and(|now| now.is_alike(self))
    }
}

/// Refuses a setting that is not known, unless it says nothing.
fn refuse_unknown(path: &Path, rest: &Map<String, Value>) -> Result<(), ModelError> {
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    match rest.iter().find(|(_, value)| says(value)) {
        Some((name, value)) => Err(ModelError::Unsupported {
            path: path.to_owned(),
            what: "setting",
            found: shortened(&format!("{name}: {value}")),
            supported: "a file without it",
        }),
        None => Ok(()),
    }
}

/// A setting of a file that is not followed.
fn unsupported(path: &Path, what: &'static str, found: &str, supported: &'static str) -> ModelError {
    ModelError::Unsupported { path: path.to_owned(), what, found: shortened(found), supported }
}

/// The start of something out of a file, for a message.
fn shortened(text: &str) -> String {
    const MOST: usize = 100;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
