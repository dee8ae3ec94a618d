//! Searches, counts and deletes within the documents that pass a filter.

use ehi::{Filter, Scoped};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Index;
use super::searches;
use crate::arguments::{self, Argument, Id};
use crate::call::run;
use crate::columns::{self, one_or_list, one_or_more};
use crate::model::described;
use crate::options::{self, Chosen, Whole, whole};
use crate::value::{document_to_python, facets_to_python, quoted};

#[pymethods]
impl Index {
    /// A handle for the documents that pass a filter: those of one tenant, or those that a user may read.
    ///
    /// >>> index.scoped({"year": 2021}).search("roasted coffee").ids
    /// ['tea']
    fn scoped(slf: Py<Self>, py: Python<'_>, filter: &Bound<'_, PyAny>) -> PyResult<ScopedIndex> {
        Ok(ScopedIndex { index: slf, scope: options::filter(py, filter)? })
    }
}

/// An index as if it had only the documents that pass a filter, made by `Index.scoped`.
///
/// No call returns, counts or deletes another document, and no note or number tells of one: a search has
/// times and no counts, and hits do not name judgments, though these count. Scores by words depend on how
/// frequent words are in the whole index. Documents are added and updated in the index itself: one with the
/// id of another tenant's document replaces it.
///
/// >>> recent = index.scoped({"year": {"$gte": 2022}})
/// >>> recent.search("green tea").ids, recent.get("tea"), recent.count(), recent.ids({"year": 2021})
/// (['coffee'], None, 1, [])
/// >>> recent.facets("year")["year"]["range"], recent.delete("tea"), recent.delete(filter={}), index.ids()
/// ([2024, 2024], 0, 1, ['tea', 'tyre'])
#[pyclass(frozen, module = "ehi")]
pub struct ScopedIndex {
    index: Py<Index>,
    scope: Filter,
}

impl ScopedIndex {
    fn within<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Scoped<'_>) -> ehi::Result<T> + Send,
    ) -> PyResult<T> {
        let index = self.index.get().inner()?;
        run(py, || call(&index.scoped(self.scope.clone())))
    }
}

#[pymethods]
impl ScopedIndex {
    /// As `Index.search`; its `filter` applies too.
    #[pyo3(signature = (query, k = 10, *, vectors = None, **options), text_signature = "($self, query, k=10, **options)")]
    fn search(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::k)] k: Whole,
        vectors: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let index = self.index.get().inner()?;
        let scoped = index.scoped(self.scope.clone());
        searches::search(py, query, k, vectors, options, |part, request| {
            scoped.search_many(part.iter().copied(), request)
        })
    }

    /// As `Index.get`; another document does not exist.
    fn get(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (ids, is_one) = columns::ids("ids", ids)?;
        let found =
            self.within(py, |scoped| ids.iter().map(|id| scoped.get(id)).collect::<ehi::Result<Vec<_>>>())?;
        let found = found.iter().map(|document| match document {
            Some(document) => document_to_python(py, document),
            None => Ok(py.None()),
        });
        one_or_list(py, found.collect::<PyResult<Vec<_>>>()?, is_one)
    }

    fn __getitem__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Id(id) = Id::read("id", id)?;
        match self.within(py, |scoped| scoped.get(&id))? {
            Some(document) => document_to_python(py, &document),
            None => Err(PyKeyError::new_err(id)),
        }
    }

    fn __contains__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Id(id) = Id::read("id", id)?;
        self.within(py, |scoped| Ok(scoped.get(&id)?.is_some()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.within(py, |scoped| scoped.count(None))
    }

    /// As `Index.count`.
    #[pyo3(signature = (filter = None))]
    fn count(&self, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let filter = options::filter_or_none(py, filter)?;
        self.within(py, |scoped| scoped.count(filter.as_ref()))
    }

    /// As `Index.ids`.
    #[pyo3(signature = (filter = None))]
    fn ids(&self, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let filter = options::filter_or_none(py, filter)?;
        self.within(py, |scoped| scoped.ids(filter.as_ref()))
    }

    /// As `Index.facets`.
    #[pyo3(signature = (fields, filter = None, most = 10))]
    fn facets(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyAny>,
        filter: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::most)] most: Whole,
    ) -> PyResult<Py<PyDict>> {
        let most = whole("most", most)?;
        let (fields, _) = one_or_more("fields", fields)?;
        let filter = options::filter_or_none(py, filter)?;
        let fields = fields.iter().map(String::as_str);
        facets_to_python(py, &self.within(py, |scoped| scoped.facets(fields, filter.as_ref(), most))?)
    }

    /// As `Index.delete`; another document does not exist.
    #[pyo3(signature = (ids = None, *, filter = None))]
    fn delete(
        &self,
        py: Python<'_>,
        ids: Option<&Bound<'_, PyAny>>,
        filter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let filter = match options::chosen(py, ids, filter)? {
            Chosen::Ids(ids) => Filter::ids(ids),
            Chosen::Passing(filter) => filter,
        };
        self.within(py, |scoped| scoped.delete_where(&filter))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let index = self.index.get();
        let path = quoted(py, index.path())?;
        let Ok(inner) = index.inner() else { return Ok(format!("ScopedIndex({path}, closed)")) };
        let (documents, model) = (self.__len__(py)?, described(&inner.bundle()));
        Ok(format!("ScopedIndex({path}, {documents} documents, {model}, filter={})", self.scope))
    }
}
