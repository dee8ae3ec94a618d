//! A dataset directory in MS MARCO's layout.

use std::path::{Path, PathBuf};

use super::files::{check_split, directory, middles, open_either};
use super::{DataError, Documents, Qrels, Queries, read_collection, tsv};

pub(super) const COLLECTION: &str = "collection.tsv";
const QUERIES: &str = "queries.";
const QRELS: &str = "qrels.";
const ENDING: &str = ".tsv";

/// MS MARCO's passages, queries and judgments as they are distributed.
///
/// ```text
/// collection.tsv        pid <TAB> text
/// queries.<name>.tsv    qid <TAB> text
/// qrels.<split>.tsv     qid 0 pid grade, separated by tabs or spaces
/// ```
///
/// Each file may be gzip-compressed, with or without `.gz` at the end of its name. A split is
/// named as its judgments are, say `dev.small`; its queries may be in any of the query files.
/// Documents and queries are streamed; of a split, the ids and grades are held.
#[derive(Clone, Debug)]
pub struct MsMarcoDataset {
    dir: PathBuf,
}

impl MsMarcoDataset {
    /// A dataset in a directory; its files are opened when they are asked for.
    ///
    /// # Errors
    ///
    /// [`DataError::NotADirectory`] when there is no directory at `dir`.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, DataError> {
        Ok(Self { dir: directory(dir)? })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Streams the passages in the order of the file.
    ///
    /// # Errors
    ///
    /// [`DataError::MissingFile`] or [`DataError::Open`]; the items' errors are those of
    /// [`read_collection`].
    pub fn corpus(&self) -> Result<Documents, DataError> {
        let (file, name) = open_either(&self.dir.join(COLLECTION))?;
        Ok(read_collection(file, name))
    }

    /// Streams the queries of all files, by the files' names. One that stands in several of
    /// them, as those of `dev.small` do in `dev`, comes several times.
    ///
    /// # Errors
    ///
    /// [`DataError::Open`]; the items' errors are those of
    /// [`read_query_table`](super::read_query_table), [`DataError::MissingFile`] and
    /// [`DataError::Open`].
    pub fn queries(&self) -> Result<Queries, DataError> {
        let names = middles(&self.dir, QUERIES, ENDING)?;
        let file = |name| self.dir.join(format!("{QUERIES}{name}{ENDING}"));
        Ok(Queries::of_files(names.iter().map(file), tsv::query))
    }

    /// The names of the splits that have judgments, sorted.
    ///
    /// # Errors
    ///
    /// [`DataError::Open`] when the directory cannot be listed.
    pub fn splits(&self) -> Result<Vec<String>, DataError> {
        middles(&self.dir, QRELS, ENDING)
    }

    /// Reads the judgments of a split.
    ///
    /// # Errors
    ///
    /// [`DataError::UnknownSplit`], which names the splits there are, and the errors of
    /// [`Qrels::read_four_columns`].
    pub fn qrels(&self, split: &str) -> Result<Qrels, DataError> {
        check_split(&self.dir, split, self.splits()?)?;
        let (file, name) = open_either(&self.dir.join(format!("{QRELS}{split}{ENDING}")))?;
        Qrels::read_four_columns(file, name)
    }
}
