//! Search requests and results.

use std::sync::Arc;

use ehi::search::QuestionWords;
use ehi::{InputError, SearchRequest};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString};
use serde_json::{Map, Value, json};

use crate::errors::exception;
use crate::model::Reranker;
use crate::options::{Whole, keyword, whole};
use crate::shards::TermStatistics;
use crate::value::{from_python, in_member, plain, to_python};

/// Keywords that are whole numbers.
const WHOLE: [&str; 3] = ["beam", "passages", "per_group"];

/// A request from the keywords of a search: those of `SearchRequest::from_json`, `reranker`, `rerank_depth`
/// and `statistics`.
pub fn request(py: Python<'_>, k: Whole, options: Option<&Bound<'_, PyDict>>) -> PyResult<SearchRequest> {
    let (mut rerank, mut statistics) = (None, None);
    let mut depth = RERANK_DEPTH;
    let mut json = Map::from_iter([("k".to_owned(), whole::<usize>("k", k)?.into())]);
    for (name, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<&str>()? {
            "reranker" => {
                let expected = |_| PyTypeError::new_err("`reranker` is a Reranker: ehi.Reranker(path)");
                rerank = Some(value.cast::<Reranker>().map_err(expected)?.get().reranker.clone());
            }
            "rerank_depth" => depth = whole("rerank_depth", keyword("rerank_depth", &value)?)?,
            "statistics" => {
                let expected = |_| PyTypeError::new_err("`statistics` are of `ehi.shards.term_statistics`");
                statistics =
                    Some(Arc::clone(&value.cast::<TermStatistics>().map_err(expected)?.get().statistics));
            }
            name if WHOLE.contains(&name) && !value.is_instance_of::<PyString>() => {
                json.insert(name.to_owned(), whole::<usize>(name, keyword(name, &value)?)?.into());
            }
            name => {
                let value = from_python(&value).map_err(|error| in_member(py, name, &error))?;
                json.insert(name.to_owned(), value);
            }
        }
    }
    let mut read = SearchRequest::from_json(Value::Object(json)).map_err(|error| match error {
        ehi::Error::Input(InputError::BadRequest { reason })
            if reason.starts_with("unknown field") || reason.contains(": invalid type: ") =>
        {
            PyTypeError::new_err(reason)
        }
        error => exception(py, error),
    })?;
    read.statistics = statistics;
    Ok(match rerank {
        Some(reranker) => read.rerank(&reranker, depth),
        None => read,
    })
}

/// Default number of reranked hits.
const RERANK_DEPTH: usize = 100;

/// One document found.
#[pyclass(frozen, module = "ehi")]
pub struct Hit {
    hit: ehi::Hit,
}

#[pymethods]
impl Hit {
    /// Id of the document.
    #[getter]
    fn id(&self) -> &str {
        &self.hit.id
    }

    /// Score by which the search ranks; higher is better. With a reranker it is that of the first search, and
    /// the order is by `rerank_score`.
    #[getter]
    fn score(&self) -> f32 {
        self.hit.score
    }

    /// With `group_by`, the value that the documents of its group have in common, or `None` for a document
    /// that is a group of its own.
    #[getter]
    fn group(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.hit.group.as_ref().map(|group| to_python(py, group)).transpose()
    }

    /// Title of the document; empty with `ids_only`.
    #[getter]
    fn title(&self) -> &str {
        &self.hit.document.title
    }

    /// Text of the document; empty with `ids_only`.
    #[getter]
    fn text(&self) -> &str {
        &self.hit.document.text
    }

    /// Metadata of the document, or `None`.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.hit.document.metadata.as_ref().map(|metadata| to_python(py, metadata)).transpose()
    }

    /// Leaf of the document.
    #[getter]
    fn leaf(&self) -> u32 {
        self.hit.leaf.0
    }

    /// Score by the embedding, or `None`.
    #[getter]
    fn dense(&self) -> Option<f32> {
        self.hit.scores.dense
    }

    /// Score by words, BM25, or `None`.
    #[getter]
    fn lexical(&self) -> Option<f32> {
        self.hit.scores.lexical
    }

    /// What judgments of near questions added to the score, or `None`.
    #[getter]
    fn memory(&self) -> Option<f32> {
        self.hit.scores.memory
    }

    /// The judgment that moved the hit most, as a dictionary of `question`, `similarity`, `grade`, `stale`
    /// (the document was replaced since it was judged) and `moved` (what all judgments added, in units of the
    /// range of the candidates' scores), or `None`.
    #[getter]
    fn judged(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.hit.judged.as_ref().map(|judged| plain(py, judged)).transpose()
    }

    /// Score of the reranker, which then determines the order, or `None`.
    #[getter]
    fn rerank_score(&self) -> Option<f32> {
        self.hit.rerank_score
    }

    /// Its best passages, as dictionaries, in an index that has them.
    #[getter]
    fn passages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.hit.passages)
    }

    /// An excerpt for a question, of about `bytes` bytes of UTF-8: its text, its place in the hit's text, and
    /// the places of the question's words; `start`, `end` and `marks` are in bytes.
    #[pyo3(signature = (question, bytes = 480))]
    fn snippet(&self, py: Python<'_>, question: &str, bytes: Whole) -> PyResult<Py<PyAny>> {
        let bytes = whole("bytes", bytes)?;
        let part = self.hit.snippet(&QuestionWords::of(question), bytes);
        let text = &self.hit.document.text[part.start..part.end];
        let marks: Vec<_> = part.marks.iter().map(|mark| [mark.start, mark.end]).collect();
        let (start, end) = (part.start, part.end);
        plain(py, &json!({ "text": text, "start": start, "end": end, "marks": marks }))
    }

    /// The hit as a dictionary, as in `docs/json.md`.
    fn as_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.hit)
    }

    fn __repr__(&self) -> String {
        format!("Hit(id={:?}, score={:.4}, title={:?})", self.hit.id, self.hit.score, self.hit.document.title)
    }
}

/// The hits of one question, best first, as a sequence.
#[pyclass(frozen, sequence, module = "ehi")]
pub struct SearchResult {
    /// Each a [`Hit`].
    hits: Py<PyList>,
    rest: ehi::SearchResult,
}

impl SearchResult {
    pub fn new(py: Python<'_>, mut result: ehi::SearchResult) -> PyResult<Self> {
        let hits = std::mem::take(&mut result.hits).into_iter().map(|hit| Py::new(py, Hit { hit }));
        let hits = PyList::new(py, hits.collect::<PyResult<Vec<_>>>()?)?.unbind();
        Ok(Self { hits, rest: result })
    }

    fn column<T>(&self, py: Python<'_>, of: impl Fn(&ehi::Hit) -> T) -> PyResult<Vec<T>> {
        self.hits.bind(py).iter().map(|hit| Ok(of(&hit.cast::<Hit>()?.get().hit))).collect()
    }
}

#[pymethods]
impl SearchResult {
    /// Ids of the hits.
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.column(py, |hit| hit.id.clone())
    }

    /// Scores of the hits, `[hits]` f32.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        Ok(self.column(py, |hit| hit.score)?.into_pyarray(py))
    }

    /// Scores of a reranker, `[hits]` f32; NaN for hits that were not reranked.
    #[getter]
    fn rerank_scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        Ok(self.column(py, |hit| hit.rerank_score.unwrap_or(f32::NAN))?.into_pyarray(py))
    }

    /// The request with defaults, as a dictionary of the keywords.
    #[getter]
    fn request(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.request)
    }

    /// The cost of the search, as a dictionary; times in milliseconds.
    #[getter]
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.stats)
    }

    /// The ranking of the hits, as a dictionary.
    #[getter]
    fn ranked_by(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.ranked_by)
    }

    /// The interpretation of the question's operators, as a dictionary of lists: `required`, `phrases`,
    /// `excluded`, `excluded_phrases`, `as_text`; and `ignored`, whether they were read as text.
    #[getter]
    fn signs(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.signs)
    }

    /// Notes on the result, in sentences, such as why a filter found nothing.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.rest.notes.clone()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.hits.bind(py).len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.hits.bind(py).as_any().get_item(at)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.hits.bind(py).try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("SearchResult({} hits)", self.__len__(py))
    }
}
