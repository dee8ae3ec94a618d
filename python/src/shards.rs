//! Building blocks for searching several indexes of one model; `ehi.shards` in Python.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ehi::data::{Documents, Input};
use ehi::learn::{JudgedRankings, TuneOptions, compare_rankings};
use ehi::search::{SearchCandidate, fuse_candidates};
use ehi::train;
use ehi::{Fusion, InputError, Question};
use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::run;
use crate::errors::exception;
use crate::index::Index;
use crate::model::Model;
use crate::search::request;
use crate::value::{Matrix, plain};

#[pymodule]
pub mod _shards {
    #[pymodule_export]
    use super::{
        Records, TermStatistics, candidates, check, compare, copy, fuse, ids, is_held_out, make_tree,
        plain_question, read, route, term_statistics,
    };
}

/// Id, score by the embedding, score by words or `None`, whether among the best by either.
type Candidate = (String, f32, Option<f32>, bool, bool);

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
        Ok(Self { statistics: Arc::new(read.map_err(|error| PyValueError::new_err(error.to_string()))?) })
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
    vector: &Bound<'_, PyUntypedArray>,
    beam: usize,
) -> PyResult<Vec<u32>> {
    let vector = one(vector)?;
    let routed = run(py, || model.bundle.route(&vector, beam))?;
    Ok(routed.iter().map(|routed| routed.leaf.0).collect())
}

/// The text that an encoder reads of a question with operators: everything that is not excluded.
#[pyfunction]
fn plain_question(question: &str) -> String {
    ehi::search::plain_question(question)
}

/// The candidates of one index for a hybrid search over several: the best `depth` documents by embeddings and
/// the best by words, as tuples for `fuse`; whether the question requires or excludes something; and the
/// number of documents in the index. `options` are those of `Index.search`.
#[pyfunction]
#[pyo3(signature = (index, text, vector, depth, **options))]
fn candidates(
    py: Python<'_>,
    index: &Index,
    text: String,
    vector: &Bound<'_, PyUntypedArray>,
    depth: usize,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Vec<Candidate>, bool, usize)> {
    let mut request = request(py, depth, options)?;
    request.mode = ehi::RankBy::Hybrid(Fusion::Learned);
    let vector = one(vector)?;
    let index = index.inner()?;
    let found = run(py, || index.candidates(Question::Encoded(&text, &vector), depth, &request))?;
    let tuple = |own: SearchCandidate| (own.id, own.dense, own.lexical, own.by_embedding, own.by_words);
    Ok((found.candidates.into_iter().map(tuple).collect(), found.has_signs, found.documents))
}

/// Refuses options of a search that do not exist, exclude each other or have values of another kind.
#[pyfunction]
#[pyo3(signature = (k, **options))]
fn check(py: Python<'_>, k: usize, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    request(py, k, options).map(drop)
}

/// The `k` best of the candidates of several indexes, as dictionaries.
#[pyfunction]
#[pyo3(signature = (candidates, depth, k, *, alpha = None, rrf = None))]
fn fuse(
    py: Python<'_>,
    candidates: Vec<Candidate>,
    depth: usize,
    k: usize,
    alpha: Option<f64>,
    rrf: Option<f64>,
) -> PyResult<Py<PyAny>> {
    let fusion = match (alpha, rrf) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("`alpha` and `rrf` exclude each other")),
        (Some(alpha), None) => Fusion::Convex(alpha),
        (None, Some(k)) => Fusion::Rrf { k },
        (None, None) => Fusion::Learned,
    };
    let own = candidates.into_iter().map(|(id, dense, lexical, by_embedding, by_words)| SearchCandidate {
        id,
        dense,
        lexical,
        by_embedding,
        by_words,
    });
    plain(py, &run(py, move || fuse_candidates(own, depth, fusion, k))?)
}

/// Makes a tree from an index's documents as a new bundle in `path`; the index is unchanged. Returns the
/// report as a dictionary.
#[pyfunction]
#[pyo3(signature = (index, path, *, leaves = None, passes = None))]
fn make_tree(
    py: Python<'_>,
    index: &Index,
    path: PathBuf,
    leaves: Option<u32>,
    passes: Option<usize>,
) -> PyResult<Py<PyAny>> {
    let options = TuneOptions { leaves, passes, ..TuneOptions::default() };
    index.long(py, None, |index| index.make_tree(path, &options))
}

/// The ids of an index's documents, in their byte order.
#[pyfunction]
fn ids(py: Python<'_>, index: &Index) -> PyResult<Vec<String>> {
    let index = index.inner()?;
    run(py, move || index.ids())
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
fn is_held_out(question: &str) -> bool {
    train::is_held_out(question)
}

/// An array of one embedding.
fn one(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<f32>> {
    match Matrix::new(array)?.rows()?[..] {
        [row] => Ok(row.to_vec()),
        ref rows => Err(PyValueError::new_err(format!("{} embeddings; one question has one", rows.len()))),
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
    id: Option<String>,
    title: Option<String>,
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
