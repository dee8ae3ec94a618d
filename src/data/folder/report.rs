//! The report on a folder.

use std::collections::BTreeSet;

/// The entries of a folder, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderReport {
    /// Ids of the existing files that have text, including those that were skipped or could not be read.
    pub present: BTreeSet<String>,
    /// Files that were skipped as unchanged.
    pub unchanged: u64,
    /// Hidden files and folders.
    pub hidden: u64,
    /// Files and folders in `.gitignore`, `.ignore` or another list of git.
    pub ignored: u64,
    /// Symbolic links.
    pub links: u64,
    /// Files of other kinds.
    pub others: u64,
    /// Files without text.
    pub empty: u64,
    /// Problems in files that were read, one sentence each, starting with the file's path.
    pub notes: Vec<String>,
    /// Whether the whole folder was listed, so that a file that is not in `present` does not exist.
    pub is_whole: bool,
}
