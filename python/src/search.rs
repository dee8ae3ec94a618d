//! Searches and what they find.

use ehi::{Filter, Fusion, Query, QueryEncoder, Stop};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::model::Reranker;
use crate::value::{plain, to_python};

/// What a search is asked for, beside the question.
#[derive(Default)]
pub struct Options<'r> {
    pub k: usize,
    pub beam: Option<usize>,
    pub recall: Option<f64>,
    pub stops: Vec<Stop>,
    pub exact: bool,
    pub mode: Mode,
    pub bm25: Option<(f32, f32)>,
    pub filter: Option<Filter>,
    pub codes: Option<bool>,
    pub encoder: Option<QueryEncoder>,
    pub ids_only: bool,
    pub passages: Option<usize>,
    pub rerank: Option<(&'r Reranker, usize)>,
    pub unlogged: bool,
}

#[derive(Clone, Copy, Default)]
pub enum Mode {
    #[default]
    Best,
    Dense,
    Lexical,
    Hybrid(Fusion),
}

impl Mode {
    pub fn new(mode: Option<&str>, alpha: Option<f64>, rrf: Option<f64>) -> PyResult<Self> {
        let fusion = match (alpha, rrf) {
            (Some(_), Some(_)) => return Err(PyValueError::new_err("`alpha` and `rrf` exclude each other")),
            (Some(alpha), None) => Some(Fusion::Convex(alpha)),
            (None, Some(k)) => Some(Fusion::Rrf { k }),
            (None, None) => None,
        };
        match (mode, fusion) {
            (None, None) | (Some("best"), None) => Ok(Self::Best),
            (None | Some("hybrid"), Some(fusion)) => Ok(Self::Hybrid(fusion)),
            (Some("hybrid"), None) => Ok(Self::Hybrid(Fusion::Learned)),
            (Some("dense"), None) => Ok(Self::Dense),
            (Some("lexical"), None) => Ok(Self::Lexical),
            (Some("best" | "dense" | "lexical"), Some(_)) => {
                Err(PyValueError::new_err("`alpha` and `rrf` are options of the mode hybrid"))
            }
            (Some(mode), _) => Err(PyValueError::new_err(format!(
                "`mode` is `{mode}`; known are best, dense, lexical and hybrid"
            ))),
        }
    }
}

impl Options<'_> {
    /// A query with these options. An embedding is searched for by embeddings alone where nothing else is
    /// asked for.
    pub fn apply<'a, Input>(&'a self, query: Query<'a, Input>) -> Query<'a, Input> {
        let Self {
            k,
            beam,
            recall,
            stops,
            exact,
            mode,
            bm25,
            filter,
            codes,
            encoder,
            ids_only,
            passages,
            rerank,
            unlogged,
        } = self;
        let mut query = query.k(*k);
        if let Some(beam) = beam {
            query = query.beam(*beam);
        }
        if let Some(recall) = recall {
            query = query.recall(*recall);
        }
        for stop in stops {
            query = query.stop(*stop);
        }
        if *exact {
            query = query.exact();
        }
        query = match mode {
            Mode::Best => query.learned(),
            Mode::Dense => query,
            Mode::Lexical => query.lexical(),
            Mode::Hybrid(fusion) => query.hybrid(*fusion),
        };
        if let Some((k1, b)) = bm25 {
            query = query.bm25(*k1, *b);
        }
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        if let Some(codes) = codes {
            query = query.codes(*codes);
        }
        if let Some(encoder) = encoder {
            query = query.encoder(*encoder);
        }
        if let Some(passages) = passages {
            query = query.passages(*passages);
        }
        if let Some((reranker, depth)) = rerank {
            query = query.rerank(&reranker.reranker, *depth);
        }
        if *unlogged {
            query = query.unlogged();
        }
        if *ids_only { query.ids_only() } else { query }
    }
}

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

    /// By what the search ranks by; higher is better. With a reranker, that of the search before it: the
    /// order is by `rerank_score` then.
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

    /// Leaf in which it was found.
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

    /// What the reranker gave, by which it then stands where it does, or `None`.
    #[getter]
    fn rerank_score(&self) -> Option<f32> {
        self.hit.rerank_score
    }

    /// Its best passages, as dictionaries, in an index that has them.
    #[getter]
    fn passages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.hit.passages)
    }

    /// All of it as a dictionary, as `docs/json.md` has it.
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

    /// What a reranker gave the hits, `[hits]` f32; NaN for one that it was not asked of.
    #[getter]
    fn rerank_scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let scores: Vec<f32> = self.hits.iter().map(|hit| hit.get().rerank_or_nan()).collect();
        scores.into_pyarray(py)
    }

    /// What the search cost, as a dictionary; times in milliseconds.
    #[getter]
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.stats)
    }

    /// What the hits are ranked by, as a dictionary.
    #[getter]
    fn ranked_by(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.ranked_by)
    }

    /// What the signs of the question meant, as a dictionary of lists: `required`, `phrases`, `excluded`,
    /// `excluded_phrases`, `as_text`; and `ignored`, whether they were read as text.
    #[getter]
    fn signs(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.rest.signs)
    }

    /// What should be known of the result, in sentences: why a filter found nothing, say.
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

    /// Scores of the hits, `[questions, k]` f32; NaN where a question has fewer hits.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.column(py, |hit| hit.hit.score)
    }

    /// What a reranker gave the hits, `[questions, k]` f32; NaN for a hit that it was not asked of, and where
    /// a question has fewer hits.
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

/// The element at a place, counted from the end where it is negative, or those of a slice as a list.
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
