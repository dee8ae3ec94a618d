//! Search results.

use ehi::Question;
use ehi::search::QuestionWords;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};
use serde_json::json;

use crate::arguments::{self, wrong_type};
use crate::errors::InputError;
use crate::options::{Whole, whole};
use crate::value::{from_python, plain, to_python};

/// One document found: its values can be read and compared, copied and pickled.
///
/// `Hit(fields)` makes one from the dictionary of `as_dict`. A hit has the fields of a dataclass, so that
/// `dataclasses.asdict(hit)` and `pandas.DataFrame(result)` work.
///
/// >>> hit = index.search("is there caffeine in tea?", k=1)[0]
/// >>> hit.metadata["seen"] = True
/// >>> hit.metadata, ehi.Hit(hit.as_dict()) == hit
/// ({'year': 2021, 'seen': True}, True)
#[pyclass(frozen, module = "ehi")]
pub struct Hit {
    hit: ehi::Hit,
    /// What was given out and may be changed there: a dictionary of `metadata`, `group`, `judged` and
    /// `passages`, made when one of them is first asked for.
    own: PyOnceLock<Py<PyDict>>,
}

/// Of a hit, in the order of a table's columns.
const FIELDS: [&str; 13] = [
    "id",
    "score",
    "title",
    "text",
    "metadata",
    "rerank_score",
    "dense",
    "lexical",
    "memory",
    "judged",
    "group",
    "leaf",
    "passages",
];

/// Characters of a text in a `repr`.
const SHOWN: usize = 40;

impl Hit {
    /// The hit as it was found, with the outline of its document.
    fn found(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let found = plain(py, &self.hit)?;
        let outline = &self.hit.document.outline;
        if !outline.is_empty() {
            found.bind(py).set_item("_outline", plain(py, outline)?)?;
        }
        Ok(found)
    }

    fn own<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let own = self.own.get_or_try_init(py, || {
            let ehi::Hit { judged, group, document, passages, .. } = &self.hit;
            let metadata = &document.metadata;
            let own = json!({ "metadata": metadata, "group": group, "judged": judged, "passages": passages });
            Ok::<_, PyErr>(to_python(py, &own)?.bind(py).cast::<PyDict>()?.clone().unbind())
        })?;
        own.bind(py).as_any().get_item(name)
    }
}

#[pymethods]
impl Hit {
    #[new]
    fn new(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !fields.is_instance_of::<PyDict>() {
            return Err(wrong_type("fields", "a dictionary", fields));
        }
        let hit = serde_json::from_value(from_python(fields)?)
            .map_err(|error| InputError::new_err(format!("the fields of a hit: {error}")))?;
        Ok(Self { hit, own: PyOnceLock::new() })
    }

    #[classattr]
    fn __dataclass_fields__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        let made = py.import("dataclasses")?.call_method1("make_dataclass", ("Hit", FIELDS))?;
        Ok(made.getattr("__dataclass_fields__")?.unbind())
    }

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
    fn group<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.own(py, "group")
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

    /// Metadata of the document, or `None`. A change of this dictionary stays in the hit, and does not change
    /// the index: `Index.update` does.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.own(py, "metadata")
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
    fn judged<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.own(py, "judged")
    }

    /// Score of the reranker, which then determines the order, or `None`.
    #[getter]
    fn rerank_score(&self) -> Option<f32> {
        self.hit.rerank_score
    }

    /// Its best passages, as dictionaries, in an index that has them.
    #[getter]
    fn passages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.own(py, "passages")
    }

    /// An excerpt for a question, of about `bytes` bytes of UTF-8: its text, its place in the hit's text, and
    /// the places of the question's words; `start`, `end` and `marks` are in bytes.
    #[pyo3(signature = (question, bytes = 480))]
    fn snippet(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::question)] question: &str,
        #[pyo3(from_py_with = arguments::bytes)] bytes: Whole,
    ) -> PyResult<Py<PyAny>> {
        let bytes = whole("bytes", bytes)?;
        let part = self.hit.snippet(&QuestionWords::of(question), bytes);
        let text = &self.hit.document.text[part.start..part.end];
        let marks: Vec<_> = part.marks.iter().map(|mark| [mark.start, mark.end]).collect();
        let (start, end) = (part.start, part.end);
        plain(py, &json!({ "text": text, "start": start, "end": end, "marks": marks }))
    }

    /// The hit as a dictionary of its own, as in `docs/json.md`.
    fn as_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let fields = plain(py, &self.hit)?;
        if let Some(own) = self.own.get(py) {
            let own = py.import("copy")?.call_method1("deepcopy", (own,))?;
            fields.bind(py).call_method1("update", (own,))?;
        }
        Ok(fields)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        self.as_dict(py)?.bind(py).eq(other.as_dict(py)?)
    }

    /// Of the id alone: metadata may be changed.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.hit.id).hash()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, hit) = (slf.py(), slf.get());
        let made = (slf.get_type(), (hit.found(py)?,), hit.own.get(py).map(|own| own.clone_ref(py)));
        made.into_pyobject(py)
    }

    fn __setstate__(&self, py: Python<'_>, own: Py<PyDict>) {
        // Of a hit just made, nothing was given out.
        let _ = self.own.set(py, own);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { hit: ehi::Hit { id, score, rerank_score, document, .. }, .. } = self;
        let mut shown = format!("Hit(id={}, score={score:.4}", PyString::new(py, id).repr()?);
        if let Some(score) = rerank_score {
            shown += &format!(", rerank_score={score:.4}");
        }
        for (name, text) in [("title", &document.title), ("text", &document.text)] {
            if !text.is_empty() {
                shown += &format!(", {name}={}", PyString::new(py, &beginning(text)).repr()?);
            }
        }
        Ok(shown + ")")
    }
}

/// The beginning of a text.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Hits in the `repr` of a result.
const LISTED: usize = 10;

/// The hits of one question, best first: a sequence, which can be compared, copied and pickled. Two results
/// are equal if their hits are.
///
/// >>> result = index.search("is there caffeine in tea?", k=2)
/// >>> result[0] in result, result.index(result[1]), [hit.id for hit in reversed(result)][1]
/// (True, 1, 'tea')
#[pyclass(frozen, sequence, module = "ehi")]
pub struct SearchResult {
    /// Each a [`Hit`].
    hits: Py<PyList>,
    question: Option<String>,
    /// The result without its hits, which a result that was pickled has as a dictionary.
    rest: Option<ehi::SearchResult>,
    /// `rest` as a dictionary, once it was asked for.
    about: PyOnceLock<Py<PyDict>>,
}

impl SearchResult {
    pub fn found(py: Python<'_>, question: &Question<'_>, mut result: ehi::SearchResult) -> PyResult<Self> {
        let hits = std::mem::take(&mut result.hits).into_iter();
        let hits = hits.map(|hit| Py::new(py, Hit { hit, own: PyOnceLock::new() }));
        let hits = PyList::new(py, hits.collect::<PyResult<Vec<_>>>()?)?.unbind();
        let question = match question {
            Question::Text(text) => Some((*text).to_owned()),
            _ => None,
        };
        Ok(Self { hits, question, rest: Some(result), about: PyOnceLock::new() })
    }

    fn column<T>(&self, py: Python<'_>, of: impl Fn(&ehi::Hit) -> T) -> PyResult<Vec<T>> {
        self.hits.bind(py).iter().map(|hit| Ok(of(&hit.cast::<Hit>()?.get().hit))).collect()
    }

    fn about<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyDict>> {
        let about = self.about.get_or_try_init(py, || {
            let about = plain(py, &self.rest)?;
            let about = about.bind(py).cast::<PyDict>()?;
            about.del_item("hits")?;
            Ok::<_, PyErr>(about.clone().unbind())
        })?;
        Ok(about.bind(py))
    }

    fn part<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.about(py)?.as_any().get_item(name)
    }

    /// What a function of `ehi._tables` makes of the result.
    fn made<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("ehi._tables")?.call_method1(name, (slf,))
    }
}

#[pymethods]
impl SearchResult {
    #[new]
    fn new(
        py: Python<'_>,
        hits: Vec<Py<Hit>>,
        #[pyo3(from_py_with = arguments::question)] question: Option<String>,
        about: Py<PyDict>,
    ) -> PyResult<Self> {
        let hits = PyList::new(py, hits)?.unbind();
        let result = Self { hits, question, rest: None, about: PyOnceLock::new() };
        let _ = result.about.set(py, about);
        Ok(result)
    }

    /// The question, or `None` if it was an embedding.
    #[getter]
    fn question(&self) -> Option<&str> {
        self.question.as_deref()
    }

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
    fn request<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part(py, "request")
    }

    /// The cost of the search, as a dictionary; times in milliseconds.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part(py, "stats")
    }

    /// The ranking of the hits, as a dictionary.
    #[getter]
    fn ranked_by<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part(py, "ranked_by")
    }

    /// The interpretation of the question's operators, as a dictionary of lists: `required`, `phrases`,
    /// `excluded`, `excluded_phrases`, `as_text`; and `ignored`, whether they were read as text.
    #[getter]
    fn signs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part(py, "signs")
    }

    /// Notes on the result, in sentences, such as why a filter found nothing.
    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.part(py, "notes")
    }

    /// The hits as dictionaries.
    fn to_dicts(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.hits.bind(py).iter().map(|hit| hit.cast::<Hit>()?.get().as_dict(py)).collect()
    }

    /// The hits as a `pandas.DataFrame`: `id`, `score`, `title`, `text`, `metadata`, and the columns
    /// `rerank_score`, `dense`, `lexical`, `memory` and `group` if a hit has a value.
    ///
    /// >>> list(index.search("tea", k=2).to_pandas().columns)
    /// ['id', 'score', 'title', 'text', 'metadata', 'dense', 'lexical']
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::made(slf, "to_pandas")
    }

    /// The hits as a `pyarrow.Table`, with the columns of `to_pandas`; `metadata` and `group` are JSON texts,
    /// because a column of Arrow has one type, and documents may differ in theirs.
    ///
    /// >>> index.search("is there caffeine in tea?", k=1).to_arrow()["metadata"].to_pylist()
    /// ['{"year": 2021}']
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::made(slf, "to_arrow")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::made(slf, "to_html")
    }

    /// The place of a hit, as `list.index`.
    #[pyo3(signature = (hit, start = 0, stop = isize::MAX))]
    fn index<'py>(
        &self,
        py: Python<'py>,
        hit: &Bound<'py, PyAny>,
        start: isize,
        stop: isize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.hits.bind(py).call_method1("index", (hit, start, stop))
    }

    /// How many hits equal one, as `list.count`.
    fn count<'py>(&self, py: Python<'py>, hit: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.hits.bind(py).call_method1("count", (hit,))
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

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.hits.bind(py).call_method0("__reversed__")
    }

    fn __contains__(&self, py: Python<'_>, hit: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.hits.bind(py).contains(hit)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        self.hits.bind(py).eq(&other.hits)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, result) = (slf.py(), slf.get());
        let given = (&result.hits, &result.question, result.about(py)?);
        (slf.get_type(), given).into_pyobject(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let hits = self.hits.bind(py);
        let listed = hits.iter().take(LISTED).map(|hit| Ok(format!("\n  {},", hit.repr()?)));
        let listed: String = listed.collect::<PyResult<_>>()?;
        Ok(match hits.len() {
            0 => match self.part(py, "notes")?.extract::<Vec<String>>()? {
                notes if notes.is_empty() => "SearchResult([])".to_owned(),
                notes => format!("SearchResult([], notes={})", PyList::new(py, notes)?.repr()?),
            },
            all if all > LISTED => format!("SearchResult([{listed}\n  … {} more hits\n])", all - LISTED),
            _ => format!("SearchResult([{listed}\n])"),
        })
    }
}
