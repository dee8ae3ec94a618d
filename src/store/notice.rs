//! What the owner of an index should know although nothing is wrong with what is stored.

use std::fmt;

use super::{error::Damage, holder::LockHolder};

/// Something about an index that its owner should know. Serialised as the sentence that it is shown as.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Commits that are not flushed wait in the log. A writer that is at work flushes them; without one, the
    /// next handle that opens the index for writing takes them over. Read-only handles do not show them.
    Waiting {
        /// Commits.
        commits: u64,
        /// How many documents or judgments they store.
        count: u64,
        /// Which of these.
        of: Entries,
        /// The writer that is at work, as far as the lock file says.
        writer: Option<LockHolder>,
    },
    /// The log is damaged, so the index does not open for writing, and what waits in the log is not shown.
    DamagedLog {
        /// The log, relative to the store.
        file: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// What was measured of a model is missing, damaged, or was measured on something else, so it is not
    /// used.
    Unmeasured {
        /// The file, relative to the index.
        file: String,
        /// Which of these it is.
        why: String,
        /// What searches do without it, and what to do about that.
        without: &'static str,
    },
    /// Something that was begun and not finished, by a training that was cut off say. The next handle that
    /// opens the index for writing removes it.
    Begun {
        /// The file or directory, relative to the index.
        file: String,
    },
    /// A change of model was cut off. [`Index::reencode`](crate::Index::reencode) with the same bundle goes
    /// on with it.
    Unfinished {
        /// The directory that it fills, relative to the index.
        directory: String,
    },
    /// Commits that an earlier handle did not flush were taken over from the log when this handle was opened.
    TakenOver {
        /// Commits.
        commits: u64,
        /// How many documents or judgments they stored.
        count: u64,
        /// Which of these.
        of: Entries,
    },
    /// The log ended in bytes that are no whole commit: a commit that was cut off before it was acknowledged,
    /// or damage of the last one.
    TornLog {
        /// The log, relative to the store.
        file: String,
        /// Where the bytes begin.
        offset: u64,
        /// How many there are; 0 where the file was cut.
        bytes: u64,
    },
    /// The first bytes of the log were damaged, and nothing else. No commit is lost.
    DamagedHeader {
        /// The log, relative to the store.
        file: String,
    },
    /// A power failure lost commits that had not been flushed. None of them was promised to survive one.
    LostInPowerFailure {
        /// The log, relative to the store.
        file: String,
        /// Where the lost bytes begin.
        offset: u64,
        /// Whole commits behind them, which cannot be used without them.
        commits: u64,
    },
    /// A file that the index does not use. The next handle that opens it for writing removes it where it is
    /// one of its own making.
    Unused {
        /// The file, relative to the index.
        file: String,
    },
    /// Something that a repair set aside.
    SetAside {
        /// Where it is, relative to the index.
        path: String,
    },
    /// The copy of a file, which a repair falls back on, is not one of it. The next flush writes it anew.
    StaleCopy {
        /// The copy, relative to the index.
        file: String,
    },
}

/// What commits store, as a notice counts it.
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

impl Notice {
    /// The same with the names of files below a directory.
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

    /// The same of the store of the judgments, whose documents these are.
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

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { commits, count, of, writer: Some(writer) } => write!(
                f,
                "{count} {of} in {commits} commits are not flushed yet; the index is open for writing by {writer}"
            ),
            Self::Waiting { commits, count, of, writer: None } => write!(
                f,
                "{count} {of} in {commits} commits wait in the log; the next write or `ehi recover` brings them \
                 back"
            ),
            Self::DamagedLog { file, damage } => write!(
                f,
                "{file} is damaged ({damage}), so what waits in it is not shown; `ehi repair` brings back \
                 what can be \
                 read of it"
            ),
            Self::Unmeasured { file, why, without } => write!(f, "{file} {why}, so {without}"),
            Self::Begun { file } => {
                write!(
                    f,
                    "{file} is not finished: a command is still writing it, or was interrupted; the next command that \
                     writes removes it"
                )
            }
            Self::Unfinished { directory } => write!(
                f,
                "a change of model was cut off ({directory}); the same command goes on with it, \
                 `ehi drop-previous` removes it"
            ),
            Self::TakenOver { commits, count, of } => write!(
                f,
                "{count} {of} in {commits} commits that were not flushed were brought back from the log"
            ),
            Self::TornLog { file, offset, bytes: 0 } => {
                write!(f, "{file} was cut short behind offset {offset}; whole commits before that are there")
            }
            Self::TornLog { file, offset, bytes } => write!(
                f,
                "{file} ends in {bytes} bytes from offset {offset} on that are no whole commit: one that \
                 was cut off \
                 before it was acknowledged, or damage of the last one; whole commits before that are there"
            ),
            Self::DamagedHeader { file } => {
                write!(f, "the first bytes of {file} were damaged; all commits in it are there")
            }
            Self::LostInPowerFailure { file, offset, commits } => write!(
                f,
                "a power failure lost bytes of {file} from offset {offset} on, which had not been flushed, \
                 and with \
                 them the use of {commits} commits behind them"
            ),
            Self::Unused { file } => write!(f, "{file} is not used by the index"),
            Self::SetAside { path } => {
                write!(f, "{path} was set aside by a repair; `ehi repair --forget` removes it")
            }
            Self::StaleCopy { file } => write!(f, "{file} is no copy of what it is to copy"),
        }
    }
}
