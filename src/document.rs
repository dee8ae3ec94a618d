//! The unit of storage: a document with its title, text and metadata.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outline::Outline;

/// A document as the application inserts it and gets it back.
///
/// The title and text are embedded together (`title + " " + text`, or only the text if the title is empty);
/// the metadata is stored and returned, never embedded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The application's own id, unique in an index.
    pub id: String,
    /// May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The body.
    pub text: String,
    /// Any JSON value, returned unchanged with each hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The headings and blocks of the text; empty if they are unknown.
    #[serde(rename = "_outline", default, skip_serializing_if = "Outline::is_empty")]
    pub outline: Outline,
}

impl Document {
    /// A document without metadata.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, title, text) = (id.into(), title.into(), text.into());
        Self { id, title, text, metadata: None, outline: Outline::default() }
    }

    /// The same document with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// The same document with the outline of its text.
    #[must_use]
    pub fn with_outline(mut self, outline: Outline) -> Self {
        self.outline = outline;
        self
    }

    /// The text to embed: title and text separated by a space, or whichever is not empty.
    pub fn embedding_text(&self) -> Cow<'_, str> {
        match (self.title.is_empty(), self.text.is_empty()) {
            (true, _) => Cow::Borrowed(&self.text),
            (false, true) => Cow::Borrowed(&self.title),
            (false, false) => Cow::Owned(format!("{} {}", self.title, self.text)),
        }
    }

    /// Whether both title and text are empty, so that an encoder has nothing to read.
    pub fn is_empty(&self) -> bool {
        self.title.trim().is_empty() && self.text.trim().is_empty()
    }

    /// Approximate size in memory of its id, title, text and metadata, which limits groups of documents.
    pub fn heap_bytes(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, bytes_of_value);
        self.id.len() + self.title.len() + self.text.len() + metadata + self.outline.heap_bytes()
    }
}

/// Including the value itself.
fn bytes_of_value(value: &Value) -> usize {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes_of_value).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + bytes_of_value(value)).sum(),
        _ => 0,
    };
    size_of::<Value>() + own
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_counts_for_the_bytes() {
        let text = "x".repeat(1000);
        let document = Document::new("i", "", "t").with_metadata(json!({ "a": [text, 1, null] }));
        assert!(document.heap_bytes() > 1000 + 5 * size_of::<Value>());
    }
}
