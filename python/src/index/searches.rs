//! Searches.

use std::borrow::Cow;

use ehi::QueryEncoder;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::Index;
use crate::call::{in_parts, run};
use crate::columns::strings;
use crate::model::Reranker;
use crate::options::{self, parse, stops};
use crate::search::{Mode, Options, SearchResult, SearchResults};
use crate::value::{Matrix, plain, type_name};

#[pymethods]
impl Index {
    /// Searches for a text, a list of texts, or embeddings, `[dim]` or `[n, dim]`.
    ///
    /// Of one question a `SearchResult`, of several a list of them. How far the tree is searched say `beam`
    /// (leaves), `recall` (share of exact search's hits, 0.95 by default), `stop` (rules as `mass=0.9`) or
    /// `exact`. `mode` is best (the default: words count as far as judged questions have shown that they
    /// help, and for a question with signs), dense, lexical or hybrid; `alpha` and `rrf` join both scores of
    /// hybrid. In all modes but dense a hit must have `+word` and `"a phrase"`, and must not have `-word`:
    /// the result's `signs` say what a question meant. `filter` is a dictionary in the form of MongoDB's. A
    /// `reranker` reads the best `rerank_depth` hits again. `unlogged` does not keep the question where
    /// questions are kept.
    ///
    /// >>> hit = index.search("is there caffeine in tea?", k=1)[0]
    /// >>> hit.id, hit.text, hit.metadata
    /// ('tea', 'Green tea has caffeine.', {'year': 2021})
    /// >>> index.search("a drink", filter={"year": {"$gte": 2022}}).ids
    /// ['coffee']
    /// >>> batch = index.search(["mending a tyre", "roasting"], k=2)
    /// >>> [ids[0] for ids in batch.ids], batch.scores.shape
    /// (['tyre', 'coffee'], (2, 2))
    /// >>> row = ehi.Encoder("models/scifact-minilm").encode_query("mending a tyre")
    /// >>> index.search(row, k=1).ids
    /// ['tyre']
    #[pyo3(signature = (query, k = 10, *, beam = None, recall = None, stop = None, exact = false, mode = None,
        alpha = None, rrf = None, bm25 = None, filter = None, codes = None, encoder = None, ids_only = false,
        passages = None, reranker = None, rerank_depth = 100, refine = false, parallel = false,
        unlogged = false))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn search(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        k: usize,
        beam: Option<usize>,
        recall: Option<f64>,
        stop: Option<&Bound<'_, PyAny>>,
        exact: bool,
        mode: Option<&str>,
        alpha: Option<f64>,
        rrf: Option<f64>,
        bm25: Option<(f32, f32)>,
        filter: Option<&Bound<'_, PyAny>>,
        codes: Option<bool>,
        encoder: Option<&str>,
        ids_only: bool,
        passages: Option<usize>,
        reranker: Option<Py<Reranker>>,
        rerank_depth: usize,
        refine: bool,
        parallel: bool,
        unlogged: bool,
    ) -> PyResult<Py<PyAny>> {
        let asked = Input::new(query)?;
        let options = Options {
            k,
            beam,
            recall,
            stops: stops(stop)?,
            exact,
            mode: Mode::new(mode, alpha, rrf)?,
            bm25,
            filter: filter.map(|filter| options::filter(py, filter)).transpose()?,
            codes,
            encoder: encoder.map(|text| parse::<QueryEncoder>("encoder", text)).transpose()?,
            ids_only,
            passages,
            rerank: reranker.as_ref().map(|reranker| (reranker.get(), rerank_depth)),
            unlogged,
        };
        let index = self.inner()?;
        // A reranker reads a hundred documents for each question.
        let each = if reranker.is_some() { 1 } else { QUESTIONS };
        let one = |result| Ok(SearchResult::new(py, result)?.into_pyobject(py)?.into_any().unbind());
        match asked {
            Input::Text(text) => one(run(py, || {
                let query = options.apply(index.query(&text));
                let query = if parallel { query.parallel() } else { query };
                if refine { query.refine(|_| ()) } else { query.run() }
            })?),
            Input::Vector(matrix) => {
                not_of_text(refine)?;
                let rows = matrix.rows()?;
                one(run(py, || {
                    let row = rows.row(0);
                    let query = options.apply(index.query_vector(&row));
                    if parallel { query.parallel().run() } else { query.run() }
                })?)
            }
            Input::Texts(texts) => {
                not_of_one(refine, parallel)?;
                let search = |_, part: &[String]| options.apply(index.query_batch(part)).run();
                many(py, k, in_parts(py, &texts, each, search)?)
            }
            Input::Vectors(matrix) => {
                not_of_one(refine, parallel)?;
                let rows: Vec<_> = matrix.rows()?.iter().collect();
                let search = |_, part: &[Cow<'_, [f32]>]| options.apply(index.query_vector_batch(part)).run();
                many(py, k, in_parts(py, &rows, each, search)?)
            }
        }
    }

    /// Why a search found what it found, as a dictionary; with `against_exact` beside what exact search
    /// finds.
    ///
    /// >>> explained = index.explain("is there caffeine in tea?", k=2, against_exact=True)
    /// >>> [hit["id"] for hit in explained["hits"]][0]
    /// 'tea'
    #[pyo3(signature = (query, k = 10, *, beam = None, recall = None, mode = None, alpha = None, filter = None,
        against_exact = false))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn explain(
        &self,
        py: Python<'_>,
        query: String,
        k: usize,
        beam: Option<usize>,
        recall: Option<f64>,
        mode: Option<&str>,
        alpha: Option<f64>,
        filter: Option<&Bound<'_, PyAny>>,
        against_exact: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = Options {
            k,
            beam,
            recall,
            mode: Mode::new(mode, alpha, None)?,
            filter: filter.map(|filter| options::filter(py, filter)).transpose()?,
            ..Options::default()
        };
        let index = self.inner()?;
        let explanation = run(py, || {
            let query = options.apply(index.query(&query));
            if against_exact { query.explain_against_exact() } else { query.explain() }
        })?;
        plain(py, &explanation)
    }
}

/// What is searched for.
enum Input<'py> {
    Text(String),
    Texts(Vec<String>),
    Vector(Matrix<'py>),
    Vectors(Matrix<'py>),
}

impl<'py> Input<'py> {
    fn new(query: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = query.cast::<PyString>() {
            return Ok(Self::Text(text.to_cow()?.into_owned()));
        }
        if let Ok(array) = query.cast::<PyUntypedArray>() {
            let matrix = Matrix::new(array)?;
            return Ok(if array.ndim() == 1 { Self::Vector(matrix) } else { Self::Vectors(matrix) });
        }
        if query.is_instance_of::<PyList>() || query.is_instance_of::<PyTuple>() {
            return strings("query", query).map(Self::Texts);
        }
        Err(PyTypeError::new_err(format!(
            "a query is a string, a list of strings or an array of numpy, not {}",
            type_name(query)
        )))
    }
}

fn not_of_text(refine: bool) -> PyResult<()> {
    match refine {
        true => Err(PyValueError::new_err("`refine` is for a question in text")),
        false => Ok(()),
    }
}

fn not_of_one(refine: bool, parallel: bool) -> PyResult<()> {
    match (refine, parallel) {
        (true, _) => Err(PyValueError::new_err("`refine` is for one question")),
        (_, true) => Err(PyValueError::new_err("`parallel` is for one question; several have a thread each")),
        (false, false) => Ok(()),
    }
}

/// Questions that each thread searches for between two looks for Ctrl-C.
const QUESTIONS: usize = 64;

fn many(py: Python<'_>, k: usize, results: Vec<ehi::SearchResult>) -> PyResult<Py<PyAny>> {
    let results = results.into_iter().map(|result| Py::new(py, SearchResult::new(py, result)?));
    let batch = SearchResults::new(k, results.collect::<PyResult<_>>()?);
    Ok(batch.into_pyobject(py)?.into_any().unbind())
}
