//! Options for loading a model.

use std::path::Path;

use super::config::EncoderPrecision;
use super::error::ModelError;

/// Options for loading a bundle or an encoder.
///
/// # Examples
/// ```no_run
/// use ehi::model::{EncoderPrecision, LoadOptions};
///
/// let bundle =
///     LoadOptions::new().encoder_precision(EncoderPrecision::Int8).bundle("models/scifact-minilm")?;
/// # Ok::<(), ehi::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until something is loaded"]
pub struct LoadOptions {
    /// As chosen.
    precision: Option<EncoderPrecision>,
    /// Where none was chosen, if the model supports it.
    usual: EncoderPrecision,
    pub(super) lazy: bool,
    pub(super) shared: bool,
}

impl LoadOptions {
    /// The defaults: those of [`Bundle::open`](super::Bundle::open) and
    /// [`Encoder::load`](super::Encoder::load).
    pub fn new() -> Self {
        Self::default()
    }

    /// How texts are encoded; [`EncoderPrecision::F32`] by default. An index uses
    /// [`IndexBuilder::encoder_precision`](crate::IndexBuilder::encoder_precision), whatever its bundle was
    /// opened with.
    pub fn encoder_precision(mut self, precision: EncoderPrecision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// The default in place of f32, for models that support it.
    pub(crate) fn usual_precision(mut self, usual: EncoderPrecision) -> Self {
        self.usual = usual;
        self
    }

    /// The precision of a model that supports both.
    pub(super) fn precision(self) -> EncoderPrecision {
        self.precision.unwrap_or(self.usual)
    }

    /// The precision of a model in `dir` that supports f32 alone; `why` ends the error's sentence.
    ///
    /// # Errors
    /// Another one was chosen.
    pub(super) fn only_f32(self, dir: &Path, why: &str) -> Result<EncoderPrecision, ModelError> {
        match self.precision.filter(|chosen| *chosen != EncoderPrecision::F32) {
            Some(chosen) => Err(ModelError::unsupported(dir, "precision", chosen, &format!("f32: {why}"))),
            None => Ok(EncoderPrecision::F32),
        }
    }

    /// Whether to load weights and tokenizer, and verify their checksums, when a text is first encoded rather
    /// than now; off by default. Errors in them are then returned by that call.
    pub fn lazy_encoder(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }

    /// Whether to use the weights that another encoder of this process has read from the same file, without
    /// reading the file again; not by default. The file must be one that is never written again.
    pub(crate) fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }
}
