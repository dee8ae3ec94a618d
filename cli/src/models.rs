//! Model arguments: folders and, with the `hub` feature, names.

use std::path::{Path, PathBuf};

use ehi::Bundle;
use ehi::model::{EncoderSettings, MANIFEST_FILE};

use crate::failure::Failure;
use crate::printing;

/// Why the name of a model is not looked up on a hub.
const NO_HUB: &str = " (this build fetches no model by its name: `cargo install --path cli --features hub` makes one that \
     does, or have `hf download NAME --local-dir DIR` fetch it)";

/// Settings of an encoder in place of those of its folder.
#[derive(clap::Args)]
pub struct EncoderArgs {
    /// Keep the first N dimensions of embeddings, for encoders that were trained for it (Matryoshka). Without
    /// a model, in `ehi create` and `ehi repair`: the dimensions of the vectors that documents come with
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Put this before each query, in place of what the encoder's folder or its card says; may be empty
    #[arg(long, value_name = "TEXT")]
    query_prompt: Option<String>,
    /// Put this before each document, likewise
    #[arg(long, value_name = "TEXT")]
    document_prompt: Option<String>,
}

impl EncoderArgs {
    pub fn is_given(&self) -> bool {
        self.dim.is_some() || self.query_prompt.is_some() || self.document_prompt.is_some()
    }

    pub fn settings(&self) -> EncoderSettings {
        let mut settings = EncoderSettings::new();
        settings.dim = self.dim;
        settings.query_prompt.clone_from(&self.query_prompt);
        settings.document_prompt.clone_from(&self.document_prompt);
        settings
    }
}

/// The folder of a model. A model that is given by its name is fetched.
pub fn directory(given: &Path) -> Result<PathBuf, Failure> {
    if given.is_dir() {
        return Ok(given.to_owned());
    }
    let missing = format!("the model directory {} does not exist", printing::path(given));
    #[cfg(feature = "hub")]
    if let Some(name) = ehi::model::hub_name(given) {
        return ehi::model::fetch(name).map_err(|source| {
            let why = Failure::from(source).line();
            Failure::Usage(format!("{missing}, and no model of that name can be fetched: {why}"))
        });
    }
    Err(Failure::Usage(missing + if cfg!(feature = "hub") { "" } else { NO_HUB }))
}

/// A model without an encoder, for vectors of `--dim` numbers.
pub fn for_vectors(settings: &EncoderArgs) -> Result<Bundle, Failure> {
    match (settings.dim, settings.query_prompt.is_some() || settings.document_prompt.is_some()) {
        (Some(dim), false) => Ok(Bundle::for_vectors(dim).map_err(ehi::Error::from)?),
        (None, false) => Err(Failure::Usage(
            "give --model MODEL, or for documents that come with vectors of N numbers --dim N".to_owned(),
        )),
        _ => Err(Failure::Usage(
            "--query-prompt and --document-prompt are for an encoder; give --model".to_owned(),
        )),
    }
}

/// A bundle, or a model without a tree from an encoder's folder.
///
/// # Errors
/// Settings of an encoder were given for a bundle, whose tree was made with the bundle's own.
pub fn open(given: &Path, settings: &EncoderArgs) -> Result<Bundle, Failure> {
    let dir = directory(given)?;
    let settings = settings.settings();
    match (dir.join(MANIFEST_FILE).exists(), settings.is_empty()) {
        (true, true) => Ok(Bundle::open(dir)?),
        (true, false) => Err(Failure::Usage(format!(
            "--dim, --query-prompt and --document-prompt are for an encoder; {} is a bundle, which was trained with \
             its own",
            printing::path(given)
        ))),
        (false, _) => Ok(Bundle::from_encoder_with(dir, &settings)?),
    }
}
