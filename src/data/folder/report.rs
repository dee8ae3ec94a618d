//! What a folder holds.

use std::collections::BTreeSet;

/// What a folder holds, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderReport {
    /// Ids of the existing files that have text, including those that were skipped or could not be read.
    pub present: BTreeSet<String>,
    /// Files that were skipped as unchanged.
    pub unchanged: u64,
    /// Hidden files and folders.
    pub hidden: u64,
    /// Files and folders that `.gitignore`, `.ignore` or another list of git names.
    pub ignored: u64,
    /// Symbolic links.
    pub links: u64,
    /// Files of other kinds.
    pub others: u64,
    /// Files without text.
    pub empty: u64,
    /// What was not understood of files that were read, a sentence each that begins with the path of the
    /// file.
    pub notes: Vec<String>,
    /// Whether all of it was listed, so that a file that is not in `present` is not there.
    pub is_whole: bool,
}
