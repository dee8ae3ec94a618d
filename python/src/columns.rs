//! Documents from columns of equal length, or from dictionaries.

use ehi::Document;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::value::{self, document, text};

pub fn dictionaries(documents: &Bound<'_, PyAny>) -> PyResult<Vec<Document>> {
    if documents.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("documents are dictionaries; ids go with texts"));
    }
    documents.try_iter()?.enumerate().map(|(place, item)| document(&item?, place)).collect()
}

/// Documents of columns of equal length, of which all but the ids may be missing.
pub fn columns(
    ids: &Bound<'_, PyAny>,
    texts: Option<&Bound<'_, PyAny>>,
    titles: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Document>> {
    let ids = strings("ids", ids)?;
    let column = |name, values: Option<&Bound<'_, PyAny>>| match values {
        Some(values) => of_length(name, strings(name, values)?, ids.len()),
        None => Ok(vec![String::new(); ids.len()]),
    };
    let (texts, titles) = (column("texts", texts)?, column("titles", titles)?);
    let metadata = match metadata {
        Some(metadata) => {
            if metadata.is_instance_of::<PyDict>() {
                let what = "`metadata` is a list, of a dictionary or None for each document";
                return Err(PyTypeError::new_err(what));
            }
            let values = metadata.try_iter()?.enumerate().map(|(place, item)| {
                let item = item?;
                if item.is_none() { Ok(None) } else { value::metadata(&item, place).map(Some) }
            });
            of_length("metadata", values.collect::<PyResult<Vec<_>>>()?, ids.len())?
        }
        None => vec![None; ids.len()],
    };
    let all = ids.into_iter().zip(texts).zip(titles).zip(metadata);
    Ok(all
        .map(|(((id, text), title), metadata)| Document { metadata, ..Document::new(id, title, text) })
        .collect())
}

pub fn strings(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("`{name}` is a list of strings, not one string")));
    }
    let one = |(place, item): (usize, PyResult<_>)| text(&item?, || format!("`{name}` {place}"));
    values.try_iter()?.enumerate().map(one).collect()
}

/// The texts of one string or of a list; also returns whether it was one string.
pub fn one_or_more(name: &str, values: &Bound<'_, PyAny>) -> PyResult<(Vec<String>, bool)> {
    match values.is_instance_of::<PyString>() {
        true => Ok((vec![text(values, || format!("`{name}`"))?], true)),
        false => Ok((strings(name, values)?, false)),
    }
}

/// The counterpart for results: the only one, or a list.
pub fn one_or_list(py: Python<'_>, mut results: Vec<Py<PyAny>>, is_one: bool) -> PyResult<Py<PyAny>> {
    match is_one {
        true => Ok(results.swap_remove(0)),
        false => Ok(PyList::new(py, results)?.into_any().unbind()),
    }
}

fn of_length<T>(name: &str, values: Vec<T>, expected: usize) -> PyResult<Vec<T>> {
    match values.len() == expected {
        true => Ok(values),
        false => Err(PyValueError::new_err(format!("{expected} ids and {} {name}", values.len()))),
    }
}
