//! The parts of a tokenizer's pipeline: reading them within limits, and checking their effect on a text.
//!
//! The tokenizers library is lenient: it guesses unknown values and ignores settings. Each parsed part is
//! therefore serialised and compared with the input. The library's own form of the part is then checked for
//! its possible effects.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::charsmap;

/// Bytes of all parts of one kind as JSON. Character maps take a few hundred thousand.
const LONGEST_PART: usize = 1 << 20;
/// Parts of one kind, including those inside sequences.
const MOST_PARTS: usize = 32;
/// Bytes of a pattern, a replacement or another string of a part, except a character map.
const LONGEST_STRING: usize = 2048;
/// Bytes that a normalizer may put before each piece of a text: one character.
const LONGEST_PREPEND: usize = 4;
/// Largest growth factor of a text by normalisation.
const MOST_GROWTH: f64 = 512.0;
const CHARSMAP: &str = "precompiled_charsmap";
/// Names of the fields with a sequence's parts.
const SEQUENCES: [&str; 3] = ["normalizers", "pretokenizers", "processors"];
/// Settings of older files, which the library writes under other names.
const FORMER_SETTINGS: [&str; 2] = ["add_prefix_space", "str_rep"];

/// A part as the tokenizers library reads it from JSON that `edit` may change, and its serialised form.
///
/// # Errors
/// The problem with it, or the setting that the library ignores.
pub(super) fn read<T: for<'de> Deserialize<'de> + Serialize>(
    raw: Option<&RawValue>,
    what: &str,
    edit: impl FnOnce(Option<Value>) -> Option<Value>,
) -> Result<Option<(T, Value)>, String> {
    let length = raw.map_or(0, |raw| raw.get().len());
    if length > LONGEST_PART {
        return Err(format!("the {what} has {length} bytes, at most {LONGEST_PART} are read"));
    }
    let json = raw.map(|raw| serde_json::from_str(raw.get())).transpose();
    let Some(json) = edit(json.map_err(|e| format!("{what}: {e}"))?) else { return Ok(None) };
    let mut patterns = 0;
    check("", &json, &mut patterns)?;
    if patterns > MOST_PARTS {
        return Err(format!("more than {MOST_PARTS} patterns in the {what}"));
    }
    let part = T::deserialize(&json).map_err(|e| format!("{what}: {e}"))?;
    let own = serde_json::to_value(&part).map_err(|e| format!("{what}: {e}"))?;
    compare(&json, &own, what)?;
    match flat(&own).len() {
        count if count > MOST_PARTS => Err(format!("more than {MOST_PARTS} {what}s")),
        _ => Ok(Some((part, own))),
    }
}

/// Refuses input that would take memory while the library reads it: long strings, and character maps with
/// false sizes. Counts patterns, which are compiled.
fn check(name: &str, value: &Value, patterns: &mut usize) -> Result<(), String> {
    match value {
        Value::String(text) if name == CHARSMAP => charsmap::growth(text).map(|_| ()),
        Value::String(text) if text.len() > LONGEST_STRING => {
            Err(format!("`{name}` has {} bytes, at most {LONGEST_STRING} are allowed", text.len()))
        }
        Value::Array(values) => values.iter().try_for_each(|value| check(name, value, patterns)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            *patterns += usize::from(name == "pattern");
            check(name, value, patterns)
        }),
        _ => Ok(()),
    }
}

/// Refuses a part that the library has changed.
fn compare(given: &Value, own: &Value, what: &str) -> Result<(), String> {
    let differs =
        |what: &str| Err(format!("{what} is `{}`, which is not known", shortened(&given.to_string())));
    match (given, own) {
        (Value::Object(given), Value::Object(own)) => {
            given.iter().try_for_each(|(name, value)| match own.get(name) {
                Some(own) => compare(value, own, name),
                None if FORMER_SETTINGS.contains(&name.as_str()) => Ok(()),
                None => Err(format!("the {what} has no setting `{}`", shortened(name))),
            })
        }
        (Value::Array(given), Value::Array(own)) if given.len() == own.len() => {
            given.iter().zip(own).try_for_each(|(given, own)| compare(given, own, what))
        }
        _ if given == own => Ok(()),
        _ => differs(what),
    }
}

/// The parts, with sequences flattened.
fn flat(part: &Value) -> Vec<&Value> {
    match SEQUENCES.iter().find_map(|name| part.get(name)?.as_array()) {
        Some(inner) => inner.iter().flat_map(flat).collect(),
        None => vec![part],
    }
}

fn kind(part: &Value) -> &str {
    string(part, "type")
}

fn string<'a>(part: &'a Value, name: &str) -> &'a str {
    part.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Largest growth factor of a text, in bytes.
///
/// # Errors
/// The problem with a normalizer.
pub(super) fn check_normalizer(normalizer: &Value) -> Result<f64, String> {
    let mut growth = 1f64;
    let mut prepends = 0;
    for part in flat(normalizer) {
        growth *= match kind(part) {
            // Spaces around a Chinese character, its decomposition, and lower case.
            "BertNormalizer" => 8.0,
            // Unicode's own bounds on the growth of its normal forms in UTF-8.
            "NFC" | "NFD" => 3.0,
            "NFKC" | "NFKD" => 11.0,
            "Lowercase" => 1.5,
            "ByteLevel" => 2.0,
            "Precompiled" => charsmap::growth(string(part, CHARSMAP))?,
            "Replace" => {
                let content = string(part, "content").len() as f64;
                match part.get("pattern").map_or("", |pattern| string(pattern, "String")).len() {
                    // An expression may match without taking a character, before each one and at the end.
                    0 => 1.0 + 2.0 * content,
                    length => (content / length as f64).max(1.0),
                }
            }
            "Prepend" => {
                prepends += 1;
                let length = string(part, "prepend").len();
                if prepends > 1 || length > LONGEST_PREPEND {
                    return Err("the normalizers prepend more than one character".to_owned());
                }
                1.0 + length as f64
            }
            _ => 1.0,
        };
    }
    if growth > MOST_GROWTH {
        return Err(format!(
            "the normalizers can make a text {growth:.0} times as long, at most {MOST_GROWTH} times is read"
        ));
    }
    Ok(growth)
}

/// # Errors
/// The problem with a pre-tokenizer.
pub(super) fn check_pre_tokenizer(pre_tokenizer: &Value) -> Result<(), String> {
    let parts = flat(pre_tokenizer);
    if parts.iter().any(|part| kind(part) == "FixedLength" && part["length"] == 0) {
        return Err("the length of a FixedLength pre-tokenizer is 0".to_owned());
    }
    // These rewrite a text: a few bytes for each byte, and one more before each word.
    match parts.iter().filter(|part| ["ByteLevel", "Metaspace"].contains(&kind(part))).count() {
        0 | 1 => Ok(()),
        count => Err(format!("{count} pre-tokenizers that write the text anew, at most 1 is allowed")),
    }
}

/// Number of special tokens added to each text.
///
/// # Errors
/// The problem with a post-processor.
pub(super) fn check_post_processor(post_processor: &Value) -> Result<usize, String> {
    let mut added = None;
    for part in flat(post_processor) {
        let count = match kind(part) {
            "BertProcessing" | "RobertaProcessing" => 2,
            "TemplateProcessing" => template_tokens(part)?,
            _ => continue,
        };
        if added.replace(count).is_some() {
            return Err("more than one post-processor adds special tokens".to_owned());
        }
    }
    Ok(added.unwrap_or_default())
}

fn template_tokens(template: &Value) -> Result<usize, String> {
    let (mut count, mut texts) = (0, 0);
    for piece in template["single"].as_array().into_iter().flatten() {
        if let Some(sequence) = piece.get("Sequence") {
            if string(sequence, "id") != "A" {
                return Err("the template for one text uses a second one".to_owned());
            }
            texts += 1;
            continue;
        }
        let id = piece.get("SpecialToken").map_or("", |token| string(token, "id"));
        let token = template["special_tokens"].get(id);
        let length = |name| token.and_then(|token| token.get(name)?.as_array()).map(Vec::len);
        match (length("ids"), length("tokens")) {
            (Some(ids), Some(tokens)) if ids == tokens => count += ids,
            (Some(ids), Some(tokens)) => {
                return Err(format!("special token `{id}` has {ids} ids and {tokens} tokens"));
            }
            _ => return Err(format!("the template uses `{id}`, which is not among its special tokens")),
        }
    }
    match texts {
        1 => Ok(count),
        _ => Err(format!("the template has {texts} places for the text, expected 1")),
    }
}

/// The start of a name from a file, for a message.
pub(super) fn shortened(name: &str) -> String {
    name.chars().take(40).collect()
}
