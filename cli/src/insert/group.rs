//! Groups of documents for the library, with their origins.

use ehi::Document;

/// The most documents of a group.
const DOCUMENTS: usize = 1_000;
/// Most bytes of a group's documents, not counting its last one.
const BYTES: usize = 64 << 20;

#[derive(Default)]
pub struct Group {
    pub documents: Vec<Document>,
    /// The vector of each document, where it comes with one.
    pub vectors: Vec<Vec<f32>>,
    /// The line of each document.
    pub lines: Vec<u64>,
    /// Bytes of the input up to the end of the last document.
    pub end: u64,
    bytes: usize,
}

impl Group {
    /// Adds a document from a line that ends at byte `end` of the input.
    pub fn push(&mut self, document: Document, line: u64, position: u64) {
        self.bytes += size_of::<Document>() + document.heap_bytes();
        self.lines.push(line);
        self.end = position;
        self.documents.push(document);
    }

    pub fn is_full(&self) -> bool {
        self.documents.len() >= DOCUMENTS || self.bytes >= BYTES
    }
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
}
