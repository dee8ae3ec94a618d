//! Static encoders: a table of token vectors, averaged over a text.
//!
//! There are two forms of folder. model2vec has its own `config.json`; its library leaves out unknown tokens
//! and reads the first 512 tokens. sentence-transformers has a StaticEmbedding as its first module and no
//! `config.json`; it reads every token. A model2vec folder also has a `modules.json`, with which
//! sentence-transformers would read it differently; here it is read as model2vec does.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Folder, Module, modules};
use crate::model::config::{Family, MOST_TOKENS, TransformerConfig};
use crate::model::error::ModelError;
use crate::model::files::{self, CONFIG_FILE, MODULES_FILE};
use crate::model::json::Settings;
use crate::model::tokenize::{TextRules, Tokens};
use crate::model::transformer::{STATIC_TABLES, TOKEN_ROWS};
use crate::model::weights::Weights;

pub(in crate::model) const MODEL2VEC: &str = "model2vec";
/// The library's default for the longest text.
const DEFAULT_LENGTH: usize = 512;

/// The family of a static encoder's folder; `None` for another folder.
pub(in crate::model) fn family(dir: &Path) -> Result<Option<Family>, ModelError> {
    let config = Settings::read_or_none(dir.join(CONFIG_FILE))?.fields;
    let says = |name: &str| config.get(name).filter(|value| !value.is_null());
    // The first releases wrote how the table was made, but no `model_type`.
    let is_first = says("model_type").is_none()
        && ["apply_pca", "tokenizer_name"].into_iter().any(|name| says(name).is_some());
    if is_first || says("model_type").and_then(Value::as_str) == Some(MODEL2VEC) {
        return Ok(Some(Family::Model2vec));
    }
    Ok(modules::table_folder(&dir.join(MODULES_FILE))?.map(|_| Family::StaticEmbedding))
}

/// The description of the table, with the sizes from its file.
pub(in crate::model) fn config(dir: &Path, family: Family) -> Result<TransformerConfig, ModelError> {
    super::check_weights(dir, dir, "SentenceTransformer")?;
    let path = dir.join(files::encoder_file(dir));
    let weights = Weights::from_file(&path)?;
    let shape = |name: &str| weights.shape(name);
    let Some((name, table)) = STATIC_TABLES.iter().find_map(|name| Some((*name, shape(name)?))) else {
        return Err(ModelError::missing_tensor(path, STATIC_TABLES[0]));
    };
    let of_tokens = TOKEN_ROWS.iter().find_map(|name| shape(name));
    let [rows, width] = table[..] else {
        return Err(ModelError::tensor_shape(path, name, &table, &[0, 0]));
    };
    let tokens = of_tokens.as_deref().and_then(|shape| shape.first()).copied().unwrap_or(rows);
    TransformerConfig::of_table(&path, family, [tokens, width], MOST_TOKENS)
}

/// Reads the settings of a folder of sentence-transformers.
pub(super) fn read(dir: &Path, width: usize, folder: &mut Folder) -> Result<(), ModelError> {
    modules::read(dir, width, folder)?;
    let max_tokens = tokenizer_length(dir)?.min(MOST_TOKENS);
    folder.text = TextRules { max_tokens, tokens: Tokens::Bare, lowercase: false };
    Ok(())
}

/// Reads the settings of a folder of model2vec.
pub(super) fn model2vec(dir: &Path, width: usize, folder: &mut Folder) -> Result<(), ModelError> {
    let mut config = Settings::read(dir.join(CONFIG_FILE))?;
    let normalises = config.or("normalize", false)?;
    let own = if normalises { vec![Module::Normalize] } else { Vec::new() };
    let listed = dir.join(MODULES_FILE);
    if files::is_there(&listed) {
        modules::read(dir, width, folder)?;
        if folder.modules != own {
            let supported = "StaticEmbedding, and Normalize where config.json's normalize is true";
            let found = "another than config.json's";
            return Err(ModelError::unsupported(listed, "list of modules", found, supported));
        }
    }
    // Absent, null for none, or a number.
    let default = if config.fields.contains_key("max_length") { None } else { Some(DEFAULT_LENGTH) };
    let length = config.take("max_length")?.or(default);
    if length == Some(0) {
        return Err(config.bad("max_length", 0, "1 and more"));
    }
    folder.modules = own;
    let max_tokens = length.unwrap_or(MOST_TOKENS).min(MOST_TOKENS);
    folder.text = TextRules { max_tokens, tokens: Tokens::Known { length }, lowercase: false };
    Ok(())
}

/// The tokenizer's own maximum length.
fn tokenizer_length(dir: &Path) -> Result<usize, ModelError> {
    #[derive(Deserialize)]
    struct File {
        truncation: Option<Map<String, Value>>,
    }
    let path = dir.join(files::tokenizer_file(dir));
    let File { truncation } = files::read_json(&path)?;
    let Some(fields) = truncation else { return Ok(MOST_TOKENS) };
    let mut truncation = Settings { path, fields };
    truncation.check(&[("direction", "Right")])?;
    match truncation.need("max_length")? {
        0 => Err(truncation.bad("max_length of truncation", 0, "1 and more")),
        length => Ok(length),
    }
}
