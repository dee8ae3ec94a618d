//! Searches.

use std::borrow::Cow;

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::Index;
use crate::call::{in_parts, run};
use crate::columns::strings;
use crate::search::{SearchResult, SearchResults, request};
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
    #[pyo3(signature = (query, k = 10, **options), text_signature = "($self, query, k=10, *, beam=None, \
        recall=None, stop=None, exact=False, mode=None, alpha=None, rrf=None, bm25=None, filter=None, \
        codes=None, encoder=None, ids_only=False, passages=None, reranker=None, rerank_depth=100, \
        parallel=False, unlogged=False)")]
    fn search(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        k: usize,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (asked, is_one) = Asked::new(query)?;
        let request = request(py, k, options)?;
        if request.parallel && !is_one {
            return Err(PyValueError::new_err("`parallel` is for one question; several have a thread each"));
        }
        let index = self.inner()?;
        // A reranker reads a hundred documents for each question.
        let each = if request.rerank.is_some() { 1 } else { QUESTIONS };
        let results = match &asked {
            Asked::Texts(texts) => in_parts(py, texts, each, |_, part| index.search_many(part, &request))?,
            Asked::Vectors(matrix) => {
                let rows: Vec<_> = matrix.rows()?.iter().collect();
                let search =
                    |_, part: &[Cow<'_, [f32]>]| index.search_many(part.iter().map(|row| &**row), &request);
                in_parts(py, &rows, each, search)?
            }
        };
        let results = results.into_iter().map(|result| Py::new(py, SearchResult::new(py, result)?));
        let mut results = results.collect::<PyResult<Vec<_>>>()?;
        match results.pop() {
            Some(only) if is_one => Ok(only.into_any()),
            last => {
                results.extend(last);
                Ok(Py::new(py, SearchResults::new(k, results))?.into_any())
            }
        }
    }

    /// Why a search found what it found, as a dictionary; with `against_exact` beside what exact search
    /// finds.
    ///
    /// >>> explained = index.explain("is there caffeine in tea?", k=2, against_exact=True)
    /// >>> [hit["id"] for hit in explained["hits"]][0]
    /// 'tea'
    #[pyo3(signature = (query, k = 10, *, against_exact = false, **options), text_signature = "($self, query, \
        k=10, *, against_exact=False, beam=None, recall=None, stop=None, exact=False, mode=None, alpha=None, \
        rrf=None, bm25=None, filter=None, codes=None, encoder=None, ids_only=False, passages=None)")]
    fn explain(
        &self,
        py: Python<'_>,
        query: String,
        k: usize,
        against_exact: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let request = request(py, k, options)?;
        let index = self.inner()?;
        plain(py, &run(py, || index.explain(&query, &request, against_exact))?)
    }
}

/// What is searched for.
enum Asked<'py> {
    Texts(Vec<String>),
    Vectors(Matrix<'py>),
}

impl<'py> Asked<'py> {
    /// Whether it is one question, too.
    fn new(query: &Bound<'py, PyAny>) -> PyResult<(Self, bool)> {
        if let Ok(text) = query.cast::<PyString>() {
            return Ok((Self::Texts(vec![text.to_cow()?.into_owned()]), true));
        }
        if let Ok(array) = query.cast::<PyUntypedArray>() {
            return Ok((Self::Vectors(Matrix::new(array)?), array.ndim() == 1));
        }
        if query.is_instance_of::<PyList>() || query.is_instance_of::<PyTuple>() {
            return Ok((Self::Texts(strings("query", query)?), false));
        }
        Err(PyTypeError::new_err(format!(
            "a query is a string, a list of strings or an array of numpy, not {}",
            type_name(query)
        )))
    }
}

/// Questions that each thread searches for between two looks for Ctrl-C.
const QUESTIONS: usize = 64;
