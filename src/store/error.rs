//! The errors of the store, and how to react to them.

use std::{borrow::Cow, fmt, io, path::PathBuf, time::SystemTime};

use super::layout::FORMAT_VERSION;
use crate::ids::Row;
use crate::input::InputError;

/// The result type of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory does not exist; create an index there first.
    #[error("there is no directory {}; create an index there first", path.display())]
    NotFound {
        /// The requested directory.
        path: PathBuf,
    },
    /// The path exists, but is not an index; check the path.
    #[error("{} is not an index (it has no file CURRENT that ehi wrote); check the path", path.display())]
    NotAnIndex {
        /// The requested directory.
        path: PathBuf,
    },
    /// An interrupted create or snapshot left an unfinished index here; repeat the call to start over.
    #[error(
        "{} has the beginning of an index, left by a `create` or a `snapshot` that was interrupted; run that \
         command again to start over",
        path.display()
    )]
    InterruptedCreate {
        /// The requested directory.
        path: PathBuf,
    },
    /// An index, or a file with a name that the index needs, already exists.
    #[error(
        "{0} already exists; choose another directory (`ehi search --index {0}` searches it if it is an index)",
        path.display()
    )]
    AlreadyExists {
        /// The existing file.
        path: PathBuf,
    },
    /// The target of a snapshot lies in the index itself.
    #[error("{} lies in the index that is to be copied; choose a directory outside it", path.display())]
    InsideIndex {
        /// The target.
        path: PathBuf,
    },
    /// The index has terms of a kind from a later version.
    #[error(
        "the index's words are of a kind that this version does not know (code {code}); use a later version"
    )]
    UnknownAnalyzer {
        /// The code on disk.
        code: u8,
    },
    /// Something other than a file exists at the path of a file to be written.
    #[error("{} is not a file; remove it", path.display())]
    InTheWay {
        /// Its path.
        path: PathBuf,
    },
    /// Another handle, in this process or another, has the index open.
    #[error(
        "the index in {} is open for writing elsewhere{}; close that handle or process first, or wait for it \
         (`--wait SECONDS`, `IndexBuilder::lock_wait`, `wait=` in Python)",
        path.display(),
        held_by(holder)
    )]
    Locked {
        /// The directory of the index.
        path: PathBuf,
        /// The holder, if the lock file says.
        holder: Option<LockHolder>,
    },
    /// The directory is not the one that this handle opened: it was moved, restored or taken over by another
    /// process in the meantime. The handle refuses all writes from then on, and has written and removed
    /// nothing there.
    #[error(
        "{} is not the file that this handle left there; the directory was replaced, or another process wrote to \
         it; nothing was written or removed, open the index again",
        path.display()
    )]
    Replaced {
        /// The file that was replaced.
        path: PathBuf,
    },
    /// The handle was opened before a fork, in the parent of this process; open a new one.
    #[error("the handle was opened in the parent of this process; open the index again in this process")]
    Forked,
    /// The index has a format that this version does not read.
    #[error("{file} has format version {found}, this version reads {FORMAT_VERSION}; use a matching release")]
    UnsupportedVersion {
        /// The file with that version.
        file: Cow<'static, str>,
        /// Its version.
        found: u32,
    },
    /// A file contradicts itself or another file; repair the index, or restore it from a copy.
    #[error("{file} is damaged: {detail}; repair the index, or restore it from a copy")]
    Corrupt {
        /// The file, relative to the directory of the index.
        file: Cow<'static, str>,
        /// The damage.
        detail: Damage,
    },
    /// `CURRENT` and its copy cannot be used, and the index has several models, of which one was in service.
    #[error(
        "CURRENT and its copy are missing or damaged, so it is not known which of these models was in service \
         (the one written last comes first): {}; move the others out of the index, then run `ehi repair` again",
        models.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    SeveralModels {
        /// The directories of the models, that with the newest manifest first.
        models: Vec<PathBuf>,
    },
    /// The operating system refused an operation.
    #[error("could not {operation} {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempted operation.
        operation: Operation,
        /// The reason.
        source: io::Error,
    },
    /// A write failed, most often for lack of space. The index is as before the call, and the call may be
    /// repeated.
    #[error(
        "{source}; {refused} documents of this call are not stored, {durable} documents are on disk and {recoverable} \
         more are in the log, from which the next open brings them back"
    )]
    NotStored {
        /// The underlying error.
        source: Box<StoreError>,
        /// Documents that this call should have stored.
        refused: u64,
        /// Live documents that survive a power failure.
        durable: u64,
        /// Documents that survive the end of the process, and a power failure once they are flushed.
        recoverable: u64,
    },
    /// An earlier write failed in a way that makes the handle unreliable.
    #[error("an earlier write or sync failed; drop this handle and open the index again")]
    Poisoned,
    /// The handle was opened for reading.
    #[error("the index in {} was opened read-only; open it for writing", path.display())]
    ReadOnly {
        /// The directory of the index.
        path: PathBuf,
    },
    /// A document that cannot be stored. [`Error`](crate::Error) reports it as
    /// [`Input`](crate::Error::Input).
    #[error(transparent)]
    Input(InputError),
    /// A setting is out of range.
    #[error("{field} is {found}, it must be from {least} to {most}")]
    InvalidConfig {
        /// The name of the setting.
        field: &'static str,
        /// The value given.
        found: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A document that cannot be stored for another reason: its embeddings, leaves or passages do not fit the
    /// index, or JSON cannot express it.
    #[error("{id:?}: {what}")]
    BadRows {
        /// The id of the document.
        id: String,
        /// The problem.
        what: String,
    },
    /// A text could not be split into terms, or the model's tokenizer could not be loaded for that.
    #[error("the terms of a text cannot be found: {source}")]
    Terms {
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The index has no posting lists of terms.
    #[error(
        "the index was made without words, so it cannot be searched by them; `ehi compact --lexical` \
         (`Index::make_lexical`) adds them"
    )]
    NotLexical,
    /// All row numbers are used up; rows of replaced documents count as well.
    #[error("the index has used {used} rows and {wanted} more do not fit; build it again")]
    TooManyRows {
        /// Rows used so far.
        used: u32,
        /// Number of rows that the batch needs.
        wanted: usize,
    },
    /// A repair cannot tell which of some documents had been deleted; choose whether to keep them.
    #[error(
        "{deleted} of {documents} documents had been deleted, and the file that says which is damaged: \
         `ehi repair --undecided keep` keeps all {documents}, and the deleted ones come back; `--undecided drop` \
         drops all {documents}"
    )]
    Undecided {
        /// Number of documents in question.
        documents: u64,
        /// How many of them had been deleted.
        deleted: u64,
    },
    /// A long call was cancelled; nothing has changed. [`Error`](crate::Error) reports it as
    /// [`Cancelled`](crate::Error::Cancelled).
    #[error("cancelled")]
    Cancelled,
    /// The row belongs to no live document.
    #[error("{row:?} belongs to no live document")]
    NoSuchRow {
        /// The requested row.
        row: Row,
    },
}

/// The damage of a file. Serialised as its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A required file or record is missing.
    #[error("{what} is missing")]
    Missing {
        /// Its kind.
        what: &'static str,
    },
    /// Fewer bytes than needed.
    #[error("{found} bytes where at least {needed} are needed")]
    TooShort {
        /// Number of bytes needed.
        needed: u64,
        /// Number of bytes found.
        found: u64,
    },
    /// The magic bytes are wrong.
    #[error("the magic bytes are wrong")]
    Magic,
    /// A checksum does not match.
    #[error("the checksum of {} does not match", numbered(what, *number))]
    Checksum {
        /// The kind of thing that is checksummed.
        what: &'static str,
        /// Its number, 0 if there is only one.
        number: u64,
    },
    /// A field has an invalid value.
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
        /// The quantity that differs.
        what: &'static str,
        /// The value in the authoritative place.
        expected: u64,
        /// The value found.
        found: u64,
    },
    /// A record cannot be decoded.
    #[error("{what} {number} cannot be decoded")]
    Undecodable {
        /// The kind of record.
        what: &'static str,
        /// Its row, leaf or block number, 0 if it has none.
        number: u64,
    },
    /// Something that must not exist.
    #[error("{what} {number} must not be there")]
    Stray {
        /// Its kind.
        what: &'static str,
        /// Its row.
        number: u64,
    },
    /// Bytes that are not a whole commit, before whole ones.
    #[error(
        "the bytes from offset {offset} on are not a whole commit, and {commits} whole ones come after them"
    )]
    Gap {
        /// The offset of these bytes.
        offset: u64,
        /// Number of whole commits after them.
        commits: u64,
    },
    /// Something that cannot be opened.
    #[error("{what} cannot be used: {report}")]
    Unusable {
        /// Its kind.
        what: &'static str,
        /// The reason.
        report: String,
    },
    /// Something other than a regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// Something other than a directory, which may lead elsewhere.
    #[error("it is not a directory")]
    NotADirectory,
    /// The files belong to different indexes.
    #[error("it belongs to another index")]
    Foreign,
}

impl serde::Serialize for Damage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The operation of the store that the operating system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Creating a directory.
    CreateDirectory,
    /// Creating a file.
    Create,
    /// Opening a file.
    Open,
    /// Taking the lock.
    Lock,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Growing a file.
    Grow,
    /// Syncing a file or directory.
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

/// A name with its number, if there can be more than one.
fn numbered(what: &str, number: u64) -> String {
    if number == 0 && what.starts_with("the ") { what.to_owned() } else { format!("{what} {number}") }
}

/// The holder of a lock as part of a sentence.
fn held_by(holder: &Option<LockHolder>) -> String {
    holder.as_ref().map_or_else(String::new, |holder| format!(", by {holder}"))
}

impl StoreError {
    /// A caller that opened the store without a lexer: a defect.
    pub(super) fn no_lexer() -> Self {
        Self::Terms { source: "the store was given no tokenizer".into() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, operation: Operation) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, operation, source }
    }

    /// Whether a sync failed, so that the state on disk is unknown. A sync that could not start, for lack of
    /// file handles or memory, may be repeated.
    pub(super) fn is_failed_sync(&self) -> bool {
        use rustix::io::Errno;
        const NOT_BEGUN: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        let begun =
            |source: &io::Error| Errno::from_io_error(source).is_none_or(|it| !NOT_BEGUN.contains(&it));
        matches!(self, Self::Io { operation: Operation::Sync, source, .. } if begun(source))
    }

    /// Whether the cause is lack of space on the disk.
    pub fn is_out_of_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            Self::NotStored { source, .. } => source.is_out_of_space(),
            _ => false,
        }
    }

    /// Without numbers of documents, which would be those of a store that the caller does not know of.
    pub(crate) fn without_counts(self) -> Self {
        match self {
            Self::NotStored { source, .. } => *source,
            other => other,
        }
    }

    pub(crate) fn corrupt(file: impl Into<Cow<'static, str>>, detail: Damage) -> Self {
        Self::Corrupt { file: file.into(), detail }
    }
}

/// The holder of a lock, as recorded in the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Process id on its host.
    pub process: u32,
    /// Name of the host.
    pub host: String,
    /// When the lock was taken.
    pub since: SystemTime,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.since.elapsed().unwrap_or_default().as_secs();
        // For example in a notebook when a cell is run again.
        let this = if self.is_here() && self.process == std::process::id() { " (this one)" } else { "" };
        write!(f, "process {}{this} on host {} for {held} s", self.process, self.host)
    }
}

impl LockHolder {
    /// Whether the process runs on this host.
    pub(super) fn is_here(&self) -> bool {
        self.host.as_bytes() == rustix::system::uname().nodename().to_bytes()
    }
}
