//! Failures of commands, each reported on one line.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::interrupt;
use crate::printing;
use crate::text::{counted, escaped, one_line};

/// Exit status of a check that found warnings but no damage, and of a repair that lost something.
pub const WARNED: u8 = 3;
/// Exit status of a check that found damage.
const DAMAGED: u8 = 1;

/// What ends a command with an exit status other than 0.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library refused or failed.
    #[error(transparent)]
    Ehi(#[from] ehi::Error),
    /// Documents were refused; each has a line on standard error.
    #[error("{count} of {read} documents refused, {kept} stored")]
    Refused { count: u64, read: u64, kept: u64 },
    /// What is wrong and what to do, in a sentence.
    #[error("{0}")]
    Usage(String),
    /// The index of a server is gone, in a sentence.
    #[cfg(any(feature = "explore", feature = "mcp"))]
    #[error("{0}")]
    Gone(String),
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
    /// The verdict of a check or a repair, whose details are on standard output.
    #[error("{} is {verdict}", printing::path(index))]
    Checked { index: PathBuf, verdict: String, status: u8 },
    /// A signal stopped a long call; `left` describes the remaining state.
    #[error("interrupted: {left}")]
    Stopped { signal: i32, left: String },
    /// Some stored documents are not on disk yet.
    #[error(
        "{}the flush failed: {} in memory and the log only; \
         the next command that writes to the index brings back what is there: {source}",
        before.as_ref().map_or_else(String::new, |before| before.line() + "; "),
        counted(*waiting, "document")
    )]
    Unflushed { waiting: u64, source: Box<ehi::Error>, before: Option<Box<Failure>> },
    /// A disk failed while judgments were stored.
    #[error(
        "{source}; stored: {stored} of {}; mend the cause and run the command again",
        counted(*given, "judgment")
    )]
    UnstoredJudgments { source: ehi::store::StoreError, stored: usize, given: usize },
    /// The judgment to remove does not exist.
    #[error("no judgment of that question{} is stored", and_document(id.as_deref()))]
    NotJudged { id: Option<String> },
}

fn and_document(id: Option<&str>) -> String {
    id.map_or_else(String::new, |id| format!(" and `{}`", escaped(id)))
}

impl Failure {
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// The verdict on a damaged index.
    pub fn damaged(index: &Path, problems: u64) -> Self {
        let verdict = format!(
            "damaged: {}; run `ehi repair --index {}` (with `--model BUNDLE`, the model that it was \
             made with, if its own copy is damaged)",
            counted(problems, "problem"),
            printing::path(index)
        );
        Self::Checked { index: index.to_owned(), verdict, status: DAMAGED }
    }

    /// The exit status of the program.
    pub fn status(&self) -> ExitCode {
        match self {
            Self::Checked { status, .. } => ExitCode::from(*status),
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
