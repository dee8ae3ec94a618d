//! A document's payload: title, text and metadata as JSON. The id is the key.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    error::{Result, StoreError},
    layout::limits,
};
use crate::document::Document;

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(default)]
    title: String,
    text: String,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Value>,
}

/// Keeps `"metadata": null` apart from no metadata.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The payload of `document`.
pub(super) fn encode(document: &Document) -> Result<Vec<u8>> {
    let too_large =
        |found| StoreError::DocumentTooLarge { id: document.id.clone(), found, most: limits::PAYLOAD_BYTES };
    // JSON is never shorter than the text itself; do not encode what cannot fit.
    let at_least = document.text.len().saturating_add(document.title.len());
    if at_least > limits::PAYLOAD_BYTES {
        return Err(too_large(at_least));
    }
    if document.metadata.as_ref().is_some_and(is_too_deep) {
        return Err(StoreError::MetadataTooDeep { id: document.id.clone(), most: limits::METADATA_DEPTH });
    }
    let written =
        Written { title: &document.title, text: &document.text, metadata: document.metadata.as_ref() };
    let bytes = serde_json::to_vec(&written)
        .map_err(|error| StoreError::Database { operation: super::Operation::Write, source: error.into() })?;
    if bytes.len() > limits::PAYLOAD_BYTES {
        return Err(too_large(bytes.len()));
    }
    Ok(bytes)
}

/// The document, or `None` where the bytes are no payload.
pub(super) fn decode(id: String, bytes: &[u8]) -> Option<Document> {
    let Read { title, text, metadata } = serde_json::from_slice(bytes).ok()?;
    Some(Document { id, title, text, metadata })
}

/// Level by level, because recursion over a value of any depth could exhaust the stack.
fn is_too_deep(value: &Value) -> bool {
    let mut level = vec![value];
    for _ in 0..=limits::METADATA_DEPTH {
        level = level
            .into_iter()
            .flat_map(|value| -> Box<dyn Iterator<Item = &Value>> {
                match value {
                    Value::Array(items) => Box::new(items.iter()),
                    Value::Object(fields) => Box::new(fields.values()),
                    _ => Box::new(std::iter::empty()),
                }
            })
            .collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_come_back_unchanged() {
        for document in [
            Document::new("a", "", ""),
            Document::new("a", "T", "line\nline \u{0} \u{1F600}"),
            Document::new("a", "T", "x").with_metadata(Value::Null),
            // Needs serde_json's `float_roundtrip`: without it some floats change by one ulp.
            Document::new("a", "T", "x").with_metadata(json!({
                "n": [1, -1, u64::MAX, i64::MIN, 0.1, 1e300, 51.24817837550540_4],
                "s": {"": [], "é": {}, "b": [true, false, null]},
            })),
        ] {
            let bytes = encode(&document).unwrap();
            assert_eq!(decode("a".into(), &bytes), Some(document));
        }
    }

    #[test]
    fn floats_keep_every_bit() {
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let float = f64::from_bits(bits);
            if !float.is_finite() {
                continue;
            }
            let document = Document::new("a", "", "").with_metadata(json!(float));
            let back = decode("a".into(), &encode(&document).unwrap()).unwrap();
            let back = back.metadata.as_ref().and_then(Value::as_f64).unwrap();
            assert_eq!(back.to_bits(), float.to_bits(), "{float:e} came back as {back:e}");
        }
    }

    #[test]
    fn nesting_is_limited_to_what_reads_back() {
        let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
        let document = |depth| Document::new("a", "", "").with_metadata(nested(depth));
        let deepest = document(limits::METADATA_DEPTH);
        assert_eq!(decode("a".into(), &encode(&deepest).unwrap()), Some(deepest));
        assert!(matches!(
            encode(&document(limits::METADATA_DEPTH + 1)),
            Err(StoreError::MetadataTooDeep { .. })
        ));
    }

    #[test]
    fn an_oversized_document_is_refused() {
        let text = "x".repeat(limits::PAYLOAD_BYTES);
        assert!(matches!(encode(&Document::new("a", "", text)), Err(StoreError::DocumentTooLarge { .. })));
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(decode("a".into(), b"{\"text\":\"x\",\"more\":1}"), None);
        assert_eq!(decode("a".into(), b"{\"title\":\"x\"}"), None);
        assert_eq!(decode("a".into(), b"\xff"), None);
    }
}
