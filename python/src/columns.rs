//! Documents from columns of equal length, or from dictionaries.

use ehi::Document;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::value::{document, from_python, type_name};

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

pub fn strings(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
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

pub fn of_length<T>(name: &str, values: Vec<T>, expected: usize) -> PyResult<Vec<T>> {
    match values.len() == expected {
        true => Ok(values),
        false => Err(PyValueError::new_err(format!("{expected} ids and {} {name}", values.len()))),
    }
}
