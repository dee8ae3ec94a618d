//! Datasets on disk: documents, queries, and judgments by split.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::error::{DataError, DataErrorKind};
use super::input::read_documents;
use super::input::{label, record};
use super::lines::{Line, Lines};
use super::streams::{Documents, GZIP_ENDING, Parse, either_exists, missing_file, open_either, queries};
use super::{DatasetQuery, Qrels};
use crate::document::Document;

/// Documents, queries and judgments in a directory, in one of three layouts.
///
/// BEIR:
///
/// ```text
/// corpus.jsonl        one object a line: _id, title (may be absent), text, and metadata
/// queries.jsonl       one object a line: _id, text
/// qrels/<split>.tsv   query-id <TAB> corpus-id <TAB> score
/// ```
///
/// MS MARCO, where a split has the name of its judgments, such as `dev.small`, and its queries may be in any
/// of the query files:
///
/// ```text
/// collection.tsv        pid <TAB> text
/// queries.<name>.tsv    qid <TAB> text
/// qrels.<split>.tsv     qid 0 pid grade, separated by tabs or spaces
/// ```
///
/// Extreme classification with label features, as in LF-AmazonTitles-131K: a label is a document, a point a
/// query, and a target a judgment; the splits are `train` and `test`; P@k over labels is the metric
/// `precision@k`. A relevance above 0 is rounded up to a grade; without `target_rel` every grade is 1. Points
/// without targets are not judged. Pairs that a benchmark excludes (`filter_labels_test.txt`) are not
/// excluded here.
///
/// ```text
/// lbl.json    an object a line: uid, title, content (may be absent), and metadata
/// trn.json    the same, and target_ind (positions in lbl.json, from 0), target_rel
/// tst.json    the same
/// ```
///
/// Each file may be gzip-compressed, with or without `.gz` at the end of its name; if both names exist, the
/// one without is read. Documents and queries are streamed, so a corpus may be larger than memory, and only
/// the files in use need to exist. Memory holds the ids and grades of a split and, for extreme
/// classification, the ids of all labels.
///
/// # Examples
///
/// ```no_run
/// let dataset = ehi::data::Dataset::open("examples/data/scifact")?;
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
pub struct Dataset {
    dir: PathBuf,
    layout: &'static Layout,
}

/// The files of a layout, and how they are read.
#[derive(Debug)]
struct Layout {
    corpus: &'static str,
    documents: fn(File, String) -> Documents,
    queries: Files,
    query: Parse<DatasetQuery>,
    judgments: Files,
    qrels: fn(&Dataset, File, String) -> Result<Qrels, DataError>,
}

/// Files with fixed names.
#[derive(Debug)]
enum Files {
    /// Named files.
    Named(&'static [(&'static str, &'static str)]),
    /// The files of a subfolder with a prefix and the ending `.tsv`; each is named by the part in between.
    Like(&'static str, &'static str),
}

const POINTS: Files = Files::Named(&[("test", "tst.json"), ("train", "trn.json")]);

/// The last one is for a directory without a known corpus.
static LAYOUTS: [Layout; 3] = [
    Layout {
        corpus: "collection.tsv",
        documents: |file, name| Documents::of_lines(file, name, passage),
        queries: Files::Like("", "queries."),
        query: |line| tabbed(line).map(|(id, text)| DatasetQuery { id, text }),
        judgments: Files::Like("", "qrels."),
        qrels: |_, file, name| Qrels::read_trec(file, name),
    },
    Layout {
        corpus: "lbl.json",
        documents: |file, name| Documents::of_lines(file, name, of_label),
        queries: POINTS,
        query: point,
        judgments: POINTS,
        qrels: targets,
    },
    Layout {
        corpus: "corpus.jsonl",
        documents: read_documents,
        queries: Files::Named(&[("", "queries.jsonl")]),
        query: json_query,
        judgments: Files::Like("qrels", ""),
        qrels: |_, file, name| Qrels::read(file, name),
    },
];

impl Dataset {
    /// A dataset in a directory: MS MARCO's layout if it has a `collection.tsv`, extreme classification if it
    /// has an `lbl.json`, otherwise BEIR's.
    ///
    /// # Errors
    /// [`DataErrorKind::Missing`] if `dir` is not a directory.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, DataError> {
        let dir = directory(dir)?;
        let layout = LAYOUTS.iter().find(|layout| either_exists(&dir.join(layout.corpus)));
        Ok(Self { dir, layout: layout.unwrap_or(&LAYOUTS[2]) })
    }

    /// Whether a directory has the documents of a dataset in any of these layouts.
    pub fn is_at(dir: impl AsRef<Path>) -> bool {
        LAYOUTS.iter().any(|layout| either_exists(&dir.as_ref().join(layout.corpus)))
    }

    /// Whether a document with the id of a query is not accepted as its answer, as in ArguAna and Quora,
    /// whose queries are documents of the corpus. They are recognised by the directory's name, ignoring case,
    /// under BEIR's and MTEB's names: `arguana`, `quora`, `QuoraRetrieval`, also with the prefix `Nano`.
    pub fn ignores_identical_ids(&self) -> bool {
        let dir = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        let name = dir.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_prefix("nano").unwrap_or(&name);
        let name = name.strip_suffix("retrieval").unwrap_or(name);
        matches!(name, "arguana" | "quora")
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Streams the documents in the order of their file.
    ///
    /// # Errors
    /// [`DataErrorKind::Missing`] or [`DataErrorKind::Open`]; the items' errors are those of
    /// [`read_documents`].
    pub fn corpus(&self) -> Result<Documents, DataError> {
        let (file, name) = open_either(&self.dir.join(self.layout.corpus))?;
        Ok((self.layout.documents)(file, name))
    }

    /// Streams the queries of all splits. A query may appear more than once, always with the same text.
    ///
    /// # Errors
    /// As [`Self::corpus`]; the items' errors are those of [`read_queries`].
    pub fn queries(
        &self,
    ) -> Result<impl Iterator<Item = Result<DatasetQuery, DataError>> + Send + use<>, DataError> {
        let files: Vec<PathBuf> =
            self.files(&self.layout.queries)?.into_iter().map(|(_, file)| file).collect();
        if let (Files::Named(names), true) = (&self.layout.queries, files.is_empty()) {
            return Err(missing_file(&self.dir.join(names[0].1)));
        }
        Ok(queries(Lines::new(io::empty(), ""), files, self.layout.query))
    }

    /// The names of the splits that have judgments, sorted.
    ///
    /// # Errors
    /// [`DataErrorKind::Open`] when a directory cannot be listed.
    pub fn splits(&self) -> Result<Vec<String>, DataError> {
        Ok(self.files(&self.layout.judgments)?.into_iter().map(|(split, _)| split).collect())
    }

    /// Reads the judgments of a split, named like its file without endings.
    ///
    /// # Errors
    /// [`DataErrorKind::Missing`], which lists the known splits, and the errors of [`Qrels::read`].
    pub fn qrels(&self, split: &str) -> Result<Qrels, DataError> {
        // The listing also keeps the name inside the directory.
        let mut files = self.files(&self.layout.judgments)?;
        let Some(place) = files.iter().position(|(name, _)| name == split) else {
            let known: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
            let message = format!("no split `{split}`; found: {}", known.join(", "));
            return Err(DataError::of_path(&self.dir, DataErrorKind::Missing, message));
        };
        let (file, name) = open_either(&files.swap_remove(place).1)?;
        (self.layout.qrels)(self, file, name)
    }

    /// The existing files, sorted by their names, with their paths without `.gz`.
    fn files(&self, files: &Files) -> Result<Vec<(String, PathBuf)>, DataError> {
        let (folder, prefix) = match files {
            Files::Named(names) => {
                let paths = names.iter().map(|(name, file)| ((*name).to_owned(), self.dir.join(file)));
                return Ok(paths.filter(|(_, path)| either_exists(path)).collect());
            }
            Files::Like(folder, prefix) => (self.dir.join(folder), prefix),
        };
        let failed = |source| DataError::open(&folder, source);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(plain) = name.to_str().map(|name| name.strip_suffix(GZIP_ENDING).unwrap_or(name)) else {
                continue;
            };
            let middle = plain.strip_prefix(prefix).and_then(|name| name.strip_suffix(".tsv"));
            let middle = middle.filter(|middle| !middle.is_empty());
            found.extend(middle.map(|middle| (middle.to_owned(), folder.join(plain))));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// The path of a dataset or a folder, if it is a directory.
pub(super) fn directory(path: impl Into<PathBuf>) -> Result<PathBuf, DataError> {
    let path = path.into();
    let message = "not a directory; give the directory that holds the dataset's files";
    if path.is_dir() { Ok(path) } else { Err(DataError::of_path(&path, DataErrorKind::Missing, message)) }
}

/// Streams queries from JSON lines with `_id` and `text`, like [`read_documents`].
///
/// # Errors
/// As [`read_documents`].
pub fn read_queries(
    reader: impl Read + Send + 'static,
    name: impl Into<String>,
) -> impl Iterator<Item = Result<DatasetQuery, DataError>> + Send {
    queries(Lines::new(reader, name), Vec::new(), json_query)
}

/// A row `id <TAB> text`. The text may contain tabs.
fn tabbed(line: Line<'_>) -> Result<(String, String), DataError> {
    let Some((id, text)) = line.text.split_once('\t') else {
        return Err(line.at.error(DataErrorKind::Row, "1 columns instead of id, text"));
    };
    match id.trim_ascii() {
        "" => Err(line.at.empty_id("id")),
        id => Ok((id.to_owned(), text.trim_ascii().to_owned())),
    }
}

fn passage(line: Line<'_>) -> Result<Document, DataError> {
    tabbed(line).map(|(id, text)| Document::new(id, "", text))
}

fn of_label(line: Line<'_>) -> Result<Document, DataError> {
    label(record(line.text).map_err(|source| line.at.json(source))?, line.at)
}

/// A query in the form of BEIR.
fn json_query(line: Line<'_>) -> Result<DatasetQuery, DataError> {
    let mut record = record(line.text).map_err(|source| line.at.json(source))?;
    let mut required = |field: &str| {
        record.remove(field).filter(|value| !value.is_null()).ok_or_else(|| line.at.missing(field))
    };
    let id = line.at.id("_id", required("_id")?)?;
    Ok(DatasetQuery { id, text: line.at.text("text", Some(required("text")?))? })
}

/// A point has the fields of a label; its query is the text to embed.
fn point(line: Line<'_>) -> Result<DatasetQuery, DataError> {
    let document = of_label(line)?;
    let text = document.embedding_text().into_owned();
    Ok(DatasetQuery { id: document.id, text })
}

/// The targets of points as judgments.
fn targets(dataset: &Dataset, file: File, name: String) -> Result<Qrels, DataError> {
    #[derive(Deserialize)]
    struct Targets {
        uid: Option<Value>,
        target_ind: Option<Vec<u64>>,
        target_rel: Option<Vec<f64>>,
    }

    let labels = dataset.corpus()?.map(|label| label.map(|l| l.id)).collect::<Result<Vec<_>, _>>()?;
    let mut lines = Lines::new(file, name);
    let mut qrels = Qrels::default();
    while let Some(line) = lines.next_line() {
        let Line { at, text } = line?;
        let point: Targets = serde_json::from_str(text).map_err(|source| at.json(source))?;
        let id = at.id("uid", point.uid.ok_or_else(|| at.missing("uid"))?)?;
        let targets = point.target_ind.unwrap_or_default();
        let relevance = point.target_rel.unwrap_or_else(|| vec![1.0; targets.len()]);
        if relevance.len() != targets.len() {
            let (targets, relevances) = (targets.len(), relevance.len());
            let message = format!("{relevances} values of target_rel for {targets} of target_ind");
            return Err(at.error(DataErrorKind::Field, message));
        }
        for (target, relevance) in targets.into_iter().zip(relevance) {
            let label = usize::try_from(target).ok().and_then(|target| labels.get(target));
            let Some(label) = label else {
                let message = format!("the target {target} is not among the {} labels", labels.len());
                return Err(at.error(DataErrorKind::Field, message));
            };
            // The cast saturates, far above the relevance values of real datasets.
            qrels.insert(&id, label, relevance.ceil() as i32);
        }
    }
    Ok(qrels)
}
