//! A dataset directory in the layout of extreme classification with label features.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{check_split, directory, either_exists, open_either};
use super::jsonl::{Place, id, next_record};
use super::{DataError, Documents, Lines, Qrels, Queries, Query, read_labels};
use crate::document::Document;

pub(super) const LABELS: &str = "lbl.json";
/// Splits with the files of their points.
const POINTS: [(&str, &str); 2] = [("test", "tst.json"), ("train", "trn.json")];

/// Labels to be found from points, as in LF-AmazonTitles-131K: a label is a document, a point
/// a query, and a target a judgment.
///
/// ```text
/// lbl.json    an object a line: uid, title, content (may be absent), and metadata
/// trn.json    the same, and target_ind (positions in lbl.json, from 0), target_rel
/// tst.json    the same
/// ```
///
/// Each file may be gzip-compressed, with or without `.gz` at the end of its name. Documents
/// and queries are streamed; for a split's judgments, the labels' ids are held. Splits are
/// `train` and `test`. P@k over labels is the metric `precision@k`.
///
/// # Paper
///
/// The layout of the data behind appendix C.3's comparison; pairs that a benchmark leaves out
/// of its figures (`filter_labels_test.txt`) are not left out here.
#[derive(Clone, Debug)]
pub struct ExtremeDataset {
    dir: PathBuf,
}

impl ExtremeDataset {
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

    /// Streams the labels in the order of the file.
    ///
    /// # Errors
    ///
    /// [`DataError::MissingFile`] or [`DataError::Open`]; the items' errors are those of
    /// [`read_labels`].
    pub fn corpus(&self) -> Result<Documents, DataError> {
        let (file, name) = open_either(&self.dir.join(LABELS))?;
        Ok(read_labels(file, name))
    }

    /// Streams the points of all splits.
    ///
    /// # Errors
    ///
    /// None here; the items' errors are those of [`read_points`](super::read_points),
    /// [`DataError::MissingFile`] and [`DataError::Open`].
    pub fn queries(&self) -> Result<Queries, DataError> {
        let files = POINTS.map(|(_, file)| self.dir.join(file));
        Ok(Queries::of_files(files.into_iter().filter(|path| either_exists(path)), point))
    }

    /// The names of the splits whose points are there, sorted.
    ///
    /// # Errors
    ///
    /// None at present.
    pub fn splits(&self) -> Result<Vec<String>, DataError> {
        let there = POINTS.iter().filter(|(_, file)| either_exists(&self.dir.join(file)));
        Ok(there.map(|(split, _)| (*split).to_owned()).collect())
    }

    /// Reads the targets of a split.
    ///
    /// # Errors
    ///
    /// [`DataError::UnknownSplit`], which names the splits there are, and the errors of
    /// [`read_labels`] and [`read_targets`].
    pub fn qrels(&self, split: &str) -> Result<Qrels, DataError> {
        check_split(&self.dir, split, self.splits()?)?;
        let labels = self.corpus()?.map(|label| label.map(|l| l.id)).collect::<Result<Vec<_>, _>>()?;
        let file = POINTS.iter().find(|(name, _)| *name == split).map_or("", |(_, file)| *file);
        let (file, name) = open_either(&self.dir.join(file))?;
        read_targets(file, name, &labels)
    }
}

/// Reads the targets of points as judgments; `labels` are the ids of `lbl.json` in its order.
///
/// A relevance above 0 is rounded up to a grade; without `target_rel` every grade is 1. Points
/// without targets are not judged.
///
/// # Errors
///
/// [`DataError::Target`] for a position beyond the labels, [`DataError::TargetCount`] for
/// another number of relevances than positions, [`DataError::Json`],
/// [`DataError::MissingField`], [`DataError::EmptyId`], and the errors of reading. The first
/// error ends the reading.
pub fn read_targets(
    reader: impl Read + Send + 'static,
    name: impl Into<String>,
    labels: &[String],
) -> Result<Qrels, DataError> {
    let mut lines = Lines::new(reader, name);
    let mut qrels = Qrels::default();
    while let Some(record) = next_record(&mut lines) {
        let (at, record): (Place, PointRecord) = record?;
        let id = at.id(record.uid, "uid")?;
        let Place { name, line } = at;
        let targets = record.target_ind.unwrap_or_default();
        let relevance = record.target_rel.unwrap_or_else(|| vec![1.0; targets.len()]);
        if relevance.len() != targets.len() {
            let (targets, relevances) = (targets.len(), relevance.len());
            return Err(DataError::TargetCount { name, line, targets, relevances });
        }
        for (target, relevance) in targets.into_iter().zip(relevance) {
            let label = usize::try_from(target).ok().and_then(|target| labels.get(target));
            let Some(label) = label else {
                return Err(DataError::Target { name, line, target, labels: labels.len() });
            };
            // Saturates; no relevance that a dataset has comes near.
            qrels.insert(&id, label, relevance.ceil() as i32);
        }
    }
    Ok(qrels)
}

/// A point reads like a label; what is asked is what would be embedded of it.
pub(super) fn point(lines: &mut Lines) -> Option<Result<Query, DataError>> {
    next_record(lines).map(|record| {
        let (at, record): (_, TextRecord) = record?;
        let id = at.id(record.uid, "uid")?;
        let title = at.required(record.title, "title")?;
        let document = Document::new(id, title, record.content.unwrap_or_default());
        let text = document.embedding_text().into_owned();
        Ok(Query { id: document.id, text })
    })
}

#[derive(Deserialize)]
struct TextRecord {
    #[serde(default, deserialize_with = "id")]
    uid: Option<String>,
    title: Option<String>,
    content: Option<String>,
}

#[derive(Deserialize)]
struct PointRecord {
    #[serde(default, deserialize_with = "id")]
    uid: Option<String>,
    target_ind: Option<Vec<u64>>,
    target_rel: Option<Vec<f64>>,
}
