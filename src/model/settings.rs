//! Settings of an encoder that are not in its files.

use serde::{Deserialize, Serialize};

/// Settings of an encoder that override those of its folder.
///
/// They are part of the model, because they affect the embeddings of documents. Bundles and indexes store
/// them.
///
/// # Examples
/// ```no_run
/// use ehi::Bundle;
/// use ehi::model::EncoderSettings;
///
/// let settings = EncoderSettings::new().dim(256).query_prompt("search_query: ");
/// let bundle = Bundle::from_encoder_with("nomic-embed-text-v1.5", &settings)?;
/// # Ok::<(), ehi::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "settings do nothing until an encoder is loaded with them"]
#[non_exhaustive]
pub struct EncoderSettings {
    /// Number of leading dimensions that embeddings keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// Prompt of queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_prompt: Option<String>,
    /// Prompt of documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_prompt: Option<String>,
}

impl EncoderSettings {
    /// No settings: those of the folder apply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the first `dim` dimensions of embeddings (Matryoshka), and normalises them again if they had
    /// unit norm. For models trained for it; others lose much quality.
    pub fn dim(mut self, dim: usize) -> Self {
        self.dim = Some(dim);
        self
    }

    /// Sets the prompt of queries; an empty one means no prompt.
    pub fn query_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.query_prompt = Some(prompt.into());
        self
    }

    /// Sets the prompt of documents; an empty one means no prompt.
    pub fn document_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.document_prompt = Some(prompt.into());
        self
    }

    /// Their form in a checksum; empty if nothing is set.
    pub(super) fn identity(&self) -> String {
        let Self { dim, query_prompt, document_prompt } = self;
        match self.is_empty() {
            true => String::new(),
            false => format!("encoder {dim:?} {query_prompt:?} {document_prompt:?}\n"),
        }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These settings, with unset ones taken from `others`.
    pub(super) fn or(&self, others: &Self) -> Self {
        let or = |own: &Option<String>, other: &Option<String>| own.as_ref().or(other.as_ref()).cloned();
        Self {
            dim: self.dim.or(others.dim),
            query_prompt: or(&self.query_prompt, &others.query_prompt),
            document_prompt: or(&self.document_prompt, &others.document_prompt),
        }
    }
}
