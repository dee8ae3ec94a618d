//! A `tokenizer.json`, checked before the tokenizer is made of it.
//!
//! The file is read here and not by the tokenizers library, which would hold all of it three times
//! over, accept parts by guessing at them, and panic on some that are crafted. Padding, truncation and
//! the decoder are not read: this crate pads nothing, has a length of its own, and decodes nothing.

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::{
    AddedToken, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer, TruncationParams,
};

use super::part::Part;
use super::pipeline;
use super::vocabulary::{Model, Unknown};

/// Tokens beside the model's own vocabulary.
const MOST_ADDED: usize = 65_536;
/// Bytes of one of them.
const LONGEST_ADDED: usize = 512;
/// Bytes of all of them, after normalisation where it applies. An automaton is made of them.
const MOST_ADDED_BYTES: f64 = (4 << 20) as f64;

/// A tokenizer that truncates and never pads, and the growth of texts in it.
pub(super) struct Checked {
    pub tokenizer: Tokenizer,
    /// How much longer than a text its normalised form can be, by bytes; from 1.
    pub growth: f64,
    /// The token for what the vocabulary does not have.
    pub unknown: Option<u32>,
}

#[derive(Deserialize)]
struct File {
    version: Option<String>,
    truncation: Option<Truncation>,
    #[serde(default)]
    added_tokens: AddedTokens,
    normalizer: Option<Part>,
    pre_tokenizer: Option<Part>,
    post_processor: Option<Part>,
    model: Model,
}

/// Its length is that of the encoder.
#[derive(Deserialize)]
struct Truncation {
    direction: Option<String>,
}

#[derive(Default)]
struct AddedTokens(Vec<AddedToken>);

impl<'de> Deserialize<'de> for AddedTokens {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> serde::de::Visitor<'de> for List {
            type Value = AddedTokens;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a list of added tokens")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut access: A) -> Result<AddedTokens, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = access.next_element::<AddedToken>()? {
                    if tokens.len() >= MOST_ADDED || token.content.len() > LONGEST_ADDED {
                        return Err(serde::de::Error::custom(format!(
                            "at most {MOST_ADDED} added tokens of at most {LONGEST_ADDED} bytes are allowed"
                        )));
                    }
                    tokens.push(token);
                }
                Ok(AddedTokens(tokens))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Makes the tokenizer, which gives at most `max_tokens` ids for a text.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn read(bytes: &[u8], max_tokens: usize, lowercase: bool) -> Result<Checked, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
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
    let value = |part: Option<Part>| part.map(|part| part.0).filter(|part| !part.is_null());
    let normalizer = value(file.normalizer);
    let normalizer = if lowercase { Some(lowercased(normalizer)) } else { normalizer };
    let pre_tokenizer = value(file.pre_tokenizer);
    let post_processor = value(file.post_processor);

    let growth = normalizer.as_ref().map_or(Ok(1.0), pipeline::check_normalizer)?;
    pre_tokenizer.as_ref().map_or(Ok(()), pipeline::check_pre_tokenizer)?;
    let special = post_processor.as_ref().map_or(Ok(Vec::new()), pipeline::check_post_processor)?;
    if special.len() >= max_tokens {
        return Err(format!(
            "the post-processor adds {} special tokens to a text, of {max_tokens} tokens in all",
            special.len()
        ));
    }
    let tokens = file.added_tokens.0;
    let grown = |token: &AddedToken| if token.normalized { growth } else { 1.0 };
    let added: f64 = tokens.iter().map(|token| token.content.len() as f64 * grown(token)).sum();
    if added > MOST_ADDED_BYTES {
        return Err(format!("the added tokens can have {added} bytes, at most {MOST_ADDED_BYTES}"));
    }

    let unknown = file.model.unknown();
    let mut tokenizer = Tokenizer::new(file.model.build().map_err(|e| format!("model: {e}"))?);
    if let Some(part) = normalizer {
        let part: NormalizerWrapper = parse(part, "normalizer")?;
        tokenizer.with_normalizer(Some(part)).map_err(|e| e.to_string())?;
    }
    if let Some(part) = pre_tokenizer {
        tokenizer.with_pre_tokenizer(Some(parse::<PreTokenizerWrapper>(part, "pre-tokenizer")?));
    }
    if let Some(part) = post_processor {
        tokenizer.with_post_processor(Some(parse::<PostProcessorWrapper>(part, "post-processor")?));
    }
    tokenizer.add_tokens(tokens).map_err(|e| e.to_string())?;
    let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|e| e.to_string())?;
    let unknown = match unknown {
        Unknown::None => None,
        Unknown::Id(id) => Some(id),
        Unknown::Token(token) => tokenizer.token_to_id(&token),
    };
    Ok(Checked { tokenizer, growth, unknown })
}

/// A normalizer after one that puts texts in lower case; as it is where it has that as a part of its own.
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

fn parse<T: serde::de::DeserializeOwned>(part: Value, what: &str) -> Result<T, String> {
    serde_json::from_value(part).map_err(|e| format!("{what}: {e}"))
}
