//! Building blocks for searching several indexes of one model; `ehi.shards` in Python.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ehi::data::{Documents, Input, JudgmentFormat, write_judgments};
use ehi::learn::{JudgedRankings, TuneOptions, compare_rankings};
use ehi::search::{JudgedQuestions, MovedDocument, SearchCandidate, fuse_candidates};
use ehi::train;
use ehi::{InputError, Judgment, Question};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Deserializer;

use crate::arguments;
use crate::call::run;
use crate::errors::{InputError as Bad, exception};
use crate::index::Index;
use crate::model::Model;
use crate::options::{self, Whole, whole, whole_or_none};
use crate::request::request;
use crate::value::{Matrix, array, plain};

#[pymodule]
pub mod _shards {
    #[pymodule_export]
    use super::{
        Judgments, Records, TermStatistics, candidates, check, compare, copy, fuse, is_held_out, make_tree,
        plain_question, read, route, term_statistics,
    };
}

/// Id, score by the embedding and by words or `None`, whether among the best by either.
type Candidate = (String, Option<f32>, Option<f32>, bool, bool);
/// Id, how far judgments move it, and the judgment that counts most.
type Moved = (String, f64, Py<PyAny>);

/// The judgments of several indexes, each of a question and a document once.
#[pyclass(frozen, module = "ehi.shards")]
pub struct Judgments {
    judgments: Vec<Judgment>,
    questions: JudgedQuestions,
}

impl Judgments {
    fn of_all(py: Python<'_>, all: Vec<Judgment>) -> PyResult<Self> {
        run(py, || {
            let pairs = all.into_iter().map(|own| ((own.question.clone(), own.id.clone()), own));
            // The last of each.
            let judgments: Vec<Judgment> = pairs.collect::<BTreeMap<_, _>>().into_values().collect();
            Ok(Self { questions: JudgedQuestions::new(&judgments)?, judgments })
        })
    }
}

#[pymethods]
impl Judgments {
    /// Of judgments in the forms of `Index.judge`; a later one of the same question and document replaces an
    /// earlier one.
    #[new]
    fn new(py: Python<'_>, judgments: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of_all(py, options::judgments(judgments)?)
    }

    /// Parses the output of `to_bytes`.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let read: Result<_, _> = Deserializer::from_slice(bytes).into_iter().collect();
        Self::of_all(py, read.map_err(|error| Bad::new_err(error.to_string()))?)
    }

    /// JSON lines, ordered by question and id.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut lines = Vec::new();
        write_judgments(&mut lines, &self.judgments, JudgmentFormat::JsonLines)?;
        Ok(PyBytes::new(py, &lines))
    }

    /// As dictionaries, ordered by question and id.
    fn all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.judgments)
    }

    /// The documents judged for a question, apart from case and punctuation, as tuples for `candidates` and
    /// `fuse`: id, how far they move, and what a hit says as `judged`.
    fn of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::question)] question: &str,
    ) -> PyResult<Vec<Moved>> {
        let tuple = |own: MovedDocument| Ok((own.id, own.moved, plain(py, &own.judged)?));
        self.questions.documents(question).into_iter().map(tuple).collect()
    }

    fn __len__(&self) -> usize {
        self.judgments.len()
    }
}

fn moved_documents(moved: Vec<Moved>) -> Vec<MovedDocument> {
    moved.into_iter().map(|(id, moved, _)| MovedDocument { id, moved, judged: None }).collect()
}

/// Statistics of an index's words, or the sum of those of several.
#[pyclass(frozen, module = "ehi.shards")]
pub struct TermStatistics {
    pub statistics: Arc<ehi::search::TermStatistics>,
}

#[pymethods]
impl TermStatistics {
    /// Parses the output of `to_bytes`.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let read = ehi::search::TermStatistics::from_bytes(bytes);
        Ok(Self { statistics: Arc::new(read.map_err(|error| Bad::new_err(error.to_string()))?) })
    }

    /// The statistics as bytes with a checksum.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.statistics.to_bytes())
    }

    /// Number of documents.
    #[getter]
    fn documents(&self) -> u64 {
        self.statistics.documents()
    }

    /// Number of different terms.
    #[getter]
    fn terms(&self) -> usize {
        self.statistics.terms()
    }

    fn __add__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let mut statistics = (*self.statistics).clone();
        statistics.add(&other.statistics).map_err(|error| exception(py, InputError::from(error).into()))?;
        Ok(Self { statistics: Arc::new(statistics) })
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.statistics == other.statistics
    }
}

/// Statistics of an index's words.
#[pyfunction]
fn term_statistics(py: Python<'_>, index: &Index) -> PyResult<TermStatistics> {
    let index = index.inner()?;
    Ok(TermStatistics { statistics: Arc::new(run(py, move || index.term_statistics())?) })
}

/// The `beam` most probable leaves for an embedding, `[dim]`, best first.
#[pyfunction]
fn route(
    py: Python<'_>,
    model: &Model,
    vector: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::beam)] beam: Whole,
) -> PyResult<Vec<u32>> {
    let beam = whole("beam", beam)?;
    let vector = one(vector)?;
    let routed = run(py, || model.bundle.route(&vector, beam))?;
    Ok(routed.iter().map(|routed| routed.leaf.0).collect())
}

/// The text that an encoder reads of a question with operators: everything that is not excluded.
#[pyfunction]
fn plain_question(#[pyo3(from_py_with = arguments::question)] question: &str) -> String {
    ehi::search::plain_question(question)
}

/// The candidates of one index for a search over several: the best `depth` documents by embeddings or by
/// words, in the mode hybrid the best of both, and those that judgments name, as tuples for `fuse`; whether
/// the question requires or excludes something; and the number of documents in the index. `options` are those
/// of `Index.search`.
#[pyfunction]
#[pyo3(signature = (index, text, vector, depth, moved = Vec::new(), **options))]
fn candidates(
    py: Python<'_>,
    index: &Index,
    #[pyo3(from_py_with = arguments::text)] text: Option<String>,
    vector: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::depth)] depth: Whole,
    moved: Vec<Moved>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Vec<Candidate>, bool, usize)> {
    let request = request(py, depth, options)?;
    let depth = whole("depth", depth)?;
    let vector = vector.map(one).transpose()?;
    let question = match (&text, &vector) {
        (Some(text), Some(vector)) => Question::Encoded(text, vector),
        (Some(text), None) => Question::Text(text),
        (None, Some(vector)) => Question::Vector(vector),
        (None, None) => return Err(Bad::new_err("give a text, an embedding or both")),
    };
    let (index, moved) = (index.inner()?, moved_documents(moved));
    let found = run(py, || index.candidates(question, depth, &moved, &request))?;
    let tuple = |own: SearchCandidate| (own.id, own.dense, own.lexical, own.by_embedding, own.by_words);
    Ok((found.candidates.into_iter().map(tuple).collect(), found.has_signs, found.documents))
}

/// Refuses options of a search that do not exist, exclude each other or have values of another kind.
#[pyfunction]
#[pyo3(signature = (k, **options))]
fn check(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::k)] k: Whole,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    request(py, k, options).map(drop)
}

/// The `k` best of the candidates of several indexes, as dictionaries. `options` are `mode`, `alpha` and
/// `rrf` of `Index.search`.
#[pyfunction]
#[pyo3(signature = (candidates, depth, k, moved = Vec::new(), **options))]
fn fuse(
    py: Python<'_>,
    candidates: Vec<Candidate>,
    #[pyo3(from_py_with = arguments::depth)] depth: Whole,
    #[pyo3(from_py_with = arguments::k)] k: Whole,
    moved: Vec<Moved>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let (mode, moved) = (request(py, k, options)?.mode, moved_documents(moved));
    let (depth, k) = (whole("depth", depth)?, whole("k", k)?);
    let own = candidates.into_iter().map(|(id, dense, lexical, by_embedding, by_words)| SearchCandidate {
        id,
        dense,
        lexical,
        by_embedding,
        by_words,
    });
    plain(py, &run(py, move || fuse_candidates(own, depth, mode, k, &moved))?)
}

/// Makes a tree from an index's documents as a new bundle in `path`; the index is unchanged. Returns the
/// report as a dictionary.
#[pyfunction]
#[pyo3(signature = (index, path, *, leaves = None, passes = None))]
fn make_tree(
    py: Python<'_>,
    index: &Index,
    #[pyo3(from_py_with = arguments::path)] path: PathBuf,
    #[pyo3(from_py_with = arguments::leaves)] leaves: Option<Whole>,
    #[pyo3(from_py_with = arguments::passes)] passes: Option<Whole>,
) -> PyResult<Py<PyAny>> {
    let leaves = whole_or_none("leaves", leaves)?;
    let passes = whole_or_none("passes", passes)?;
    let options = TuneOptions { leaves, passes, ..TuneOptions::default() };
    index.long(py, None, |index| index.make_tree(path, &options))
}

/// Copies documents of one index to another with their embeddings, all or those of `ids`, without encoding.
/// Returns their number.
#[pyfunction]
#[pyo3(signature = (source, target, ids = None))]
fn copy(py: Python<'_>, source: &Index, target: &Index, ids: Option<Vec<String>>) -> PyResult<usize> {
    let (source, target) = (source.inner()?, target.inner()?);
    run(py, move || match ids {
        Some(ids) => target.insert_from(&source, ids),
        None => target.insert_from(&source, source.ids()?),
    })
}

/// Whether a change improves search, by the rule of `Index.learn`, as a dictionary. Takes for each question
/// the ids of its answers, the ids found before, and those found after.
#[pyfunction]
fn compare(py: Python<'_>, questions: Vec<(Vec<String>, Vec<String>, Vec<String>)>) -> PyResult<Py<PyAny>> {
    let judged = questions.into_iter().map(|(answers, before, after)| JudgedRankings {
        judgments: answers.into_iter().map(|id| (id, 1)).collect(),
        before,
        after,
    });
    let judged: Vec<JudgedRankings> = judged.collect();
    plain(py, &run(py, move || Ok(compare_rankings(&judged, 0)))?)
}

/// Whether `Index.learn` sets a question aside, by a hash of its words.
#[pyfunction]
fn is_held_out(#[pyo3(from_py_with = arguments::question)] question: &str) -> bool {
    train::is_held_out(question)
}

/// An array of one embedding.
fn one(vector: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    match Matrix::new(&array("vector", vector)?)?.rows()?[..] {
        [row] => Ok(row.to_vec()),
        ref rows => Err(Bad::new_err(format!("{} embeddings; one question has one", rows.len()))),
    }
}

/// The documents of a file, read once.
#[pyclass(frozen, module = "ehi.shards")]
pub struct Records {
    documents: Mutex<Documents>,
}

#[pymethods]
impl Records {
    /// Names given for title, metadata or one of several texts that no record has had so far.
    #[getter]
    fn unseen(&self) -> Vec<String> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).unseen().to_vec()
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let next = || self.documents.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
        run(py, || Ok(next()?))?.map(|document| plain(py, &document)).transpose()
    }
}

/// The documents of a file, of any format that `ehi insert` reads and by its rules, as dictionaries.
/// `source` is its path, or its content as bytes; the other arguments are names of fields.
#[pyfunction]
#[pyo3(signature = (source, *, id = None, title = None, text = None, metadata = None))]
fn read(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::id)] id: Option<String>,
    #[pyo3(from_py_with = arguments::title)] title: Option<String>,
    text: Option<Vec<String>>,
    metadata: Option<Vec<String>>,
) -> PyResult<Records> {
    let mut input = id.into_iter().fold(Input::new(), Input::id);
    input = title.into_iter().fold(input, Input::title);
    input = text.into_iter().fold(input, Input::text);
    input = metadata.into_iter().fold(input, Input::metadata);
    let documents = match source.cast::<PyBytes>() {
        Ok(content) => {
            let content = Cursor::new(content.as_bytes().to_vec());
            run(py, || Ok(input.read(content, "the dataset")?))?
        }
        Err(_) => {
            let path: PathBuf = source.extract()?;
            run(py, || Ok(input.open(path)?))?
        }
    };
    Ok(Records { documents: Mutex::new(documents) })
}
