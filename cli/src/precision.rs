//! Options common to commands that encode texts.

use std::path::Path;

use ehi::model::{EncoderPrecision, LoadOptions, Reranker};
use ehi::{Error, Index, IndexBuilder};

use crate::failure::Failure;
use crate::models;

#[derive(Clone, clap::Args)]
pub struct PrecisionArgs {
    /// How texts are encoded: f32, or int8, which is faster and slightly less exact
    #[arg(long, value_name = "PRECISION", default_value_t)]
    encoder_precision: EncoderPrecision,
}

impl PrecisionArgs {
    /// The options with this precision.
    pub fn of(&self, builder: IndexBuilder) -> IndexBuilder {
        builder.encoder_precision(self.encoder_precision)
    }

    /// The cross-encoder of a folder, or of a name.
    pub fn open_reranker(&self, given: &Path) -> Result<Reranker, Failure> {
        let options = LoadOptions::new().encoder_precision(self.encoder_precision);
        Ok(options.reranker(models::directory(given)?)?)
    }

    pub fn open_read_only(&self, path: &Path) -> Result<Index, Error> {
        self.of(Index::builder()).open_read_only(path)
    }
}
