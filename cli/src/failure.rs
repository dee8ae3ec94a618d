//! Failures of commands, each reported on one line.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::escape::escaped;
use crate::interrupt;
use crate::printing;

/// Exit status of a check that found warnings but no damage.
const WARNED: u8 = 3;

/// Why the name of a model is not looked up on a hub.
#[cfg(feature = "hub")]
const NO_HUB: &str = "";
#[cfg(not(feature = "hub"))]
const NO_HUB: &str = " (this build fetches no model by its name: `cargo install --path cli --features hub` makes one that \
     does, or have `hf download NAME --local-dir DIR` fetch it)";

/// What ends a command with an exit status other than 0.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library refused or failed.
    #[error(transparent)]
    Ehi(#[from] ehi::Error),
    /// Documents were refused; each has a line on standard error.
    #[error("{count} of {read} documents refused, {} stored", read - count)]
    Refused { count: u64, read: u64 },
    /// Invalid options or arguments, in a sentence.
    #[error("{0}")]
    Usage(String),
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// The page cannot be served.
    #[cfg(feature = "explore")]
    #[error("cannot answer on 127.0.0.1")]
    Listen(#[source] io::Error),
    /// A file named on the command line cannot be used.
    #[error("cannot {action} {}", printing::path(path))]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// The index is damaged; the problems are on standard output.
    #[error(
        "{} is damaged: {problems} problems; run `ehi repair --index {}` (with `--model BUNDLE`, the model that it was \
         made with, if its own copy is damaged)",
        printing::path(index),
        printing::path(index)
    )]
    Damaged { index: PathBuf, problems: u64 },
    /// A repair could not restore everything; standard output lists what is lost.
    #[error("{} is repaired, but something is lost", printing::path(index))]
    Lost { index: PathBuf },
    /// The index is sound; the warnings are on standard output.
    #[error("{} is sound, with {warnings} warnings", printing::path(index))]
    Warned { index: PathBuf, warnings: usize },
    /// A signal stopped a long call; `left` describes the remaining state.
    #[error("interrupted: {left}")]
    Stopped { signal: i32, left: String },
    /// Some stored documents are not on disk yet.
    #[error(
        "{}the flush failed: {waiting} documents are in memory and the log only, \
         and the next command that writes to the index brings them back: {source}",
        before.as_ref().map_or_else(String::new, |before| before.line() + "; ")
    )]
    Unflushed { waiting: u64, source: Box<ehi::Error>, before: Option<Box<Failure>> },
    /// Neither a folder nor a model that can be fetched.
    #[cfg(feature = "hub")]
    #[error("there is no model directory {}, and no model of that name can be fetched", printing::path(path))]
    NotFetched { path: PathBuf, source: ehi::model::ModelError },
    /// The judgment to remove does not exist.
    #[error("there is no judgment of that question and `{}`", escaped(id))]
    NotJudged { id: String },
    /// A judgment to train on names a document that was not given.
    #[error(
        "{}: the question `{}` is answered by the document `{}`, which is not among the {documents} given; \
         take that line out, or give its document too",
        printing::path(pairs),
        escaped(question),
        escaped(id)
    )]
    NoDocument { pairs: PathBuf, question: String, id: String, documents: usize },
    /// Communication with a client failed.
    #[cfg(feature = "mcp")]
    #[error("the protocol's exchange failed: {0}")]
    Protocol(String),
    /// A call of a client was cancelled.
    #[cfg(feature = "mcp")]
    #[error("cancelled")]
    Cancelled,
    /// The runtime of the server cannot be started.
    #[cfg(feature = "mcp")]
    #[error("cannot start to serve")]
    Runtime(#[source] io::Error),
    /// The folder of a model is missing.
    #[error("there is no model directory {}{}", printing::path(path), NO_HUB)]
    NoModel { path: PathBuf },
}

impl Failure {
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// The line about a refused document.
    pub fn refused(place: &str, error: &ehi::InputError) -> String {
        escaped(&one_line(&format!("refused: {place}: {error}")))
    }

    /// The line about a file that is not read.
    pub fn not_read(self) -> String {
        format!("refused: {}", self.line())
    }

    /// The exit status of the program.
    pub fn status(&self) -> ExitCode {
        match self {
            Self::Warned { .. } | Self::Lost { .. } => ExitCode::from(WARNED),
            Self::Stopped { signal, .. } => {
                u8::try_from(interrupt::status(*signal)).map_or(ExitCode::FAILURE, ExitCode::from)
            }
            _ => ExitCode::FAILURE,
        }
    }

    /// The message, followed by the messages of its sources that it does not quote.
    pub fn line(&self) -> String {
        let mut message = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = error.source();
        }
        escaped(&one_line(&message))
    }
}

/// A text of several lines as one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

macro_rules! from_library {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Ehi(error.into())
            }
        }
    )*};
}

from_library!(ehi::model::ModelError, ehi::data::DataError, ehi::train::TrainError);
