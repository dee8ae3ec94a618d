//! The stored form of a document: title and text in JSON, and the metadata apart from them, so that a filter
//! need not read texts. The id is stored separately.

use serde::{Deserialize, Serialize};

use super::{
    error::{Result, StoreError},
    layout::limits,
};
use crate::document::Document;
use crate::filter::depth;
use crate::input::InputError;
use crate::outline::Outline;

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Outline::is_empty")]
    outline: &'a Outline,
}

impl<'a> Written<'a> {
    fn of(document: &'a Document) -> Self {
        Self { title: &document.title, text: &document.text, outline: &document.outline }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(default)]
    title: String,
    text: String,
    #[serde(default)]
    outline: Outline,
}

/// The stored form of a document without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// Title and text.
    pub(super) payload: Vec<u8>,
    /// Empty if the document has no metadata; `null` counts as metadata.
    pub(super) metadata: Vec<u8>,
}

/// Encodes `document` for storing.
pub(super) fn encode(document: &Document) -> Result<Encoded> {
    check_parts(document).map_err(StoreError::Input)?;
    let failed = |error: serde_json::Error| StoreError::BadRows {
        id: document.id.clone(),
        what: format!("it cannot be written as JSON: {error}"),
    };
    let payload = serde_json::to_vec(&Written::of(document)).map_err(failed)?;
    let metadata = match &document.metadata {
        Some(metadata) => serde_json::to_vec(metadata).map_err(failed)?,
        None => Vec::new(),
    };
    check_size(document, payload.len() + metadata.len()).map_err(StoreError::Input)?;
    Ok(Encoded { payload, metadata })
}

/// Whether [`encode`] takes the document.
pub(super) fn check(document: &Document) -> std::result::Result<(), InputError> {
    check_parts(document)?;
    // If it cannot be written at all, `encode` reports that.
    let length = |json: serde_json::Result<Vec<u8>>| json.map_or(0, |json| json.len());
    let metadata = document.metadata.as_ref().map_or(0, |value| length(serde_json::to_vec(value)));
    // JSON writes a byte of text as at most six and a part of an outline in at most 32, so most texts need
    // not be written to be measured.
    let outline = 32 * document.outline.parts().len();
    if 6 * (document.title.len() + document.text.len()) + outline + 64 + metadata <= limits::PAYLOAD_BYTES {
        return Ok(());
    }
    check_size(document, metadata + length(serde_json::to_vec(&Written::of(document))))
}

/// The checks that do not need the JSON.
fn check_parts(document: &Document) -> std::result::Result<(), InputError> {
    // JSON is never shorter than the text itself.
    check_size(document, document.text.len().saturating_add(document.title.len()))?;
    if !document.outline.fits(&document.text) {
        return Err(InputError::OutlineMismatch { id: document.id.clone() });
    }
    let is_too_deep = |value| depth(value, limits::METADATA_DEPTH) > limits::METADATA_DEPTH;
    if document.metadata.as_ref().is_some_and(is_too_deep) {
        let id = document.id.clone();
        return Err(InputError::MetadataTooDeep { id, most: limits::METADATA_DEPTH });
    }
    Ok(())
}

fn check_size(document: &Document, found: usize) -> std::result::Result<(), InputError> {
    if found <= limits::PAYLOAD_BYTES {
        return Ok(());
    }
    Err(InputError::DocumentTooLarge { id: document.id.clone(), found, most: limits::PAYLOAD_BYTES })
}

/// Title and text of a payload as [`encode`] writes it, unless there is an outline, or a character that JSON
/// escapes: then the parser has to read it, which takes several times as long.
fn plain(payload: &[u8]) -> Option<[&str; 2]> {
    let inside = payload.strip_suffix(b"\"}")?;
    let [title, text] = match inside.strip_prefix(b"{\"text\":\"") {
        Some(text) => [&[], text],
        None => {
            let inside = inside.strip_prefix(b"{\"title\":\"")?;
            let (title, rest) = inside.split_at(inside.iter().position(|byte| *byte == b'"')?);
            [title, rest.strip_prefix(b"\",\"text\":\"")?]
        }
    };
    // Of every byte, so that the compiler may use vectors.
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    let has_special = |part: &[u8]| part.iter().fold(false, |found, &byte| found | is_special(byte));
    if has_special(title) || has_special(text) {
        return None;
    }
    Some([str::from_utf8(title).ok()?, str::from_utf8(text).ok()?])
}

/// The document, or `None` if the bytes are not one.
pub(super) fn decode(id: String, payload: &[u8], metadata: &[u8]) -> Option<Document> {
    let Read { title, text, outline } = match plain(payload) {
        Some([title, text]) => {
            Read { title: title.to_owned(), text: text.to_owned(), outline: Outline::default() }
        }
        None => serde_json::from_slice(payload).ok()?,
    };
    let metadata = match metadata {
        [] => None,
        json => Some(serde_json::from_slice(json).ok()?),
    };
    outline.fits(&text).then_some(Document { id, title, text, metadata, outline })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn there_and_back(document: &Document) -> Option<Document> {
        let Encoded { payload, metadata } = encode(document).unwrap();
        decode(document.id.clone(), &payload, &metadata)
    }

    #[test]
    fn documents_come_back_unchanged() {
        for document in [
            Document::new("a", "", ""),
            Document::new("a", "T", "line\nline \u{0} \u{1F600}"),
            Document::new("a", "T", "x").with_metadata(Value::Null),
            Document::new("a", "T", "x y").with_outline(serde_json::from_str("[[0,1,2],[2]]").unwrap()),
            // Needs serde_json's `float_roundtrip`: without it some floats change by one ulp.
            Document::new("a", "T", "x").with_metadata(json!({
                "n": [1, -1, u64::MAX, i64::MIN, 0.1, 1e300, 51.24817837550540_4],
                "s": {"": [], "é": {}, "b": [true, false, null]},
            })),
        ] {
            assert_eq!(there_and_back(&document), Some(document));
        }
    }

    #[test]
    fn a_payload_is_read_without_the_parser_as_with_it() {
        let pieces = ["", "a", "é", "\"", "\\", "\n", "\u{7f}", "\",\"text\":\"", "\"}", "b c"];
        for title in pieces.iter().flat_map(|a| pieces.map(|b| format!("{a}{b}"))) {
            for text in pieces.iter().flat_map(|a| pieces.map(|b| format!("{a}{b}"))) {
                let document = Document::new("a", &*title, &*text);
                let payload = encode(&document).unwrap().payload;
                let needs_parser = format!("{title}{text}").contains(['"', '\\', '\n']);
                let read = (!needs_parser).then_some([&*title, &*text]);
                assert_eq!(plain(&payload), read);
                assert_eq!(there_and_back(&document), Some(document));
            }
        }
        let others: [&[u8]; 5] = [
            b"{\"text\":\"a\",\"title\":\"b\"}",
            b"{\"title\":\"a\"}",
            b"{\"text\":\"\xff\"}",
            b"{ \"text\":\"a\"}",
            b"{\"text\":\"a\",\"outline\":[]}",
        ];
        others.into_iter().for_each(|other| assert_eq!(plain(other), None));
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
            let back = there_and_back(&document).unwrap();
            let back = back.metadata.as_ref().and_then(Value::as_f64).unwrap();
            assert_eq!(back.to_bits(), float.to_bits(), "{float:e} came back as {back:e}");
        }
    }

    #[test]
    fn nesting_is_limited_to_what_reads_back() {
        let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
        let document = |depth| Document::new("a", "", "").with_metadata(nested(depth));
        let deepest = document(limits::METADATA_DEPTH);
        assert_eq!(there_and_back(&deepest), Some(deepest));
        assert!(matches!(
            encode(&document(limits::METADATA_DEPTH + 1)),
            Err(StoreError::Input(InputError::MetadataTooDeep { .. }))
        ));
    }

    #[test]
    fn an_oversized_document_is_refused() {
        let text = "x".repeat(limits::PAYLOAD_BYTES);
        let refused = encode(&Document::new("a", "", text));
        assert!(matches!(refused, Err(StoreError::Input(InputError::DocumentTooLarge { .. }))));
    }

    #[test]
    fn garbage_is_refused() {
        let text: &[u8] = b"{\"text\":\"x\"}";
        assert!(decode("a".into(), text, b"").is_some());
        for bad in [b"{\"text\":\"x\",\"more\":1}".as_slice(), b"{\"title\":\"x\"}", b"\xff", b""] {
            assert_eq!(decode("a".into(), bad, b""), None);
        }
        assert_eq!(decode("a".into(), text, b"{"), None);
    }
}
