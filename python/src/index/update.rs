//! An index as a mapping of ids to documents, changes of their fields, and their embeddings.

use ehi::{DocumentUpdate, Similarity};
use numpy::{IxDyn, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use serde_json::Value;

use super::Index;
use super::documents::{summary_to_python, warn_of_cut_texts};
use crate::arguments::{self, Argument, Id, wrong_type};
use crate::call::{run, watched};
use crate::columns::{self, one_or_list};
use crate::errors::InputError;
use crate::value::{document_to_python, in_member, of_data, text};

#[pymethods]
impl Index {
    fn __getitem__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let index = self.inner()?;
        let Id(id) = Id::read("id", id)?;
        match run(py, || index.get(&id))? {
            Some(document) => document_to_python(py, &document),
            None => Err(PyKeyError::new_err(id)),
        }
    }

    fn __setitem__(&self, _id: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err("`add` stores a document, and `update` changes fields of one"))
    }

    fn __delitem__(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<()> {
        let index = self.inner()?;
        let Id(id) = Id::read("id", id)?;
        match run(py, || index.delete(&id))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(id)),
        }
    }

    /// Changes fields of a stored document in one commit: its title, its text, and fields of its metadata,
    /// which are merged as by `dict.update`, at the top level; a value of `None` (or NaN, or NaT) removes its
    /// field. `add` replaces the metadata, and stores a `None`.
    ///
    /// Only a title or a text that differs from the stored one is encoded. Returns the outcome as `add` does;
    /// if nothing changes, nothing is committed, and `replaced` is 0.
    /// An id without a document is an `InputError` of the kind `NoDocument`.
    ///
    /// >>> index.update("tea", metadata={"seen": True, "year": None})["replaced"]
    /// 1
    /// >>> index["tea"]["metadata"], index.search("is there caffeine in tea?", filter={"seen": True}).ids
    /// ({'seen': True}, ['tea'])
    /// >>> index.update("tea", text="Black tea has caffeine, too.")["replaced"]
    /// 1
    #[pyo3(signature = (id, *, metadata = None, title = None, text = None))]
    fn update(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::id)] id: Id,
        metadata: Option<&Bound<'_, PyAny>>,
        title: Option<&Bound<'_, PyAny>>,
        text: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if metadata.is_none() && title.is_none() && text.is_none() {
            return Err(PyTypeError::new_err("give `metadata`, `title` or `text`"));
        }
        let string = |name: &str, value: Option<&Bound<'_, PyAny>>| {
            value.map(|value| self::text(value, || format!("`{name}`"))).transpose()
        };
        let mut update = DocumentUpdate::default();
        (update.title, update.text) = (string("title", title)?, string("text", text)?);
        if let Some(given) = metadata {
            let mut infinite = 0;
            let fields = of_data(given, &mut infinite).map_err(|error| in_member(py, "metadata", &error))?;
            if infinite > 0 {
                let error =
                    "`metadata` has an infinite number, which JSON does not have; None removes a field";
                return Err(InputError::new_err(error));
            }
            let Value::Object(fields) = fields else {
                return Err(wrong_type("metadata", "a dictionary", given));
            };
            update.metadata = fields;
        }
        let index = self.inner()?;
        let summary = watched(py, None, |told| index.with_progress(told).update(&id.0, &update))?;
        warn_of_cut_texts(py, &summary.cut)?;
        let summary =
            serde_json::to_value(&summary).map_err(|error| InputError::new_err(error.to_string()))?;
        summary_to_python(py, &summary)
    }

    /// The stored embeddings of documents, float32: `[n, dim]` for a list of ids, `[dim]` for one id.
    ///
    /// A document of several passages has the mean of theirs, at unit norm in an index for cosine. With
    /// `passages` the embeddings themselves are returned, `[passages, dim]` for each document. Ids without a
    /// document are an `InputError` that names them.
    ///
    /// >>> index.vectors(["tea", "tyre"]).shape, index.vectors("tea").shape
    /// ((2, 384), (384,))
    /// >>> [rows.shape for rows in index.vectors(["tea", "tyre"], passages=True)]
    /// [(1, 384), (1, 384)]
    #[pyo3(signature = (ids, *, passages = false))]
    fn vectors(
        &self,
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::passages)] passages: bool,
    ) -> PyResult<Py<PyAny>> {
        let (ids, is_one) = columns::ids("ids", ids)?;
        let index = self.inner()?;
        let vectors = run(py, || index.vectors(&ids))?;
        // Of these embeddings: another model may be in service by now.
        let dim = vectors.iter().flatten().next().map(Vec::len);
        let dim = dim.unwrap_or_else(|| index.bundle().model().dim());
        if passages {
            let shaped = |own: Vec<Vec<f32>>| array(py, own.concat(), &[own.len(), dim]);
            return one_or_list(py, vectors.into_iter().map(shaped).collect::<PyResult<_>>()?, is_one);
        }
        let is_cosine = index.similarity() == Similarity::Cosine;
        let shape = if is_one { vec![dim] } else { vec![vectors.len(), dim] };
        let one = |own: Vec<Vec<f32>>| if own.len() > 1 { mean(&own, is_cosine) } else { own.concat() };
        array(py, vectors.into_iter().flat_map(one).collect(), &shape)
    }
}

fn array(py: Python<'_>, values: Vec<f32>, shape: &[usize]) -> PyResult<Py<PyAny>> {
    Ok(PyArray1::from_vec(py, values).reshape(IxDyn(shape))?.into_any().unbind())
}

/// The mean of rows of the same length.
fn mean(rows: &[Vec<f32>], at_unit_norm: bool) -> Vec<f32> {
    let mut sum = vec![0f64; rows.first().map_or(0, Vec::len)];
    for row in rows {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let by = match at_unit_norm {
        true => sum.iter().map(|value| value * value).sum::<f64>().sqrt(),
        false => rows.len() as f64,
    };
    // Passages that cancel each other out have no direction.
    let by = if by == 0.0 { 1.0 } else { by };
    sum.into_iter().map(|value| (value / by) as f32).collect()
}
