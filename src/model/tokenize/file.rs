//! A `tokenizer.json`, checked before the tokenizer is built from it.
//!
//! The tokenizers library would hold the whole file three times, and panics on some malicious files. It is
//! therefore given only the parts of the pipeline, each within limits, and the vocabulary is read here.
//! Padding, truncation and the decoder are ignored: this crate does not pad or decode, and sets its own
//! length.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokenizers::{
    AddedToken, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer, TruncationParams,
};

use super::pipeline;
use super::vocabulary::Model;

/// Most tokens in addition to the model's vocabulary.
const MOST_ADDED: usize = 65_536;
/// Most bytes of one of them.
const LONGEST_ADDED: usize = 512;
/// Most bytes of all of them, after normalisation if it applies. They are compiled into an automaton.
const MOST_ADDED_BYTES: f64 = (4 << 20) as f64;

/// A tokenizer that truncates and never pads, and the growth of texts in it.
pub(super) struct Checked {
    pub tokenizer: Tokenizer,
    /// Largest growth factor of a text by normalisation, in bytes; at least 1.
    pub growth: f64,
    /// The token for unknown parts.
    pub unknown: Option<u32>,
}

#[derive(Deserialize)]
struct File<'a> {
    version: Option<String>,
    truncation: Option<Truncation>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(borrow)]
    pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow)]
    post_processor: Option<&'a RawValue>,
    model: Model,
}

/// The length of the tokenizer is that of the encoder.
#[derive(Deserialize)]
struct Truncation {
    direction: Option<String>,
}

/// Builds the tokenizer, which returns at most `max_tokens` ids for a text.
///
/// # Errors
/// The problem with the file.
pub(super) fn read(bytes: &[u8], max_tokens: usize, lowercase: bool) -> Result<Checked, String> {
    let file: File<'_> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if let Some(version) = file.version.filter(|version| version != "1.0") {
        return Err(format!("version `{}` is not known", pipeline::shortened(&version)));
    }
    let direction = file.truncation.and_then(|truncation| truncation.direction);
    if let Some(direction) = direction.filter(|direction| direction != "Right") {
        return Err(format!(
            "truncation on the side `{}`; texts are cut on the right",
            pipeline::shortened(&direction)
        ));
    }
    let edit = |own| if lowercase { Some(lowercased(own)) } else { own };
    let normalizer = pipeline::read::<NormalizerWrapper>(file.normalizer, "normalizer", edit)?;
    let pre_tokenizer =
        pipeline::read::<PreTokenizerWrapper>(file.pre_tokenizer, "pre-tokenizer", |own| own)?;
    let post_processor =
        pipeline::read::<PostProcessorWrapper>(file.post_processor, "post-processor", |own| own)?;

    let growth = normalizer.as_ref().map_or(Ok(1.0), |(_, own)| pipeline::check_normalizer(own))?;
    pre_tokenizer.as_ref().map_or(Ok(()), |(_, own)| pipeline::check_pre_tokenizer(own))?;
    let special = post_processor.as_ref().map_or(Ok(0), |(_, own)| pipeline::check_post_processor(own))?;
    if special >= max_tokens {
        return Err(format!(
            "the post-processor adds {special} special tokens to a text, of {max_tokens} tokens in all"
        ));
    }
    let tokens = file.added_tokens;
    if tokens.len() > MOST_ADDED {
        return Err(format!("{} added tokens, at most {MOST_ADDED} are allowed", tokens.len()));
    }
    if tokens.iter().any(|token| token.content.len() > LONGEST_ADDED) {
        return Err(format!("added tokens of at most {LONGEST_ADDED} bytes are allowed"));
    }
    let grown = |token: &AddedToken| if token.normalized { growth } else { 1.0 };
    let added: f64 = tokens.iter().map(|token| token.content.len() as f64 * grown(token)).sum();
    if added > MOST_ADDED_BYTES {
        return Err(format!("the added tokens can have {added} bytes, at most {MOST_ADDED_BYTES}"));
    }

    let (unknown, unknown_token) = file.model.unknown();
    let mut tokenizer = Tokenizer::new(file.model.build().map_err(|e| format!("model: {e}"))?);
    let normalizer = normalizer.map(|(part, _)| part);
    tokenizer.with_normalizer(normalizer).map_err(|e| e.to_string())?;
    tokenizer.with_pre_tokenizer(pre_tokenizer.map(|(part, _)| part));
    tokenizer.with_post_processor(post_processor.map(|(part, _)| part));
    tokenizer.add_tokens(tokens).map_err(|e| e.to_string())?;
    let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|e| e.to_string())?;
    let unknown = unknown.or_else(|| tokenizer.token_to_id(&unknown_token?));
    Ok(Checked { tokenizer, growth, unknown })
}

/// Prepends lowercasing to a normalizer, unless it already lowercases.
fn lowercased(normalizer: Option<Value>) -> Value {
    let kind = |part: &Value| part.get("type").and_then(Value::as_str).map(str::to_owned);
    let mut parts = match normalizer {
        None => Vec::new(),
        Some(part) => match (kind(&part).as_deref(), part.get("normalizers").and_then(Value::as_array)) {
            (Some("Sequence"), Some(parts)) => parts.clone(),
            _ => vec![part],
        },
    };
    if !parts.iter().any(|part| kind(part).as_deref() == Some("Lowercase")) {
        parts.insert(0, json!({ "type": "Lowercase" }));
    }
    json!({ "type": "Sequence", "normalizers": parts })
}
