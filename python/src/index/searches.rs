//! Searches.

use ehi::{Question, SearchRequest};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::Index;
use crate::arguments::{self, wrong_type};
use crate::call::in_parts;
use crate::columns::{one_or_list, one_or_more};
use crate::errors::InputError;
use crate::options::Whole;
use crate::request::request;
use crate::search::SearchResult;
use crate::value::{Matrix, array, plain_values};

#[pymethods]
impl Index {
    /// Searches for a text, for a list, an array or a column of texts, or for embeddings, `[dim]` or
    /// `[n, dim]`: an array of numbers of any library, or lists of them. Embeddings are read as float32.
    /// `vectors` are the embeddings of texts that another model encoded, `[dim]` or `[n, dim]`.
    ///
    /// Returns a `SearchResult` for one question and a list of them for several. The reach in the tree is set
    /// by `beam` (leaves), `recall` (share of exact search's hits, 0.95 by default) or `exact`. `mode` is
    /// best (the default: hybrid, or dense for embeddings and once `fuse` has found that words do not help),
    /// dense, lexical or hybrid; `alpha` and `rrf` combine both scores of hybrid. In all modes
    /// except dense a hit must contain `+word` and `"a phrase"`, and must not contain `-word`; the result's
    /// `signs` show the interpretation. `filter` is a dictionary in MongoDB's form. A `reranker` reorders the
    /// best `rerank_depth` hits. `no_memory` leaves judgments out. `unlogged` keeps the question out of the
    /// log. With `group_by`, a field, `k` counts groups of documents that have a value of it in common, each
    /// with its best `per_group` hits (1 by default). `leaves` and `statistics` are for one search over
    /// several indexes: `ehi.shards`.
    ///
    /// >>> hit = index.search("is there caffeine in tea?", k=1)[0]
    /// >>> hit.id, hit.text, hit.metadata
    /// ('tea', 'Green tea has caffeine.', {'year': 2021})
    /// >>> index.search("a drink", filter={"year": {"$gte": 2022}}).ids
    /// ['coffee']
    /// >>> {hit.id: hit.group for hit in index.search("tea", k=3, group_by="year")}["tea"]
    /// 2021
    /// >>> batch = index.search(["mending a tyre", "roasting"], k=2)
    /// >>> [result.ids[0] for result in batch]
    /// ['tyre', 'coffee']
    /// >>> row = ehi.Encoder("models/scifact-minilm").encode_query("mending a tyre")
    /// >>> index.search(row, k=1).ids
    /// ['tyre']
    #[pyo3(signature = (query, k = 10, *, vectors = None, **options), text_signature = "($self, query, k=10, *, \
        vectors=None, beam=None, recall=None, exact=False, mode=None, alpha=None, rrf=None, bm25=None, filter=None, \
        codes=None, encoder=None, ids_only=False, passages=None, group_by=None, per_group=None, \
        reranker=None, rerank_depth=100, parallel=False, no_memory=False, unlogged=False, leaves=None, \
        statistics=None)")]
    fn search(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::k)] k: Whole,
        vectors: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        let search_part =
            |part: &[Question<'_>], request: &SearchRequest| index.search_many(part.iter().copied(), request);
        search(py, query, k, vectors, options, search_part)
    }

    /// Explains the hits of a search, as a dictionary; with `against_exact` compared with exact search.
    ///
    /// >>> explained = index.explain("is there caffeine in tea?", k=2, against_exact=True)
    /// >>> [hit["id"] for hit in explained["hits"]][0]
    /// 'tea'
    #[pyo3(signature = (query, k = 10, *, against_exact = false, **options), text_signature = "($self, query, \
        k=10, *, against_exact=False, beam=None, recall=None, exact=False, mode=None, alpha=None, \
        rrf=None, bm25=None, filter=None, codes=None, encoder=None, ids_only=False, passages=None, no_memory=False)")]
    fn explain(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::query)] query: String,
        #[pyo3(from_py_with = arguments::k)] k: Whole,
        #[pyo3(from_py_with = arguments::against_exact)] against_exact: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        for name in ["parallel", "unlogged", "reranker", "rerank_depth"] {
            let given = options.map(|given| given.get_item(name)).transpose()?.flatten();
            if given.is_some_and(|given| !given.is_none()) {
                let what = format!("`{name}` does not apply to `explain`; leave it out");
                return Err(PyTypeError::new_err(what));
            }
        }
        let request = request(py, k, options)?;
        self.report(py, |index| index.explain(&query, &request, against_exact))
    }
}

/// The results of one question or several; `search` gives those of some of them.
pub fn search(
    py: Python<'_>,
    query: &Bound<'_, PyAny>,
    k: Whole,
    vectors: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
    search: impl Fn(&[Question<'_>], &SearchRequest) -> ehi::Result<Vec<ehi::SearchResult>> + Sync,
) -> PyResult<Py<PyAny>> {
    let request = request(py, k, options)?;
    if query.is_instance_of::<PyDict>() || !query.hasattr("__iter__")? {
        return Err(wrong_type("query", "a text, a list or a column of texts, or embeddings", query));
    }
    let query = &match query.hasattr("__next__")? {
        true => query.try_iter()?.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?,
        false => plain_values(query)?,
    };
    let (matrix, texts, is_one);
    let has_texts = has_texts(query)?;
    let (name, given) = match vectors {
        Some(_) if !has_texts => {
            return Err(PyTypeError::new_err("`vectors` are for a query of texts; this query is embeddings"));
        }
        Some(vectors) => ("vectors", Some(array("vectors", vectors)?)),
        None => ("query", if has_texts { None } else { Some(array("query", query)?) }),
    };
    matrix = given.as_ref().map(Matrix::new).transpose()?;
    let rows = matrix.as_ref().map(Matrix::rows).transpose()?;
    let questions: Vec<Question<'_>> = if has_texts {
        (texts, is_one) = one_or_more("query", query)?;
        match rows {
            None => texts.iter().map(|text| Question::Text(text)).collect(),
            Some(rows) if rows.len() == texts.len() => {
                texts.iter().zip(rows).map(|(text, row)| Question::Encoded(text, row)).collect()
            }
            Some(rows) => {
                let (rows, texts) = (rows.len(), texts.len());
                return Err(InputError::new_err(format!("{rows} `{name}` were given for {texts} texts")));
            }
        }
    } else {
        is_one = given.is_some_and(|array| array.ndim() == 1);
        rows.into_iter().flatten().map(Question::Vector).collect()
    };
    if request.parallel && !is_one {
        return Err(InputError::new_err("`parallel` is for one question; several have a thread each"));
    }
    // A reranker reads a hundred documents for each question.
    let each = if request.rerank.is_some() { 1 } else { QUESTIONS };
    let results = in_parts(py, &questions, each, |_, part| search(part, &request))?;
    let found = |(question, result)| Ok(Py::new(py, SearchResult::found(py, question, result)?)?.into_any());
    let results = questions.iter().zip(results).map(found);
    one_or_list(py, results.collect::<PyResult<Vec<_>>>()?, is_one)
}

/// Whether a query is a text or texts, by its first value; otherwise it is embeddings.
fn has_texts(query: &Bound<'_, PyAny>) -> PyResult<bool> {
    if query.is_instance_of::<PyString>() {
        return Ok(true);
    }
    match query.try_iter().ok().and_then(|mut values| values.next()).transpose()? {
        Some(first) if first.is_instance_of::<PyString>() || first.is_none() => Ok(true),
        Some(_) => Ok(false),
        None => Ok(query.cast::<PyUntypedArray>().is_err()),
    }
}

/// Most questions per thread between checks for Ctrl-C.
const QUESTIONS: usize = 64;
