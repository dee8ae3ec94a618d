//! The settings of the Transformer module: the longest text, and steps before the tokenizer.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Folder;
use crate::model::config::MOST_TOKENS;
use crate::model::error::ModelError;
use crate::model::files::{self, LENGTH_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};
use crate::model::json::Settings;

/// Its names for other families in releases of the library before 2.
const FORMER_FILES: [&str; 6] = [
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
/// The shortest useful pair for a reranker: four special tokens, and one or two tokens of each text.
const SHORTEST_PAIR: usize = 8;

/// Values that the module may have for task and output, as written by release 6 of the library.
const OF_ENCODER: [(&str, &str); 2] =
    [("transformer_task", "feature-extraction"), ("module_output_name", "token_embeddings")];
const OF_RERANKER: [(&str, &str); 3] = [
    ("transformer_task", "sequence-classification"),
    ("module_output_name", "scores"),
    ("do_lower_case", "false"),
];

/// Reads the module's settings into `folder`.
pub(super) fn read(dir: &Path, positions: usize, folder: &mut Folder) -> Result<(), ModelError> {
    let path = dir.join(LENGTH_FILE);
    let former = FORMER_FILES.into_iter().find(|name| dir.join(name).exists());
    if let Some(name) = former.filter(|_| !files::is_there(&path)) {
        let supported = "sentence_bert_config.json, to which it can be renamed";
        return Err(ModelError::unsupported(dir, "name of a file", name, supported));
    }
    let (mut config, said) = body(dir, &OF_ENCODER, "last_hidden_state")?;
    folder.text.lowercase = config.or("do_lower_case", false)?;
    config.refuse_rest()?;
    let of_tokenizer = tokenizer_length(dir)?;
    let said = said.map(|length| (length, path));
    let said = said.or_else(|| of_tokenizer.map(|length| (length, dir.join(TOKENIZER_CONFIG_FILE))));
    let (length, file) = said.unwrap_or((positions, dir.join("config.json")));
    folder.text.max_tokens = within(length.min(positions), &file)?;
    Ok(())
}

/// The longest pair of texts that a cross-encoder reads.
pub(in crate::model) fn read_of_reranker(dir: &Path, positions: usize) -> Result<usize, ModelError> {
    let (config, said) = body(dir, &OF_RERANKER, "logits")?;
    config.refuse_rest()?;
    let said = said.or(tokenizer_length(dir)?);
    let found = within(said.unwrap_or(positions).min(positions), &config.path)?;
    match found < SHORTEST_PAIR {
        true => {
            Err(config.bad("maximum length of a pair in tokens", found, format!("{SHORTEST_PAIR} at least")))
        }
        false => Ok(found),
    }
}

/// The module's settings and the longest text. `output` is the transformer's output for a text.
fn body(
    dir: &Path,
    supported: &[(&str, &str)],
    output: &str,
) -> Result<(Settings, Option<usize>), ModelError> {
    let mut config = Settings::read_or_none(dir.join(LENGTH_FILE))?;
    config.check(supported)?;
    for (name, modality) in config.take::<serde_json::Map<_, _>>("modality_config")?.into_iter().flatten() {
        let field = |name: &str| modality.get(name).and_then(Value::as_str);
        let is_text = name == "text"
            && field("method").is_none_or(|method| method == "forward")
            && field("method_output_name").is_none_or(|own| own == output);
        if !is_text {
            let supported = "text by the model's last_hidden_state, or a reranker's logits, alone";
            return Err(config.unsupported("modality_config", format!("{name}: {modality}"), supported));
        }
    }
    // Affects only speed.
    config.fields.remove("unpad_inputs");
    let length = config.take("max_seq_length")?;
    Ok((config, length))
}

fn within(found: usize, path: &Path) -> Result<usize, ModelError> {
    match (2..=MOST_TOKENS).contains(&found) {
        true => Ok(found),
        false => {
            let expected = format!("2 to {MOST_TOKENS}");
            Err(ModelError::bad_config(path, "maximum length in tokens", found, expected))
        }
    }
}

/// `model_max_length`, unless it is the huge number that means no limit.
pub(in crate::model) fn tokenizer_length(dir: &Path) -> Result<Option<usize>, ModelError> {
    let mut config = Settings::read_or_none(dir.join(TOKENIZER_CONFIG_FILE))?;
    config.check(&[("truncation_side", "right")])?;
    // The library rebuilds a BERT normalizer from them.
    let mut said = Vec::new();
    for (name, own) in [
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ] {
        said.extend(config.take::<bool>(name)?.map(|said| (name, own, said)));
    }
    let normalizer = if said.is_empty() { Value::Null } else { bert_normalizer(dir)? };
    for (name, own, said) in said {
        // If unset, accents are stripped exactly when the text is lowercased.
        let found = normalizer.get(own).and_then(|found| match found {
            Value::Null => normalizer.get("lowercase")?.as_bool(),
            found => found.as_bool(),
        });
        if found.is_some_and(|found| found != said) {
            let supported = "that of the normalizer in tokenizer.json";
            return Err(config.unsupported("setting", format!("{name}: {said}"), supported));
        }
    }
    const NONE: f64 = 1e9;
    let length = config.take("model_max_length")?.filter(|length| (0.0..NONE).contains(length));
    Ok(length.map(|length| length as usize))
}

/// The normalizer of `tokenizer.json` if it is a BERT normalizer, null otherwise.
fn bert_normalizer(dir: &Path) -> Result<Value, ModelError> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        normalizer: Value,
    }
    let path = dir.join(TOKENIZER_FILE);
    if !files::is_there(&path) {
        return Ok(Value::Null);
    }
    let File { normalizer } = files::read_json(&path)?;
    let is_bert = normalizer.get("type").and_then(Value::as_str) == Some("BertNormalizer");
    Ok(if is_bert { normalizer } else { Value::Null })
}
