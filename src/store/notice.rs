//! Notices for the owner of an index whose stored data is sound.

use std::fmt;

use super::error::{Damage, LockHolder};

/// A notice for the owner of an index. Serialised as its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// Unflushed commits wait in the log. An active writer flushes them; without one, the next handle that
    /// opens the index for writing takes them over. Read-only handles do not show them.
    #[error("{count} {of} in {} {}", counted(*commits), waiting_for(writer.as_ref()))]
    Waiting {
        /// Number of commits.
        commits: u64,
        /// Number of documents or judgments that they store.
        count: u64,
        /// What is counted.
        of: Entries,
        /// The active writer, if the lock file names one.
        writer: Option<LockHolder>,
    },
    /// The log is damaged, so the index does not open for writing, and commits waiting in the log are not
    /// shown.
    #[error(
        "{file} is damaged ({damage}), so what waits in it is not shown; `ehi repair` brings back what can \
         be read of it"
    )]
    DamagedLog {
        /// The log, relative to the store.
        file: String,
        /// The damage.
        damage: Damage,
    },
    /// A measurement of a model is missing, damaged, or of something else, so it is not used.
    #[error("{file} {why}, so {without}")]
    Unmeasured {
        /// The file, relative to the index.
        file: String,
        /// The reason.
        why: String,
        /// How searches behave without it, and the remedy.
        without: &'static str,
    },
    /// Something unfinished, for example from an interrupted training. The next handle that opens the index
    /// for writing removes it.
    #[error(
        "{file} is not finished: a command is still writing it, or was interrupted; the next command that \
         writes removes it"
    )]
    Begun {
        /// The file or directory, relative to the index.
        file: String,
    },
    /// A change of model under way, or an interrupted one, which [`Index::reencode`](crate::Index::reencode)
    /// with the same bundle continues.
    #[error(
        "a change of model is not finished ({directory}): a command is still working on it, or was interrupted; \
         then the same command continues it, and `ehi drop-previous` removes it"
    )]
    Unfinished {
        /// The directory that it fills, relative to the index.
        directory: String,
    },
    /// When this handle was opened, it took over commits from the log that an earlier handle did not flush.
    #[error("{count} {of} in {} that were not flushed were brought back from the log", counted(*commits))]
    TakenOver {
        /// Number of commits.
        commits: u64,
        /// Number of documents or judgments that they stored.
        count: u64,
        /// What is counted.
        of: Entries,
    },
    /// The log ended in bytes that are not a whole commit: a commit interrupted before it was acknowledged,
    /// or damage of the last one.
    #[error("{file} {}; whole commits before that are there", torn(*offset, *bytes))]
    TornLog {
        /// The log, relative to the store.
        file: String,
        /// The offset of these bytes.
        offset: u64,
        /// Their number; 0 if the file was truncated.
        bytes: u64,
    },
    /// Only the first bytes of the log were damaged. No commit is lost.
    #[error("the first bytes of {file} were damaged; all commits in it are there")]
    DamagedHeader {
        /// The log, relative to the store.
        file: String,
    },
    /// A power failure lost unflushed commits. None of them was promised to survive one.
    #[error(
        "a power failure lost bytes of {file} from offset {offset} on, which had not been flushed, and with \
         them the use of {commits} commits behind them"
    )]
    LostInPowerFailure {
        /// The log, relative to the store.
        file: String,
        /// The offset of the lost bytes.
        offset: u64,
        /// Number of whole commits after them, which are unusable without them.
        commits: u64,
    },
    /// A file that the index does not use. The next handle that opens the index for writing removes it if the
    /// index made it.
    #[error("{file} is not used by the index")]
    Unused {
        /// The file, relative to the index.
        file: String,
    },
    /// A file or directory that a repair set aside.
    #[error("{path} was set aside by a repair; `ehi repair --forget` removes it")]
    SetAside {
        /// Its path, relative to the index.
        path: String,
    },
    /// The copy of a file, on which a repair falls back, is outdated. The next flush rewrites it.
    #[error("{file} differs from the file that it copies; the next flush rewrites it")]
    StaleCopy {
        /// The copy, relative to the index.
        file: String,
    },
}

/// What a notice counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Documents.
    Documents,
    /// Judgments.
    Judgments,
}

impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Documents { "documents" } else { "judgments" })
    }
}

/// The end of the sentence about commits that wait.
fn waiting_for(writer: Option<&LockHolder>) -> String {
    match writer {
        Some(writer) => format!("are not flushed yet; the index is open for writing by {writer}"),
        None => "wait in the log; the next write or `ehi recover` brings them back".to_owned(),
    }
}

fn counted(commits: u64) -> String {
    if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") }
}

fn torn(offset: u64, bytes: u64) -> String {
    match bytes {
        0 => format!("was cut short behind offset {offset}"),
        _ => format!(
            "ends in {bytes} bytes, from offset {offset} on, that are not a whole commit: either a commit was cut \
             off before it was acknowledged, or the last one is damaged"
        ),
    }
}

impl Notice {
    /// The same notice, with file names prefixed by a directory.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        match &mut self {
            Self::TornLog { file, .. }
            | Self::LostInPowerFailure { file, .. }
            | Self::Unused { file }
            | Self::StaleCopy { file }
            | Self::Unmeasured { file, .. }
            | Self::Begun { file }
            | Self::DamagedLog { file, .. }
            | Self::DamagedHeader { file }
            | Self::Unfinished { directory: file }
            | Self::SetAside { path: file } => file.insert_str(0, prefix),
            Self::Waiting { .. } | Self::TakenOver { .. } => {}
        }
        self
    }

    /// The same notice for the store of judgments, whose documents are judgments.
    pub(crate) fn of_judgments(mut self) -> Self {
        if let Self::Waiting { of, .. } | Self::TakenOver { of, .. } = &mut self {
            *of = Entries::Judgments;
        }
        self
    }
}

impl serde::Serialize for Notice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
