//! The store: how it is opened and closed. `documents.rs` handles documents, `searches.rs` searches,
//! `maintain.rs` maintenance, and `learn.rs` learning from judged questions.

mod documents;
mod learn;
mod maintain;
mod searches;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use ehi::{IndexBuilder, RepairOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::call::{is_forked, run, watched};
use crate::errors::InputError;
use crate::model::{self, Model};
use crate::options::HandleOptions;
use crate::value::plain;

pub use documents::Documents;
pub use learn::AutoTune;

/// An index: documents, their embeddings and postings, and the model, in one folder.
///
/// Made by `Index.create`, `Index.open` and `Index.open_read_only`. One process writes at a time, any number
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

    pub fn inner(&self) -> PyResult<Arc<ehi::Index>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone()
            .ok_or_else(|| InputError::new_err(format!("the index {} is closed", self.path.display())))
    }
}

#[pymethods]
impl Index {
    /// Creates an index in a folder that is missing or empty. `model` is a `Model` or the path of one. With
    /// `passages`, tokens and overlap, a document has an embedding for each part of its text.
    ///
    /// >>> with ehi.Index.create("papers", model="models/scifact-minilm", words="english") as papers:
    /// ...     papers.add(["a"], ["Vitamin D and the immune system."])["inserted"]
    /// 1
    #[staticmethod]
    #[pyo3(signature = (path, model, *, similarity = None, durability = None, codes = None, words = None,
        precision = None, passages = None, wait = None, lazy_encoder = false, exist_ok = false))]
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
        wait: Option<f64>,
        lazy_encoder: bool,
        exist_ok: bool,
    ) -> PyResult<Self> {
        let options =
            HandleOptions { similarity, durability, codes, words, precision, passages, wait, lazy_encoder };
        let builder = options.builder()?;
        let bundle = model::model(py, model)?;
        let index = run(py, move || match exist_ok {
            true => builder.open_or_create(path, &bundle),
            false => builder.create(path, &bundle),
        })?;
        Ok(Self::of(index))
    }

    /// Opens an index for reading and writing; `wait` is the number of seconds to wait for another writer.
    ///
    /// >>> ehi.Index.open("notes")
    /// Traceback (most recent call last):
    /// ...
    /// ehi.LockedError: ...
    /// >>> index.close()
    /// >>> with ehi.Index.open("notes", wait=5) as again:
    /// ...     len(again)
    /// 3
    #[staticmethod]
    #[pyo3(signature = (path, *, model = None, durability = None, codes = None, precision = None, wait = None,
        lazy_encoder = false))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        durability: Option<&str>,
        codes: Option<bool>,
        precision: Option<&str>,
        wait: Option<f64>,
        lazy_encoder: bool,
    ) -> PyResult<Self> {
        let options =
            HandleOptions { durability, codes, precision, wait, lazy_encoder, ..HandleOptions::default() };
        let builder = expecting(py, options.builder()?, model)?;
        Ok(Self::of(run(py, move || builder.open(path))?))
    }

    /// Opens an index for reading while another process may write; `refresh` makes flushed changes visible.
    ///
    /// >>> index.flush()
    /// >>> reader = ehi.Index.open_read_only("notes", precision="int8")
    /// >>> reader.get("tea")["text"]
    /// 'Green tea has caffeine.'
    #[staticmethod]
    #[pyo3(signature = (path, *, model = None, precision = None, lazy_encoder = false))]
    fn open_read_only(
        py: Python<'_>,
        path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        precision: Option<&str>,
        lazy_encoder: bool,
    ) -> PyResult<Self> {
        let options = HandleOptions { precision, lazy_encoder, ..HandleOptions::default() };
        let builder = expecting(py, options.builder()?, model)?;
        Ok(Self::of(run(py, move || builder.open_read_only(path))?))
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
        path: PathBuf,
        model: Option<&Bound<'_, PyAny>>,
        undecided: &str,
        forget: bool,
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
            ehi::Index::repair(path, &RepairOptions { bundle, undecided, forget }, on_progress)
        })?;
        plain(py, &report)
    }

    /// Folder of the index.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it was opened by `open_read_only`.
    #[getter]
    fn is_read_only(&self) -> PyResult<bool> {
        Ok(self.inner()?.is_read_only())
    }

    /// The model in service.
    #[getter]
    fn model(&self) -> PyResult<Model> {
        Ok(Model { bundle: (*self.inner()?.bundle()).clone() })
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
}

/// Options with the model that an index must have, if one is given.
fn expecting(
    py: Python<'_>,
    builder: IndexBuilder,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<IndexBuilder> {
    let Some(given) = given else { return Ok(builder) };
    Ok(builder.expect_model(&model::model(py, given)?))
}
