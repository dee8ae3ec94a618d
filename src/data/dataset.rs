//! A dataset in any layout that is known.

use std::path::{Path, PathBuf};

use super::files::either_exists;
use super::{
    BeirDataset, DataError, Documents, ExtremeDataset, MsMarcoDataset, Qrels, Queries, beir, extreme, msmarco,
};

/// Documents, queries and judgments on disk, told apart by the files that are there.
///
/// # Examples
///
/// ```no_run
/// let dataset = ehi::data::Dataset::open("examples/data/scifact")?;
/// println!("{} documents, splits {:?}", dataset.corpus()?.count(), dataset.splits()?);
/// # Ok::<(), ehi::data::DataError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Dataset {
    /// `corpus.jsonl`, `queries.jsonl`, `qrels/`.
    Beir(BeirDataset),
    /// `collection.tsv`, `queries.*.tsv`, `qrels.*.tsv`.
    MsMarco(MsMarcoDataset),
    /// `lbl.json`, `trn.json`, `tst.json`.
    Extreme(ExtremeDataset),
}

impl Dataset {
    /// A dataset in a directory: MS MARCO's layout where there is a `collection.tsv`, extreme
    /// classification where there is an `lbl.json`, and BEIR's otherwise.
    ///
    /// # Errors
    ///
    /// [`DataError::NotADirectory`] when there is no directory at `dir`.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, DataError> {
        let dir = dir.into();
        if either_exists(&dir.join(msmarco::COLLECTION)) {
            Ok(Self::MsMarco(MsMarcoDataset::open(dir)?))
        } else if either_exists(&dir.join(extreme::LABELS)) {
            Ok(Self::Extreme(ExtremeDataset::open(dir)?))
        } else {
            Ok(Self::Beir(BeirDataset::open(dir)?))
        }
    }

    /// Whether a directory has the documents of a dataset in any of these layouts.
    pub fn is_at(dir: impl AsRef<Path>) -> bool {
        let names = [beir::CORPUS, msmarco::COLLECTION, extreme::LABELS];
        names.iter().any(|name| either_exists(&dir.as_ref().join(name)))
    }

    /// Whether a document with the id of a query is no answer to it, by the rule of this dataset: ArguAna and
    /// Quora, which ask with documents of their own corpus and judge other ones. They are known by the name
    /// of the directory, in upper or lower case, as BEIR and MTEB call them: `arguana`, `quora`,
    /// `QuoraRetrieval`, and with `Nano` in front.
    pub fn ignores_identical_ids(&self) -> bool {
        let dir = self.dir().canonicalize().unwrap_or_else(|_| self.dir().to_owned());
        let name = dir.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_prefix("nano").unwrap_or(&name);
        let name = name.strip_suffix("retrieval").unwrap_or(name);
        matches!(name, "arguana" | "quora")
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        match self {
            Self::Beir(dataset) => dataset.dir(),
            Self::MsMarco(dataset) => dataset.dir(),
            Self::Extreme(dataset) => dataset.dir(),
        }
    }

    /// Streams the documents in the order of their file.
    ///
    /// # Errors
    ///
    /// [`DataError::MissingFile`] or [`DataError::Open`]; the items' errors are those of the
    /// layout's reader.
    pub fn corpus(&self) -> Result<Documents, DataError> {
        match self {
            Self::Beir(dataset) => dataset.corpus(),
            Self::MsMarco(dataset) => dataset.corpus(),
            Self::Extreme(dataset) => dataset.corpus(),
        }
    }

    /// Streams the queries of all splits. One may come more than once, always with the same text.
    ///
    /// # Errors
    ///
    /// As [`Self::corpus`].
    pub fn queries(&self) -> Result<Queries, DataError> {
        match self {
            Self::Beir(dataset) => dataset.queries(),
            Self::MsMarco(dataset) => dataset.queries(),
            Self::Extreme(dataset) => dataset.queries(),
        }
    }

    /// The names of the splits that have judgments, sorted.
    ///
    /// # Errors
    ///
    /// [`DataError::Open`] when a directory cannot be listed.
    pub fn splits(&self) -> Result<Vec<String>, DataError> {
        match self {
            Self::Beir(dataset) => dataset.splits(),
            Self::MsMarco(dataset) => dataset.splits(),
            Self::Extreme(dataset) => dataset.splits(),
        }
    }

    /// Reads the judgments of a split.
    ///
    /// # Errors
    ///
    /// [`DataError::UnknownSplit`], which names the splits there are, and the errors of the
    /// layout's reader.
    pub fn qrels(&self, split: &str) -> Result<Qrels, DataError> {
        match self {
            Self::Beir(dataset) => dataset.qrels(split),
            Self::MsMarco(dataset) => dataset.qrels(split),
            Self::Extreme(dataset) => dataset.qrels(split),
        }
    }
}

impl From<BeirDataset> for Dataset {
    fn from(dataset: BeirDataset) -> Self {
        Self::Beir(dataset)
    }
}
