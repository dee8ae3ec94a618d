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
        /// Documents that they store.
        documents: u64,
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
    /// How many leaves searches need cannot be read, so they are exact.
    UnusableRecall {
        /// The file.
        file: String,
    },
    /// How scores by embeddings and by words are joined cannot be read, so it is as if it was never learned.
    UnusableFusion {
        /// The file.
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
        /// Documents that they stored.
        documents: u64,
    },
    /// The same of judgments.
    TakenOverJudgments {
        /// Commits.
        commits: u64,
        /// Judgments that they stored.
        judgments: u64,
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

impl Notice {
    /// The same with the names of files below a directory.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        match &mut self {
            Self::TornLog { file, .. }
            | Self::LostInPowerFailure { file, .. }
            | Self::Unused { file }
            | Self::StaleCopy { file }
            | Self::UnusableRecall { file }
            | Self::UnusableFusion { file }
            | Self::DamagedLog { file, .. }
            | Self::DamagedHeader { file }
            | Self::Unfinished { directory: file }
            | Self::SetAside { path: file } => file.insert_str(0, prefix),
            Self::Waiting { .. } | Self::TakenOver { .. } | Self::TakenOverJudgments { .. } => {}
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
            Self::Waiting { commits, documents, writer: Some(writer) } => write!(
                f,
                "{documents} documents in {commits} commits are not flushed yet; the index is open for \
                 writing by \
                 {writer}"
            ),
            Self::Waiting { commits, documents, writer: None } => write!(
                f,
                "{documents} documents in {commits} commits wait in the log; the next write or `ehi \
                 recover` brings \
                 them back"
            ),
            Self::DamagedLog { file, damage } => write!(
                f,
                "{file} is damaged ({damage}), so what waits in it is not shown; `ehi repair` brings back \
                 what can be \
                 read of it"
            ),
            Self::UnusableRecall { file } => {
                write!(f, "{file} cannot be used, so searches are exact; `ehi calibrate` measures it anew")
            }
            Self::UnusableFusion { file } => {
                write!(
                    f,
                    "{file} cannot be used, so searches go by embeddings alone, hybrid ones by the default weight; \
                     `ehi fuse` learns it anew"
                )
            }
            Self::Unfinished { directory } => write!(
                f,
                "a change of model was cut off ({directory}); the same command goes on with it, \
                 `ehi drop-previous` removes it"
            ),
            Self::TakenOver { commits, documents } => write!(
                f,
                "{documents} documents in {commits} commits that were not flushed were brought back from \
                 the log"
            ),
            Self::TakenOverJudgments { commits, judgments } => write!(
                f,
                "{judgments} judgments in {commits} commits that were not flushed were brought back from the log"
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
                write!(f, "{path} was set aside by a repair; remove it when nobody needs it")
            }
            Self::StaleCopy { file } => write!(f, "{file} is no copy of what it is to copy"),
        }
    }
}
