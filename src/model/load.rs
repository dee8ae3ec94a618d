//! Options with which a model is loaded.

use std::path::Path;

use super::bundle::Bundle;
use super::config::EncoderPrecision;
use super::encoder::Encoder;
use super::error::ModelError;

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

    /// As [`Bundle::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Bundle::open`].
    pub fn bundle(self, dir: impl AsRef<Path>) -> Result<Bundle, ModelError> {
        Bundle::open_with(dir.as_ref(), self.precision)
    }

    /// As [`Encoder::load`], with these options.
    ///
    /// # Errors
    /// Those of [`Encoder::load`].
    pub fn encoder(self, dir: impl AsRef<Path>) -> Result<Encoder, ModelError> {
        Encoder::load_with(dir.as_ref(), self.precision)
    }
}
