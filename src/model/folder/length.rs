//! The settings of the Transformer module: the longest text, and what is done to a text before its tokenizer.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::refuse_unknown;
use crate::model::encoder::MOST_TOKENS;
use crate::model::error::ModelError;
use crate::model::files::{self, LENGTH_FILE, TOKENIZER_BYTES, TOKENIZER_FILE};

/// What the Transformer module does beside the transformer.
pub(super) struct Body {
    pub max_tokens: usize,
    pub lowercase: bool,
}

/// Its names for other families in releases of the library before 2.
const FORMER_FILES: [&str; 6] = [
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// A pair of which a reranker can read something: four signs around it, and a token or two of each text.
const SHORTEST_PAIR: usize = 8;

#[derive(Default, Deserialize)]
struct Config {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: Option<bool>,
    transformer_task: Option<String>,
    module_output_name: Option<String>,
    modality_config: Option<Value>,
    /// A matter of speed.
    #[serde(rename = "unpad_inputs")]
    _unpad_inputs: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Config {
    /// Refuses another task or output than these, as release 6 of the library writes them. `output` is what
    /// the transformer gives of a text, and what to call that.
    fn check(
        &self,
        path: &Path,
        task: &'static str,
        name: &'static str,
        output: (&str, &'static str),
    ) -> Result<(), ModelError> {
        if let Some(found) = self.transformer_task.as_ref().filter(|found| *found != task) {
            return Err(ModelError::unsupported(path, "transformer_task", found, task));
        }
        if let Some(found) = self.module_output_name.as_ref().filter(|found| *found != name) {
            return Err(ModelError::unsupported(path, "module_output_name", found, name));
        }
        if let Some(modalities) = &self.modality_config {
            check_modalities(modalities, output.0)
                .map_err(|found| ModelError::unsupported(path, "modality_config", &found, output.1))?;
        }
        Ok(())
    }
}

pub(super) fn read(dir: &Path, positions: usize) -> Result<Body, ModelError> {
    let path = dir.join(LENGTH_FILE);
    if !files::is_there(&path)
        && let Some(name) = FORMER_FILES.into_iter().find(|name| dir.join(name).exists())
    {
        return Err(ModelError::unsupported(
            dir,
            "name of a file",
            name,
            "sentence_bert_config.json, to which it can be renamed",
        ));
    }
    let config: Config = files::read_json_or_default(&path)?;
    refuse_unknown(&path, &config.rest)?;
    let output = "text by the model's last_hidden_state alone";
    config.check(&path, "feature-extraction", "token_embeddings", ("last_hidden_state", output))?;
    let of_tokenizer = tokenizer_length(dir)?;
    let said = config.max_seq_length.map(|length| (length, path.clone()));
    let said = said.or_else(|| of_tokenizer.map(|length| (length, dir.join(TOKENIZER_CONFIG))));
    let (length, file) = said.unwrap_or((positions, dir.join("config.json")));
    Ok(Body {
        max_tokens: within(length.min(positions), &file)?,
        lowercase: config.do_lower_case.unwrap_or(false),
    })
}

/// The longest pair of texts that a cross-encoder reads.
pub(in crate::model) fn read_of_reranker(dir: &Path, positions: usize) -> Result<usize, ModelError> {
    let path = dir.join(LENGTH_FILE);
    let config: Config = files::read_json_or_default(&path)?;
    refuse_unknown(&path, &config.rest)?;
    let output = "text by the model's logits alone";
    config.check(&path, "sequence-classification", "scores", ("logits", output))?;
    if config.do_lower_case == Some(true) {
        return Err(ModelError::unsupported(&path, "do_lower_case of a reranker", "true", "false"));
    }
    let said = config.max_seq_length.or(tokenizer_length(dir)?);
    let found = within(said.unwrap_or(positions).min(positions), &path)?;
    if found < SHORTEST_PAIR {
        return Err(ModelError::bad_config(
            path,
            "maximum length of a pair in tokens",
            found,
            format!("{SHORTEST_PAIR} at least"),
        ));
    }
    Ok(found)
}

fn within(found: usize, path: &Path) -> Result<usize, ModelError> {
    match (2..=MOST_TOKENS).contains(&found) {
        true => Ok(found),
        false => Err(ModelError::bad_config(
            path,
            "maximum length in tokens",
            found,
            format!("2 to {MOST_TOKENS}"),
        )),
    }
}

/// `model_max_length`, unless it is the number beyond all that stands for none.
pub(in crate::model) fn tokenizer_length(dir: &Path) -> Result<Option<usize>, ModelError> {
    #[derive(Default, Deserialize)]
    struct Tokenizer {
        model_max_length: Option<f64>,
        truncation_side: Option<String>,
        do_lower_case: Option<bool>,
        strip_accents: Option<bool>,
        tokenize_chinese_chars: Option<bool>,
    }
    let path = dir.join(TOKENIZER_CONFIG);
    let config: Tokenizer = files::read_json_or_default(&path)?;
    if let Some(side) = config.truncation_side.filter(|side| side != "right") {
        return Err(ModelError::unsupported(&path, "truncation_side", &side, "right"));
    }
    // The library makes the normalizer of a BERT anew by them.
    let said = [
        ("do_lower_case", "lowercase", config.do_lower_case),
        ("strip_accents", "strip_accents", config.strip_accents),
        ("tokenize_chinese_chars", "handle_chinese_chars", config.tokenize_chinese_chars),
    ];
    if said.iter().any(|(.., said)| said.is_some()) {
        let normalizer = bert_normalizer(dir)?;
        for (name, own, said) in said {
            // Accents go with the case where nothing is said of them.
            let found = normalizer.get(own).and_then(|found| match found {
                Value::Null => normalizer.get("lowercase")?.as_bool(),
                found => found.as_bool(),
            });
            if let (Some(said), Some(found)) = (said, found)
                && said != found
            {
                let found = format!("{name}: {said}");
                return Err(ModelError::unsupported(
                    &path,
                    "setting",
                    &found,
                    "that of the normalizer in tokenizer.json",
                ));
            }
        }
    }
    const NONE: f64 = 1e9;
    let length = config.model_max_length.filter(|length| (0.0..NONE).contains(length));
    Ok(length.map(|length| length as usize))
}

/// The normalizer of `tokenizer.json`, where it is that of a BERT; nothing for another one.
fn bert_normalizer(dir: &Path) -> Result<Map<String, Value>, ModelError> {
    #[derive(Default, Deserialize)]
    struct File {
        normalizer: Option<Value>,
    }
    let path = dir.join(TOKENIZER_FILE);
    if !files::is_there(&path) {
        return Ok(Map::new());
    }
    let file: File = files::read_json_within(&path, TOKENIZER_BYTES)?;
    Ok(match file.normalizer {
        Some(Value::Object(own)) if own.get("type").and_then(Value::as_str) == Some("BertNormalizer") => own,
        _ => Map::new(),
    })
}

/// # Errors
/// What of it is not done here.
fn check_modalities(config: &Value, output: &str) -> Result<(), String> {
    let Some(modalities) = config.as_object() else { return Err(config.to_string()) };
    for (name, modality) in modalities {
        let field = |name: &str| modality.get(name).and_then(Value::as_str);
        let is_text = name == "text"
            && field("method").is_none_or(|method| method == "forward")
            && field("method_output_name").is_none_or(|own| own == output);
        if !is_text {
            return Err(format!("{name}: {modality}"));
        }
    }
    Ok(())
}
