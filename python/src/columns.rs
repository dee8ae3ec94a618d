//! Documents from columns of equal length, or from dictionaries.

use ehi::Document;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::value::{self, document, text};

pub fn dictionaries(documents: &Bound<'_, PyAny>) -> PyResult<Vec<Document>> {
    if documents.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("documents are dictionaries; ids go with texts"));
    }
    documents.try_iter()?.enumerate().map(|(place, item)| document(&item?, place)).collect()
}

/// Documents of columns of equal length.
pub fn columns(
    ids: &Bound<'_, PyAny>,
    texts: &Bound<'_, PyAny>,
    titles: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Document>> {
    let ids: Vec<String> = strings("ids", ids)?;
    let texts = of_length("texts", strings("texts", texts)?, ids.len())?;
    assemble(ids, texts, titles, metadata)
}

pub fn assemble(
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
    Ok(all.map(|(((id, text), title), metadata)| Document { id, title, text, metadata }).collect())
}

pub fn strings(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("`{name}` is a list of strings, not one string")));
    }
    let one = |(place, item): (usize, PyResult<_>)| text(&item?, || format!("`{name}` {place}"));
    values.try_iter()?.enumerate().map(one).collect()
}

pub fn of_length<T>(name: &str, values: Vec<T>, expected: usize) -> PyResult<Vec<T>> {
    match values.len() == expected {
        true => Ok(values),
        false => Err(PyValueError::new_err(format!("{expected} ids and {} {name}", values.len()))),
    }
}
