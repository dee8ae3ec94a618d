//! Options for loading a model.

use super::config::EncoderPrecision;

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
    pub(super) precision: EncoderPrecision,
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
        self.precision = precision;
        self
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
