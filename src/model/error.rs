//! Errors of model directories and forward passes.

use std::path::{Path, PathBuf};

use super::files::MANIFEST_FILE;
use crate::input::InputError;
use crate::progress::Cancelled;

/// An error of the encoder, the indexer or the bundle that holds them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file that the model needs could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The verb: read, write, create.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file that is not read: it is not a regular file, is too large, is a pointer of Git LFS, or holds
    /// weights in an unsupported format.
    #[error("{} {problem}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The directory holds no model in the sentence-transformers layout.
    #[error("{} is not a model directory: {missing} is missing", path.display())]
    NotAModel {
        /// The directory.
        path: PathBuf,
        /// The file that a model directory must have.
        missing: &'static str,
    },
    /// The model in the directory was made for another purpose.
    #[error("{} holds no {wanted}: {why}", path.display())]
    OtherPurpose {
        /// The directory.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
        /// The reason.
        why: String,
    },
    /// The directory is a plain base model, without a trained tree.
    #[error(
        "{} is an encoder without a trained tree: take it as it is by `Bundle::from_encoder` or \
         `ehi create`, or train one with `ehi train`",
        path.display()
    )]
    NotABundle {
        /// The directory.
        path: PathBuf,
    },
    /// The model was made for the caller's embeddings and has no encoder ([`Bundle::for_vectors`]).
    ///
    /// [`Bundle::for_vectors`]: crate::Bundle::for_vectors
    #[error("{}", InputError::NoEncoder)]
    NoEncoder,
    /// A configuration file is not valid JSON or lacks a field.
    #[error("{}: {source}{}", path.display(), remedy(path, ""))]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A setting has an invalid value, or asks for an unimplemented feature.
    #[error("{}: {problem}{}", path.display(), remedy(path, problem))]
    BadSetting {
        /// The file.
        path: PathBuf,
        /// The setting, its value, and valid values.
        problem: String,
    },
    /// A safetensors file is truncated or not a safetensors file at all.
    #[error("{} is not a valid safetensors file: {source}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: safetensors::SafeTensorError,
    },
    /// A tensor of a weight file is missing, has another shape than the configuration requires, or holds a
    /// NaN or an infinity.
    #[error("{}: tensor `{name}` {problem}", path.display())]
    BadTensor {
        /// The weight file.
        path: PathBuf,
        /// The tensor's name, without any model prefix.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// The checksum of a bundle's file differs from that in `ehi.json`.
    #[error(
        "{} does not match its checksum: it is damaged or was edited; in an index, `ehi repair` restores it, with \
         `--model` or `--dim` of the model that the index was made with",
        path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// The output directory of a model is not empty, or cannot be replaced.
    #[error("{} {problem}", path.display())]
    OutputDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// The tokenizer file is damaged or could take unbounded memory or time, or the tokenizer refused a text.
    #[error("tokenizer {}: {message}", path.display())]
    Tokenizer {
        /// The tokenizer file.
        path: PathBuf,
        /// The tokenizer's message.
        message: String,
    },
    /// Token ids beyond the rows of the encoder's tables.
    #[error("{what} of {found}, where the encoder's table has {rows} rows")]
    OutsideTable {
        /// The table.
        what: &'static str,
        /// The number that is too large.
        found: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// A static encoder has no vector for any token of a text: the text is empty, or no word of it is in the
    /// vocabulary.
    #[error(
        "text number {index} of those given (from 0) has no token that the static encoder has a vector for"
    )]
    NoTokens {
        /// Position in the batch given to `embed`.
        index: usize,
    },
    /// An embedding is NaN, infinite or all zeros.
    #[error("the encoder gave a non-finite or zero embedding for text number {index} of the batch")]
    BadEmbedding {
        /// Position in the batch given to `embed`.
        index: usize,
    },
    /// A tensor operation failed in training.
    #[cfg(feature = "train")]
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The shape of the tree is invalid.
    #[error(transparent)]
    TreeShape(#[from] crate::tree::TreeShapeError),
    /// A download from the hub failed, or the hub may not be asked (offline mode).
    #[cfg(feature = "hub")]
    #[error("cannot fetch {model}: {message}")]
    Hub {
        /// The model's name on the hub.
        model: String,
        /// The client's message.
        message: String,
    },
}

/// What to do about a bundle's list of files that was damaged or edited; one of another format was not.
fn remedy(path: &Path, problem: &str) -> &'static str {
    match path.file_name().is_some_and(|name| name == MANIFEST_FILE) && !problem.starts_with("bundle format")
    {
        true => {
            "; in an index, `ehi repair` restores it, with `--model` or `--dim` of the model that the index was made with"
        }
        false => "",
    }
}

impl ModelError {
    /// The error of a text among others, whose position `place` gives.
    pub(crate) fn in_batch(self, place: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::NoTokens { index } => Self::NoTokens { index: place(index) },
            Self::BadEmbedding { index } => Self::BadEmbedding { index: place(index) },
            other => other,
        }
    }

    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    pub(super) fn json(path: impl Into<PathBuf>, source: serde_json::Error) -> Self {
        Self::Json { path: path.into(), source }
    }

    pub(super) fn safetensors(path: impl Into<PathBuf>, source: safetensors::SafeTensorError) -> Self {
        Self::Safetensors { path: path.into(), source }
    }

    pub(super) fn not_a_model(path: impl Into<PathBuf>, missing: &'static str) -> Self {
        Self::NotAModel { path: path.into(), missing }
    }

    /// The error with the start of the found value.
    pub(super) fn unsupported(
        path: impl Into<PathBuf>,
        what: &str,
        found: impl ToString,
        supported: &str,
    ) -> Self {
        let found = shortened(&found.to_string());
        let problem = format!("{what} `{found}` is not supported (supported: {supported})");
        Self::BadSetting { path: path.into(), problem }
    }

    pub(super) fn bad_config(
        path: impl Into<PathBuf>,
        what: &str,
        found: usize,
        expected: impl std::fmt::Display,
    ) -> Self {
        let problem = format!("{what} is {found}, expected {expected}");
        Self::BadSetting { path: path.into(), problem }
    }

    pub(super) fn bad_file(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::BadFile { path: path.into(), problem: problem.into() }
    }

    pub(super) fn bad_tensor(
        path: impl Into<PathBuf>,
        name: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self::BadTensor { path: path.into(), name: name.into(), problem: problem.into() }
    }

    pub(super) fn missing_tensor(path: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self::bad_tensor(path, name, "is missing")
    }

    pub(super) fn tensor_shape(
        path: impl Into<PathBuf>,
        name: impl Into<String>,
        found: &[usize],
        expected: &[usize],
    ) -> Self {
        Self::bad_tensor(path, name, format!("has shape {found:?}, expected {expected:?}"))
    }
}

impl From<Cancelled> for ModelError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// The start of a text from a file, for a message.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 100;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
