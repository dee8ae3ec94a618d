//! Options with which a model is loaded.

use super::config::EncoderPrecision;

/// Options with which a bundle or an encoder is loaded.
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
    pub(super) precision: EncoderPrecision,
    pub(super) lazy: bool,
}

impl LoadOptions {
    /// The defaults: those of [`Bundle::open`](super::Bundle::open) and
    /// [`Encoder::load`](super::Encoder::load).
    pub fn new() -> Self {
        Self::default()
    }

    /// How texts are encoded; [`EncoderPrecision::F32`] by default. An index encodes as
    /// [`IndexBuilder::encoder_precision`](crate::IndexBuilder::encoder_precision) says, whatever its bundle
    /// was opened with.
    pub fn encoder_precision(mut self, precision: EncoderPrecision) -> Self {
        self.precision = precision;
        self
    }

    /// Whether weights and tokenizer are loaded, and the checksums of their files compared, when a text is
    /// first encoded rather than now; not by default. What is wrong with them is then an error of that call.
    pub fn lazy_encoder(mut self, lazy: bool) -> Self {
        self.lazy = lazy;
        self
    }
}
