//! The store.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ehi::calibrate::CalibrateOptions;
use ehi::leaves::LeafOptions;
use ehi::train::{DistilOptions, LearnOptions, QueryEncoderChoice, Trainer, TuneOptions};
use ehi::{Analyzer, Document, LeafId, QueryEncoder, RepairOptions};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::call::{run, watched};
use crate::errors::InputError;
use crate::model::{self, Model, Reranker};
use crate::options::{self, HandleOptions, judgments, parse, seconds, stops};
use crate::search::{Mode, Options, SearchResult};
use crate::training::{config, retrained};
use crate::value::{document, document_to_python, from_python, plain, rows, type_name};

/// Documents handed out together while an index is walked.
const PAGE: usize = 256;

/// An index: documents, their embeddings and postings, and the model, in one folder.
///
/// Made by `Index.create`, `Index.open` and `Index.open_read_only`. One process writes at a time, any number
/// reads. It may be shared by threads; a search takes none of the interpreter's lock. `close` (or the end of
/// a `with` block) flushes it.
#[pyclass(frozen, module = "ehi")]
pub struct Index {
    path: PathBuf,
    open: RwLock<Option<Arc<ehi::Index>>>,
}

impl Index {
    fn of(index: ehi::Index) -> Self {
        Self { path: index.path().to_owned(), open: RwLock::new(Some(Arc::new(index))) }
    }

    pub fn inner(&self) -> PyResult<Arc<ehi::Index>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
            .ok_or_else(|| InputError::new_err(format!("the index {} is closed", self.path.display())))
    }

    fn store(
        &self,
        py: Python<'_>,
        documents: Vec<Document>,
        all_or_none: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        let summary = watched(py, progress, move |on_progress| {
            let index = index.with_progress(on_progress);
            match all_or_none {
                true => index.insert_all_or_none(documents),
                false => index.insert_batch(documents),
            }
        })?;
        plain(py, &summary)
    }
}

#[pymethods]
impl Index {
    /// Creates an index in a folder that is missing or empty. `model` is a `Model` or the path of one. With
    /// `passages`, tokens and overlap, a document has an embedding for each part of its text.
    #[staticmethod]
    #[pyo3(signature = (path, model, *, similarity = None, durability = None, codes = None, words = None,
        precision = None, passages = None, exist_ok = false))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        model: &Bound<'_, PyAny>,
        similarity: Option<&str>,
        durability: Option<&str>,
        codes: Option<bool>,
        words: Option<&str>,
        precision: Option<&str>,
        passages: Option<(u32, u32)>,
        exist_ok: bool,
    ) -> PyResult<Self> {
        let options = HandleOptions { similarity, durability, codes, words, precision, wait: None, passages };
        let builder = options.builder()?;
        let bundle = model::model(py, model)?;
        let index = run(py, move || match exist_ok {
            true => builder.open_or_create(path, &bundle),
            false => builder.create(path, &bundle),
        })?;
        Ok(Self::of(index))
    }

    /// Opens an index for reading and writing; `wait` is for how many seconds another writer is waited for.
    #[staticmethod]
    #[pyo3(signature = (path, *, durability = None, codes = None, precision = None, wait = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        durability: Option<&str>,
        codes: Option<bool>,
        precision: Option<&str>,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let options = HandleOptions { durability, codes, precision, wait, ..HandleOptions::default() };
        let builder = options.builder()?;
        Ok(Self::of(run(py, move || builder.open(path))?))
    }

    /// Opens an index to read it, beside a process that writes; `refresh` shows what was flushed since.
    #[staticmethod]
    #[pyo3(signature = (path, *, precision = None))]
    fn open_read_only(py: Python<'_>, path: PathBuf, precision: Option<&str>) -> PyResult<Self> {
        let builder = HandleOptions { precision, ..HandleOptions::default() }.builder()?;
        Ok(Self::of(run(py, move || builder.open_read_only(path))?))
    }

    /// Brings a damaged index back to what can be read of it. `undecided` says what to do with documents that
    /// may have been deleted: refuse, keep or drop.
    #[staticmethod]
    #[pyo3(signature = (path, *, model = None, undecided = "refuse", progress = None))]
    fn repair(
        py: Python<'_>,
        path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        undecided: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        use ehi::store::Undecided;
        let undecided = match undecided {
            "refuse" => Undecided::Refuse,
            "keep" => Undecided::Keep,
            "drop" => Undecided::Drop,
            _ => return Err(PyValueError::new_err("`undecided` is refuse, keep or drop")),
        };
        let bundle = model.map(|model| model::model(py, model)).transpose()?;
        let report = watched(py, progress, move |on_progress| {
            let mut options = RepairOptions::default().undecided(undecided).on_progress(on_progress);
            if let Some(bundle) = &bundle {
                options = options.bundle(bundle);
            }
            ehi::Index::repair(path, options)
        })?;
        plain(py, &report)
    }

    /// Folder of the index.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[getter]
    fn is_read_only(&self) -> PyResult<bool> {
        Ok(self.inner()?.is_read_only())
    }

    /// The model that serves.
    #[getter]
    fn model(&self) -> PyResult<Model> {
        Ok(Model { bundle: (*self.inner()?.bundle()).clone() })
    }

    /// Flushes the index and gives it up; nothing can be done with it then. Safe to call twice.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(index) = taken else { return Ok(()) };
        run(py, move || {
            if !index.is_read_only() {
                index.flush()?;
            }
            drop(index);
            Ok(())
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let path = self.path.display();
        Err(PyTypeError::new_err(format!("an open index cannot be pickled; pickle its path, {path}")))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.inner()?.len())
    }

    fn __contains__(&self, py: Python<'_>, id: String) -> PyResult<bool> {
        let index = self.inner()?;
        run(py, move || index.contains(&id))
    }

    fn __repr__(&self) -> String {
        match self.inner() {
            Ok(index) => format!("Index({:?}, {} documents)", self.path, index.len()),
            Err(_) => format!("Index({:?}, closed)", self.path),
        }
    }

    /// Stores documents: `add(ids, texts, titles=…, metadata=…)`, or `add(documents)` with dictionaries of
    /// `id`, `text`, `title` and `metadata`. One whose id is there takes its place.
    ///
    /// Returns what was done with each, as a dictionary. With `all_or_none` one that cannot be stored is an
    /// error with nothing stored.
    #[pyo3(signature = (documents, texts = None, titles = None, metadata = None, *, all_or_none = false,
        progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn add(
        &self,
        py: Python<'_>,
        documents: &Bound<'_, PyAny>,
        texts: Option<&Bound<'_, PyAny>>,
        titles: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        all_or_none: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let documents = match texts {
            Some(texts) => columns(documents, texts, titles, metadata)?,
            None if titles.is_some() || metadata.is_some() => {
                return Err(PyTypeError::new_err("`titles` and `metadata` go with ids and texts"));
            }
            None => dictionaries(documents)?,
        };
        self.store(py, documents, all_or_none, progress)
    }

    /// Stores documents with embeddings of the model's own encoder, `[n, dim]` float32 or float16.
    #[pyo3(signature = (ids, vectors, texts = None, titles = None, metadata = None, *, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn add_vectors(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        vectors: &Bound<'_, PyUntypedArray>,
        texts: Option<&Bound<'_, PyAny>>,
        titles: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let own = strings("ids", ids)?;
        let texts = match texts {
            Some(texts) => of_length("texts", strings("texts", texts)?, own.len())?,
            None => vec![String::new(); own.len()],
        };
        let documents = assemble(own, texts, titles, metadata)?;
        if vectors.ndim() != 2 || vectors.shape()[0] != documents.len() {
            return Err(PyValueError::new_err(format!(
                "{} ids with an array of shape {:?}; a row for each is needed",
                documents.len(),
                vectors.shape()
            )));
        }
        let rows = rows(vectors)?;
        let index = self.inner()?;
        let summary = watched(py, progress, move |on_progress| {
            index.with_progress(on_progress).insert_vectors(documents.into_iter().zip(rows))
        })?;
        plain(py, &summary)
    }

    /// The document of an id, as a dictionary, or `None`; of a list of ids a list.
    fn get(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        if let Ok(id) = ids.cast::<PyString>() {
            let id = id.to_string();
            let found = run(py, move || index.get(&id))?;
            return found.map_or_else(|| Ok(py.None()), |document| document_to_python(py, &document));
        }
        let ids: Vec<String> = ids.extract()?;
        let found = run(py, move || index.get_many(ids))?;
        let found = found.iter().map(|document| match document {
            Some(document) => document_to_python(py, document),
            None => Ok(py.None()),
        });
        Ok(PyList::new(py, found.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
    }

    /// Deletes the document of an id, or those of a list; returns how many there were.
    fn delete(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        let ids: Vec<String> = match ids.cast::<PyString>() {
            Ok(id) => vec![id.to_string()],
            Err(_) => ids.extract()?,
        };
        let index = self.inner()?;
        run(py, move || index.delete_batch(ids))
    }

    /// Documents in the order of their ids, from the one after `after` on, `limit` at most.
    #[pyo3(signature = (after = None, limit = 100))]
    fn page(&self, py: Python<'_>, after: Option<String>, limit: usize) -> PyResult<Vec<Py<PyAny>>> {
        let index = self.inner()?;
        let page = run(py, move || index.page(after.as_deref(), limit))?;
        page.iter().map(|document| document_to_python(py, document)).collect()
    }

    /// All documents in the order of their ids, read as they are asked for.
    fn iter(slf: Py<Self>) -> Documents {
        Documents { index: slf, after: None, page: Vec::new().into_iter() }
    }

    fn __iter__(slf: Py<Self>) -> Documents {
        Self::iter(slf)
    }

    /// Searches for a text, a list of texts, or embeddings, `[dim]` or `[n, dim]`.
    ///
    /// Of one question a `SearchResult`, of several a list of them. How far the tree is searched say `beam`
    /// (leaves), `recall` (share of exact search's hits, 0.95 by default), `stop` (rules as `mass=0.9`) or
    /// `exact`. `mode` is best, dense, lexical or hybrid; `alpha` and `rrf` join both scores of hybrid.
    /// `filter` is a dictionary in the form of MongoDB's. A `reranker` reads the best `rerank_depth` hits
    /// again.
    #[pyo3(signature = (query, k = 10, *, beam = None, recall = None, stop = None, exact = false, mode = None,
        alpha = None, rrf = None, bm25 = None, filter = None, codes = None, encoder = None, ids_only = false,
        passages = None, reranker = None, rerank_depth = 100, parallel = false))]
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
        parallel: bool,
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
        };
        let index = self.inner()?;
        let one = |result| Ok(SearchResult::new(py, result)?.into_pyobject(py)?.into_any().unbind());
        match asked {
            Input::Text(text) => one(run(py, || {
                let query = options.apply(index.query(&text));
                if parallel { query.parallel().run() } else { query.run() }
            })?),
            Input::Vector(vector) => one(run(py, || {
                let query = options.apply(index.query_vector(&vector));
                if parallel { query.parallel().run() } else { query.run() }
            })?),
            Input::Texts(texts) => many(py, run(py, || options.apply(index.query_batch(&texts)).run())?),
            Input::Vectors(rows) => {
                many(py, run(py, || options.apply(index.query_vector_batch(&rows)).run())?)
            }
        }
    }

    /// Why a search found what it found, as a dictionary; with `against_exact` beside what exact search
    /// finds.
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

    /// Makes what was stored last beyond a power failure, and shows it to read-only handles.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let index = self.inner()?;
        run(py, move || index.flush())
    }

    /// Of a read-only handle: shows what was flushed since; whether there was something.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let index = self.inner()?;
        run(py, move || index.refresh())
    }

    /// Sizes, as a dictionary.
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &run(py, move || index.stats())?)
    }

    /// What is amiss that the index can do with, as texts.
    fn notices(&self) -> PyResult<Vec<String>> {
        Ok(self.inner()?.notices().iter().map(ToString::to_string).collect())
    }

    /// Whether the tree still fits the collection, with advice, as a dictionary.
    fn health(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &run(py, move || index.health())?)
    }

    /// What each leaf is about, as dictionaries.
    #[pyo3(signature = (leaf = None, *, terms = None, samples = None, queries = None))]
    fn leaves(
        &self,
        py: Python<'_>,
        leaf: Option<u32>,
        terms: Option<usize>,
        samples: Option<usize>,
        queries: Option<Vec<String>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = LeafOptions { leaf: leaf.map(LeafId), ..LeafOptions::default() };
        options.queries = queries.unwrap_or_default();
        options.terms = terms.unwrap_or(options.terms);
        options.samples = samples.unwrap_or(options.samples);
        let index = self.inner()?;
        plain(py, &run(py, move || index.leaves(&options))?)
    }

    /// Reads and checks every byte; what was found, as a dictionary.
    #[pyo3(signature = (*, progress = None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        let report = watched(py, progress, move |told| index.with_progress(told).verify())?;
        plain(py, &report)
    }

    /// Copies the index as it is to a folder that is missing or empty.
    fn snapshot(&self, py: Python<'_>, target: PathBuf) -> PyResult<()> {
        let index = self.inner()?;
        run(py, move || index.snapshot(target))
    }

    /// Merges all segments and drops what is deleted.
    #[pyo3(signature = (*, progress = None))]
    fn compact(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let index = self.inner()?;
        watched(py, progress, move |told| index.with_progress(told).compact())
    }

    /// Makes posting lists of words for an index without, or with other terms: `tokens`, or a language.
    #[pyo3(signature = (words = "tokens", *, progress = None))]
    fn make_lexical(&self, py: Python<'_>, words: &str, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let analyzer: Analyzer = parse("words", words)?;
        let index = self.inner()?;
        watched(py, progress, move |told| index.with_progress(told).make_lexical(analyzer))
    }

    /// Makes the posting lists of leaves anew.
    #[pyo3(signature = (*, progress = None))]
    fn rebuild_postings(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let index = self.inner()?;
        watched(py, progress, move |told| index.with_progress(told).rebuild_postings())
    }

    /// Measures how many leaves a search needs for a recall; the curve, as a dictionary.
    #[pyo3(signature = (questions = None, *, progress = None))]
    fn calibrate(
        &self,
        py: Python<'_>,
        questions: Option<Vec<String>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = CalibrateOptions { questions: questions.unwrap_or_default() };
        let index = self.inner()?;
        let curve = watched(py, progress, move |told| index.with_progress(told).calibrate(&options))?;
        plain(py, &curve)
    }

    /// Makes a tree for the documents that are here, without labels; what came of it, as a dictionary.
    #[pyo3(signature = (*, leaves = None, passes = None, questions = None, always = false, seed = 0,
        progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn tune(
        &self,
        py: Python<'_>,
        leaves: Option<u32>,
        passes: Option<usize>,
        questions: Option<Vec<String>>,
        always: bool,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = TuneOptions {
            leaves,
            passes,
            questions: questions.unwrap_or_default(),
            always,
            seed,
            ..TuneOptions::default()
        };
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).tune(&options))?)
    }

    /// Keeps judgments: tuples of question, id of a document and grade, 1 where there is none; 0 and less
    /// mean that the document does not answer. What was done, as a dictionary.
    fn judge(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let judgments = judgments(pairs)?;
        let index = self.inner()?;
        plain(py, &run(py, move || index.record_all(judgments))?)
    }

    /// The judgments that are kept, as dictionaries.
    fn judgments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &run(py, move || index.judgments())?)
    }

    /// Drops judgments, given as pairs of question and id; how many there were.
    fn forget(&self, py: Python<'_>, pairs: Vec<(String, String)>) -> PyResult<usize> {
        let index = self.inner()?;
        run(py, move || index.forget(pairs.iter().map(|(question, id)| (question.as_str(), id.as_str()))))
    }

    /// Whether questions are kept in a file of the index, to tune and calibrate by.
    #[pyo3(signature = (on))]
    fn log_questions(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        let index = self.inner()?;
        run(py, move || index.log_questions(on))
    }

    /// The questions that were kept, as dictionaries.
    fn logged_questions(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &run(py, move || index.logged_questions())?)
    }

    /// Trains on the judgments and takes the new model only if it is shown to be better; the decision, as a
    /// dictionary. `half_life` is in seconds.
    #[pyo3(signature = (pairs = None, *, half_life = None, config = None, progress = None))]
    fn learn(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        half_life: Option<f64>,
        config: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = LearnOptions {
            pairs: pairs.map(judgments).transpose()?.unwrap_or_default(),
            half_life: half_life.map(|value| seconds("half_life", value)).transpose()?,
            ..LearnOptions::default()
        };
        if let Some(given) = config {
            options.config = self::config(Some(given))?;
        }
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).learn(&options))?)
    }

    /// Learns how much words count beside embeddings, from the judgments kept and those given.
    #[pyo3(signature = (pairs = None, *, progress = None))]
    fn fuse(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let pairs = pairs.map(judgments).transpose()?.unwrap_or_default();
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).fuse(&pairs))?)
    }

    /// Gives the model a fast encoder of questions, or with `kind="none"` takes it away.
    #[pyo3(signature = (pairs = None, *, kind = "static", texts = None, passes = None, questions = None,
        seed = 0, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn distil(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        kind: &str,
        texts: Option<usize>,
        passes: Option<usize>,
        questions: Option<Vec<String>>,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = DistilOptions {
            query_encoder: match kind {
                "static" => QueryEncoderChoice::Static,
                "none" => QueryEncoderChoice::None,
                _ => return Err(PyValueError::new_err("`kind` is static or none")),
            },
            pairs: pairs.map(judgments).transpose()?.unwrap_or_default(),
            questions: questions.unwrap_or_default(),
            seed,
            ..DistilOptions::default()
        };
        options.texts = texts.unwrap_or(options.texts);
        options.passes = passes.unwrap_or(options.passes);
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).distil(&options))?)
    }

    /// Trains encoder and tree on pairs of question and document id over the documents that are here, and
    /// changes over to the new model whatever the verdict says; `rollback` goes back.
    #[pyo3(signature = (pairs, *, config = None, progress = None))]
    fn retrain(
        &self,
        py: Python<'_>,
        pairs: Vec<(String, String)>,
        config: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let config = self::config(config)?;
        let index = self.inner()?;
        let done = watched(py, progress, move |told| {
            index.retrain(pairs, Trainer::builder().config(config).on_progress(told))
        })?;
        retrained(py, &done)
    }

    /// Changes over to another model: every document is encoded and routed anew beside the running index.
    #[pyo3(signature = (model, *, progress = None))]
    fn reencode(
        &self,
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let bundle = model::model(py, model)?;
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).reencode(&bundle))?)
    }

    /// Goes back to the model before.
    #[pyo3(signature = (*, progress = None))]
    fn rollback(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &watched(py, progress, move |told| index.with_progress(told).rollback())?)
    }

    /// Removes the model that `rollback` would go back to; whether there was one.
    fn drop_previous_model(&self, py: Python<'_>) -> PyResult<bool> {
        let index = self.inner()?;
        run(py, move || index.drop_previous_model())
    }

    /// Keeps the tree in step with the collection in a thread of its own until the returned object is closed.
    #[pyo3(signature = (*, interval = None))]
    fn auto_tune(&self, interval: Option<f64>) -> PyResult<AutoTune> {
        let mut options = ehi::train::AutoTuneOptions::default();
        if let Some(interval) = interval {
            options.interval = seconds("interval", interval)?;
        }
        let index = self.inner()?;
        let tune = index
            .auto_tune(options)
            .map_err(|error| Python::attach(|py| crate::errors::exception(py, error)))?;
        Ok(AutoTune { tune: RwLock::new(Some(tune)) })
    }
}

/// A thread that tunes; made by `Index.auto_tune`.
#[pyclass(frozen, module = "ehi")]
pub struct AutoTune {
    tune: RwLock<Option<ehi::train::AutoTune>>,
}

#[pymethods]
impl AutoTune {
    /// How many tunings have ended.
    #[getter]
    fn tunings(&self) -> usize {
        let tune = self.tune.read().unwrap_or_else(PoisonError::into_inner);
        tune.as_ref().map_or(0, |tune| tune.last().0)
    }

    /// Ends it; a tuning under way is given up, with the index as it was.
    fn close(&self, py: Python<'_>) {
        let taken = self.tune.write().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(move || drop(taken));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }
}

/// Documents of an index, page by page.
#[pyclass(module = "ehi")]
pub struct Documents {
    index: Py<Index>,
    after: Option<String>,
    page: std::vec::IntoIter<Document>,
}

#[pymethods]
impl Documents {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.page.as_slice().is_empty() {
            let (index, after) = (self.index.get().inner()?, self.after.clone());
            self.page = run(py, move || index.page(after.as_deref(), PAGE))?.into_iter();
        }
        let Some(document) = self.page.next() else { return Ok(None) };
        self.after = Some(document.id.clone());
        document_to_python(py, &document).map(Some)
    }
}

/// What is searched for.
enum Input {
    Text(String),
    Texts(Vec<String>),
    Vector(Vec<f32>),
    Vectors(Vec<Vec<f32>>),
}

impl Input {
    fn new(query: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = query.cast::<PyString>() {
            return Ok(Self::Text(text.to_cow()?.into_owned()));
        }
        if let Ok(array) = query.cast::<PyUntypedArray>() {
            let mut rows = rows(array)?;
            return Ok(match (array.ndim(), rows.pop()) {
                (1, Some(row)) => Self::Vector(row),
                (_, last) => {
                    rows.extend(last);
                    Self::Vectors(rows)
                }
            });
        }
        query.extract().map(Self::Texts).map_err(|_| {
            PyTypeError::new_err(format!(
                "a query is a string, a list of strings or an array of numpy, not {}",
                type_name(query)
            ))
        })
    }
}

fn many(py: Python<'_>, results: Vec<ehi::SearchResult>) -> PyResult<Py<PyAny>> {
    let results = results.into_iter().map(|result| SearchResult::new(py, result));
    Ok(PyList::new(py, results.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind())
}

fn dictionaries(documents: &Bound<'_, PyAny>) -> PyResult<Vec<Document>> {
    if documents.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("documents are dictionaries; ids go with texts"));
    }
    documents.try_iter()?.enumerate().map(|(place, item)| document(&item?, place)).collect()
}

/// Documents of columns of equal length.
fn columns(
    ids: &Bound<'_, PyAny>,
    texts: &Bound<'_, PyAny>,
    titles: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Document>> {
    let ids: Vec<String> = strings("ids", ids)?;
    let texts = of_length("texts", strings("texts", texts)?, ids.len())?;
    assemble(ids, texts, titles, metadata)
}

fn assemble(
    ids: Vec<String>,
    texts: Vec<String>,
    titles: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Document>> {
    let titles = match titles {
        Some(titles) => of_length("titles", strings("titles", titles)?, ids.len())?,
        None => vec![String::new(); ids.len()],
    };
    let metadata = match metadata {
        Some(metadata) => {
            let values = metadata.try_iter()?.map(|value| {
                let value = value?;
                if value.is_none() { Ok(None) } else { from_python(&value).map(Some) }
            });
            of_length("metadata", values.collect::<PyResult<Vec<_>>>()?, ids.len())?
        }
        None => vec![None; ids.len()],
    };
    let all = ids.into_iter().zip(texts).zip(titles).zip(metadata);
    Ok(all.map(|(((id, text), title), metadata)| Document { id, title, text, metadata }).collect())
}

fn strings(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("`{name}` is a list of strings, not one string")));
    }
    let one = |(place, value): (usize, PyResult<Bound<'_, PyAny>>)| {
        let value = value?;
        value.extract::<String>().map_err(|_| {
            PyTypeError::new_err(format!("`{name}` {place} is no string but {}", type_name(&value)))
        })
    };
    values.try_iter()?.enumerate().map(one).collect()
}

fn of_length<T>(name: &str, values: Vec<T>, expected: usize) -> PyResult<Vec<T>> {
    match values.len() == expected {
        true => Ok(values),
        false => Err(PyValueError::new_err(format!("{expected} ids and {} {name}", values.len()))),
    }
}
