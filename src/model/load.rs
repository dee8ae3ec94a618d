//! Options with which a model is loaded.

use std::path::Path;

use super::bundle::Bundle;
use super::config::EncoderPrecision;
use super::encoder::Encoder;
use super::error::ModelError;
use super::parts::Unchecked;

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
    precision: EncoderPrecision,
    lazy: bool,
}

impl LoadOptions {
    /// The defaults: those of [`Bundle::open`] and [`Encoder::load`].
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

    /// As [`Bundle::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Bundle::open`].
    pub fn bundle(self, dir: impl AsRef<Path>) -> Result<Bundle, ModelError> {
        Bundle::open_with(dir.as_ref(), self)
    }

    /// As [`Encoder::load`], with these options.
    ///
    /// # Errors
    /// Those of [`Encoder::load`].
    pub fn encoder(self, dir: impl AsRef<Path>) -> Result<Encoder, ModelError> {
        self.encoder_of(dir.as_ref(), Vec::new())
    }

    /// The encoder in `dir`, whose `unchecked` files are checked before they are used.
    pub(super) fn encoder_of(self, dir: &Path, unchecked: Vec<Unchecked>) -> Result<Encoder, ModelError> {
        let encoder = Encoder::on_use(dir, self.precision, unchecked)?;
        if !self.lazy {
            encoder.load_parts()?;
        }
        Ok(encoder)
    }
}
