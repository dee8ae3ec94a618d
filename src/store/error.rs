//! What can go wrong in the store, and what to do about it.

use std::{borrow::Cow, fmt, io, path::PathBuf};

use super::{holder::LockHolder, layout::FORMAT_VERSION};
use crate::ids::Row;
use crate::input::InputError;

/// Result of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory does not exist; create an index there first.
    #[error("there is no directory {}; create an index there first", path.display())]
    NotFound {
        /// The directory asked for.
        path: PathBuf,
    },
    /// Something is there, but no index; check the path.
    #[error("{} is not an index (it has no file CURRENT that ehi wrote); check the path", path.display())]
    NotAnIndex {
        /// The directory asked for.
        path: PathBuf,
    },
    /// A create or a snapshot that was cut off left the beginning of an index here; the same call starts
    /// over.
    #[error(
        "{} has the beginning of an index, left by a `create` or a `snapshot` that was interrupted; run that \
         command again to start over",
        path.display()
    )]
    InterruptedCreate {
        /// The directory asked for.
        path: PathBuf,
    },
    /// An index, or a file with a name the index needs, is already there.
    #[error("{} already exists; open it, or choose another directory", path.display())]
    AlreadyExists {
        /// The file in the way.
        path: PathBuf,
    },
    /// The index has words of a kind that a later version knows.
    #[error(
        "the index's words are of a kind that this version does not know (code {code}); use a later version"
    )]
    UnknownAnalyzer {
        /// As it is on disk.
        code: u8,
    },
    /// Something other than a file has the path of a file to be written.
    #[error("{} is not a file; remove it", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// Another handle, in this process or another one, has the index open.
    #[error(
        "the index in {} is open for writing elsewhere{}; close that handle or process first, or wait for it \
         (`--wait SECONDS`, `IndexBuilder::lock_wait`, `wait=` in Python)",
        path.display(),
        held_by(holder)
    )]
    Locked {
        /// The directory of the index.
        path: PathBuf,
        /// Who holds it, as far as the lock file says.
        holder: Option<LockHolder>,
    },
    /// The directory is not the one that this handle opened: it was moved, restored or taken over by another
    /// process meanwhile. The handle refuses all writes from then on, and has written and removed nothing
    /// there.
    #[error(
        "{} is not the file that this handle left there; the directory was replaced, or another process wrote to \
         it; nothing was written or removed, open the index again",
        path.display()
    )]
    Replaced {
        /// The file that is another one.
        path: PathBuf,
    },
    /// The handle was opened before a fork, in the parent of this process; open another one.
    #[error("the handle was opened in the parent of this process; open the index again in this process")]
    Forked,
    /// The index was written in a format that this version does not read.
    #[error("{file} has format version {found}, this version reads {FORMAT_VERSION}; use a matching release")]
    UnsupportedVersion {
        /// The file that says so.
        file: Cow<'static, str>,
        /// Its version.
        found: u32,
    },
    /// A file contradicts itself or another one; repair the index, or restore it from a copy.
    #[error("{file} is damaged: {detail}; repair the index, or restore it from a copy")]
    Corrupt {
        /// The file or database, relative to the directory of the index.
        file: Cow<'static, str>,
        /// What is wrong with it.
        detail: Damage,
    },
    /// The operating system refused an operation.
    #[error("could not {operation} {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        operation: Operation,
        /// The reason given.
        source: io::Error,
    },
    /// A write failed, most often for want of space. The index is as before the call, and the call may be
    /// repeated.
    #[error(
        "{source}; {refused} documents of this call are not stored, {durable} documents are on disk and {recoverable} \
         more are in the log, from which the next open brings them back"
    )]
    NotStored {
        /// What failed.
        source: Box<StoreError>,
        /// Documents that this call was to store.
        refused: u64,
        /// Live documents that survive a power failure.
        durable: u64,
        /// Documents that survive the end of the process, and a power failure once they are flushed.
        recoverable: u64,
    },
    /// An earlier write failed at a point after which the handle cannot be trusted.
    #[error("an earlier write or sync failed; drop this handle and open the index again")]
    Poisoned,
    /// The handle was opened for reading.
    #[error("the index in {} was opened read-only; open it for writing", path.display())]
    ReadOnly {
        /// The directory of the index.
        path: PathBuf,
    },
    /// A document that is not stored. [`Error`](crate::Error) has it as [`Input`](crate::Error::Input).
    #[error(transparent)]
    Input(InputError),
    /// A setting is outside its range.
    #[error("{field} is {found}, it must be from {least} to {most}")]
    InvalidConfig {
        /// The setting.
        field: &'static str,
        /// The value given.
        found: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A document was given rows that the index has no place for: embeddings, leaves or passages that are not
    /// as its own are.
    #[error("{id:?}: {what}")]
    BadRows {
        /// The document.
        id: String,
        /// What is wrong.
        what: String,
    },
    /// The document cannot be written as JSON.
    #[error("{id:?} cannot be written as JSON: {source}")]
    Encode {
        /// The document.
        id: String,
        /// The reason given.
        source: serde_json::Error,
    },
    /// A text could not be taken apart into terms, or the model's tokenizer could not be loaded for it.
    #[error("the terms of a text cannot be found: {source}")]
    Terms {
        /// The reason given.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The index has no posting lists of terms.
    #[error(
        "the index was made without words, so it cannot be searched by them; `ehi compact --lexical` \
         (`Index::make_lexical`) adds them"
    )]
    NotLexical,
    /// All row numbers are used up; rows of replaced documents count too.
    #[error("the index has used {used} rows and {wanted} more do not fit; build it again")]
    TooManyRows {
        /// Rows used so far.
        used: u32,
        /// Rows that the batch needs.
        wanted: usize,
    },
    /// A repair cannot tell which of some documents had been deleted; say whether to keep them.
    #[error(
        "{deleted} of {documents} documents had been deleted, and the file that says which is damaged: \
         `ehi repair --undecided keep` keeps all {documents}, and the deleted ones come back; `--undecided drop` \
         drops all {documents}"
    )]
    Undecided {
        /// Documents in question.
        documents: u64,
        /// How many of them had been deleted.
        deleted: u64,
    },
    /// A long call was told to stop; nothing has changed. [`Error`](crate::Error) has it as
    /// [`Cancelled`](crate::Error::Cancelled).
    #[error("cancelled")]
    Cancelled,
    /// The row belongs to no live document.
    #[error("{row:?} belongs to no live document")]
    NoSuchRow {
        /// The row asked for.
        row: Row,
    },
}

/// What is wrong with a file. Serialised as the sentence that it is shown as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A file or a record that must be there is not.
    #[error("{what} is missing")]
    Missing {
        /// The thing.
        what: &'static str,
    },
    /// Fewer bytes than there must be.
    #[error("{found} bytes where at least {needed} are needed")]
    TooShort {
        /// Bytes needed.
        needed: u64,
        /// Bytes found.
        found: u64,
    },
    /// The first bytes are not ours.
    #[error("the magic bytes are wrong")]
    Magic,
    /// A checksum does not match.
    #[error("the checksum of {} does not match", numbered(what, *number))]
    Checksum {
        /// The kind of thing that is checksummed.
        what: &'static str,
        /// Its number, 0 where there is one only.
        number: u64,
    },
    /// A field has a value it cannot have.
    #[error("{field} has the impossible value {found}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// Two places that must agree do not.
    #[error("{what} is {found}, expected {expected}")]
    Disagreement {
        /// What they disagree about.
        what: &'static str,
        /// The value in the place that decides.
        expected: u64,
        /// The value found.
        found: u64,
    },
    /// A record cannot be decoded.
    #[error("{what} {number} cannot be decoded")]
    Undecodable {
        /// The kind of record.
        what: &'static str,
        /// Its row, leaf or block number, 0 where there is none.
        number: u64,
    },
    /// Something that must not be there.
    #[error("{what} {number} must not be there")]
    Stray {
        /// The thing.
        what: &'static str,
        /// Its row.
        number: u64,
    },
    /// Bytes that are no whole commit, before whole ones.
    #[error(
        "the bytes from offset {offset} on are no whole commit, and {commits} whole ones come after them"
    )]
    Gap {
        /// Where the bytes begin.
        offset: u64,
        /// Whole commits behind them.
        commits: u64,
    },
    /// Something that cannot be opened.
    #[error("{what} cannot be used: {report}")]
    Unusable {
        /// The thing.
        what: &'static str,
        /// Why.
        report: String,
    },
    /// Something else than a regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// Something else than a directory, which may lead elsewhere.
    #[error("it is not a directory")]
    NotADirectory,
    /// The files are of different indexes.
    #[error("it belongs to another index")]
    Foreign,
}

impl serde::Serialize for Damage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the store was doing when the operating system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Making a directory.
    CreateDirectory,
    /// Making a file.
    Create,
    /// Opening a file.
    Open,
    /// Taking the lock.
    Lock,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making a file longer.
    Grow,
    /// Making it durable.
    Sync,
    /// Publishing by rename.
    Rename,
    /// Removing.
    Remove,
    /// Mapping into memory.
    Map,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateDirectory => "create the directory",
            Self::Create => "create",
            Self::Open => "open",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write",
            Self::Grow => "grow",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Map => "map",
        })
    }
}

/// A thing with its number, where there is more than one.
fn numbered(what: &str, number: u64) -> String {
    if number == 0 && what.starts_with("the ") { what.to_owned() } else { format!("{what} {number}") }
}

/// The holder of a lock as a part of a sentence.
fn held_by(holder: &Option<LockHolder>) -> String {
    holder.as_ref().map_or_else(String::new, |holder| format!(", by {holder}"))
}

impl StoreError {
    /// Would be a defect of who opened the store.
    pub(super) fn no_lexer() -> Self {
        Self::Terms { source: "the store was given no tokenizer".into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, operation: Operation) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, operation, source }
    }

    /// Whether a sync failed, so that nobody knows what is on disk. One that could not begin, for want of
    /// files or of memory, may be repeated.
    pub(super) fn is_failed_sync(&self) -> bool {
        use rustix::io::Errno;
        const NOT_BEGUN: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        let begun =
            |source: &io::Error| Errno::from_io_error(source).is_none_or(|it| !NOT_BEGUN.contains(&it));
        matches!(self, Self::Io { operation: Operation::Sync, source, .. } if begun(source))
    }

    /// Whether it is for want of space on the disk.
    pub fn is_out_of_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            Self::NotStored { source, .. } => source.is_out_of_space(),
            _ => false,
        }
    }

    pub(crate) fn corrupt(file: impl Into<Cow<'static, str>>, detail: Damage) -> Self {
        Self::Corrupt { file: file.into(), detail }
    }
}
