//! What the commands that encode texts have in common.

use std::path::Path;

use ehi::{EncoderPrecision, Error, Index};

#[derive(clap::Args)]
pub struct PrecisionArgs {
    /// How texts are encoded: f32, or int8, which is faster and slightly less exact
    #[arg(long, value_name = "PRECISION", default_value_t)]
    encoder_precision: EncoderPrecision,
}

impl PrecisionArgs {
    pub fn open(&self, path: &Path) -> Result<Index, Error> {
        Index::builder().encoder_precision(self.encoder_precision).open(path)
    }

    pub fn open_read_only(&self, path: &Path) -> Result<Index, Error> {
        Index::builder().encoder_precision(self.encoder_precision).open_read_only(path)
    }
}
