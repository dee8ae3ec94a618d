//! The unit of storage: a document with its title, text and metadata.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A document as the application gives it and gets it back.
///
/// The title and text are embedded together (`title + " " + text`, or the text
/// alone where the title is empty); the metadata is stored and returned, never embedded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The application's own id, unique in an index.
    pub id: String,
    /// May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The body.
    pub text: String,
    /// Any JSON value of the application's, returned unchanged with each hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

impl Document {
    /// A document without metadata.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), text: text.into(), metadata: None }
    }

    /// The same document with metadata attached.
    #[must_use]
    pub fn with_metadata(mut self, metadata: serde_json::Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// The text that is embedded: title and text with a space between, or whichever is not empty.
    pub fn embedding_text(&self) -> Cow<'_, str> {
        match (self.title.is_empty(), self.text.is_empty()) {
            (true, _) => Cow::Borrowed(&self.text),
            (false, true) => Cow::Borrowed(&self.title),
            (false, false) => Cow::Owned(format!("{} {}", self.title, self.text)),
        }
    }
}
