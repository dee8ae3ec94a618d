//! The parts of a tokenizer's pipeline: which ones are known, and what they can do to a text.
//!
//! A part is refused unless its type and each of its settings is known, so that what was checked here
//! is what the tokenizers library makes of it, whose own reading is lenient.

use serde_json::{Map, Value};

use super::charsmap;

/// Parts of one kind, those inside sequences included.
const MOST_PARTS: usize = 32;
/// Bytes of a pattern, a replacement or another string of a part; a character map apart.
const LONGEST_STRING: usize = 2048;
/// Bytes that a normalizer may put before each piece of a text: one character.
const LONGEST_PREPEND: usize = 4;
/// How much longer than a text its normalised form may be.
const MOST_GROWTH: f64 = 512.0;

/// Types and their settings. The sequences hold more parts under [`SEQUENCES`].
const NORMALIZERS: [(&str, &[&str]); 14] = [
    ("BertNormalizer", &["clean_text", "handle_chinese_chars", "strip_accents", "lowercase"]),
    ("Strip", &["strip_left", "strip_right"]),
    ("StripAccents", &[]),
    ("NFC", &[]),
    ("NFD", &[]),
    ("NFKC", &[]),
    ("NFKD", &[]),
    ("Sequence", &["normalizers"]),
    ("Lowercase", &[]),
    ("Nmt", &[]),
    ("Precompiled", &["precompiled_charsmap"]),
    ("Replace", &["pattern", "content"]),
    ("Prepend", &["prepend"]),
    ("ByteLevel", &[]),
];
const PRE_TOKENIZERS: [(&str, &[&str]); 12] = [
    ("BertPreTokenizer", &[]),
    ("ByteLevel", &["add_prefix_space", "trim_offsets", "use_regex"]),
    ("CharDelimiterSplit", &["delimiter"]),
    ("Metaspace", &["replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"]),
    ("Whitespace", &[]),
    ("WhitespaceSplit", &[]),
    ("Sequence", &["pretokenizers"]),
    ("Split", &["pattern", "behavior", "invert"]),
    ("Punctuation", &["behavior"]),
    ("Digits", &["individual_digits"]),
    ("UnicodeScripts", &[]),
    ("FixedLength", &["length"]),
];
const POST_PROCESSORS: [(&str, &[&str]); 5] = [
    ("BertProcessing", &["sep", "cls"]),
    ("RobertaProcessing", &["sep", "cls", "trim_offsets", "add_prefix_space"]),
    ("ByteLevel", &["add_prefix_space", "trim_offsets", "use_regex"]),
    ("TemplateProcessing", &["single", "pair", "special_tokens"]),
    ("Sequence", &["processors"]),
];
const SEQUENCES: [&str; 3] = ["normalizers", "pretokenizers", "processors"];

type Fields = Map<String, Value>;

/// How much longer a text can become, by bytes.
///
/// # Errors
/// What is wrong with a part.
pub(super) fn check_normalizer(part: &Value) -> Result<f64, String> {
    let mut growth = 1f64;
    let mut prepends = 0;
    for (kind, fields) in flat(part, "normalizer", &NORMALIZERS)? {
        growth *= match kind {
            // Spaces around a Chinese character, its decomposition, and lower case.
            "BertNormalizer" => 8.0,
            // Unicode's own bounds on the growth of its normal forms in UTF-8.
            "NFC" | "NFD" => 3.0,
            "NFKC" | "NFKD" => 11.0,
            "Lowercase" => 1.5,
            "ByteLevel" => 2.0,
            "Precompiled" => charsmap::growth(string(fields, "precompiled_charsmap")?)?,
            "Replace" => replacement_growth(fields)?,
            "Prepend" => {
                prepends += 1;
                let length = string(fields, "prepend")?.len();
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

/// A pattern with an expression may match without taking a character, before each one and at the end.
fn replacement_growth(fields: &Fields) -> Result<f64, String> {
    let content = string(fields, "content")?.len() as f64;
    match pattern(fields)? {
        ("String", text) if !text.is_empty() => Ok((content / text.len() as f64).max(1.0)),
        _ => Ok(1.0 + 2.0 * content),
    }
}

/// # Errors
/// What is wrong with a part.
pub(super) fn check_pre_tokenizer(part: &Value) -> Result<(), String> {
    let mut growing = 0;
    for (kind, fields) in flat(part, "pre-tokenizer", &PRE_TOKENIZERS)? {
        match kind {
            // These write a text anew: a few bytes for each byte, and one more before each word.
            "ByteLevel" | "Metaspace" => growing += 1,
            "Split" => {
                pattern(fields)?;
            }
            "FixedLength" if fields.get("length").is_some_and(|length| length.as_u64() == Some(0)) => {
                return Err("the length of a FixedLength pre-tokenizer is 0".to_owned());
            }
            _ => {}
        }
    }
    match growing {
        0 | 1 => Ok(()),
        _ => Err(format!("{growing} pre-tokenizers that write the text anew, at most 1 is allowed")),
    }
}

/// Ids of the special tokens that each text gets.
///
/// # Errors
/// What is wrong with a part.
pub(super) fn check_post_processor(part: &Value) -> Result<Vec<u64>, String> {
    let mut added = None;
    for (kind, fields) in flat(part, "post-processor", &POST_PROCESSORS)? {
        let ids = match kind {
            "BertProcessing" | "RobertaProcessing" => {
                ["cls", "sep"].iter().filter_map(|name| fields.get(*name)?.get(1)?.as_u64()).collect()
            }
            "TemplateProcessing" => template_ids(fields)?,
            _ => continue,
        };
        if added.replace(ids).is_some() {
            return Err("more than one post-processor adds special tokens".to_owned());
        }
    }
    Ok(added.unwrap_or_default())
}

fn template_ids(fields: &Fields) -> Result<Vec<u64>, String> {
    let pieces =
        fields.get("single").and_then(Value::as_array).ok_or("the template for one text is missing")?;
    let (mut ids, mut texts) = (Vec::new(), 0);
    for piece in pieces {
        if let Some(sequence) = piece.get("Sequence") {
            if sequence.get("id").and_then(Value::as_str) != Some("A") {
                return Err("the template for one text uses a second one".to_owned());
            }
            texts += 1;
            continue;
        }
        let id = piece.get("SpecialToken").and_then(|token| token.get("id")?.as_str());
        let id = id.ok_or("the template has a piece that is neither a text nor a special token")?;
        let token = fields.get("special_tokens").and_then(|tokens| tokens.get(id));
        let list = |name| token.and_then(|token| token.get(name)?.as_array());
        let (Some(own), Some(tokens)) = (list("ids"), list("tokens")) else {
            return Err(format!("the template uses `{id}`, which is not among its special tokens"));
        };
        if own.len() != tokens.len() {
            return Err(format!("special token `{id}` has {} ids and {} tokens", own.len(), tokens.len()));
        }
        ids.extend(own.iter().filter_map(Value::as_u64));
    }
    match texts {
        1 => Ok(ids),
        _ => Err(format!("the template has {texts} places for the text, expected 1")),
    }
}

/// The parts, those inside sequences in their place, each with its type and known settings alone.
fn flat<'a>(
    part: &'a Value,
    what: &str,
    known: &[(&'static str, &[&str])],
) -> Result<Vec<(&'static str, &'a Fields)>, String> {
    let mut parts = Vec::new();
    let mut rest = vec![part];
    while let Some(part) = rest.pop() {
        let fields = part.as_object().ok_or_else(|| format!("a {what} is not an object"))?;
        let kind = fields.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| format!("a {what} without a type"))?;
        let Some((kind, settings)) = known.iter().find(|(name, _)| *name == kind) else {
            return Err(format!("{what} `{}` is not known", shortened(kind)));
        };
        for (name, value) in fields {
            if name != "type" && !settings.contains(&name.as_str()) {
                return Err(format!("{what} {kind} has no setting `{}`", shortened(name)));
            }
            check_strings(name, value)?;
        }
        let inner = SEQUENCES.iter().find_map(|name| fields.get(*name));
        match inner {
            Some(inner) => {
                let inner = inner.as_array().ok_or_else(|| format!("a {what} Sequence is not a list"))?;
                rest.extend(inner.iter().rev());
            }
            None => parts.push((*kind, fields)),
        }
        if parts.len() + rest.len() > MOST_PARTS {
            return Err(format!("more than {MOST_PARTS} {what}s"));
        }
    }
    Ok(parts)
}

/// No setting but a character map is long. Settings of inner parts are checked with those.
fn check_strings(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if text.len() > LONGEST_STRING && name != "precompiled_charsmap" => {
            Err(format!("`{name}` has {} bytes, at most {LONGEST_STRING} are allowed", text.len()))
        }
        Value::Array(values) if !SEQUENCES.contains(&name) => {
            values.iter().try_for_each(|value| check_strings(name, value))
        }
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| check_strings(name, value)),
        _ => Ok(()),
    }
}

fn pattern(fields: &Fields) -> Result<(&str, &str), String> {
    let pattern = fields.get("pattern").and_then(Value::as_object);
    let one = pattern.filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next());
    match one {
        Some((kind, Value::String(text))) if kind == "String" || kind == "Regex" => Ok((kind, text)),
        _ => Err("a pattern is neither a String nor a Regex".to_owned()),
    }
}

fn string<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, String> {
    fields.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` is not a string"))
}

/// The start of a name out of a file, for a message.
pub(super) fn shortened(name: &str) -> String {
    name.chars().take(40).collect()
}
