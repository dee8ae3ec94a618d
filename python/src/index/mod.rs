//! The store: how it is opened and closed. `documents.rs` handles documents, `searches.rs` searches,
//! `scoped.rs` the documents that pass a filter, `update.rs` an index as a mapping of ids, `maintain.rs`
//! maintenance, and `learn.rs` learning from judged questions.

mod documents;
mod learn;
mod maintain;
mod scoped;
mod searches;
mod update;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ehi::{IndexBuilder, RepairOptions, WithProgress};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde::Serialize;

use crate::arguments::{self, Argument, Id};
use crate::call::{OnProgress, is_forked, run, watched};
use crate::errors::{InputError, LockedError};
use crate::model::{self, Model};
use crate::options;
use crate::value::{plain, quoted};

pub use documents::Documents;
pub use learn::AutoTune;
pub use scoped::ScopedIndex;

/// An index: documents, their embeddings and postings, and the model, in one folder.
///
/// Made by `Index.create` and `Index.open`. One process writes at a time, any number
/// reads. It may be shared by threads; a search does not hold the interpreter's lock. `close` (or the end of
/// a `with` block) flushes it.
///
/// >>> len(index), "tea" in index, sorted(document["id"] for document in index)
/// (3, True, ['coffee', 'tea', 'tyre'])
#[pyclass(frozen, module = "ehi")]
pub struct Index {
    path: PathBuf,
    open: RwLock<Option<Arc<ehi::Index>>>,
}

impl Index {
    fn of(index: ehi::Index) -> Self {
        Self { path: index.path().to_owned(), open: RwLock::new(Some(Arc::new(index))) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn inner(&self) -> PyResult<Arc<ehi::Index>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
            .ok_or_else(|| InputError::new_err(format!("the index {} is closed", self.path.display())))
    }

    /// What a short call returns, as Python's data.
    fn report<T: Serialize + Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&ehi::Index) -> ehi::Result<T> + Send,
    ) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &run(py, || call(&index))?)
    }

    /// What a long call returns; see [`watched`] for `progress`.
    pub fn long<T: Serialize + Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        call: impl for<'a> FnOnce(WithProgress<'a, &'a mut OnProgress<'a>>) -> ehi::Result<T> + Send,
    ) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        plain(py, &watched(py, progress, |told| call(index.with_progress(told)))?)
    }
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let what = "Index.create(path, model) makes an index, and Index.open(path) opens one";
        Err(PyTypeError::new_err(what))
    }

    /// Creates an index in a folder that is missing or empty. `model` is a `Model` or the path of one. A
    /// document has an embedding for each passage of its text; `passages` is a tuple of the longest passage
    /// and the most that two share, in tokens, by default (200, 40) or less if the encoder reads less. With
    /// `passages=False`, a document has one embedding, made from as much of its start as the encoder reads.
    /// Documents expire by the field of their metadata that `expires` names: a time with its zone (RFC 3339)
    /// or a number of seconds since 1970; from then on no call finds them. `cache` is a folder that keeps
    /// embeddings, so that a text is encoded once, whichever index with this cache stores it.
    ///
    /// With `dim` in place of a model, the index has no encoder: `add_vectors` stores documents with their
    /// vectors, of any model, compared by `similarity`; a text is searched by its words alone.
    ///
    /// >>> with ehi.Index.create("papers", model="models/scifact-minilm", words="english") as papers:
    /// ...     papers.add(["a"], ["Vitamin D and the immune system."])["inserted"]
    /// 1
    #[staticmethod]
    #[pyo3(signature = (path, model = None, *, dim = None, exist_ok = false, **options),
        text_signature = "(path, model=None, *, dim=None, similarity=None, durability=None, codes=None, \
        words=None, precision=None, passages=None, expires=None, wait=None, lazy_encoder=False, own_model=False, cache=None, exist_ok=False)")]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::dim)] dim: Option<arguments::Whole>,
        #[pyo3(from_py_with = arguments::exist_ok)] exist_ok: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let builder = options::builder(py, options, &[&OF_OPEN[1..], &OF_CREATE].concat())?;
        let passages = options.map(|given| given.get_item("passages")).transpose()?.flatten();
        let (model, builder) = match (model, dim) {
            (Some(model), None) => (model::model(py, model)?, builder),
            (None, Some(dim)) => {
                let dim = usize::try_from(dim).map_err(|_| {
                    let what = format!("the number of dimensions is {dim}; it must be from 1 to 65536");
                    InputError::new_err(what)
                })?;
                let bundle = run(py, || Ok(ehi::Bundle::for_vectors(dim)?))?;
                let has_passages = passages.is_some_and(|given| !given.is_none());
                (Model::of(bundle), if has_passages { builder } else { builder.whole_documents() })
            }
            (Some(_), Some(_)) => {
                let what =
                    "give either `model` or `dim`; Model(path, dim=…) keeps the first dimensions of a model";
                return Err(PyTypeError::new_err(what));
            }
            (None, None) => {
                let what = "give a `model`, or the dimensions of your own vectors as `dim`";
                return Err(PyTypeError::new_err(what));
            }
        };
        let bundle = &model.bundle;
        let index = waiting(py, options, builder, |builder| match exist_ok {
            true => builder.open_or_create(&path, bundle),
            false => builder.create(&path, bundle),
        })?;
        Ok(Self::of(index))
    }

    /// Opens an index for reading and writing; `wait` is the number of seconds to wait for another writer.
    /// With `read_only` it is opened for reading while another process may write; `refresh` makes flushed
    /// changes visible. `durability`, `codes`, `wait`, `own_model` and `cache` are for writers.
    ///
    /// >>> ehi.Index.open("notes")
    /// Traceback (most recent call last):
    /// ...
    /// ehi.LockedError: ...
    /// >>> index.close()
    /// >>> with ehi.Index.open("notes", wait=5) as again:
    /// ...     reader = ehi.Index.open("notes", read_only=True, precision="int8")
    /// ...     len(again), reader["tea"]["text"]
    /// (3, 'Green tea has caffeine.')
    #[staticmethod]
    #[pyo3(signature = (path, *, read_only = false, **options), text_signature = "(path, *, read_only=False, \
        model=None, durability=None, codes=None, precision=None, wait=None, lazy_encoder=False, \
        own_model=False, cache=None)")]
    fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::read_only)] read_only: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        for name in OF_OPEN[3..].iter().filter(|_| read_only) {
            if let Some(value) = options.map(|given| given.get_item(name)).transpose()?.flatten()
                && !value.is_none()
            {
                let what = format!("`{name}` is for writing; leave it out with read_only=True");
                return Err(PyTypeError::new_err(what));
            }
        }
        let builder = options::builder(py, options, &OF_OPEN)?;
        Ok(Self::of(match read_only {
            true => run(py, || builder.open_read_only(path))?,
            false => waiting(py, options, builder, |builder| builder.open(&path))?,
        }))
    }

    /// Restores the readable part of a damaged index. `undecided` decides about documents that may have been
    /// deleted: refuse, keep or drop. `forget` removes the files set aside by earlier repairs if there is
    /// nothing to repair now.
    ///
    /// >>> index.close()
    /// >>> ehi.Index.repair("notes")["lost"]
    /// 0
    #[staticmethod]
    #[pyo3(signature = (path, *, model = None, undecided = "refuse", forget = false, progress = None))]
    fn repair(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::undecided)] undecided: &str,
        #[pyo3(from_py_with = arguments::forget)] forget: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        use ehi::store::Undecided::{Drop, Keep, Refuse};
        let known = [("refuse", Refuse), ("keep", Keep), ("drop", Drop)];
        let undecided = options::one_of("undecided", undecided, &known)?;
        let model = model.map(|model| model::model(py, model)).transpose()?;
        let bundle = model.as_ref().map(|model| model.bundle.clone());
        let report = watched(py, progress, move |on_progress| {
            ehi::Index::repair(path, &RepairOptions { bundle, undecided, forget }, on_progress)
        })?;
        plain(py, &report)
    }

    /// Folder of the index.
    #[getter(path)]
    fn get_path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it was opened with `read_only`.
    #[getter]
    fn is_read_only(&self) -> PyResult<bool> {
        Ok(self.inner()?.is_read_only())
    }

    /// The model in service.
    #[getter]
    fn model(&self) -> PyResult<Model> {
        Ok(Model::of((*self.inner()?.bundle()).clone()))
    }

    /// Flushes and closes the index, which cannot be used afterwards. Safe to call twice.
    ///
    /// >>> index.close()
    /// >>> index.search("tea")
    /// Traceback (most recent call last):
    /// ...
    /// ehi.InputError: the index ... is closed
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(index) = taken else { return Ok(()) };
        if is_forked() {
            // Files and threads are the parent's, which closes them.
            std::mem::forget(index);
            return Ok(());
        }
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

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.inner()?.len())
    }

    fn __contains__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Id(id) = Id::read("id", id)?;
        let index = self.inner()?;
        run(py, move || index.contains(&id))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = quoted(py, &self.path)?;
        let Ok(index) = self.inner() else { return Ok(format!("Index({path}, closed)")) };
        let (documents, model) = (index.len(), model::described(&index.bundle()));
        let read_only = if index.is_read_only() { ", read_only=True" } else { "" };
        Ok(format!("Index({path}, {documents} documents, {model}{read_only})"))
    }
}

/// Opens an index, and waits for another writer as long as the keyword `wait` says, with checks for Ctrl-C.
fn waiting(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
    builder: IndexBuilder,
    open: impl Fn(IndexBuilder) -> ehi::Result<ehi::Index> + Sync,
) -> PyResult<ehi::Index> {
    let wait = options.map(|given| given.get_item("wait")).transpose()?.flatten();
    let wait = wait.filter(|wait| !wait.is_none()).map(|wait| options::seconds("wait", wait.extract()?));
    let (wait, begun) = (wait.transpose()?.unwrap_or_default(), Instant::now());
    loop {
        let rest = wait.saturating_sub(begun.elapsed());
        match run(py, || open(builder.clone().lock_wait(rest.min(BETWEEN_CHECKS)))) {
            Err(error) if rest > BETWEEN_CHECKS && error.is_instance_of::<LockedError>(py) => {
                py.check_signals()?;
            }
            opened => return opened,
        }
    }
}

const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

/// Keywords of `Index.open`; the first three are those of a reader.
const OF_OPEN: [&str; 8] =
    ["model", "precision", "lazy_encoder", "durability", "codes", "wait", "own_model", "cache"];
/// Further keywords of `Index.create`, which has `model` as an argument.
const OF_CREATE: [&str; 4] = ["similarity", "words", "passages", "expires"];
