//! Search requests and results.

use ehi::search::QuestionWords;
use ehi::{InputError, SearchRequest};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use serde_json::{Map, Value, json};

use crate::errors::exception;
use crate::model::Reranker;
use crate::value::{from_python, plain, to_python};

/// A request from the keywords of a search: those of `SearchRequest::from_json`, `reranker` and
/// `rerank_depth`.
pub fn request(py: Python<'_>, k: usize, options: Option<&Bound<'_, PyDict>>) -> PyResult<SearchRequest> {
    let mut rerank = None;
    let mut depth = RERANK_DEPTH;
    let mut json = Map::from_iter([("k".to_owned(), k.into())]);
    for (name, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<&str>()? {
            "reranker" => rerank = Some(value.cast::<Reranker>()?.get().reranker.clone()),
            "rerank_depth" => depth = value.extract()?,
            name => {
                json.insert(name.to_owned(), from_python(&value)?);
            }
        }
    }
    let read = SearchRequest::from_json(Value::Object(json)).map_err(|error| match error {
        ehi::Error::Input(InputError::BadRequest { reason }) if reason.starts_with("unknown field") => {
            PyTypeError::new_err(reason)
        }
        error => exception(py, error),
    })?;
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

impl Hit {
    fn rerank_or_nan(&self) -> f32 {
        self.hit.rerank_score.unwrap_or(f32::NAN)
    }
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
    fn snippet(&self, py: Python<'_>, question: &str, bytes: usize) -> PyResult<Py<PyAny>> {
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
    hits: Vec<Py<Hit>>,
    rest: ehi::SearchResult,
}

impl SearchResult {
    pub fn new(py: Python<'_>, mut result: ehi::SearchResult) -> PyResult<Self> {
        let hits = std::mem::take(&mut result.hits).into_iter().map(|hit| Py::new(py, Hit { hit }));
        Ok(Self { hits: hits.collect::<PyResult<_>>()?, rest: result })
    }
}

#[pymethods]
impl SearchResult {
    /// Ids of the hits.
    #[getter]
    fn ids(&self) -> Vec<String> {
        self.hits.iter().map(|hit| hit.get().hit.id.clone()).collect()
    }

    /// Scores of the hits, `[hits]` f32.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let scores: Vec<f32> = self.hits.iter().map(|hit| hit.get().hit.score).collect();
        scores.into_pyarray(py)
    }

    /// Scores of a reranker, `[hits]` f32; NaN for hits that were not reranked.
    #[getter]
    fn rerank_scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let scores: Vec<f32> = self.hits.iter().map(|hit| hit.get().rerank_or_nan()).collect();
        scores.into_pyarray(py)
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

    fn __len__(&self) -> usize {
        self.hits.len()
    }

    fn __getitem__(&self, py: Python<'_>, at: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        element(py, "hit", &self.hits, at)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        iterator(py, &self.hits)
    }

    fn __repr__(&self) -> String {
        format!("SearchResult({} hits)", self.hits.len())
    }
}

/// The results of several questions, in their order, as a sequence of `SearchResult`.
#[pyclass(frozen, sequence, module = "ehi")]
pub struct SearchResults {
    k: usize,
    results: Vec<Py<SearchResult>>,
}

impl SearchResults {
    pub fn new(k: usize, results: Vec<Py<SearchResult>>) -> Self {
        Self { k, results }
    }

    fn column<'py>(&self, py: Python<'py>, of: impl Fn(&Hit) -> f32) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let cells = self.results.len().saturating_mul(self.k);
        let mut values = Vec::new();
        values.try_reserve_exact(cells).map_err(|_| {
            let message =
                format!("{} questions by {} hits do not fit the memory", self.results.len(), self.k);
            PyMemoryError::new_err(message)
        })?;
        values.resize(cells, f32::NAN);
        if self.k > 0 {
            for (row, result) in values.chunks_exact_mut(self.k).zip(&self.results) {
                for (value, hit) in row.iter_mut().zip(&result.get().hits) {
                    *value = of(hit.get());
                }
            }
        }
        values.into_pyarray(py).reshape([self.results.len(), self.k])
    }
}

#[pymethods]
impl SearchResults {
    /// Ids of the hits, a list for each question.
    #[getter]
    fn ids(&self) -> Vec<Vec<String>> {
        self.results.iter().map(|result| result.get().ids()).collect()
    }

    /// Scores of the hits, `[questions, k]` f32; NaN if a question has fewer hits.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.column(py, |hit| hit.hit.score)
    }

    /// Scores of a reranker, `[questions, k]` f32; NaN for hits that were not reranked, and if a question has
    /// fewer hits.
    #[getter]
    fn rerank_scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.column(py, Hit::rerank_or_nan)
    }

    fn __len__(&self) -> usize {
        self.results.len()
    }

    fn __getitem__(&self, py: Python<'_>, at: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        element(py, "result", &self.results, at)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        iterator(py, &self.results)
    }

    fn __repr__(&self) -> String {
        format!("SearchResults({} questions)", self.results.len())
    }
}

/// The element at a position, counted from the end if negative, or those of a slice as a list.
fn element<T>(py: Python<'_>, name: &str, items: &[Py<T>], at: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let length = items.len();
    if let Ok(slice) = at.cast::<PySlice>() {
        let within = slice.indices(length as isize)?;
        let mut chosen = Vec::new();
        let mut place = within.start;
        for _ in 0..within.slicelength {
            chosen.push(items[place as usize].clone_ref(py).into_any());
            place += within.step;
        }
        return Ok(chosen.into_pyobject(py)?.into_any().unbind());
    }
    let place: isize = at.extract()?;
    let place = if place < 0 { place + length as isize } else { place };
    let item = usize::try_from(place).ok().and_then(|place| items.get(place));
    let item = item.ok_or_else(|| PyIndexError::new_err(format!("{name} {at} of {length}")))?;
    Ok(item.clone_ref(py).into_any())
}

fn iterator<T>(py: Python<'_>, items: &[Py<T>]) -> PyResult<Py<PyAny>> {
    let items: Vec<Py<PyAny>> = items.iter().map(|item| item.clone_ref(py).into_any()).collect();
    Ok(items.into_pyobject(py)?.try_iter()?.into_any().unbind())
}
