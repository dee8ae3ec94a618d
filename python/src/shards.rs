//! Building blocks for searching several indexes of one model; `ehi.shards` in Python.

use std::path::PathBuf;
use std::sync::Arc;

use ehi::learn::{JudgedRankings, TuneOptions, compare_rankings};
use ehi::search::{SearchCandidate, fuse_candidates};
use ehi::train;
use ehi::{Fusion, InputError, LeafId, Question, RankBy, Reach, SearchRequest};
use numpy::{IntoPyArray, PyArray1, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{run, watched};
use crate::errors::exception;
use crate::index::Index;
use crate::model::Model;
use crate::options;
use crate::search::SearchResult;
use crate::value::{Matrix, plain};

/// Leaves with their probabilities.
type Routed<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>);

/// Id, score by the embedding, score by words or `None`, whether among the best by either.
type Candidate = (String, f32, Option<f32>, bool, bool);

/// Statistics of an index's words, or the sum of those of several.
#[pyclass(frozen, module = "ehi.shards")]
pub struct TermStatistics {
    statistics: Arc<ehi::search::TermStatistics>,
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

    /// The kind of terms: stems of a language, or tokens of a tokenizer, given by its checksum.
    #[getter]
    fn kind(&self) -> &str {
        self.statistics.kind()
    }

    /// Number of documents.
    #[getter]
    fn documents(&self) -> u64 {
        self.statistics.documents()
    }

    /// Occurrences of all terms in all documents.
    #[getter]
    fn total_length(&self) -> u64 {
        self.statistics.total_length()
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

    fn __repr__(&self) -> String {
        let own = &self.statistics;
        format!("TermStatistics({} documents, {} terms)", own.documents(), own.terms())
    }
}

/// Statistics of an index's words.
#[pyfunction]
fn term_statistics(py: Python<'_>, index: &Index) -> PyResult<TermStatistics> {
    let index = index.inner()?;
    Ok(TermStatistics { statistics: Arc::new(run(py, move || index.term_statistics())?) })
}

/// Number of live rows of each leaf, `[leaves]` uint32.
#[pyfunction]
fn leaf_rows<'py>(py: Python<'py>, index: &Index) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let index = index.inner()?;
    Ok(run(py, move || index.leaf_rows())?.into_pyarray(py))
}

/// The `beam` most probable leaves for an embedding, `[dim]`, best first, with their probabilities.
#[pyfunction]
fn route<'py>(
    py: Python<'py>,
    model: &Model,
    vector: &Bound<'py, PyUntypedArray>,
    beam: usize,
) -> PyResult<Routed<'py>> {
    let vector = one(vector)?;
    let routed = run(py, || model.bundle.route(&vector, beam))?;
    let leaves: Vec<u32> = routed.iter().map(|routed| routed.leaf.0).collect();
    let probabilities: Vec<f32> = routed.iter().map(|routed| routed.probability).collect();
    Ok((leaves.into_pyarray(py), probabilities.into_pyarray(py)))
}

/// The text that an encoder reads of a question with operators: everything that is not excluded.
#[pyfunction]
fn plain_question(question: &str) -> String {
    ehi::search::plain_question(question)
}

/// Searches one index for a question with a known embedding, in given leaves or in the whole index.
#[pyfunction]
#[pyo3(signature = (index, k, *, text = None, vector = None, leaves = None, mode = "dense", statistics = None,
    bm25 = None, filter = None, codes = None, ids_only = false))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
fn search(
    py: Python<'_>,
    index: &Index,
    k: usize,
    text: Option<String>,
    vector: Option<&Bound<'_, PyUntypedArray>>,
    leaves: Option<Vec<u32>>,
    mode: &str,
    statistics: Option<&TermStatistics>,
    bm25: Option<(f32, f32)>,
    filter: Option<&Bound<'_, PyAny>>,
    codes: Option<bool>,
    ids_only: bool,
) -> PyResult<SearchResult> {
    let (mode, exact) = match mode {
        "dense" => (RankBy::Dense, Some(Reach::Exact)),
        "lexical" => (RankBy::Lexical, None),
        "hybrid" => (RankBy::Hybrid(Fusion::Learned), Some(Reach::Exact)),
        _ => return Err(PyValueError::new_err("`mode` is dense, lexical or hybrid")),
    };
    let request = SearchRequest {
        k,
        reach: reach(leaves).or(exact),
        bm25,
        filter: filter.map(|filter| options::filter(py, filter)).transpose()?.map(Arc::new),
        codes,
        ids_only,
        statistics: statistics.map(|own| Arc::clone(&own.statistics)),
        ..SearchRequest::of(mode)
    };
    let vector = vector.map(one).transpose()?;
    let index = index.inner()?;
    let result = run(py, || {
        let question = match (&text, &vector) {
            (Some(text), Some(vector)) => Question::Encoded(text, vector),
            (Some(text), None) => Question::Text(text),
            (None, Some(vector)) => Question::Vector(vector),
            (None, None) => return Err(InputError::EmptyQuery.into()),
        };
        index.search_with(question, &request)
    })?;
    SearchResult::new(py, result)
}

/// The candidates of one index for a hybrid search over several: the best `depth` documents by embeddings and
/// the best by words, as tuples for `fuse`; whether the question requires or excludes something; and the
/// number of documents in the index.
#[pyfunction]
#[pyo3(signature = (index, text, vector, depth, *, leaves = None, statistics = None, bm25 = None,
    filter = None, codes = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
fn candidates(
    py: Python<'_>,
    index: &Index,
    text: String,
    vector: &Bound<'_, PyUntypedArray>,
    depth: usize,
    leaves: Option<Vec<u32>>,
    statistics: Option<&TermStatistics>,
    bm25: Option<(f32, f32)>,
    filter: Option<&Bound<'_, PyAny>>,
    codes: Option<bool>,
) -> PyResult<(Vec<Candidate>, bool, usize)> {
    let request = SearchRequest {
        reach: Some(reach(leaves).unwrap_or(Reach::Exact)),
        bm25,
        filter: filter.map(|filter| options::filter(py, filter)).transpose()?.map(Arc::new),
        codes,
        statistics: statistics.map(|own| Arc::clone(&own.statistics)),
        ..SearchRequest::hybrid(Fusion::Learned)
    };
    let vector = one(vector)?;
    let index = index.inner()?;
    let found = run(py, || index.candidates(Question::Encoded(&text, &vector), depth, &request))?;
    let tuple = |own: SearchCandidate| (own.id, own.dense, own.lexical, own.by_embedding, own.by_words);
    Ok((found.candidates.into_iter().map(tuple).collect(), found.has_signs, found.documents))
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
#[pyo3(signature = (index, path, *, leaves = None, passes = None, questions = None, seed = 0, progress = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
fn make_tree(
    py: Python<'_>,
    index: &Index,
    path: PathBuf,
    leaves: Option<u32>,
    passes: Option<usize>,
    questions: Option<Vec<String>>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let questions = questions.unwrap_or_default();
    let options = TuneOptions { leaves, passes, questions, seed, ..TuneOptions::default() };
    let index = index.inner()?;
    plain(py, &watched(py, progress, move |told| index.with_progress(told).make_tree(path, &options))?)
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
#[pyo3(signature = (questions, *, seed = 0))]
fn compare(
    py: Python<'_>,
    questions: Vec<(Vec<String>, Vec<String>, Vec<String>)>,
    seed: u64,
) -> PyResult<Py<PyAny>> {
    let judged = questions.into_iter().map(|(answers, before, after)| JudgedRankings {
        judgments: answers.into_iter().map(|id| (id, 1)).collect(),
        before,
        after,
    });
    let judged: Vec<JudgedRankings> = judged.collect();
    plain(py, &run(py, move || Ok(compare_rankings(&judged, seed)))?)
}

/// Whether `Index.learn` sets a question aside, by a hash of its words.
#[pyfunction]
fn is_held_out(question: &str) -> bool {
    train::is_held_out(question)
}

/// Only these leaves, if given.
fn reach(leaves: Option<Vec<u32>>) -> Option<Reach> {
    leaves.map(|leaves| Reach::Leaves(leaves.into_iter().map(LeafId).collect()))
}

/// An array of one embedding.
fn one(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<f32>> {
    let matrix = Matrix::new(array)?;
    let rows = matrix.rows()?;
    match rows.len() {
        1 => Ok(rows.row(0).into_owned()),
        count => Err(PyValueError::new_err(format!("{count} embeddings; one question has one"))),
    }
}

/// The functions of the module `ehi.shards`.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = PyModule::new(module.py(), "_shards")?;
    own.add_class::<TermStatistics>()?;
    own.add_function(wrap_pyfunction!(term_statistics, &own)?)?;
    own.add_function(wrap_pyfunction!(leaf_rows, &own)?)?;
    own.add_function(wrap_pyfunction!(route, &own)?)?;
    own.add_function(wrap_pyfunction!(plain_question, &own)?)?;
    own.add_function(wrap_pyfunction!(search, &own)?)?;
    own.add_function(wrap_pyfunction!(candidates, &own)?)?;
    own.add_function(wrap_pyfunction!(fuse, &own)?)?;
    own.add_function(wrap_pyfunction!(make_tree, &own)?)?;
    own.add_function(wrap_pyfunction!(ids, &own)?)?;
    own.add_function(wrap_pyfunction!(copy, &own)?)?;
    own.add_function(wrap_pyfunction!(compare, &own)?)?;
    own.add_function(wrap_pyfunction!(is_held_out, &own)?)?;
    module.add("_shards", own)
}
