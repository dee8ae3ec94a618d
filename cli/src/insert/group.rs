//! Documents that are given to the library together, and where they are from.

use ehi::Document;

/// The most documents of a group.
const DOCUMENTS: usize = 1_000;
/// The most bytes of a group's documents, but for those of its last one.
const BYTES: usize = 64 << 20;

#[derive(Default)]
pub struct Group {
    documents: Vec<Document>,
    marks: Marks,
    bytes: usize,
}

impl Group {
    /// Takes a document from the line, which ended at that byte of the input.
    pub fn push(&mut self, document: Document, line: u64, position: u64) {
        self.bytes += size_of::<Document>() + document.heap_bytes();
        self.marks.lines.push(line);
        self.marks.end = position;
        self.documents.push(document);
    }

    pub fn is_full(&self) -> bool {
        self.documents.len() >= DOCUMENTS || self.bytes >= BYTES
    }

    /// The documents, and where they are from.
    pub fn into_parts(self) -> (Vec<Document>, Marks) {
        (self.documents, self.marks)
    }
}

/// Where a group's documents are from.
#[derive(Default)]
pub struct Marks {
    lines: Vec<u64>,
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

    /// The line of the document at a place in the group.
    pub fn line(&self, position: usize) -> u64 {
        self.lines[position]
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
