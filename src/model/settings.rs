//! What is said of an encoder beside its files.

use serde::{Deserialize, Serialize};

/// Settings of an encoder in place of those of its folder; without any the folder's own hold.
///
/// They are part of the model: documents are embedded by them. A bundle and an index keep them.
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
    /// Dimensions that embeddings keep, the first ones of what the encoder gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// What is put before each query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_prompt: Option<String>,
    /// What is put before each document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_prompt: Option<String>,
}

impl EncoderSettings {
    /// None: the folder's own settings hold.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the first `dim` dimensions of embeddings (Matryoshka), and gives them unit norm again where they
    /// had it. For models that were trained for it; the others lose much.
    pub fn dim(mut self, dim: usize) -> Self {
        self.dim = Some(dim);
        self
    }

    /// Puts this before each query; nothing, where it is empty.
    pub fn query_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.query_prompt = Some(prompt.into());
        self
    }

    /// Puts this before each document; nothing, where it is empty.
    pub fn document_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.document_prompt = Some(prompt.into());
        self
    }

    /// What stands for them in a checksum; nothing where nothing is set.
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

    /// These, and where they say nothing, `others`.
    pub(super) fn or(&self, others: &Self) -> Self {
        let or = |own: &Option<String>, other: &Option<String>| own.as_ref().or(other.as_ref()).cloned();
        Self {
            dim: self.dim.or(others.dim),
            query_prompt: or(&self.query_prompt, &others.query_prompt),
            document_prompt: or(&self.document_prompt, &others.document_prompt),
        }
    }
}
