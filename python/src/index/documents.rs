//! Storing, reading and deleting documents.

use std::ffi::CString;

use ehi::{CutTexts, Document, Filter, InsertSummary};
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use super::Index;
use crate::arguments::{self, Id};
use crate::call::{run, watched};
use crate::columns::{self, one_or_list, one_or_more};
use crate::errors::InputError;
use crate::options::{self, Chosen, Whole, whole};
use crate::records::{self, Given};
use crate::value::{Matrix, array, document_to_python, facets_to_python, to_python};

/// Documents per page while iterating an index.
const PAGE: usize = 256;

#[pymethods]
impl Index {
    /// Stores documents: `add(ids, texts, titles=…, metadata=…)` with lists, arrays or columns, or
    /// `add(documents)` with a frame of pandas or polars, a table of pyarrow, or anything that gives
    /// dictionaries: a list, a generator, a dataset of Hugging Face. A document with a stored id replaces the
    /// stored one.
    ///
    /// Fields have the names and meaning that `ehi insert` gives those of a file: `_id` or, without one,
    /// `id`, a string or a whole number, `text` and `title`; all others, and the members of a dictionary
    /// `metadata`, are the metadata. `None`, NaN, NaT and `pandas.NA` are no value, and the field is left
    /// out; `None` within `metadata` is null. Dates and times become text, those with a zone in UTC, and
    /// decimals numbers if no digit is lost. Infinite numbers are left out with a `UserWarning`. All rows are
    /// read before the first is stored; give very many in parts.
    ///
    /// Returns the outcome as a dictionary. Documents that cannot be stored, such as one without text or with
    /// metadata that JSON does not have, are left out and listed under `refused`, with their `position` from
    /// 0, `id`, `field` and the reason as `error`. With `all_or_none` they are an error, and nothing is
    /// stored.
    /// An exception from `progress` ends the call with the previous groups stored, or all of them after the
    /// last. Documents that the model does not read to their end, in an index without passages, are a
    /// `UserWarning` after they were stored.
    ///
    /// >>> index.add(["cup"], ["A cup holds tea."], metadata=[{"year": 2025}])["inserted"]
    /// 1
    /// >>> index.add([{"id": "cup", "title": "Cups", "text": "A cup holds tea.", "year": 2025}])["replaced"]
    /// 1
    /// >>> index.get("cup")["metadata"], index.add(["mug"], [None])["refused"][0]["field"]
    /// ({'year': 2025}, 'text')
    #[pyo3(signature = (documents = None, texts = None, titles = None, metadata = None, *, ids = None,
        all_or_none = false, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn add(
        &self,
        py: Python<'_>,
        documents: Option<&Bound<'_, PyAny>>,
        texts: Option<&Bound<'_, PyAny>>,
        titles: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::all_or_none)] all_or_none: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        // The first argument holds ids if texts follow.
        let (first, texts) = match (documents.xor(ids), texts) {
            (Some(first), texts) if texts.is_some() || ids.is_none() => (first, texts),
            _ => return Err(PyTypeError::new_err("give either `ids` and `texts`, or documents")),
        };
        let given = match texts {
            Some(_) => records::columns(first, texts, titles, metadata, false)?,
            None if titles.is_some() || metadata.is_some() => {
                return Err(PyTypeError::new_err("`titles` and `metadata` go with ids and texts"));
            }
            None => records::documents(first)?,
        };
        self.store(py, given, all_or_none, |index, documents| {
            watched(py, progress, |told| {
                let index = index.with_progress(told);
                match all_or_none {
                    true => index.insert_all_or_none(documents),
                    false => index.insert_batch(documents),
                }
            })
        })
    }

    /// Stores documents with embeddings of the model's own encoder, or of any model in an index without an
    /// encoder, a row of numbers for each: an array
    /// `[n, dim]` of any library, or a list of lists. They are read as float32. The other arguments are those
    /// of `add`; texts may be missing.
    ///
    /// >>> encoder = ehi.Encoder("models/scifact-minilm")
    /// >>> rows = encoder.encode_document(["A cup holds tea.", "A mug does, too."])
    /// >>> index.add_vectors(["cup", "mug"], rows, titles=["Cups", "Mugs"])["inserted"]
    /// 2
    #[pyo3(signature = (ids, vectors, texts = None, titles = None, metadata = None, *, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn add_vectors(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        vectors: &Bound<'_, PyAny>,
        texts: Option<&Bound<'_, PyAny>>,
        titles: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let given = records::columns(ids, texts, titles, metadata, true)?;
        let vectors = array("vectors", vectors)?;
        let rows: Vec<bool> = given.rows().collect();
        // An empty list has no columns.
        let is_empty = rows.is_empty() && vectors.shape() == [0];
        if !is_empty && (vectors.ndim() != 2 || vectors.shape()[0] != rows.len()) {
            return Err(InputError::new_err(format!(
                "{} ids with an array of shape {:?}; a row for each is needed",
                rows.len(),
                vectors.shape()
            )));
        }
        let matrix = (!is_empty).then(|| Matrix::new(&vectors)).transpose()?;
        let all = matrix.as_ref().map_or_else(|| Ok(Vec::new()), Matrix::rows)?;
        let kept = all.into_iter().zip(rows).filter_map(|(row, is_document)| is_document.then_some(row));
        self.store(py, given, false, |index, documents| {
            let entries = documents.into_iter().zip(kept.map(<[f32]>::to_vec));
            watched(py, progress, |told| index.with_progress(told).insert_vectors(entries))
        })
    }

    /// The document of an id as a dictionary, or `None`; a list for a list of ids.
    ///
    /// >>> index.get("tea")["metadata"], index.get(["nothing", "tyre"])[0]
    /// ({'year': 2021}, None)
    fn get(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (ids, is_one) = columns::ids("ids", ids)?;
        let index = self.inner()?;
        let found = run(py, move || index.get_many(ids))?;
        let found = found.iter().map(|document| match document {
            Some(document) => document_to_python(py, document),
            None => Ok(py.None()),
        });
        one_or_list(py, found.collect::<PyResult<Vec<_>>>()?, is_one)
    }

    /// Deletes the document of an id, those of a list, or those that pass a filter, in one commit; returns
    /// the number of deleted documents. `filter={}` deletes all.
    ///
    /// >>> index.delete(["tea", "nothing"]), len(index)
    /// (1, 2)
    /// >>> index.delete(filter={"year": {"$gte": 2022}}), index.ids()
    /// (1, ['tyre'])
    #[pyo3(signature = (ids = None, *, filter = None))]
    fn delete(
        &self,
        py: Python<'_>,
        ids: Option<&Bound<'_, PyAny>>,
        filter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let chosen = options::chosen(py, ids, filter)?;
        let index = self.inner()?;
        run(py, || match chosen {
            Chosen::Ids(ids) => index.delete_batch(ids),
            Chosen::Passing(filter) => index.delete_where(&filter),
        })
    }

    /// Number of documents that pass a filter, or of all.
    ///
    /// >>> index.count(), index.count({"year": {"$gte": 2022}})
    /// (3, 1)
    #[pyo3(signature = (filter = None))]
    fn count(&self, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let filter = options::filter_or_none(py, filter)?;
        let index = self.inner()?;
        run(py, || filter.map_or_else(|| Ok(index.len()), |filter| index.count_where(&filter)))
    }

    /// Ids of the documents that pass a filter, or of all, in byte order.
    ///
    /// >>> index.ids(), index.ids({"year": 2021})
    /// (['coffee', 'tea', 'tyre'], ['tea'])
    #[pyo3(signature = (filter = None))]
    fn ids(&self, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let filter = options::filter_or_none(py, filter)?;
        let index = self.inner()?;
        run(py, || filter.map_or_else(|| index.ids(), |filter| index.ids_where(&filter)))
    }

    /// The `most` most frequent values of a field, or of each of a list of fields, among the documents that
    /// pass a filter or among all. Returns a dictionary by field, each a dictionary of `values` (each with
    /// the number of `documents` that have it), `distinct` (how many values there are), `missing` (documents
    /// without the field) and `range` (the least and the greatest number, or `None`).
    ///
    /// 1 and 1.0 are one value, and so are two forms of one time; a list has each of its values.
    ///
    /// >>> year = index.facets("year", most=1)["year"]
    /// >>> year["values"], year["distinct"], year["missing"], year["range"]
    /// ([{'documents': 1, 'value': 2021}], 2, 1, [2021, 2024])
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
        let index = self.inner()?;
        let facets = run(py, || index.facets(fields.iter().map(String::as_str), filter.as_ref(), most))?;
        facets_to_python(py, &facets)
    }

    /// Documents in the order of their ids, starting after the id `after`, at most `limit`.
    ///
    /// >>> [document["id"] for document in index.page(after="coffee", limit=1)]
    /// ['tea']
    #[pyo3(signature = (after = None, limit = 100))]
    fn page(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::after)] after: Option<Id>,
        #[pyo3(from_py_with = arguments::limit)] limit: Whole,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let limit = whole("limit", limit)?;
        let index = self.inner()?;
        let page = run(py, move || index.page(after.as_ref().map(|after| &*after.0), limit))?;
        page.iter().map(|document| document_to_python(py, document)).collect()
    }

    /// All documents in the order of their ids, or those that pass a filter, read lazily: with a filter those
    /// that pass it now, without the ones that no longer do when they are read.
    ///
    /// >>> [document["id"] for document in index.iter(filter={"year": {"$gte": 2022}})]
    /// ['coffee']
    #[pyo3(signature = (filter = None))]
    fn iter(slf: Py<Self>, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<Documents> {
        let rest = match options::filter_or_none(py, filter)? {
            Some(filter) => {
                let index = slf.get().inner()?;
                let ids = run(py, || index.ids_where(&filter))?;
                Rest::Passing { filter, ids: ids.into_iter() }
            }
            None => Rest::All { after: None },
        };
        Ok(Documents { index: slf, rest, is_over: false, page: Vec::new().into_iter() })
    }

    fn __iter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Documents> {
        Self::iter(slf, py, None)
    }
}

impl Index {
    /// Stores the documents among some rows; returns the outcome of all rows.
    fn store(
        &self,
        py: Python<'_>,
        mut given: Given,
        all_or_none: bool,
        insert: impl FnOnce(&ehi::Index, Vec<Document>) -> PyResult<InsertSummary>,
    ) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        if all_or_none {
            given.check()?;
        }
        given.warn(py)?;
        let rows: Vec<bool> = given.rows().collect();
        let summary = insert(&index, given.take())?;
        warn_of_cut_texts(py, &summary.cut)?;
        summary_to_python(py, &given.outcome(&rows, &summary)?)
    }
}

/// A summary as a dictionary that is shown by its counts.
pub fn summary_to_python(py: Python<'_>, summary: &Value) -> PyResult<Py<PyAny>> {
    let of_summary = py.import("ehi._summary")?.getattr("InsertSummary")?;
    Ok(of_summary.call1((to_python(py, summary)?,))?.unbind())
}

/// A `UserWarning` about texts that were not encoded to their end, shown at the call of `add`.
pub fn warn_of_cut_texts(py: Python<'_>, cut: &CutTexts) -> PyResult<()> {
    if cut.documents == 0 {
        return Ok(());
    }
    let share = 100.0 * cut.tokens_cut as f64 / cut.tokens as f64;
    let message = format!(
        "documents longer than the model reads: {}. Searches by meaning miss {share:.0}% of their tokens; \
         create the index without `passages=False` to search all of a text",
        cut.documents
    );
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(message)?, 1)
}

/// Documents of an index, page by page.
#[pyclass(module = "ehi")]
pub struct Documents {
    index: Py<Index>,
    rest: Rest,
    is_over: bool,
    page: std::vec::IntoIter<Document>,
}

/// The documents that are still to be read.
enum Rest {
    /// All after the id of the last document that was read.
    All { after: Option<String> },
    /// The documents of ids, if they still pass.
    Passing { filter: Filter, ids: std::vec::IntoIter<String> },
}

impl Rest {
    /// The next documents; `None` after the last.
    fn page(&mut self, index: &ehi::Index) -> ehi::Result<Option<Vec<Document>>> {
        match self {
            Self::All { after } => {
                let page = index.page(after.as_deref(), PAGE)?;
                let last = page.last().map(|document| document.id.clone());
                Ok(last.map(|last| {
                    *after = Some(last);
                    page
                }))
            }
            Self::Passing { filter, ids } => {
                let next: Vec<String> = ids.take(PAGE).collect();
                if next.is_empty() {
                    return Ok(None);
                }
                let mut page: Vec<Document> = index.get_many(&next)?.into_iter().flatten().collect();
                page.retain(|document| filter.matches(&document.id, document.metadata.as_ref()));
                Ok(Some(page))
            }
        }
    }
}

#[pymethods]
impl Documents {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let filter = match &self.rest {
            Rest::Passing { filter, .. } => format!(", filter={filter}"),
            Rest::All { .. } => String::new(),
        };
        Ok(format!("Documents({}{filter})", self.index.bind(py).repr()?))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        while self.page.as_slice().is_empty() && !self.is_over {
            py.check_signals()?;
            let index = self.index.get().inner()?;
            let rest = &mut self.rest;
            let page = run(py, || rest.page(&index))?;
            self.is_over = page.is_none();
            self.page = page.unwrap_or_default().into_iter();
        }
        self.page.next().map(|document| document_to_python(py, &document)).transpose()
    }
}
