//! Documents that are given to the library together, and where they are from.

use ehi::store::StoreError;
use ehi::{Document, Error, InputError};
use serde_json::Value;

use crate::failure::Failure;

/// The most documents of a group.
const DOCUMENTS: usize = 1_000;
/// The most bytes of a group's documents, but for those of its last one.
const BYTES: usize = 64 << 20;

/// What a document that the library may refuse by itself is beyond: its limits are above these.
///
/// Such a document is a group of its own, so that those before it are stored and its line is known.
const ALONE_BYTES: usize = 8 << 20;
const ALONE_ID_BYTES: usize = 256;
const ALONE_DEPTH: usize = 32;

#[derive(Default)]
pub struct Group {
    documents: Vec<Document>,
    marks: Marks,
    bytes: usize,
}

impl Group {
    /// Takes a document from the line, which ended at that byte of the input.
    pub fn push(&mut self, document: Document, line: u64, position: u64) {
        self.bytes += bytes_of(&document);
        self.marks.lines.push((document.id.clone(), line));
        self.marks.end = position;
        self.documents.push(document);
    }

    pub fn is_full(&self) -> bool {
        self.documents.len() >= DOCUMENTS || self.bytes >= BYTES
    }

    /// The documents, and what is known of them when they have been given away.
    pub fn into_parts(self) -> (Vec<Document>, Marks) {
        (self.documents, self.marks)
    }
}

/// Ids and lines of a group's documents.
#[derive(Default)]
pub struct Marks {
    lines: Vec<(String, u64)>,
    end: u64,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of the input up to the group's end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A failure with the line of the document that it is about, where it is about one.
    pub fn locate(&self, error: Error, name: &str) -> Failure {
        let alone = (self.lines.len() == 1).then(|| self.lines[0].1);
        let named = refused_id(&error).and_then(|id| {
            // Of several documents with one id the last one is kept.
            self.lines.iter().rev().find(|(own, _)| own == id).map(|(_, line)| *line)
        });
        match named.or_else(|| is_of_document(&error).then_some(alone).flatten()) {
            Some(line) => Failure::At { place: format!("{name}:{line}"), source: error },
            None => error.into(),
        }
    }
}

/// Whether the library may refuse a document for what it is.
pub fn goes_alone(document: &Document) -> bool {
    let (bytes, depth) = document.metadata.as_ref().map_or((0, 0), weigh);
    let blank = document.title.trim().is_empty() && document.text.trim().is_empty();
    blank
        || document.id.len() > ALONE_ID_BYTES
        || document.title.len() + document.text.len() + bytes > ALONE_BYTES
        || depth > ALONE_DEPTH
}

/// Memory that a document takes, about.
fn bytes_of(document: &Document) -> usize {
    let metadata = document.metadata.as_ref().map_or(0, |value| weigh(value).0);
    size_of::<Document>() + document.id.len() + document.title.len() + document.text.len() + metadata
}

/// Bytes and levels of a value; the parser has limited its depth.
fn weigh(value: &Value) -> (usize, usize) {
    let (bytes, depth) = match value {
        Value::String(string) => (string.len(), 0),
        Value::Array(items) => items.iter().map(weigh).fold((0, 0), together),
        Value::Object(fields) => {
            let own = |(key, value): (&String, &Value)| (key.len() + weigh(value).0, weigh(value).1);
            fields.iter().map(own).fold((0, 0), together)
        }
        _ => (0, 0),
    };
    (bytes + size_of::<Value>(), depth + 1)
}

fn together(all: (usize, usize), one: (usize, usize)) -> (usize, usize) {
    (all.0 + one.0, all.1.max(one.1))
}

/// The document that an error names.
fn refused_id(error: &Error) -> Option<&str> {
    match error {
        Error::Input(
            InputError::EmptyDocument { id }
            | InputError::DocumentTooLarge { id, .. }
            | InputError::MetadataTooDeep { id, .. }
            | InputError::NotFinite { id, .. },
        )
        | Error::Store(StoreError::Encode { id, .. }) => Some(id),
        _ => None,
    }
}

/// Whether an error is about a document, named or not.
fn is_of_document(error: &Error) -> bool {
    refused_id(error).is_some() || matches!(error, Error::Input(InputError::InvalidId { .. }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(text: usize) -> Document {
        Document::new("id", "title", "x".repeat(text))
    }

    #[test]
    fn a_group_is_full_by_documents_or_by_bytes() {
        let mut group = Group::default();
        for line in 1..=1_000 {
            assert!(!group.is_full());
            group.push(document(10), line, line);
        }
        assert!(group.is_full());
        let mut group = Group::default();
        for line in 1..=8 {
            assert!(!group.is_full(), "{line}");
            group.push(document(8 << 20), line, line);
        }
        assert!(group.is_full());
        let metadata =
            Document::new("id", "", "x").with_metadata(json!({ "k": vec!["x".repeat(1 << 20); 64] }));
        let mut group = Group::default();
        group.push(metadata, 1, 1);
        assert!(group.is_full());
    }

    #[test]
    fn what_may_be_refused_goes_alone() {
        assert!(!goes_alone(&document(8 << 19)));
        assert!(!goes_alone(&document(1).with_metadata(json!({ "a": [1, { "b": [2] }] }))));
        let deep = (0..40).fold(json!(1), |value, _| json!([value]));
        let long = Document::new("i".repeat(300), "", "x");
        for alone in
            [document(9 << 20), Document::new("id", " ", "\n"), long, document(1).with_metadata(deep)]
        {
            assert!(goes_alone(&alone));
        }
    }

    #[test]
    fn an_error_is_located_by_id_or_because_there_is_one_document() {
        let too_deep = |id: &str| Error::from(InputError::MetadataTooDeep { id: id.to_owned(), most: 64 });
        let invalid = || Error::from(InputError::InvalidId { found: 600, most: 512 });
        let mut group = Group::default();
        group.push(Document::new("a", "", "x"), 4, 10);
        group.push(Document::new("b", "", "x"), 5, 20);
        group.push(Document::new("a", "", "x"), 7, 30);
        let (_, marks) = group.into_parts();
        assert!(marks.locate(too_deep("a"), "f").line().starts_with("f:7: "));
        assert!(marks.locate(too_deep("b"), "f").line().starts_with("f:5: "));
        assert!(marks.locate(invalid(), "f").line().starts_with("an id of"));
        let mut group = Group::default();
        group.push(Document::new("a", "", "x"), 4, 10);
        let (_, marks) = group.into_parts();
        assert!(marks.locate(invalid(), "f").line().starts_with("f:4: an id of"));
        assert!(!marks.locate(StoreError::Poisoned.into(), "f").line().starts_with("f:"));
    }
}
