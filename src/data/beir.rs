//! A dataset directory in the BEIR layout.

use std::io;
use std::path::{Path, PathBuf};

use super::files::{check_split, directory, middles, open_either};
use super::{DataError, Documents, Qrels, Queries, read_documents, read_queries};

pub(super) const CORPUS: &str = "corpus.jsonl";
const QUERIES: &str = "queries.jsonl";
const QRELS: &str = "qrels";
const QRELS_ENDING: &str = ".tsv";

/// A retrieval dataset on disk: documents, queries, and judgments by split.
///
/// ```text
/// corpus.jsonl        one object a line: _id, title (may be absent), text, and metadata
/// queries.jsonl       one object a line: _id, text
/// qrels/<split>.tsv   query-id <TAB> corpus-id <TAB> score
/// ```
///
/// Each file may be gzip-compressed, with or without `.gz` at the end of its name; where
/// both names exist the one without is read. Files are streamed, so a corpus may be larger
/// than memory, and only those asked for need to exist.
///
/// # Examples
///
/// ```no_run
/// use ehi::data::BeirDataset;
///
/// let dataset = BeirDataset::open("examples/data/scifact")?;
/// let judgments = dataset.qrels("test")?;
/// for query in dataset.queries()? {
///     let query = query?;
///     if let Some(judged) = judgments.get(&query.id) {
///         println!("{}: {} documents", query.text, judged.len());
///     }
/// }
/// # Ok::<(), ehi::data::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BeirDataset {
    dir: PathBuf,
}

impl BeirDataset {
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

    /// Streams the documents in the order of the file.
    ///
    /// # Errors
    ///
    /// [`DataError::MissingFile`] or [`DataError::Open`]; the items' errors are those of
    /// [`read_documents`].
    pub fn corpus(&self) -> Result<Documents, DataError> {
        let (file, name) = open_either(&self.dir.join(CORPUS))?;
        Ok(read_documents(file, name))
    }

    /// Streams the queries of all splits in the order of the file.
    ///
    /// A query belongs to the split whose judgments hold it: see [`Qrels::contains`].
    ///
    /// # Errors
    ///
    /// [`DataError::MissingFile`] or [`DataError::Open`]; the items' errors are those of
    /// [`read_documents`].
    pub fn queries(&self) -> Result<Queries, DataError> {
        let (file, name) = open_either(&self.dir.join(QUERIES))?;
        Ok(read_queries(file, name))
    }

    /// The names of the splits that have judgments, sorted; none without a `qrels` directory.
    ///
    /// # Errors
    ///
    /// [`DataError::Open`] when the directory cannot be listed.
    pub fn splits(&self) -> Result<Vec<String>, DataError> {
        match middles(&self.dir.join(QRELS), "", QRELS_ENDING) {
            Err(DataError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            splits => splits,
        }
    }

    /// Reads the judgments of a split, named as the file is without its endings.
    ///
    /// # Errors
    ///
    /// [`DataError::UnknownSplit`], which names the splits there are, and the errors of
    /// [`Qrels::read`].
    pub fn qrels(&self, split: &str) -> Result<Qrels, DataError> {
        check_split(&self.dir, split, self.splits()?)?;
        let path = self.dir.join(QRELS).join(format!("{split}{QRELS_ENDING}"));
        let (file, name) = open_either(&path)?;
        Qrels::read(file, name)
    }
}
